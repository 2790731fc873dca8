//! Values of request headers, cookies and query parameters.

use std::borrow::Cow;

use super::unusable::{Read, Unusable};
use crate::compiled::path::normal::decode;
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

/// The value of a cookie, without the quotes around it, decoded once. Of
/// several with one name the first counts, over all lines: so do most
/// backends, and a client that can put another in front can as well replace
/// it. To join them would let a client make a new key by adding one that its
/// backend does not read; so would a value that is encoded, where a backend
/// decodes it.
pub(crate) fn cookie<'a>(headers: &'a dyn Headers, name: &str) -> Read<'a> {
    let lines = (0..).map_while(|at| headers.line("cookie", at));
    let mut values = lines.flat_map(|line| cookies(line, name.as_bytes()));
    match values.next() {
        None => Ok(None),
        Some([]) if values.any(|value| !value.is_empty()) => Err(Unusable::Hidden),
        Some([]) => Ok(None),
        Some(value) if value.contains(&b'%') => Ok(Some(Cow::Owned(decode(value)))),
        Some(value) => Ok(Some(Cow::Borrowed(value))),
    }
}

/// The values of all cookies of this name.
fn cookies<'a>(line: &'a [u8], name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    line.split(|byte| *byte == b';').filter_map(move |pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        if pair[..equals].trim_ascii() != name {
            return None;
        }
        let value = pair[equals + 1..].trim_ascii();
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

/// The value of a parameter, decoded once, like its name. The first of several
/// counts.
pub(crate) fn query<'a>(target: &'a str, name: &str) -> Read<'a> {
    let target = target.split_once('#').map_or(target, |(before, _)| before);
    let Some((_, query)) = target.split_once('?') else { return Ok(None) };
    let mut values = query.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (*decoded(key) == *name.as_bytes()).then_some(value)
    });
    match values.next() {
        None => Ok(None),
        Some("") if values.any(|value| !value.is_empty()) => Err(Unusable::Hidden),
        Some("") => Ok(None),
        Some(value) => Ok(Some(decoded(value))),
    }
}

fn decoded(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text.as_bytes());
    }
    Cow::Owned(decode(text.replace('+', " ").as_bytes()))
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

    #[test]
    fn the_first_cookie_counts() {
        for (lines, expected) in [
            (&["sid=a"][..], Ok(Some("a"))),
            (&["x=1; sid=a; y=2"], Ok(Some("a"))),
            (&["x=1;sid=a;y=2"], Ok(Some("a"))),
            (&[" sid = a "], Ok(Some("a"))),
            (&["sid=\"a\""], Ok(Some("a"))),
            (&["sid=\""], Ok(Some("\""))),
            (&["sid=a=b"], Ok(Some("a=b"))),
            (&["sid=a; sid=b"], Ok(Some("a"))),
            (&["sid=; sid=b"], Err(Unusable::Hidden)),
            (&["sid=", "x=1; sid=b"], Err(Unusable::Hidden)),
            (&["x=1", "sid=b", "sid=c"], Ok(Some("b"))),
            (&["sid=%61%2B+%2561%zz"], Ok(Some("a++%61%zz"))),
            (&["SID=a", "s%69d=a"], Ok(None)),
            (&["xsid=a", "sid", "sid=", "sid=\"\"", ";;", ""], Ok(None)),
            (&[], Ok(None)),
        ] {
            let headers: Vec<(&str, &str)> = lines.iter().map(|line| ("Cookie", *line)).collect();
            let expected = expected.map(|value| value.map(|text: &str| Cow::Borrowed(text.as_bytes())));
            assert_eq!(cookie(&headers, "sid"), expected, "{lines:?}");
        }
    }

    #[test]
    fn names_and_values_of_parameters_are_decoded_and_the_first_counts() {
        for (target, expected) in [
            ("/?key=a", Ok(Some("a"))),
            ("/?x=1&key=a&key=b", Ok(Some("a"))),
            ("/?key=&key=b", Err(Unusable::Hidden)),
            ("/?key&k%65y=b", Err(Unusable::Hidden)),
            ("/?%6bey=a%20b", Ok(Some("a b"))),
            ("/?key=a+b%2B%zz%2561", Ok(Some("a b+%zz%61"))),
            ("/?key=a#?key=b", Ok(Some("a"))),
            ("/?a?key=b", Ok(None)),
            ("/?key", Ok(None)),
            ("/?key=&key", Ok(None)),
            ("/key=a", Ok(None)),
            ("/#?key=a", Ok(None)),
            ("", Ok(None)),
        ] {
            let expected = expected.map(|value| value.map(|text: &str| Cow::Borrowed(text.as_bytes())));
            assert_eq!(query(target, "key"), expected, "{target}");
        }
    }
}
