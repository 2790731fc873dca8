/// The size of an entry: a short integer line, and its length in the last byte.
const LINE_BYTES: usize = 8;

/// Preformatted lines of integers from -1 to 99: nearly every number in replies.
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

/// The protocol version of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// RESP2, which every client supports.
    #[default]
    Resp2,
    /// RESP3, selected by `HELLO 3`: has maps and a separate null.
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

/// Writes replies to be sent together.
pub(super) struct RespReply<'a> {
    out: &'a mut Vec<u8>,
    pub(super) protocol: Protocol,
}

impl<'a> RespReply<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> RespReply<'a> {
        RespReply { out, protocol }
    }

    /// Writes a simple string such as `OK`.
    pub(super) fn simple(&mut self, word: &str) {
        self.line(b'+', word.as_bytes());
    }

    /// Writes an error: its code in capitals, then the message. It may quote input of the client, so line ends become
    /// spaces.
    pub(super) fn error(&mut self, text: impl AsRef<[u8]>) {
        self.out.push(b'-');
        self.out.extend(text.as_ref().iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.end();
    }

    #[inline]
    pub(super) fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// Writes a count, saturated.
    pub(super) fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(super) fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// Writes text: a bulk string, or a verbatim string in RESP3.
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

    /// Begins a list of `count` items.
    pub(super) fn array(&mut self, count: usize) {
        self.length(b'*', count);
    }

    /// Begins a map of `pairs` keys and values.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', pairs * 2),
            Protocol::Resp3 => self.length(b'%', pairs),
        }
    }

    /// Writes a list of five integers, the reply of the busiest command.
    #[inline]
    pub(super) fn five_integers(&mut self, values: [i64; 5]) {
        // Short lines are assembled here and appended at once: a copy of constant length needs no call.
        let mut lines = [0; 32];
        lines[..4].copy_from_slice(b"*5\r\n");
        let mut length = 4;
        for value in values {
            let line = usize::try_from(value.wrapping_add(1)).ok().and_then(|at| LINES.get(at));
            let target = lines.get_mut(length..length + LINE_BYTES);
            let (Some(line), Some(target)) = (line, target) else { return self.five_long_integers(values) };
            // The bytes after a line are overwritten by the next, and truncated after the last.
            target.copy_from_slice(line);
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
    use super::{Protocol, RespReply};

    fn written(protocol: Protocol, write: impl FnOnce(&mut RespReply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut RespReply::new(&mut out, protocol));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_type_has_the_form_of_its_protocol() {
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
    fn errors_are_single_lines() {
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
