use std::io::{self, Write};

use super::checksum::Checksum;

/// The bytes that are collected for one write.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes numbers as bytes, with their length and checksum.
pub(super) struct Encoder<'w> {
    to: &'w mut dyn Write,
    buffer: Vec<u8>,
    checksum: Checksum,
    written: u64,
}

impl<'w> Encoder<'w> {
    pub(super) fn new(to: &'w mut dyn Write) -> Encoder<'w> {
        Encoder { to, buffer: Vec::with_capacity(BUFFER_BYTES), checksum: Checksum::default(), written: 0 }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.buffer.push(byte);
    }

    /// Writes eight bytes: for hashes and times, which have no leading zeros.
    pub(super) fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    /// Writes seven bits in each byte: for counts and spans, which are usually small.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// Writes the collected bytes, if there are enough.
    pub(super) fn pause(&mut self) -> io::Result<()> {
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Returns the number of bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes the rest and the checksum of everything. Returns the total number of bytes.
    pub(super) fn end(mut self) -> io::Result<u64> {
        self.flush()?;
        let sum = self.checksum.value();
        self.bytes(&sum.to_le_bytes());
        self.flush()?;
        self.to.flush()?;
        Ok(self.written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.buffer)?;
        self.checksum.update(&self.buffer);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
