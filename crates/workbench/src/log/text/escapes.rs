//! Escaped texts. They are unescaped in place, because that never makes them longer.

use memchr::memchr;

/// The most characters of a line that a message shows.
const SHOWN_MAX: usize = 160;

/// Unescapes a text as nginx and Apache escape it (`\x22`, `\"`, `\\`, `\n`), and returns its new length. With
/// `as_target`, bytes other than printable ASCII become `%E9`, which is the same request.
pub(in crate::log) fn unescape_log(text: &mut [u8], as_target: bool) -> usize {
    unescape(text, |rest, out| match *rest {
        [b'x', high, low, ..] => {
            let (Some(_), Some(_)) = (hex(high), hex(low)) else { return None };
            let byte = hex(high)? << 4 | hex(low)?;
            if as_target && !byte.is_ascii_graphic() {
                out[..3].copy_from_slice(&[b'%', high, low]);
                return Some((3, 3));
            }
            out[0] = byte;
            Some((3, 1))
        }
        [escaped, ..] => {
            out[0] = control(escaped);
            Some((1, 1))
        }
        [] => None,
    })
}

/// Unescapes the content of a JSON string, and returns its new length. Unpaired surrogates become question marks.
pub(in crate::log) fn unescape_json(text: &mut [u8]) -> usize {
    unescape(text, |rest, out| {
        let [b'u', digits @ ..] = rest else {
            out[0] = control(*rest.first()?);
            return Some((1, 1));
        };
        let first = code_unit(digits)?;
        let (code_point, used) = match digits.get(4..) {
            Some([b'\\', b'u', second @ ..]) if (0xd800..0xdc00).contains(&first) => match code_unit(second) {
                Some(second @ 0xdc00..0xe000) => (0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00)), 11),
                _ => (first, 5),
            },
            _ => (first, 5),
        };
        let mut utf8 = [0; 4];
        let utf8 = char::from_u32(code_point).unwrap_or('?').encode_utf8(&mut utf8).as_bytes();
        out[..utf8.len()].copy_from_slice(utf8);
        Some((used, utf8.len()))
    })
}

/// Replaces each escape. `replace` gets the text after a backslash and where to write; it returns how much it read and
/// wrote, or nothing for a backslash that escapes nothing. The rest of the text is filled with spaces.
fn unescape(text: &mut [u8], replace: impl Fn(&[u8], &mut [u8]) -> Option<(usize, usize)>) -> usize {
    let Some(first) = memchr(b'\\', text) else { return text.len() };
    let (mut from, mut to) = (first, first);
    while from < text.len() {
        if text[from] == b'\\' {
            // Nothing that is written is longer than six characters that are read.
            let mut written = [0; 6];
            if let Some((read, count)) = replace(&text[from + 1..], &mut written) {
                text[to..to + count].copy_from_slice(&written[..count]);
                (from, to) = (from + 1 + read, to + count);
                continue;
            }
        }
        text[to] = text[from];
        (from, to) = (from + 1, to + 1);
    }
    text[to..].fill(b' ');
    to
}

fn control(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        other => other,
    }
}

fn code_unit(digits: &[u8]) -> Option<u32> {
    let (digits, _) = digits.split_first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | u32::from(hex(*digit)?)))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Returns the beginning of a line for a message, with everything but printable ASCII escaped.
pub(in crate::log) fn escaped(line: &[u8]) -> String {
    let mut text = String::new();
    for byte in line {
        if text.len() >= SHOWN_MAX {
            text.push_str("..");
            break;
        }
        match byte {
            b'"' | b'\'' => text.push(char::from(*byte)),
            byte => text.extend(byte.escape_ascii().map(char::from)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{escaped, unescape_json, unescape_log};

    fn log(text: &str, as_target: bool) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let length = unescape_log(&mut bytes, as_target);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn json(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let length = unescape_json(&mut bytes);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn log_escapes_are_replaced() {
        for (text, plain) in [
            ("plain", "plain"),
            (r#"a\"b\\c"#, r#"a"b\c"#),
            (r"a\x22b\xC3\xA9c", "a\"béc"),
            (r"tab\tend\n", "tab\tend\n"),
            (r"cut\", r"cut\"),
            (r"wrong \xZZ", r"wrong \xZZ"),
        ] {
            assert_eq!(log(text, false), plain, "{text}");
        }
        assert_eq!(log(r"/caf\xC3\xA9\x22", true), "/caf%C3%A9\"");
    }

    #[test]
    fn json_escapes_are_replaced() {
        for (text, plain) in [
            (r#"a\"b\\c\/d"#, r#"a"b\c/d"#),
            (r"caf\u00e9 \u20AC \ud83d\ude00", "café € 😀"),
            (r"\n\t\r\b\f", "\n\t\r\u{8}\u{c}"),
            (r"\ud83d alone", "? alone"),
            (r"\ud83d\u0041", "?A"),
            (r"cut \u12", r"cut \u12"),
        ] {
            assert_eq!(json(text), plain, "{text}");
        }
    }

    #[test]
    fn shown_lines_are_printable_and_short() {
        assert_eq!(escaped(b"GET \"/\"\x1b[31m\xff\n"), "GET \"/\"\\x1b[31m\\xff\\n");
        let long = escaped(&[b'a'; 1_000]);
        assert!(long.ends_with("aaa..") && long.len() < 200);
    }
}
