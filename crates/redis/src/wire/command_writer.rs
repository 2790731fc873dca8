use std::io::Write;

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
    if let Ok(digit @ 0..=9) = u8::try_from(number) {
        out.push(b'0' + digit);
    } else {
        // Writing to memory does not fail.
        let _ = write!(out, "{number}");
    }
    out.extend_from_slice(b"\r\n");
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
}
