//! Inline commands: words, with quotes around words with spaces.

use std::ops::Range;

/// Splits a line into unquoted words, appended to `words`. `None` if a quote is not closed.
///
/// As in Redis: within double quotes a backslash escapes (`\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`, anything else for
/// itself), within single quotes only `\'` does, and a closing quote ends its word.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, ranges: &mut Vec<Range<u32>>) -> Option<()> {
    words.clear();
    ranges.clear();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let start = u32::try_from(words.len()).ok()?;
        rest = word(rest, words)?.trim_ascii_start();
        ranges.push(start..u32::try_from(words.len()).ok()?);
    }
    Some(())
}

/// Reads one word, and returns the rest.
fn word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [space, ..] if space.is_ascii_whitespace() => return Some(&rest[1..]),
            [b'"', quoted @ ..] => return double_quoted(quoted, words),
            [b'\'', quoted @ ..] => return single_quoted(quoted, words),
            [byte, after @ ..] => {
                words.push(*byte);
                rest = after;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), after)
            }
            [b'\\', escaped, after @ ..] => (unescaped(*escaped), after),
            [b'"', after @ ..] => return after_quote(after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        words.push(byte);
        rest = after;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [b'\'', after @ ..] => return after_quote(after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        words.push(byte);
        rest = after;
    }
}

/// Requires a space or the end after a closing quote.
fn after_quote(after: &[u8]) -> Option<&[u8]> {
    match after {
        [] => Some(after),
        [space, ..] if space.is_ascii_whitespace() => Some(after),
        _ => None,
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// Returns the value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    fn words(line: &str) -> Option<Vec<Vec<u8>>> {
        let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut bytes, &mut ranges)?;
        Some(ranges.iter().map(|range| bytes[range.start as usize..range.end as usize].to_vec()).collect())
    }

    #[test]
    fn words_are_split_as_redis_splits_them() {
        for (line, expected) in [
            ("", Some(vec![])),
            (" \t ", Some(vec![])),
            ("PING", Some(vec!["PING"])),
            ("  ECHO   hi  ", Some(vec!["ECHO", "hi"])),
            (r#"ECHO "a b" 'c d' """#, Some(vec!["ECHO", "a b", "c d", ""])),
            (r#"ECHO "a\r\n\t\a\b\\\"\z""#, Some(vec!["ECHO", "a\r\n\t\x07\x08\\\"z"])),
            (r#""\x41\x7a\x4" "#, Some(vec!["Azx4"])),
            (r"'it\'s \n'", Some(vec!["it's \\n"])),
            (r#"a"b c""#, Some(vec!["ab c"])),
            (r#"ECHO "a"#, None),
            (r#"ECHO 'a"#, None),
            (r#"ECHO "a"b"#, None),
            (r#"ECHO 'a'b"#, None),
            (r#"ECHO "a\"#, None),
        ] {
            let expected = expected.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn escaped_bytes_need_not_be_utf8() {
        assert_eq!(words(r#""\xff\x00""#), Some(vec![vec![0xff, 0x00]]));
    }
}
