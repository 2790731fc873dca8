use std::ops::Range;

use super::inline;
use super::session::RespLimits;

/// The longest length line: a sign, 19 digits, and a margin.
const LENGTH_LINE_BYTES: usize = 32;

/// Parses commands from the input of a client.
///
/// It stores its position in a partial command: however few bytes arrive at a time, it reads no byte again except those
/// of one length. It stores ranges and no bytes, except for an inline command, which may have to be unquoted.
#[derive(Debug)]
pub struct Parser {
    limits: RespLimits,
    /// The position in the current command.
    at: usize,
    /// The number of missing arguments; `None` before it is known.
    missing: Option<usize>,
    ranges: Vec<Range<u32>>,
    /// The unquoted inline command.
    inline_words: Vec<u8>,
    is_inline: bool,
}

/// The arguments of one command, as ranges of the input.
#[derive(Clone, Copy)]
pub struct RespArguments<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<u32>],
    is_inline: bool,
}

/// The result of parsing the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A partial command: read more.
    Part,
    /// An empty line of that many bytes: no reply.
    Nothing(usize),
    /// A complete command of that many bytes.
    Command(usize),
}

/// A protocol error, with the text of Redis if Redis has one. The rest of the input cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RespError {
    /// The number of arguments is invalid or too large.
    #[error("invalid multibulk length")]
    ArrayLength,
    /// The length of an argument is invalid or too large.
    #[error("invalid bulk length")]
    BulkLength,
    /// An argument begins with this byte instead of a dollar sign.
    #[error("expected '$', got {}", shown(*.0))]
    ExpectedBulk(u8),
    /// The length of an argument is wrong.
    #[error("expected CRLF at the end of a bulk string")]
    BulkEnd,
    /// All arguments together are too long.
    #[error("too big request")]
    FrameTooLong,
    /// A length line does not end.
    #[error("too big count string")]
    LengthLineTooLong,
    /// An inline command is too long.
    #[error("too big inline request")]
    InlineTooLong,
    /// An inline command has too many arguments.
    #[error("too many arguments")]
    TooManyArguments,
    /// An inline command has an unclosed quote.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
}

impl Parser {
    /// Creates a parser with these limits.
    #[must_use]
    pub fn new(limits: RespLimits) -> Parser {
        Parser { limits, at: 0, missing: None, ranges: Vec::new(), inline_words: Vec::new(), is_inline: false }
    }

    /// Parses a command at the beginning of `input`. After [`Parsed::Part`] the next input must be the same with more
    /// appended; otherwise, what follows the parsed bytes.
    pub fn parse(&mut self, input: &[u8]) -> Result<Parsed, RespError> {
        let found = match (self.missing, input.first()) {
            (Some(missing), _) => self.parse_arguments(input, missing),
            (None, Some(b'*')) => self.parse_array(input),
            (None, Some(_)) => self.parse_inline(input),
            (None, None) => return Ok(Parsed::Part),
        };
        if !matches!(found, Ok(Parsed::Part)) {
            self.at = 0;
            self.missing = None;
        }
        found
    }

    /// Returns whether no partial command is pending.
    pub(super) fn is_between_commands(&self) -> bool {
        self.at == 0 && self.missing.is_none()
    }

    /// Returns the arguments of the command that was just parsed from `input`.
    #[must_use]
    pub fn arguments<'a>(&'a self, input: &'a [u8]) -> RespArguments<'a> {
        let bytes = if self.is_inline { &self.inline_words } else { input };
        RespArguments { bytes, ranges: &self.ranges, is_inline: self.is_inline }
    }

    fn parse_array(&mut self, input: &[u8]) -> Result<Parsed, RespError> {
        let Some((count, end)) = length_line(input, 1, RespError::ArrayLength)? else { return Ok(Parsed::Part) };
        // Redis ignores these without a reply.
        if count <= 0 {
            return Ok(Parsed::Nothing(end));
        }
        let count = usize::try_from(count).ok().filter(|count| *count <= self.limits.arguments);
        let count = count.ok_or(RespError::ArrayLength)?;
        self.is_inline = false;
        self.ranges.clear();
        self.at = end;
        self.parse_arguments(input, count)
    }

    fn parse_arguments(&mut self, input: &[u8], mut missing: usize) -> Result<Parsed, RespError> {
        while missing > 0 {
            let Some(range) = self.parse_argument(input)? else {
                self.missing = Some(missing);
                return Ok(Parsed::Part);
            };
            self.at = range.end as usize + 2;
            self.ranges.push(range);
            missing -= 1;
        }
        Ok(Parsed::Command(self.at))
    }

