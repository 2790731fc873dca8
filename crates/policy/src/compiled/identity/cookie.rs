//! Values of cookies.

use std::borrow::Cow;

use super::unusable::{Read, Unusable};
use crate::compiled::path::normal::decode;
use crate::request::Headers;

/// The value of a cookie, without the quotes around it, decoded once. Of
/// several with one name the first counts, over all lines: so do most
/// backends, and a client that can put another in front can as well replace
/// it. To join them would let a client make a new key by adding one that its
/// backend does not read; so would a value that is encoded, where a backend
/// decodes it.
pub(crate) fn value<'a>(headers: &'a dyn Headers, name: &str) -> Read<'a> {
    let lines = (0..).map_while(|at| headers.line("cookie", at));
    let mut values = lines.flat_map(|line| values(line, name.as_bytes()));
    match values.next() {
        None => Ok(None),
        Some([]) if values.any(|value| !value.is_empty()) => Err(Unusable::Hidden),
        Some([]) => Ok(None),
        Some(value) if value.contains(&b'%') => Ok(Some(Cow::Owned(decode(value)))),
        Some(value) => Ok(Some(Cow::Borrowed(value))),
    }
}

/// The values of all cookies of this name.
fn values<'a>(line: &'a [u8], name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    line.split(|byte| *byte == b';').filter_map(move |pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        if pair[..equals].trim_ascii() != name {
            return None;
        }
        let value = pair[equals + 1..].trim_ascii();
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_counts() {
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
            assert_eq!(value(&headers, "sid"), expected, "{lines:?}");
        }
    }
}
