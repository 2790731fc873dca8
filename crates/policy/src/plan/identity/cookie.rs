//! Values of cookies.

use crate::request::Headers;

/// The value of a cookie, without the quotes around it. Of several with one
/// name the first that has a value counts, over all lines: so do most backends,
/// and whoever could put another in front could as well replace it. To join
/// them would let anybody make a new key by adding one that nobody reads.
pub(crate) fn value<'a>(headers: &'a dyn Headers, name: &str) -> Option<&'a [u8]> {
    (0..).map_while(|at| headers.line("cookie", at)).find_map(|line| in_line(line, name.as_bytes()))
}

fn in_line<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    line.split(|byte| *byte == b';').find_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        if pair[..equals].trim_ascii() != name {
            return None;
        }
        let value = pair[equals + 1..].trim_ascii();
        let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        (!inner.is_empty()).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_with_a_value_counts() {
        for (lines, expected) in [
            (&["sid=a"][..], Some("a")),
            (&["x=1; sid=a; y=2"], Some("a")),
            (&["x=1;sid=a;y=2"], Some("a")),
            (&[" sid = a "], Some("a")),
            (&["sid=\"a\""], Some("a")),
            (&["sid=\""], Some("\"")),
            (&["sid=a=b"], Some("a=b")),
            (&["sid=a; sid=b"], Some("a")),
            (&["sid=; sid=b"], Some("b")),
            (&["x=1", "sid=b", "sid=c"], Some("b")),
            (&["SID=a"], None),
            (&["xsid=a", "sid", "sid=", ";;", ""], None),
            (&[], None),
        ] {
            let headers: Vec<(&str, &str)> = lines.iter().map(|line| ("Cookie", *line)).collect();
            assert_eq!(value(&headers, "sid"), expected.map(str::as_bytes), "{lines:?}");
        }
    }
}
