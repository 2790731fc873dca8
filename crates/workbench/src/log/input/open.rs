//! Opens logs, decompressed by their content.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder;

use super::magic::Compression;
use crate::log::{LogError, LogSource};

/// The bytes that recognise a compression.
const MAGIC_LENGTH: u64 = 4;

/// The mark with which some editors begin a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The compressed bytes that are read at once.
const COMPRESSED_BYTES: usize = 128 << 10;

/// An opened log: its text, and how it is stored.
pub(in crate::log) struct OpenedLog {
    pub(super) text: Box<dyn Read + Send>,
    stored_bytes: Arc<AtomicU64>,
    compression: Compression,
    name: String,
}

/// Counts the bytes that are read.
struct CountingReader<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Opens a log.
///
/// # Errors
///
/// The log cannot be opened or read.
pub(in crate::log) fn open_log(source: &LogSource) -> Result<OpenedLog, LogError> {
    match source {
        LogSource::File(path) => {
            let file = open_file(path).map_err(|source| open_error(path, source))?;
            OpenedLog::new(file, source.to_string())
        }
        LogSource::Stdin => OpenedLog::new(io::stdin(), source.to_string()),
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // A directory can be opened; only reading it fails.
    if file.metadata()?.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

fn open_error(path: &Path, source: io::Error) -> LogError {
    let file = path.display().to_string();
    match source.kind() {
        ErrorKind::IsADirectory => LogError::Directory { file },
        _ => LogError::Open { file, source },
    }
}

/// Returns the size of a regular file.
pub(in crate::log) fn stored_bytes(source: &LogSource) -> Option<u64> {
    match source {
        LogSource::File(path) => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len()),
        LogSource::Stdin => None,
    }
}

impl OpenedLog {
    /// Recognises the compression of a log.
    pub(in crate::log) fn new(stored: impl Read + Send + 'static, name: String) -> Result<OpenedLog, LogError> {
        let count = Arc::new(AtomicU64::new(0));
        let mut stored = CountingReader { inner: stored, count: Arc::clone(&count) };
        let mut magic = Vec::new();
        if let Err(source) = stored.by_ref().take(MAGIC_LENGTH).read_to_end(&mut magic) {
            return Err(LogError::Read { file: name, source });
        }
        let compression = Compression::of(&magic);
        let stored = Cursor::new(magic).chain(stored);
        let log = OpenedLog { text: Box::new(io::empty()), stored_bytes: count, compression, name };
        match decompressed(stored, compression).and_then(without_mark) {
            Ok(text) => Ok(OpenedLog { text, ..log }),
            Err(source) => Err(log.read_error(source)),
        }
    }

    /// Returns the bytes that were read from the file.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the error for a failed read: that of the file, or of the compressed data.
    pub(super) fn read_error(&self, source: io::Error) -> LogError {
        let file = self.name.clone();
        let is_data = matches!(source.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof)
            // The Zstandard library has no kind for its errors.
            || self.compression == Compression::Zstd && source.raw_os_error().is_none();
        if self.compression != Compression::None && is_data {
            let (compression, program) = self.compression.names();
            return LogError::Damaged { file, compression, program, source };
        }
        LogError::Read { file, source }
    }
}

fn decompressed(stored: impl Read + Send + 'static, compression: Compression) -> io::Result<Box<dyn Read + Send>> {
    let buffered = |stored| BufReader::with_capacity(COMPRESSED_BYTES, stored);
    Ok(match compression {
        Compression::None => Box::new(stored),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(stored))),
        Compression::Zstd => Box::new(Decoder::with_buffer(buffered(stored))?),
    })
}

/// Removes a byte order mark from the beginning.
fn without_mark(mut text: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    text.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut start)?;
    if start == BYTE_ORDER_MARK {
        start.clear();
    }
    Ok(Box::new(Cursor::new(start).chain(text)))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::OpenedLog;

    #[test]
    fn a_byte_order_mark_is_removed() {
        for (stored, text) in [("\u{feff}one\n", "one\n"), ("\u{feff}", ""), ("o", "o"), ("", "")] {
            let mut log = OpenedLog::new(Cursor::new(stored), "test".to_owned()).unwrap();
            let mut read = String::new();
            log.text.read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}