    fn parse_argument(&self, input: &[u8]) -> Result<Option<Range<u32>>, RespError> {
        match input.get(self.at) {
            Some(b'$') => {}
            Some(other) => return Err(RespError::ExpectedBulk(*other)),
            None => return Ok(None),
        }
        let Some((length, start)) = length_line(input, self.at + 1, RespError::BulkLength)? else {
            return Ok(None);
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= self.limits.argument_bytes);
        let end = start + length.ok_or(RespError::BulkLength)?;
        // Checked before the argument arrives: a refused argument takes no memory.
        if end + 2 > self.limits.frame_bytes {
            return Err(RespError::FrameTooLong);
        }
        match input.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(RespError::BulkEnd),
            None => return Ok(None),
        }
        let offset = |at: usize| u32::try_from(at).map_err(|_| RespError::FrameTooLong);
        Ok(Some(offset(start)?..offset(end)?))
    }

    fn parse_inline(&mut self, input: &[u8]) -> Result<Parsed, RespError> {
        let scanned = self.at.min(input.len());
        let Some(end) = memchr::memchr(b'\n', &input[scanned..]).map(|at| scanned + at) else {
            self.at = input.len();
            return if input.len() > self.limits.inline_bytes {
                Err(RespError::InlineTooLong)
            } else {
                Ok(Parsed::Part)
            };
        };
        if end > self.limits.inline_bytes {
            return Err(RespError::InlineTooLong);
        }
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.is_inline = true;
        inline::split(line, &mut self.inline_words, &mut self.ranges).ok_or(RespError::UnbalancedQuotes)?;
        match self.ranges.len() {
            0 => Ok(Parsed::Nothing(end + 1)),
            count if count > self.limits.arguments => Err(RespError::TooManyArguments),
            _ => Ok(Parsed::Command(end + 1)),
        }
    }
}

impl<'a> RespArguments<'a> {
    /// Returns the bytes from the end of one argument to the end of a later one, with lengths and line ends: the same
    /// bytes after that argument are the same arguments. `None` for an inline command, which has nothing between
    /// arguments.
    pub(super) fn written_after(&self, first: usize, last: usize) -> Option<&'a [u8]> {
        if self.is_inline {
            return None;
        }
        self.bytes.get(self.ranges.get(first)?.end as usize..self.ranges.get(last)?.end as usize + 2)
    }

    /// Returns the number of arguments, including the command's name.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a command has at least its name")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the argument at a position; the name is at 0.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&'a [u8]> {
        let range = self.ranges.get(at)?;
        self.bytes.get(range.start as usize..range.end as usize)
    }

    /// Returns the arguments from a position on.
    pub fn from(&self, at: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let RespArguments { bytes, ranges, .. } = *self;
        let ranges = ranges.get(at..).unwrap_or_default();
        ranges.iter().filter_map(move |range| bytes.get(range.start as usize..range.end as usize))
    }
}

/// Returns the number of the length line at `from`, and the start of the next line; `None` if it is incomplete.
#[inline]
fn length_line(input: &[u8], from: usize, wrong: RespError) -> Result<Option<(i64, usize)>, RespError> {
    let line = input.get(from..).unwrap_or_default();
    if let Some((length, line_bytes)) = short_length_line(line) {
        return Ok(Some((i64::from(length), from + line_bytes)));
    }
    let line = &line[..line.len().min(LENGTH_LINE_BYTES)];
    let Some(end) = memchr::memchr(b'\n', line) else {
        return if line.len() == LENGTH_LINE_BYTES { Err(RespError::LengthLineTooLong) } else { Ok(None) };
    };
    let number = line[..end].strip_suffix(b"\r").and_then(parse_integer).ok_or(wrong)?;
    Ok(Some((number, from + end + 1)))
}

/// Returns the number of a length line with one or two digits, as nearly every length has, and the length of the line.
#[inline]
pub(super) fn short_length_line(line: &[u8]) -> Option<(u8, usize)> {
    match line {
        [digit @ b'0'..=b'9', b'\r', b'\n', ..] => Some((digit - b'0', 3)),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => Some(((tens - b'0') * 10 + (ones - b'0'), 4)),
        _ => None,
    }
}

/// Formats a byte for a message: itself if printable, else its number.
fn shown(byte: u8) -> String {
    match byte {
        b' '..=b'~' => format!("'{}'", char::from(byte)),
        _ => format!("byte {byte}"),
    }
}

/// Parses an integer as Redis does: decimal, without spaces, a plus sign or leading zeros.
pub(super) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Eighteen digits always fit, and clients rarely send more.
    if digits.len() <= 18 {
        let mut value = 0;
        for &digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
        }
        return Some(if is_negative { -value } else { value });
    }
    str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse_integer;

    #[test]
    fn integers_are_parsed_as_in_redis() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1", Some(1)),
            ("-1", Some(-1)),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("-999999999999999999", Some(-999_999_999_999_999_999)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
            ("1e3", None),
            ("0x10", None),
            ("12345678901234567x9", None),
            ("1234567890123456789x", None),
            ("\u{663}", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text}");
        }
    }
}
