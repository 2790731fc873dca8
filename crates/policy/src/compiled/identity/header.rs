//! Values of request headers.

use std::borrow::Cow;

use super::unusable::{Read, Unusable};
use crate::request::{FieldName, Headers};

/// Longer than any token a server accepts in a header; what is beyond is not read.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The scheme of tokens.
const SCHEME: &[u8] = b"bearer";

/// Where the first line says nothing, no more lines than these are read: to find a line may take a walk over all.
const MAX_LINES: usize = 16;

/// The value of a header, trimmed. Of several lines the first counts: so do
/// most backends. To join them would let a client make a new key by adding a
/// line that its backend does not read.
#[inline]
pub(crate) fn value<'a>(headers: &'a dyn Headers, name: &FieldName) -> Read<'a> {
    let Some((first, more)) = headers.first_line_of(name) else { return Ok(None) };
    let first = trimmed(first);
    if !first.is_empty() {
        return Ok(Some(Cow::Borrowed(first)));
    }
    if more && any_further(headers, name.as_str(), |line| !line.trim_ascii().is_empty()) {
        return Err(Unusable::Hidden);
    }
    Ok(None)
}

/// A line without the white space around it. Few lines have any.
#[inline]
fn trimmed(line: &[u8]) -> &[u8] {
    match line {
        [first, .., last] if *first > b' ' && *last > b' ' => line,
        _ => line.trim_ascii(),
    }
}

/// The same of a descriptor's entries: a value is what the gateway sends, to the last space.
pub(crate) fn value_of_entry<'a>(headers: &'a dyn Headers, name: &FieldName) -> Read<'a> {
    let first = headers.first_line_of(name).map(|(first, _)| first);
    Ok(first.filter(|first| !first.is_empty()).map(Cow::Borrowed))
}

/// The token of `Authorization: Bearer`.
pub(crate) fn bearer(headers: &dyn Headers) -> Read<'_> {
    const NAME: &str = "authorization";
    let Some((first, more)) = headers.first_line(NAME) else { return Ok(None) };
    match token(first) {
        Some(token) if token.len() > MAX_TOKEN_BYTES => Err(Unusable::TooLong),
        Some(token) => Ok(Some(Cow::Borrowed(token))),
        None if is_bearer(first) => Err(Unusable::Malformed),
        None if joined_token(first) => Err(Unusable::Hidden),
        None if more && any_further(headers, NAME, |line| is_bearer(line) || joined_token(line)) => {
            Err(Unusable::Hidden)
        }
        None => Ok(None),
    }
}

/// No token has a comma or a space in it (RFC 6750): what follows one was
/// another line before a gateway joined them.
fn token(line: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = line.trim_ascii().split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || !rest.first()?.is_ascii_whitespace() {
        return None;
    }
    let rest = rest.trim_ascii_start();
    let end = rest.iter().position(|byte| *byte == b',' || byte.is_ascii_whitespace()).unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

/// Whether a line has the scheme of tokens, with or without one.
fn is_bearer(line: &[u8]) -> bool {
    let Some((scheme, rest)) = line.trim_ascii().split_at_checked(SCHEME.len()) else { return false };
    let ends = rest.first().is_none_or(|byte| byte.is_ascii_whitespace() || *byte == b',');
    scheme.eq_ignore_ascii_case(SCHEME) && ends
}

/// Whether a token stands behind another scheme in one line: a gateway may have joined two.
fn joined_token(line: &[u8]) -> bool {
    line.split(|byte| *byte == b',').skip(1).any(|part| token(part).is_some())
}

/// Whether any line but the first is such. Of too many lines one is.
fn any_further(headers: &dyn Headers, name: &str, is_such: impl Fn(&[u8]) -> bool) -> bool {
    (1..MAX_LINES).map_while(|at| headers.line(name, at)).any(is_such) || headers.line(name, MAX_LINES).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(read: Read<'_>) -> Result<Option<String>, Unusable> {
        read.map(|value| value.map(|value| String::from_utf8(value.into_owned()).unwrap()))
    }

    #[test]
    fn the_first_line_counts() {
        let read = |lines: &[(&str, &str)]| text(value(&lines, &FieldName::new("X")));
        let found = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("X", " a ")]), found("a"));
        assert_eq!(read(&[("X", "  ")]), Ok(None));
        assert_eq!(read(&[("X", ""), ("x", " ")]), Ok(None));
        assert_eq!(read(&[("X", "a"), ("y", "c"), ("x", " b")]), found("a"));
        assert_eq!(read(&[("X", "a"), ("x", "")]), found("a"));
        assert_eq!(read(&[("X", ""), ("x", "a")]), Err(Unusable::Hidden));
        assert_eq!(read(&[("X", ""); 100]), Err(Unusable::Hidden));
    }

    #[test]
    fn a_token_is_found_however_its_line_is_written() {
        let read = |lines: &[&str]| {
            let lines: Vec<(&str, &str)> = lines.iter().map(|line| ("Authorization", *line)).collect();
            text(bearer(&lines))
        };
        for line in ["Bearer abc", "bEARER   abc ", "Bearer\tabc", " bearer \t abc", "Bearer abc, Bearer def"] {
            assert_eq!(read(&[line]), Ok(Some("abc".to_owned())), "{line}");
            assert_eq!(read(&[line, "Bearer def"]), Ok(Some("abc".to_owned())), "{line}");
            assert_eq!(read(&["Basic abc", line]), Err(Unusable::Hidden), "{line}");
        }
        for bare in ["Bearer", "bearer ", "Bearer ,abc", "Bearer,"] {
            assert_eq!(read(&[bare]), Err(Unusable::Malformed), "{bare}");
            assert_eq!(read(&["Basic abc", bare]), Err(Unusable::Hidden), "{bare}");
        }
        assert_eq!(read(&["Basic abc, Bearer def"]), Err(Unusable::Hidden));
        for other in ["", "Bearerabc", "Basic abc", "abc", "Bearé abc", "Digest a=\"b\", bearer=\"c\""] {
            assert_eq!(read(&[other]), Ok(None), "{other}");
            assert_eq!(read(&[other, other]), Ok(None), "{other}");
        }
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES));
        assert_eq!(read(&[&long]).map(|token| token.map(|token| token.len())), Ok(Some(MAX_TOKEN_BYTES)));
        assert_eq!(read(&[&format!("{long}a")]), Err(Unusable::TooLong));
    }
}
