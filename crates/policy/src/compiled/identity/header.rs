//! Reads the values of request headers, cookies and query parameters.

use std::borrow::Cow;

use super::unusable::{ReadResult, Unusable};
use crate::compiled::path::normal::decode;
use crate::request::{FieldName, Headers};

/// The largest token that is read. It exceeds any token that servers accept in a header.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The authentication scheme of tokens.
const SCHEME: &[u8] = b"bearer";

/// The largest number of lines that are read if the first is empty: finding one line may take a scan of all.
const MAX_LINES: usize = 16;

/// Returns the value of a header, trimmed. Of several lines, the first is used, as most backends do. Joining them would
/// let a client create a new key by adding a line that its backend does not read.
#[inline]
pub(crate) fn value<'a>(headers: &'a dyn Headers, name: &FieldName) -> ReadResult<'a> {
    let Some((first, more)) = headers.first_line_of(name) else { return Ok(None) };
    let first = trimmed(first);
    if !first.is_empty() {
        return Ok(Some(Cow::Borrowed(first)));
    }
    if more && any_later_line(headers, name.as_str(), |line| !line.trim_ascii().is_empty()) {
        return Err(Unusable::Hidden);
    }
    Ok(None)
}

/// Returns a line without surrounding white space. Few lines have any.
#[inline]
fn trimmed(line: &[u8]) -> &[u8] {
    match line {
        [first, .., last] if *first > b' ' && *last > b' ' => line,
        _ => line.trim_ascii(),
    }
}

/// Returns the value of a descriptor's entry, exactly as the gateway sends it, including white space.
pub(crate) fn entry_value<'a>(headers: &'a dyn Headers, name: &FieldName) -> ReadResult<'a> {
    let first = headers.first_line_of(name).map(|(first, _)| first);
    Ok(first.filter(|first| !first.is_empty()).map(Cow::Borrowed))
}

/// Returns the token of `Authorization: Bearer`.
pub(crate) fn bearer(headers: &dyn Headers) -> ReadResult<'_> {
    const NAME: &str = "authorization";
    let Some((first, more)) = headers.first_line(NAME) else { return Ok(None) };
    match token(first) {
        Some(token) if token.len() > MAX_TOKEN_BYTES => Err(Unusable::TooLong),
        Some(token) => Ok(Some(Cow::Borrowed(token))),
        None if is_bearer(first) => Err(Unusable::Malformed),
        None if has_joined_token(first) => Err(Unusable::Hidden),
        None if more && any_later_line(headers, NAME, |line| is_bearer(line) || has_joined_token(line)) => {
            Err(Unusable::Hidden)
        }
        None => Ok(None),
    }
}

/// Returns the token of a line. No token contains a comma or a space (RFC 6750): the text after one was another line
/// before a gateway joined them.
fn token(line: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = line.trim_ascii().split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || !rest.first()?.is_ascii_whitespace() {
        return None;
    }
    let rest = rest.trim_ascii_start();
    let end = rest.iter().position(|byte| *byte == b',' || byte.is_ascii_whitespace()).unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

/// Whether a line has the scheme of tokens, with or without a token.
fn is_bearer(line: &[u8]) -> bool {
    let Some((scheme, rest)) = line.trim_ascii().split_at_checked(SCHEME.len()) else { return false };
    let ends = rest.first().is_none_or(|byte| byte.is_ascii_whitespace() || *byte == b',');
    scheme.eq_ignore_ascii_case(SCHEME) && ends
}

/// Whether a token follows another scheme in one line: a gateway may have joined two lines.
fn has_joined_token(line: &[u8]) -> bool {
    line.split(|byte| *byte == b',').skip(1).any(|part| token(part).is_some())
}

/// Whether `matches` returns true for any line but the first. True if there are too many lines to read.
fn any_later_line(headers: &dyn Headers, name: &str, matches: impl Fn(&[u8]) -> bool) -> bool {
    (1..MAX_LINES).map_while(|index| headers.line(name, index)).any(matches) || headers.line(name, MAX_LINES).is_some()
}

/// Returns the value of a cookie, without surrounding quotes, percent-decoded once. Of several cookies of one name,
/// over all lines, the first is used, as most backends do; a client that can insert a cookie before it could as well
/// replace it. Joining them would let a client create a new key by adding a cookie that its backend does not read. So
/// would keeping an encoded value that the backend decodes.
pub(crate) fn cookie<'a>(headers: &'a dyn Headers, name: &str) -> ReadResult<'a> {
    let lines = (0..).map_while(|index| headers.line("cookie", index));
    let mut values = lines.flat_map(|line| cookies(line, name.as_bytes()));
    match values.next() {
        None => Ok(None),
        Some([]) if values.any(|value| !value.is_empty()) => Err(Unusable::Hidden),
        Some([]) => Ok(None),
        Some(value) if value.contains(&b'%') => Ok(Some(Cow::Owned(decode(value)))),
        Some(value) => Ok(Some(Cow::Borrowed(value))),
    }
}

/// Returns the values of all cookies of this name in a line.
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

/// Returns the value of a query parameter. Names and values are percent-decoded once. Of several parameters of one
/// name, the first is used.
pub(crate) fn query<'a>(target: &'a str, name: &str) -> ReadResult<'a> {
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

    fn text(read: ReadResult<'_>) -> Result<Option<String>, Unusable> {
        read.map(|value| value.map(|value| String::from_utf8(value.into_owned()).unwrap()))
    }

    #[test]
    fn first_header_line_is_the_value() {
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
    fn bearer_token_is_found_in_every_notation_of_its_line() {
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
    fn first_cookie_of_a_name_is_the_value() {
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
    fn first_query_parameter_is_the_value_and_is_decoded() {
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
