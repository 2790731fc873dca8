//! Commands to a server: what is sent, who hears the answer, and how it is written.

use tokio::time::Instant;

use crate::resp_value::Value;
use crate::transport::Trouble;

/// Something to be sent over a connection, and whoever hears the answer.
pub(crate) trait Command: Send {
    /// From when on it is not sent any more.
    fn deadline(&self) -> Instant;

    fn write(&self, out: &mut Vec<u8>);

    /// How many answers come back. The last one counts.
    fn replies(&self) -> usize;

    /// Hears the answer, also if it is an error of the server's; or why there is none. It must not block.
    fn answered(self: Box<Self>, answer: Result<Value, Trouble>);
}

/// Writes a command as a server reads it: the number of its parts, and each with its length.
pub(crate) struct CommandWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> CommandWriter<'a> {
    /// Begins a command of so many parts. The caller writes exactly as many.
    pub(crate) fn begin(out: &'a mut Vec<u8>, parts: usize) -> CommandWriter<'a> {
        header(out, b'*', parts);
        CommandWriter { out }
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) -> &mut CommandWriter<'a> {
        header(self.out, b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// A part that is a number, in decimal.
    pub(crate) fn number(&mut self, number: usize) -> &mut CommandWriter<'a> {
        header(self.out, b'$', number.checked_ilog10().unwrap_or(0) as usize + 1);
        push_decimal(self.out, number);
        self.out.extend_from_slice(b"\r\n");
        self
    }
}

/// Writes a whole command.
pub(crate) fn write_command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let mut writer = CommandWriter::begin(out, parts.len());
    for part in parts {
        writer.part(part);
    }
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    push_decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// A command has many short numbers in it, which the formatter takes its time for.
fn push_decimal(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        push_decimal(out, number / 10);
    }
    out.push(b'0' + (number % 10) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_lengths_and_bytes() {
        let mut out = Vec::new();
        write_command(&mut out, &[b"SET", b"", b"0123456789\r\n"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\n0123456789\r\n\r\n");
    }

    #[test]
    fn writes_numbers_in_decimal() {
        for number in [0, 1, 9, 10, 99, 100, 1_048_576, usize::MAX] {
            let (mut out, text) = (Vec::new(), number.to_string());
            CommandWriter::begin(&mut out, number).number(number);
            assert_eq!(out, format!("*{text}\r\n${}\r\n{text}\r\n", text.len()).into_bytes());
        }
    }
}
