/// A line of a short integer takes so many bytes at most, and one to say how many.
const LINE_BYTES: usize = 8;

/// The lines of integers from -1 to 99: nearly every number that is answered.
/// Each is written down with its length behind it, to be copied and not put together.
static LINES: [[u8; LINE_BYTES]; 101] = {
    let mut lines = [[0; LINE_BYTES]; 101];
    lines[0] = [b':', b'-', b'1', b'\r', b'\n', 0, 0, 5];
    let mut value = 0;
    while value < 100 {
        let (tens, ones) = (b'0' + value / 10, b'0' + value % 10);
        lines[value as usize + 1] =
            if value < 10 { [b':', ones, b'\r', b'\n', 0, 0, 0, 4] } else { [b':', tens, ones, b'\r', b'\n', 0, 0, 5] };
        value += 1;
    }
    lines
};

/// How answers are written on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// What every client understands.
    #[default]
    Resp2,
    /// What a client asks for with `HELLO 3`: it has maps and a null of its own.
    Resp3,
}

impl Protocol {
    pub(super) const fn version(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

/// Writes answers behind each other, to be sent together.
pub(super) struct Reply<'a> {
    out: &'a mut Vec<u8>,
    pub(super) protocol: Protocol,
}

impl<'a> Reply<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Reply<'a> {
        Reply { out, protocol }
    }

    /// A word such as `OK`.
    pub(super) fn simple(&mut self, word: &str) {
        self.line(b'+', word.as_bytes());
    }

    /// An error: its kind in capitals, then what is wrong. It may quote what a
    /// client has sent, so whatever would end the line becomes a space.
    pub(super) fn error(&mut self, text: impl AsRef<[u8]>) {
        self.out.push(b'-');
        self.out.extend(text.as_ref().iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.end();
    }

    #[inline]
    pub(super) fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// A length or a count, which no caller can make larger than an integer can be.
    pub(super) fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(super) fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// Text for people: a bulk string that says so, where the protocol can.
    pub(super) fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.length(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Opens a list of so many; they follow.
    pub(super) fn array(&mut self, count: usize) {
        self.length(b'*', count);
    }

    /// Opens a map of so many pairs; keys and values follow in turn.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', pairs * 2),
            Protocol::Resp3 => self.length(b'%', pairs),
        }
    }

    /// A list of five integers, which is all that the busiest command answers.
    #[inline]
    pub(super) fn five_integers(&mut self, values: [i64; 5]) {
        // Short lines are put together here, and written at once: a copy of a known length takes no call.
        let mut lines = [0; 32];
        lines[..4].copy_from_slice(b"*5\r\n");
        let mut length = 4;
        for value in values {
            let line = usize::try_from(value.wrapping_add(1)).ok().and_then(|at| LINES.get(at));
            let room = lines.get_mut(length..length + LINE_BYTES);
            let (Some(line), Some(room)) = (line, room) else { return self.five_long_integers(values) };
            // What is behind the line is written over by the next, and cut off behind the last.
            room.copy_from_slice(line);
            length += usize::from(line[LINE_BYTES - 1]);
        }
        let end = self.out.len() + length;
        self.out.extend_from_slice(&lines);
        self.out.truncate(end);
    }

    #[cold]
    fn five_long_integers(&mut self, values: [i64; 5]) {
        self.array(values.len());
        values.into_iter().for_each(|value| self.integer(value));
    }

    #[inline]
    fn length(&mut self, kind: u8, length: usize) {
        self.number(kind, i64::try_from(length).unwrap_or(i64::MAX));
    }

    #[inline]
    fn number(&mut self, kind: u8, value: i64) {
        self.line(kind, itoa::Buffer::new().format(value).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.end();
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::{Protocol, Reply};

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, protocol));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_kind_is_written_as_each_protocol_has_it() {
        for (protocol, expected) in [
            (Protocol::Resp2, "+OK\r\n:-7\r\n:10\r\n$3\r\na\r\n\r\n$-1\r\n*4\r\n$12\r\na longer one\r\n"),
            (Protocol::Resp3, "+OK\r\n:-7\r\n:10\r\n$3\r\na\r\n\r\n_\r\n%2\r\n=16\r\ntxt:a longer one\r\n"),
        ] {
            let written = written(protocol, |reply| {
                reply.simple("OK");
                reply.integer(-7);
                reply.integer(10);
                reply.bulk("a\r\n");
                reply.null();
                reply.map(2);
                reply.text("a longer one");
            });
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn an_error_stays_on_its_line() {
        assert_eq!(written(Protocol::Resp2, |reply| reply.error("ERR a\r\n+OK\n")), "-ERR a  +OK \r\n");
    }

    #[test]
    fn numbers_of_every_length_are_written() {
        for numbers in [[0, 9, 10, 99, -1], [99, 99, 99, 99, 99], [100, -1, 1_000_000_000_000, i64::MAX, i64::MIN]] {
            let expected = numbers.iter().map(|number| format!(":{number}\r\n")).collect::<String>();
            assert_eq!(written(Protocol::Resp2, |reply| reply.five_integers(numbers)), format!("*5\r\n{expected}"));
        }
    }
}
