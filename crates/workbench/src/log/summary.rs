//! What was read.

use super::LogFormat;
use super::text::rfc3339;

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

impl LogSummary {
    /// Returns what makes the logs less reliable than they seem, each as a sentence with its repair.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let empty =
            self.logs.iter().filter(|log| log.lines == 0).map(|log| format!("{}: the log has no lines", log.file));
        let seconds = self.whole_seconds.then(|| {
            "times in the logs are whole seconds: how requests are spread within a second is unknown".to_owned()
        });
        empty.chain(self.unreadable_remark()).chain(self.order_remark()).chain(seconds).collect()
    }

    fn unreadable_remark(&self) -> Option<String> {
        let UnreadableLine { file, line, reason, text } = self.examples.first()?;
        let (unreadable, lines) = (self.unreadable, self.lines);
        Some(format!(
            "{unreadable} of {lines} lines are unreadable and left out, first {file}:{line}: {reason}: {text}"
        ))
    }

    fn order_remark(&self) -> Option<String> {
        let ClockJump { file, line, from_ns, to_ns } = self.clock_jumps.first()?;
        let (count, from, to) = (self.out_of_order, rfc3339(*from_ns), rfc3339(*to_ns));
        Some(format!(
            "{count} lines are out of order by more than the tolerance and were moved, first {file}:{line}, which jumps \
             from {from} to {to}: if the server's clock was not set, name files that were joined as separate logs"
        ))
    }
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

#[cfg(test)]
mod tests {
    use super::{ClockJump, LogFormat, LogSummary, ReadLog, UnreadableLine};

    #[test]
    fn a_good_log_has_no_remarks() {
        assert_eq!(LogSummary { lines: 10, ..LogSummary::default() }.remarks(), [""; 0]);
    }

    #[test]
    fn each_defect_has_a_remark_with_its_place() {
        let file = || "access.log".to_owned();
        let empty = ReadLog { file: "empty.log".to_owned(), format: LogFormat::Auto, lines: 0, unreadable: 0 };
        let unreadable = UnreadableLine { file: file(), line: 7, reason: "the line has no time", text: "a".to_owned() };
        let jump = ClockJump { file: file(), line: 9, from_ns: 1_794_821_400_250_000_000, to_ns: 1_000_000_000 };
        let summary = LogSummary {
            lines: 10,
            unreadable: 1,
            out_of_order: 2,
            whole_seconds: true,
            examples: vec![unreadable],
            clock_jumps: vec![jump],
            logs: vec![empty],
            ..LogSummary::default()
        };
        let remarks = summary.remarks();
        let starts = [
            "empty.log: the log has no lines",
            "1 of 10 lines are unreadable and left out, first access.log:7: the line has no time: a",
            "2 lines are out of order by more than the tolerance and were moved, first access.log:9, which jumps from \
             2026-11-16T09:30:00.250Z to 1970-01-01T00:00:01.000Z: ",
            "times in the logs are whole seconds: ",
        ];
        assert_eq!(remarks.len(), starts.len());
        for (remark, start) in remarks.iter().zip(starts) {
            assert!(remark.starts_with(start), "{remark}");
        }
    }
}
