use std::ops::Range;

use super::inline;
use super::session::RespLimits;

/// The longest line that says a length: a sign, 19 digits, and room for a little nonsense.
const LENGTH_LINE_BYTES: usize = 32;

/// Finds commands in what a client sends.
///
/// It remembers how far it has come in a command of which only a part is there:
/// however few bytes come at a time, it reads none again but those of one length.
/// It holds places and no bytes, except for those of a command that a person has
/// typed, which may have to be unquoted.
#[derive(Debug)]
pub struct Parser {
    limits: RespLimits,
    /// How far the command under way is read.
    at: usize,
    /// How many of its arguments are still to come; `None` before that is known.
    missing: Option<usize>,
    places: Vec<Range<u32>>,
    /// What a person has typed, unquoted.
    typed: Vec<u8>,
    is_typed: bool,
}

/// The arguments of one command, where they stand in what was read.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    places: &'a [Range<u32>],
    is_typed: bool,
}

/// What stands at the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A part of a command: read more.
    Part,
    /// Nothing to answer, of that many bytes: an empty line.
    Nothing(usize),
    /// A whole command of that many bytes.
    Command(usize),
}

/// What is wrong with what a client sends, in Redis' words where it has any. Nothing after it can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number of arguments is no number, or too large.
    #[error("invalid multibulk length")]
    ArrayLength,
    /// The length of an argument is no number, or too large.
    #[error("invalid bulk length")]
    BulkLength,
    /// An argument begins with this instead of a dollar sign.
    #[error("expected '$', got {}", shown(*.0))]
    ExpectedBulk(u8),
    /// An argument is longer or shorter than it says.
    #[error("expected CRLF at the end of a bulk string")]
    BulkEnd,
    /// All arguments together are too long.
    #[error("too big request")]
    FrameTooLong,
    /// A line that says a length does not end.
    #[error("too big count string")]
    LengthLineTooLong,
    /// A typed line is too long.
    #[error("too big inline request")]
    InlineTooLong,
    /// A typed line has too many arguments.
    #[error("too many arguments")]
    TooManyArguments,
    /// A typed line has a quote that is not closed.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
}

impl Parser {
    /// A parser that holds to these limits.
    #[must_use]
    pub fn new(limits: RespLimits) -> Parser {
        Parser { limits, at: 0, missing: None, places: Vec::new(), typed: Vec::new(), is_typed: false }
    }

    /// Looks for a command at the beginning of `input`. After [`Found::Part`]
    /// the next input must be the same with more behind it; after the others,
    /// what follows the bytes that were found.
    pub fn parse(&mut self, input: &[u8]) -> Result<Found, ProtocolError> {
        let found = match (self.missing, input.first()) {
            (Some(missing), _) => self.parse_arguments(input, missing),
            (None, Some(b'*')) => self.parse_array(input),
            (None, Some(_)) => self.parse_typed(input),
            (None, None) => return Ok(Found::Part),
        };
        if !matches!(found, Ok(Found::Part)) {
            self.at = 0;
            self.missing = None;
        }
        found
    }

    /// Whether the next input begins with a command, of which nothing was parsed yet.
    pub(super) fn is_between_commands(&self) -> bool {
        self.at == 0 && self.missing.is_none()
    }

