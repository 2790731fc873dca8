//! Commands to a server, and how they are written.

use tokio::time::Instant;

use crate::resp_value::Value;
use crate::transport::CallError;

/// A command to be sent over a connection, with the callback for its result.
pub(crate) trait ServerCommand: Send {
    /// Returns the time after which the command must not be sent.
    fn deadline(&self) -> Instant;

    /// Appends the encoded command.
    fn write(&self, out: &mut Vec<u8>);

    /// Returns the number of replies. The last one is the result.
    fn reply_count(&self) -> usize;

    /// Completes the command with its reply, which may be an error of the server, or with the reason why there is none.
    /// Must not block.
    fn complete(self: Box<Self>, result: Result<Value, CallError>);
}

/// Writes a command in RESP: the number of its parts, then each part after its length.
pub(crate) struct CommandWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> CommandWriter<'a> {
    /// Begins a command. The caller must write exactly `parts` parts.
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

    /// Writes a number in decimal as one part.
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

/// Appends a number in decimal. Commands contain many short numbers, for which `fmt` is slow.
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
    fn commands_are_written_with_lengths_and_bytes() {
        let mut out = Vec::new();
        write_command(&mut out, &[b"SET", b"", b"0123456789\r\n"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\n0123456789\r\n\r\n");
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 1, 9, 10, 99, 100, 1_048_576, usize::MAX] {
            let (mut out, text) = (Vec::new(), number.to_string());
            CommandWriter::begin(&mut out, number).number(number);
            assert_eq!(out, format!("*{text}\r\n${}\r\n{text}\r\n", text.len()).into_bytes());
        }
    }
}
