//! What was read.

use super::LogFormat;

/// The unreadable lines, and those that are out of order, of which a summary has the details.
pub(super) const EXAMPLES_MAX: usize = 8;

/// What was read from all logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// The lines, including unreadable ones, and without empty lines and those that are not about requests (a header
    /// line, a message of the service).
    pub lines: u64,
    /// The lines that could not be read, and were left out.
    pub unreadable: u64,
    /// The records that were further behind than the tolerance, and were delivered with a later time.
    pub out_of_order: u64,
    /// The time of the first delivered record in nanoseconds since 1970; 0 without records.
    pub first_ns: u64,
    /// The time of the last delivered record.
    pub last_ns: u64,
    /// The bytes of all logs, decompressed.
    pub bytes: u64,
    /// Whether all times are whole seconds: the log does not show what happens within a second.
    pub whole_seconds: bool,
    /// The first unreadable lines.
    pub examples: Vec<UnreadableLine>,
    /// The first lines that were out of order.
    pub clock_jumps: Vec<ClockJump>,
    /// Each log, in the order of the arguments.
    pub logs: Vec<ReadLog>,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableLine {
    /// The name of the log.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// Why it could not be read.
    pub reason: &'static str,
    /// The beginning of the line, with everything but printable ASCII escaped.
    pub text: String,
}

/// A line that is further from the lines before it than the tolerance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// The name of the log.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The latest time before the line, in nanoseconds since 1970.
    pub from_ns: u64,
    /// The time of the line.
    pub to_ns: u64,
}

/// One of the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadLog {
    /// Its name.
    pub file: String,
    /// Its format.
    pub format: LogFormat,
    /// Its lines, counted as in [`LogSummary::lines`].
    pub lines: u64,
    /// Those that could not be read.
    pub unreadable: u64,
}
