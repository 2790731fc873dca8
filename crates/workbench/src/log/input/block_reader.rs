//! Reads a log in blocks of whole lines.

use std::io::Read;

use memchr::{memchr, memrchr};

use super::open::OpenedLog;
use crate::log::LogError;
use crate::log::parse::LINE_BYTES_MAX;

/// The bytes of a line that is too long which are kept: enough to see that it is.
const CUT_BYTES: usize = LINE_BYTES_MAX + 1;

/// The mark with which some editors begin a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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

    /// Returns the beginning of the log, without consuming it. It may end within a line.
    pub(super) fn peek(&mut self, bytes: usize) -> Result<&[u8], LogError> {
        let mut rest = std::mem::take(&mut self.rest);
        self.fill(&mut rest, bytes)?;
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
        bytes.clear();
        bytes.append(&mut self.rest);
        let mut target = self.block_bytes;
        loop {
            self.fill(&mut bytes, target)?;
            if let Some(end) = memrchr(b'\n', &bytes) {
                self.rest.extend_from_slice(&bytes[end + 1..]);
                bytes.truncate(end + 1);
                break;
            }
            if self.is_at_end {
                break;
            }
            if bytes.len() > LINE_BYTES_MAX {
                bytes.truncate(CUT_BYTES);
                bytes.push(b'\n');
                self.skip_line()?;
                break;
            }
            target = bytes.len() + self.block_bytes;
        }
        let is_last = self.is_at_end && self.rest.is_empty();
        let now = (self.text_bytes, self.log.stored_bytes());
        let before = std::mem::replace(&mut self.reported, now);
        Ok(LineBlock { bytes, text_bytes: now.0 - before.0, stored_bytes: now.1 - before.1, is_last })
    }

    /// Reads until there are this many bytes, or the log ends.
    fn fill(&mut self, bytes: &mut Vec<u8>, target: usize) -> Result<(), LogError> {
        while bytes.len() < target && !self.is_at_end {
            let missing = target - bytes.len();
            bytes.reserve(missing);
            let read = self.log.text.by_ref().take(missing as u64).read_to_end(bytes).map_err(|error| {
                self.is_at_end = true;
                self.log.read_error(error)
            })?;
            if self.text_bytes == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            self.text_bytes += read as u64;
            self.is_at_end = read < missing;
        }
        Ok(())
    }

    /// Discards the rest of a line.
    fn skip_line(&mut self) -> Result<(), LogError> {
        let mut discarded = Vec::new();
        while !self.is_at_end {
            discarded.clear();
            self.fill(&mut discarded, LINE_BYTES_MAX)?;
            if let Some(end) = memchr(b'\n', &discarded) {
                self.rest.extend_from_slice(&discarded[end + 1..]);
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
    fn a_byte_order_mark_is_removed() {
        assert_eq!(blocks(Cursor::new("\u{feff}one\n"), 100), ["one\n"]);
    }

    #[test]
    fn long_lines_are_cut_without_holding_them() {
        let endless = io::repeat(b'a').take(100 << 20).chain(Cursor::new("\nafter\n"));
        let blocks = blocks(endless, 4_096);
        assert_eq!(blocks.concat().len(), CUT_BYTES + 1 + "after\n".len());
        assert!(blocks.concat().ends_with("a\nafter\n"));
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
