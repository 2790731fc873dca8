//! Why logs cannot be read.

use std::io;

use super::LogFormat;

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// No log was given.
    #[error("no log was given")]
    NoLogs,
    /// The standard input was given more than once.
    #[error("stdin can be read only once")]
    StdinTwice,
    /// A log cannot be opened.
    #[error("{file}: the log cannot be opened: {source}")]
    Open {
        /// The name of the log.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// A directory was given.
    #[error("{file} is a directory: expected a log")]
    Directory {
        /// The name of the directory.
        file: String,
    },
    /// A log cannot be read to its end.
    #[error("{file}: the log cannot be read: {source}")]
    Read {
        /// The name of the log.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// Compressed data is damaged.
    #[error("{file}: the {compression} data is damaged or incomplete: {source}")]
    Damaged {
        /// The name of the log.
        file: String,
        /// The compression.
        compression: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// No log contains a line.
    #[error("{files}: the log is empty")]
    Empty {
        /// The names of the logs.
        files: String,
    },
    /// A file is not text.
    #[error("{file} is not a log: it contains {what}")]
    Binary {
        /// The name of the file.
        file: String,
        /// What it contains.
        what: &'static str,
        /// A hint.
        hint: String,
    },
    /// No format fits the first lines.
    #[error("{file}: the format is unknown; line {line} is: {text}")]
    UnknownFormat {
        /// The name of the log.
        file: String,
        /// The number of the first line.
        line: u64,
        /// The beginning of that line, escaped.
        text: String,
    },
    /// Most of the first lines are not in the format.
    #[error(
        "{file}: {unreadable} of the first {lines} lines are not in the format {format}; line {line}: {reason}: {text}"
    )]
    WrongFormat {
        /// The name of the log.
        file: String,
        /// The format.
        format: LogFormat,
        /// The number of lines that were checked.
        lines: u64,
        /// The number of those that are unreadable.
        unreadable: u64,
        /// The number of the first unreadable line.
        line: u64,
        /// Why it is unreadable.
        reason: &'static str,
        /// Its beginning, escaped.
        text: String,
    },
    /// The header line of a CSV file lacks a column.
    #[error("{file}: the first line names no column for the time: it is {header}")]
    CsvHeader {
        /// The name of the log.
        file: String,
        /// The header line, escaped.
        header: String,
    },
    /// A thread ended early, because of a defect of the program.
    #[error("{file}: the reader stopped unexpectedly")]
    Stopped {
        /// The name of the log.
        file: String,
    },
}

impl LogError {
    /// Returns how to repair it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        None
    }
}
