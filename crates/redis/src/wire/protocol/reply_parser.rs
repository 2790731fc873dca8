use std::fmt;
use std::ops::Range;

use crate::resp_value::Value;

/// The maximum length of a line. Servers send no longer ones.
const MAX_LINE: usize = 64 * 1024;
/// The maximum nesting of arrays. The replies of our scripts have two levels, `CLUSTER SLOTS` has four.
const MAX_DEPTH: usize = 8;
/// The maximum size of a reply, bytes and elements together. A cluster of a thousand nodes needs about 1 MB.
const MAX_SIZE: usize = 16 * 1024 * 1024;
/// The size that an element counts in addition to its bytes, so that the number of small elements is bounded too.
const ELEMENT_SIZE: usize = 16;
/// The number of elements allocated in advance. More are allocated as they arrive, not as the server announces them.
const MAX_PREALLOCATED: usize = 64;

/// Parses replies incrementally from bytes that arrive in chunks.
///
/// It continues where it stopped, so parsing takes linear time even if a reply arrives byte by byte.
#[derive(Debug, Default)]
pub(crate) struct ReplyParser {
    buffer: Vec<u8>,
    /// The start of the unparsed part of the buffer.
    begin: usize,
    /// The number of bytes from `begin` that contain no line feed.
    searched: usize,
    /// The length of the bulk string being received.
    bulk: Option<usize>,
    /// The arrays being received, the innermost last.
    open: Vec<OpenArray>,
    /// The size of the current reply so far, at most [`MAX_SIZE`].
    used: usize,
}

#[derive(Debug)]
struct OpenArray {
    elements: Vec<Value>,
    missing: usize,
}

/// The bytes are not a valid reply. Nothing after them can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl ReplyParser {
    /// Appends received bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.begin == self.buffer.len() {
            self.buffer.clear();
            self.begin = 0;
        } else if self.begin > self.buffer.len() / 2 {
            // Fewer bytes are moved than were parsed since the last time, so each byte moves once on average.
            self.buffer.drain(..self.begin);
            self.begin = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next reply, if it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, Malformed> {
        loop {
            let Some(element) = self.element()? else { return Ok(None) };
            if let Some(whole) = self.add(element) {
                self.used = 0;
                return Ok(Some(whole));
            }
        }
    }

    /// Parses the next complete element. A non-empty array is opened instead.
    fn element(&mut self) -> Result<Option<Value>, Malformed> {
        loop {
            if let Some(length) = self.bulk {
                return self.bulk_string(length);
            }
            let Some((kind, line)) = self.line()? else { return Ok(None) };
            let line = &self.buffer[line];
            let value = match kind {
                b':' => Value::Integer(number(line)?),
                b'+' => Value::Simple(String::from_utf8_lossy(line).into_owned()),
                b'-' => Value::Error(String::from_utf8_lossy(line).into_owned()),
                b'$' => match length(line)? {
                    Some(length) => {
                        self.spend(length)?;
                        self.bulk = Some(length);
                        continue;
                    }
                    None => Value::Bulk(None),
                },
                b'*' => match length(line)? {
                    None => Value::Array(None),
                    Some(0) => Value::Array(Some(Vec::new())),
                    Some(missing) => {
                        self.open(missing)?;
                        continue;
                    }
                },
                _ => return Err(Malformed("unknown reply type")),
            };
            return Ok(Some(value));
        }
    }

    /// Adds an element to the innermost open array. Returns the reply if it is complete with it.
    fn add(&mut self, mut element: Value) -> Option<Value> {
        while let Some(mut array) = self.open.pop() {
            array.elements.push(element);
            array.missing -= 1;
            if array.missing > 0 {
                self.open.push(array);
                return None;
            }
            element = Value::Array(Some(array.elements));
        }
        Some(element)
    }

    fn open(&mut self, missing: usize) -> Result<(), Malformed> {
        if self.open.len() == MAX_DEPTH {
            return Err(Malformed("arrays nested too deeply"));
        }
        self.spend(missing.saturating_mul(ELEMENT_SIZE))?;
        self.open.push(OpenArray { elements: Vec::with_capacity(missing.min(MAX_PREALLOCATED)), missing });
        Ok(())
    }

    /// Adds to the size of the reply.
    fn spend(&mut self, amount: usize) -> Result<(), Malformed> {
        self.used = self.used.saturating_add(amount);
        if self.used > MAX_SIZE { Err(Malformed("reply too large")) } else { Ok(()) }
    }

    fn bulk_string(&mut self, length: usize) -> Result<Option<Value>, Malformed> {
        let rest = &self.buffer[self.begin..];
        let Some((bytes, end)) = rest.get(..length + 2).and_then(|whole| whole.split_at_checked(length)) else {
            return Ok(None);
        };
        if end != b"\r\n" {
            return Err(Malformed("bulk string longer than its length"));
        }
        let value = Value::Bulk(Some(bytes.to_vec()));
        self.begin += length + 2;
        self.bulk = None;
        Ok(Some(value))
    }

    /// Returns the first byte of the next line, and the range of the rest of the line in the buffer.
    fn line(&mut self) -> Result<Option<(u8, Range<usize>)>, Malformed> {
        let rest = &self.buffer[self.begin..];
        let Some(end) = rest[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = rest.len();
            return if rest.len() > MAX_LINE { Err(Malformed("line too long")) } else { Ok(None) };
        };
        let end = self.searched + end;
        let [kind, .., b'\r'] = rest[..end] else { return Err(Malformed("malformed line")) };
        self.spend(end)?;
        let line = self.begin + 1..self.begin + end - 1;
        self.begin += end + 1;
        self.searched = 0;
        Ok(Some((kind, line)))
    }
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    let text = str::from_utf8(line).map_err(|_| Malformed("invalid number"))?;
    text.parse().map_err(|_| Malformed("invalid number"))
}

