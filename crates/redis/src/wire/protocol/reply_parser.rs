use std::fmt;
use std::ops::Range;

use crate::resp_value::Value;

/// A line that is longer is no answer of a server.
const LONGEST_LINE: usize = 64 * 1024;
/// Our scripts answer with two levels, and the map of a cluster has four.
const DEEPEST: usize = 8;
/// What one answer may hold, bytes and elements together. A cluster of a thousand nodes needs about 1 MB.
const LARGEST: usize = 16 * 1024 * 1024;
/// What an element is counted as besides its bytes, so that many small ones are bounded too.
const ELEMENT: usize = 16;
/// Room is made as elements arrive, not as a server claims that they will.
const TRUSTED_LENGTH: usize = 64;

/// Reads answers from bytes that come in pieces.
///
/// It goes on where it stopped, so that an answer that comes byte by byte takes
/// no longer than one that comes at once.
#[derive(Debug, Default)]
pub(crate) struct ReplyParser {
    buffer: Vec<u8>,
    /// Where the part of the buffer begins that was not read yet.
    begin: usize,
    /// How far from `begin` no end of a line was found.
    searched: usize,
    /// The bulk string that is being received, by its length.
    bulk: Option<usize>,
    /// The arrays that are being received, the innermost last.
    open: Vec<OpenArray>,
    /// How much of [`LARGEST`] the present answer has used.
    used: usize,
}

#[derive(Debug)]
struct OpenArray {
    elements: Vec<Value>,
    missing: usize,
}

/// The bytes are no answer. Nothing after them can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl ReplyParser {
    /// Takes what was received.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.begin == self.buffer.len() {
            self.buffer.clear();
            self.begin = 0;
        } else if self.begin > self.buffer.len() / 2 {
            // What is moved is less than what was read since the last time, so that each byte moves once on average.
            self.buffer.drain(..self.begin);
            self.begin = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next answer, if it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, Malformed> {
        loop {
            let Some(element) = self.element()? else { return Ok(None) };
            if let Some(whole) = self.place(element) {
                self.used = 0;
                return Ok(Some(whole));
            }
        }
    }

    /// The next element that is complete in itself. An array that has elements is opened instead.
    fn element(&mut self) -> Result<Option<Value>, Malformed> {
        loop {
            if let Some(length) = self.bulk {
                return self.rest_of_bulk(length);
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
                _ => return Err(Malformed("an answer of an unknown kind")),
            };
            return Ok(Some(value));
        }
    }

    /// Puts an element where it belongs. Returns the answer that is complete with it.
    fn place(&mut self, mut element: Value) -> Option<Value> {
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
        if self.open.len() == DEEPEST {
            return Err(Malformed("an answer that is nested too deeply"));
        }
        self.spend(missing.saturating_mul(ELEMENT))?;
        self.open.push(OpenArray { elements: Vec::with_capacity(missing.min(TRUSTED_LENGTH)), missing });
        Ok(())
    }

    fn spend(&mut self, amount: usize) -> Result<(), Malformed> {
        self.used = self.used.saturating_add(amount);
        if self.used > LARGEST { Err(Malformed("an answer that is too large")) } else { Ok(()) }
    }

    fn rest_of_bulk(&mut self, length: usize) -> Result<Option<Value>, Malformed> {
        let rest = &self.buffer[self.begin..];
        let Some((bytes, end)) = rest.get(..length + 2).and_then(|whole| whole.split_at_checked(length)) else {
            return Ok(None);
        };
        if end != b"\r\n" {
            return Err(Malformed("a string that is longer than it says"));
        }
        let value = Value::Bulk(Some(bytes.to_vec()));
        self.begin += length + 2;
        self.bulk = None;
        Ok(Some(value))
    }

    /// The first byte of the next line, and where in the buffer the rest of the line is.
    fn line(&mut self) -> Result<Option<(u8, Range<usize>)>, Malformed> {
        let rest = &self.buffer[self.begin..];
        let Some(end) = rest[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = rest.len();
            return if rest.len() > LONGEST_LINE { Err(Malformed("a line that does not end")) } else { Ok(None) };
        };
        let end = self.searched + end;
        let [kind, .., b'\r'] = rest[..end] else { return Err(Malformed("a line without its end")) };
        self.spend(end)?;
        let line = self.begin + 1..self.begin + end - 1;
        self.begin += end + 1;
        self.searched = 0;
        Ok(Some((kind, line)))
    }
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    let text = str::from_utf8(line).map_err(|_| Malformed("a number that is none"))?;
    text.parse().map_err(|_| Malformed("a number that is none"))
}

