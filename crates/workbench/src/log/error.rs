//! Why logs cannot be read.

use std::io::{self, ErrorKind};

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
    #[error("{file} is a directory: expected a log file")]
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
    /// Compressed data is damaged or cut off.
    #[error("{file}: the {compression} data is damaged or incomplete: {source}")]
    Damaged {
        /// The name of the log.
        file: String,
        /// The compression.
        compression: &'static str,
        /// The program that tests such a file.
        program: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// No log contains a line.
    #[error("{files}: no lines to read")]
    Empty {
        /// The names of the logs.
        files: String,
    },
    /// A file is not text.
    #[error("{file} is not a text log: it contains {what}")]
    Binary {
        /// The name of the file.
        file: String,
        /// What it contains.
        what: &'static str,
        /// The command that makes text of it.
        command: Option<&'static str>,
    },
    /// No format fits the first lines.
    #[error("{file}: the format of the log is unknown; line {line} is: {text}")]
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
    /// Most lines of a whole log are unreadable, though its first lines are in the format.
    #[error(
        "{file}: {unreadable} of {lines} lines are not in the format {format}, first line {line}: {reason}: {text}"
    )]
    MostUnreadable {
        /// The name of the log.
        file: String,
        /// The format.
        format: LogFormat,
        /// The number of lines.
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
    /// The first line of a CSV log names no column for the time.
    #[error("{file}: no column is the time; the first line is: {header}")]
    CsvHeader {
        /// The name of the log.
        file: String,
        /// The first line, escaped.
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
        let hint = match self {
            LogError::NoLogs => "name a file, or `-` for stdin".to_owned(),
            LogError::StdinTwice => "give `-` once".to_owned(),
            LogError::Open { source, .. } => return open_hint(source),
            LogError::Directory { file } => format!("name the files in it, such as {file}/*.log"),
            LogError::Damaged { file, program, .. } => {
                format!("`{program} -t {file}` tests it; `{program} -dc {file}` writes what is readable, for `--log -`")
            }
            LogError::Empty { .. } => "check that the server writes to it, or name the rotated logs, too".to_owned(),
            LogError::Binary { file, command, .. } => match command {
                Some(command) => format!("read its text from stdin: {command} {file} | tollgate .. --log -"),
                None => "logs are text, possibly compressed by gzip or zstd".to_owned(),
            },
            LogError::UnknownFormat { .. } => {
                let names = LogFormat::ALL.map(LogFormat::name).join(", ");
                format!(
                    "supported formats are {names}; convert other logs to CSV with a first line such as time,ip,user,method,path,host,status"
                )
            }
            LogError::WrongFormat { .. } => "without `--log-format` the format is detected".to_owned(),
            LogError::MostUnreadable { .. } => {
                "remove the other lines, or name logs of several formats as separate files".to_owned()
            }
            LogError::CsvHeader { .. } => {
                "name the columns in the first line, such as time,ip,user,method,path,host,status".to_owned()
            }
            LogError::Read { .. } | LogError::Stopped { .. } => return None,
        };
        Some(hint)
    }
}

/// The error of Unix for too many open files, which has no kind.
const TOO_MANY_OPEN_FILES: i32 = 24;

fn open_hint(error: &io::Error) -> Option<String> {
    let hint = match error.kind() {
        _ if cfg!(unix) && error.raw_os_error() == Some(TOO_MANY_OPEN_FILES) => {
            "logs of the same time are read together: raise the limit on open files (`ulimit -n`) or name fewer logs"
        }
        ErrorKind::NotFound => "check the path; `-` reads stdin",
        ErrorKind::PermissionDenied => "run as a user who may read it; many logs belong to the group adm",
        _ => return None,
    };
    Some(hint.to_owned())
}