/// Parses a length; `None` for -1, which is null.
fn length(line: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| Malformed("negative length"))?;
            if length > MAX_SIZE { Err(Malformed("reply too large")) } else { Ok(Some(length)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn write(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Integer(number) => out.extend(format!(":{number}\r\n").bytes()),
            Value::Simple(line) => out.extend(format!("+{line}\r\n").bytes()),
            Value::Error(line) => out.extend(format!("-{line}\r\n").bytes()),
            Value::Bulk(None) => out.extend(b"$-1\r\n"),
            Value::Bulk(Some(bytes)) => {
                out.extend(format!("${}\r\n", bytes.len()).bytes());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Value::Array(None) => out.extend(b"*-1\r\n"),
            Value::Array(Some(elements)) => {
                out.extend(format!("*{}\r\n", elements.len()).bytes());
                elements.iter().for_each(|element| write(element, out));
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::Integer),
            "[ -~]{0,20}".prop_map(Value::Simple),
            "[A-Z]{1,9} [ -~]{0,20}".prop_map(Value::Error),
            Just(Value::Bulk(None)),
            vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Bulk(Some(bytes))),
            Just(Value::Array(None)),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| vec(inner, 0..6).prop_map(|elements| Value::Array(Some(elements))))
    }

    proptest! {
        #[test]
        fn encoded_replies_parse_the_same_in_chunks_of_any_size(values in vec(values(), 0..8), size in 1_usize..50) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| write(value, &mut bytes));
            let (mut parser, mut read) = (ReplyParser::default(), Vec::new());
            for chunk in bytes.chunks(size) {
                parser.feed(chunk);
                while let Some(value) = parser.next().unwrap() {
                    read.push(value);
                }
            }
            prop_assert_eq!(read, values);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'*'), Just(b'$'),
            Just(b':'), Just(b'-'), b'0'..=b'9', any::<u8>()], 0..200), size in 1_usize..20) {
            let mut parser = ReplyParser::default();
            'whole: for chunk in bytes.chunks(size) {
                parser.feed(chunk);
                loop {
                    match parser.next() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => break 'whole,
                    }
                }
            }
        }
    }

    fn parse_error(bytes: &[u8]) -> &'static str {
        let mut parser = ReplyParser::default();
        parser.feed(bytes);
        parser.next().unwrap_err().0
    }

    #[test]
    fn malformed_replies_are_errors() {
        assert_eq!(parse_error(b"HTTP/1.1 400\r\n"), "unknown reply type");
        assert_eq!(parse_error(b"\r\n"), "malformed line");
        assert_eq!(parse_error(b":1\n"), "malformed line");
        assert_eq!(parse_error(b":one\r\n"), "invalid number");
        assert_eq!(parse_error(b"$-2\r\n"), "negative length");
        assert_eq!(parse_error(b"$1\r\nabc\r\n"), "bulk string longer than its length");
        assert_eq!(parse_error(b"$99999999999\r\n"), "reply too large");
        assert_eq!(parse_error(b"*9999999\r\n"), "reply too large");
        assert_eq!(parse_error(&b"*1\r\n".repeat(9)), "arrays nested too deeply");
        assert_eq!(parse_error(&b"+".repeat(70_000)), "line too long");
    }

    #[test]
    fn lines_of_one_reply_are_bounded_together() {
        let mut bytes = b"*1000000\r\n".to_vec();
        bytes.extend(format!("+{}\r\n", "x".repeat(60_000)).repeat(20).bytes());
        assert_eq!(parse_error(&bytes), "reply too large");
    }

    #[test]
    fn large_reply_in_small_chunks_parses_in_linear_time() {
        // Searching from the beginning for each chunk would take 10^12 steps.
        let mut bytes = b"*100000\r\n".to_vec();
        bytes.extend(b"$10\r\n0123456789\r\n".repeat(100_000));
        let mut parser = ReplyParser::default();
        for chunk in bytes.chunks(1) {
            assert_eq!(parser.next(), Ok(None));
            parser.feed(chunk);
        }
        let Ok(Some(Value::Array(Some(elements)))) = parser.next() else { panic!("no array") };
        assert_eq!(elements.len(), 100_000);
        // The same for the end of a long line.
        for _ in 0..20 {
            for chunk in [&[b'+'; 60_000][..], b"\r\n"].concat().chunks(1) {
                assert_eq!(parser.next(), Ok(None));
                parser.feed(chunk);
            }
            assert!(matches!(parser.next(), Ok(Some(Value::Simple(_)))));
        }
    }
}