    /// The arguments of the command that was just found in `input`.
    #[must_use]
    pub fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        let bytes = if self.is_typed { &self.typed } else { input };
        Arguments { bytes, places: &self.places, is_typed: self.is_typed }
    }

    fn parse_array(&mut self, input: &[u8]) -> Result<Found, ProtocolError> {
        let Some((count, end)) = length_line(input, 1, ProtocolError::ArrayLength)? else { return Ok(Found::Part) };
        // Redis passes over these without a word, and so do its clients.
        if count <= 0 {
            return Ok(Found::Nothing(end));
        }
        let count = usize::try_from(count).ok().filter(|count| *count <= self.limits.arguments);
        let count = count.ok_or(ProtocolError::ArrayLength)?;
        self.is_typed = false;
        self.places.clear();
        self.at = end;
        self.parse_arguments(input, count)
    }

    fn parse_arguments(&mut self, input: &[u8], mut missing: usize) -> Result<Found, ProtocolError> {
        while missing > 0 {
            let Some(place) = self.parse_argument(input)? else {
                self.missing = Some(missing);
                return Ok(Found::Part);
            };
            self.at = place.end as usize + 2;
            self.places.push(place);
            missing -= 1;
        }
        Ok(Found::Command(self.at))
    }

    fn parse_argument(&self, input: &[u8]) -> Result<Option<Range<u32>>, ProtocolError> {
        match input.get(self.at) {
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
            None => return Ok(None),
        }
        let Some((length, start)) = length_line(input, self.at + 1, ProtocolError::BulkLength)? else {
            return Ok(None);
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= self.limits.argument_bytes);
        let end = start + length.ok_or(ProtocolError::BulkLength)?;
        // Told before it is waited for: what is refused takes no memory.
        if end + 2 > self.limits.frame_bytes {
            return Err(ProtocolError::FrameTooLong);
        }
        match input.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(ProtocolError::BulkEnd),
            None => return Ok(None),
        }
        let place = |at: usize| u32::try_from(at).map_err(|_| ProtocolError::FrameTooLong);
        Ok(Some(place(start)?..place(end)?))
    }

    fn parse_typed(&mut self, input: &[u8]) -> Result<Found, ProtocolError> {
        let seen = self.at.min(input.len());
        let Some(end) = memchr::memchr(b'\n', &input[seen..]).map(|at| seen + at) else {
            self.at = input.len();
            return if input.len() > self.limits.inline_bytes {
                Err(ProtocolError::InlineTooLong)
            } else {
                Ok(Found::Part)
            };
        };
        if end > self.limits.inline_bytes {
            return Err(ProtocolError::InlineTooLong);
        }
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.is_typed = true;
        inline::split(line, &mut self.typed, &mut self.places).ok_or(ProtocolError::UnbalancedQuotes)?;
        match self.places.len() {
            0 => Ok(Found::Nothing(end + 1)),
            count if count > self.limits.arguments => Err(ProtocolError::TooManyArguments),
            _ => Ok(Found::Command(end + 1)),
        }
    }
}

impl<'a> Arguments<'a> {
    /// The bytes from the end of one argument to the end of a later one, with lengths and line ends: behind that
    /// argument the same bytes are the same arguments. `None` if they were typed, because then nothing is between them.
    pub(super) fn written_after(&self, first: usize, last: usize) -> Option<&'a [u8]> {
        if self.is_typed {
            return None;
        }
        self.bytes.get(self.places.get(first)?.end as usize..self.places.get(last)?.end as usize + 2)
    }

    /// How many, the command's name included.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a command has at least its name")]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The one at a position; the name is at 0.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&'a [u8]> {
        let place = self.places.get(at)?;
        self.bytes.get(place.start as usize..place.end as usize)
    }

    /// All from a position on.
    pub fn from(&self, at: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Arguments { bytes, places, .. } = *self;
        let places = places.get(at..).unwrap_or_default();
        places.iter().filter_map(move |place| bytes.get(place.start as usize..place.end as usize))
    }
}

/// The number on the line that begins at `from`, and where the next line begins; `None` if there is more to come.
#[inline]
fn length_line(input: &[u8], from: usize, wrong: ProtocolError) -> Result<Option<(i64, usize)>, ProtocolError> {
    let line = input.get(from..).unwrap_or_default();
    if let Some((length, line_bytes)) = short_length_line(line) {
        return Ok(Some((i64::from(length), from + line_bytes)));
    }
    let line = &line[..line.len().min(LENGTH_LINE_BYTES)];
    let Some(end) = memchr::memchr(b'\n', line) else {
        return if line.len() == LENGTH_LINE_BYTES { Err(ProtocolError::LengthLineTooLong) } else { Ok(None) };
    };
    let number = line[..end].strip_suffix(b"\r").and_then(parse_integer).ok_or(wrong)?;
    Ok(Some((number, from + end + 1)))
}

/// The number on a line of one or two digits, as nearly every length has, and the line's own length.
#[inline]
pub(super) fn short_length_line(line: &[u8]) -> Option<(u8, usize)> {
    match line {
        [digit @ b'0'..=b'9', b'\r', b'\n', ..] => Some((digit - b'0', 3)),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => Some(((tens - b'0') * 10 + (ones - b'0'), 4)),
        _ => None,
    }
}

/// A byte for a message: itself if it can be seen, else its number.
fn shown(byte: u8) -> String {
    match byte {
        b' '..=b'~' => format!("'{}'", char::from(byte)),
        _ => format!("byte {byte}"),
    }
}

/// An integer as Redis reads one: decimal, without spaces, a plus sign or leading zeros.
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
    // Any eighteen digits fit, and clients do not send more.
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
    fn integers_are_read_as_redis_reads_them() {
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