/// A length, or -1 for nothing.
fn length(line: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| Malformed("a length below zero"))?;
            if length > LARGEST { Err(Malformed("an answer that is too large")) } else { Ok(Some(length)) }
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
        fn reads_what_was_written_however_it_is_cut(values in vec(values(), 0..8), piece in 1_usize..50) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| write(value, &mut bytes));
            let (mut parser, mut read) = (ReplyParser::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                parser.feed(piece);
                while let Some(value) = parser.next().unwrap() {
                    read.push(value);
                }
            }
            prop_assert_eq!(read, values);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'*'), Just(b'$'),
            Just(b':'), Just(b'-'), b'0'..=b'9', any::<u8>()], 0..200), piece in 1_usize..20) {
            let mut parser = ReplyParser::default();
            'whole: for piece in bytes.chunks(piece) {
                parser.feed(piece);
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

    fn refusal(bytes: &[u8]) -> &'static str {
        let mut parser = ReplyParser::default();
        parser.feed(bytes);
        parser.next().unwrap_err().0
    }

    #[test]
    fn refuses_what_is_no_answer() {
        assert_eq!(refusal(b"HTTP/1.1 400\r\n"), "an answer of an unknown kind");
        assert_eq!(refusal(b"\r\n"), "a line without its end");
        assert_eq!(refusal(b":1\n"), "a line without its end");
        assert_eq!(refusal(b":one\r\n"), "a number that is none");
        assert_eq!(refusal(b"$-2\r\n"), "a length below zero");
        assert_eq!(refusal(b"$1\r\nabc\r\n"), "a string that is longer than it says");
        assert_eq!(refusal(b"$99999999999\r\n"), "an answer that is too large");
        assert_eq!(refusal(b"*9999999\r\n"), "an answer that is too large");
        assert_eq!(refusal(&b"*1\r\n".repeat(9)), "an answer that is nested too deeply");
        assert_eq!(refusal(&b"+".repeat(70_000)), "a line that does not end");
    }

    #[test]
    fn many_lines_in_one_answer_are_bounded_together() {
        let mut bytes = b"*1000000\r\n".to_vec();
        bytes.extend(format!("+{}\r\n", "x".repeat(60_000)).repeat(20).bytes());
        assert_eq!(refusal(&bytes), "an answer that is too large");
    }

    #[test]
    fn a_large_answer_in_small_pieces_takes_time_in_proportion() {
        // A search from the beginning for each piece would take 10^12 steps.
        let mut bytes = b"*100000\r\n".to_vec();
        bytes.extend(b"$10\r\n0123456789\r\n".repeat(100_000));
        let mut parser = ReplyParser::default();
        for piece in bytes.chunks(1) {
            assert_eq!(parser.next(), Ok(None));
            parser.feed(piece);
        }
        let Ok(Some(Value::Array(Some(elements)))) = parser.next() else { panic!("no array") };
        assert_eq!(elements.len(), 100_000);
        // The same for the end of a long line.
        for _ in 0..20 {
            for piece in [&[b'+'; 60_000][..], b"\r\n"].concat().chunks(1) {
                assert_eq!(parser.next(), Ok(None));
                parser.feed(piece);
            }
            assert!(matches!(parser.next(), Ok(Some(Value::Simple(_)))));
        }
    }
}
