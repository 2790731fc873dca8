//! Values of request headers.

use std::borrow::Cow;

use crate::request::Headers;

/// The value of a header, trimmed. Several lines are one list, as HTTP has it:
/// a second line cannot hide or replace the first. Empty lines do not count;
/// a header without a value is absent.
#[inline]
pub(crate) fn value<'a>(headers: &'a dyn Headers, name: &str) -> Option<Cow<'a, [u8]>> {
    value_by(headers, name, <[u8]>::trim_ascii)
}

/// The same of a descriptor's entries: a value is what the gateway sends, to the last space.
pub(crate) fn value_of_entry<'a>(headers: &'a dyn Headers, name: &str) -> Option<Cow<'a, [u8]>> {
    value_by(headers, name, |line| line)
}

#[inline(always)]
fn value_by<'a>(headers: &'a dyn Headers, name: &str, read: impl Fn(&'a [u8]) -> &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let (first, more) = headers.first_line(name)?;
    if !more {
        let first = read(first);
        return (!first.is_empty()).then_some(Cow::Borrowed(first));
    }
    let lines = (0..).map_while(|at| headers.line(name, at)).map(read).filter(|line| !line.is_empty());
    let joined = lines.collect::<Vec<_>>().join(&b", "[..]);
    (!joined.is_empty()).then_some(Cow::Owned(joined))
}

/// The token of `Authorization: Bearer`.
pub(crate) fn bearer(headers: &dyn Headers) -> Option<Cow<'_, [u8]>> {
    const SCHEME: &[u8] = b"bearer ";
    let value = value(headers, "authorization")?;
    if !value.get(..SCHEME.len())?.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    // A value is trimmed, so behind the scheme's space there is something else.
    Some(match value {
        Cow::Borrowed(value) => Cow::Borrowed(value[SCHEME.len()..].trim_ascii_start()),
        Cow::Owned(value) => Cow::Owned(value[SCHEME.len()..].trim_ascii_start().to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, &str)], name: &str) -> Option<String> {
        value(&lines, name).map(|value| String::from_utf8(value.into_owned()).unwrap())
    }

    #[test]
    fn all_lines_count() {
        assert_eq!(read(&[], "x"), None);
        assert_eq!(read(&[("X", " a ")], "x").as_deref(), Some("a"));
        assert_eq!(read(&[("X", "  ")], "x"), None);
        assert_eq!(read(&[("X", ""), ("x", " ")], "x"), None);
        assert_eq!(read(&[("X", "a"), ("y", "c"), ("x", " b")], "x").as_deref(), Some("a, b"));
        assert_eq!(read(&[("X", ""), ("x", "a"), ("x", "")], "x").as_deref(), Some("a"));
    }

    #[test]
    fn a_scheme_has_no_case() {
        let read = |text: &str| {
            let lines = [("Authorization", text)];
            bearer(&lines).map(|token| String::from_utf8(token.into_owned()).unwrap())
        };
        assert_eq!(read("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(read("bEARER   abc ").as_deref(), Some("abc"));
        for other in ["", "Bearer", "Bearer ", "Bearerabc", "Basic abc", "abc"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
