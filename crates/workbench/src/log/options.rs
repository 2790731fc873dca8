//! What to read, and how.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::LogFormat;

/// How logs are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The format of all logs.
    pub format: LogFormat,
    /// The number of threads that read and parse; 0 for one on each core.
    pub threads: usize,
    /// How much earlier than the line before it a line may be, to be still sorted into its place.
    pub out_of_order: Duration,
    /// The names of the [fields](crate::LogRecord::fields) to deliver, in lower case; all without a list. Fields that
    /// no analysis uses take time.
    pub fields: Option<Vec<String>>,
    /// The memory for lines that wait until earlier ones can no longer follow. Beyond it, the tolerance of
    /// [`out_of_order`](LogOptions::out_of_order) is reduced.
    pub waiting_bytes_max: usize,
    /// The size of the blocks in which a log is read.
    pub block_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            format: LogFormat::Auto,
            threads: 0,
            out_of_order: Duration::from_secs(10),
            fields: None,
            waiting_bytes_max: 256 << 20,
            // A block and its records fit into the second-level cache of common processors.
            block_bytes: 256 << 10,
        }
    }
}

/// A log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// A file: text, gzip or Zstandard.
    File(PathBuf),
    /// The standard input, with the same contents.
    Stdin,
}

impl fmt::Display for LogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogSource::File(path) => write!(f, "{}", path.display()),
            LogSource::Stdin => f.write_str("stdin"),
        }
    }
}

/// Receives how much has been read. Called on the thread that called [`read_logs`](super::read_logs).
pub trait Progress {
    /// The bytes of all logs, as they are stored; none if a log is not a regular file. Called once, first.
    fn total(&self, bytes: Option<u64>);

    /// These bytes, as they are stored, and lines were read since the last call.
    fn advance(&self, bytes: u64, lines: u64);
}

/// Discards the progress.
impl Progress for () {
    fn total(&self, _: Option<u64>) {}

    fn advance(&self, _: u64, _: u64) {}
}
