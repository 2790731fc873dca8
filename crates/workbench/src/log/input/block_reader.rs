//! Reads a log in blocks of whole lines.

use std::io::{ErrorKind, Read};

use memchr::{memchr, memrchr};

use super::open::OpenedLog;
use crate::log::LogError;
use crate::log::parse::LINE_BYTES_MAX;

/// The bytes of a line that is too long which are kept: enough to see that it is.
const CUT_BYTES: usize = LINE_BYTES_MAX + 1;

/// Reads a log in blocks of whole lines. Of a line that is longer than [`LINE_BYTES_MAX`], a block contains only the
/// beginning.
pub(in crate::log) struct BlockReader {
    log: OpenedLog,
    block_bytes: usize,
    /// What was read, but not yet returned.
    rest: Vec<u8>,
    /// The bytes of text that were read.
    text_bytes: u64,
    /// Those that were reported, with those of the file.
    reported: (u64, u64),
    /// The number of the next block.
    number: u64,
    is_at_end: bool,
}

/// A block of whole lines.
#[derive(Debug, Default)]
pub(in crate::log) struct LineBlock {
    pub(in crate::log) bytes: Vec<u8>,
    /// The bytes that were read for it, decompressed and as stored.
    pub(in crate::log) text_bytes: u64,
    pub(in crate::log) stored_bytes: u64,
    /// Whether it is the last.
    pub(in crate::log) is_last: bool,
}

impl BlockReader {
    pub(in crate::log) fn new(log: OpenedLog, block_bytes: usize) -> BlockReader {
        let block_bytes = block_bytes.max(1);
        BlockReader { log, block_bytes, rest: Vec::new(), text_bytes: 0, reported: (0, 0), number: 0, is_at_end: false }
    }

    /// Returns the beginning of the log, without consuming it. It may end within a line. Called at most once, first.
    pub(super) fn peek(&mut self, bytes: usize) -> Result<&[u8], LogError> {
        let mut rest = std::mem::take(&mut self.rest);
        let filled = self.fill(&mut rest, 0, bytes)?;
        rest.truncate(filled);
        self.rest = rest;
        Ok(&self.rest)
    }

    pub(super) fn name(&self) -> &str {
        self.log.name()
    }

    /// Returns the number of the next block, from 0.
    pub(in crate::log) fn next_number(&self) -> u64 {
        self.number
    }

    /// Reads the next block into the memory of an earlier one. After the last block or an error, returns empty ones.
    pub(in crate::log) fn next_block(&mut self, mut bytes: Vec<u8>) -> Result<LineBlock, LogError> {
        self.number += 1;
        // What the memory contained before is overwritten: clearing it would cost more than reading a compressed log.
        let mut filled = self.rest.len();
        if bytes.len() < filled {
            bytes.resize(filled, 0);
        }
        bytes[..filled].copy_from_slice(&self.rest);
        self.rest.clear();
        let mut target = self.block_bytes;
        loop {
            filled = self.fill(&mut bytes, filled, target)?;
            if let Some(end) = memrchr(b'\n', &bytes[..filled]) {
                self.rest.extend_from_slice(&bytes[end + 1..filled]);
                filled = end + 1;
                break;
            }
            if self.is_at_end {
                break;
            }
            if filled > LINE_BYTES_MAX {
                filled = CUT_BYTES;
                self.skip_line()?;
                break;
            }
            target = filled + self.block_bytes;
        }
        bytes.truncate(filled);
        let is_last = self.is_at_end && self.rest.is_empty();
        let now = (self.text_bytes, self.log.stored_bytes());
        let before = std::mem::replace(&mut self.reported, now);
        Ok(LineBlock { bytes, text_bytes: now.0 - before.0, stored_bytes: now.1 - before.1, is_last })
    }

    /// Reads after the first `filled` bytes until there are `target`, or the log ends. Returns how many there are.
    fn fill(&mut self, bytes: &mut Vec<u8>, mut filled: usize, target: usize) -> Result<usize, LogError> {
        if bytes.len() < target {
            bytes.resize(target, 0);
        }
        while filled < target && !self.is_at_end {
            match self.log.text.read(&mut bytes[filled..target]) {
                Ok(0) => self.is_at_end = true,
                Ok(read) => {
                    filled += read;
                    self.text_bytes += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_at_end = true;
                    return Err(self.log.read_error(error));
                }
            }
        }
        Ok(filled)
    }

    /// Discards the rest of a line.
    fn skip_line(&mut self) -> Result<(), LogError> {
        let mut discarded = Vec::new();
        while !self.is_at_end {
            let filled = self.fill(&mut discarded, 0, LINE_BYTES_MAX)?;
            if let Some(end) = memchr(b'\n', &discarded[..filled]) {
                self.rest.extend_from_slice(&discarded[end + 1..filled]);
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Read};

    use super::{BlockReader, CUT_BYTES};
    use crate::log::input::open::OpenedLog;

    fn blocks(text: impl Read + Send + 'static, block_bytes: usize) -> Vec<String> {
        let log = OpenedLog::new(text, "test".to_owned()).unwrap();
        let mut reader = BlockReader::new(log, block_bytes);
        let mut blocks = Vec::new();
        loop {
            let block = reader.next_block(Vec::new()).unwrap();
            blocks.push(String::from_utf8(block.bytes).unwrap());
            if block.is_last {
                break;
            }
        }
        blocks
    }

    #[test]
    fn blocks_end_with_a_line() {
        for block_bytes in 1..30 {
            let blocks = blocks(Cursor::new("one\ntwo\n\nfour, longer\nfive"), block_bytes);
            assert_eq!(blocks.concat(), "one\ntwo\n\nfour, longer\nfive");
            assert!(blocks[..blocks.len() - 1].iter().all(|block| block.ends_with('\n')), "{block_bytes}: {blocks:?}");
        }
    }

    #[test]
    fn an_empty_log_is_one_empty_block() {
        assert_eq!(blocks(io::empty(), 10), [""]);
    }

    #[test]
    fn long_lines_are_cut_without_holding_them() {
        let endless = io::repeat(b'a').take(100 << 20).chain(Cursor::new("\nafter\n"));
        let blocks = blocks(endless, 4_096);
        assert_eq!(blocks.concat().len(), CUT_BYTES + "after\n".len());
        assert!(blocks.concat().ends_with("aafter\n"));
    }

    #[test]
    fn all_bytes_are_reported() {
        let log = OpenedLog::new(Cursor::new("x".repeat(200_000) + "\nend"), "test".to_owned()).unwrap();
        let mut reader = BlockReader::new(log, 1_000);
        let (mut text, mut stored) = (0, 0);
        loop {
            let block = reader.next_block(Vec::new()).unwrap();
            (text, stored) = (text + block.text_bytes, stored + block.stored_bytes);
            if block.is_last {
                break;
            }
        }
        assert_eq!((text, stored), (200_004, 200_004));
    }
}
