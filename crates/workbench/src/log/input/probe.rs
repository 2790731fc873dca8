//! Inspects the beginning of a log: whether it is text, its format, and when it begins.

use super::detect::{Attempt, detect};
use super::magic::binary_content;
use super::open::OpenedLog;
use super::{BlockReader, open_log, stored_bytes};
use crate::log::formats::LineFormat;
use crate::log::text::escaped;
use crate::log::{LogError, LogFormat, LogSource};

/// The text in which the format is detected.
const PROBE_BYTES: usize = 64 << 10;

/// A log whose beginning has been inspected.
pub(in crate::log) struct ProbedLog {
    pub(in crate::log) source: LogSource,
    pub(in crate::log) format: LineFormat,
    /// The time of the first request; none if there is none at the beginning.
    pub(in crate::log) first_ns: Option<u64>,
    pub(in crate::log) is_empty: bool,
    /// The reader of a log that cannot be opened again.
    pub(in crate::log) reader: Option<BlockReader>,
    pub(in crate::log) stored_bytes: Option<u64>,
}

impl ProbedLog {
    /// Returns a time before which the log has no records.
    pub(in crate::log) fn start_ns(&self, tolerance_ns: u64) -> u64 {
        self.first_ns.unwrap_or(0).saturating_sub(tolerance_ns)
    }
}

/// Inspects the beginning of a log.
///
/// # Errors
///
/// The log cannot be read, is not text, or most of its first lines are not in the format.
pub(in crate::log) fn probe_log(
    source: &LogSource,
    format: LogFormat,
    block_bytes: usize,
) -> Result<ProbedLog, LogError> {
    let mut probed = probe_opened(source, open_log(source)?, format, block_bytes)?;
    probed.stored_bytes = stored_bytes(source);
    if probed.stored_bytes.is_some() {
        // It is opened again when it is its turn. Many logs would need many open files.
        probed.reader = None;
    }
    Ok(probed)
}

/// Inspects the beginning of an opened log, which is kept open.
pub(in crate::log) fn probe_opened(
    source: &LogSource,
    log: OpenedLog,
    format: LogFormat,
    block_bytes: usize,
) -> Result<ProbedLog, LogError> {
    let mut reader = BlockReader::new(log, block_bytes);
    let name = reader.name().to_owned();
    let start = reader.peek(PROBE_BYTES)?;
    if let Some(content) = binary_content(start) {
        return Err(LogError::Binary { file: name, what: content.what, command: content.command });
    }
    let lines = whole_lines(start);
    let is_empty = lines.trim_ascii().is_empty();
    let attempt = if is_empty { None } else { Some(attempt(&name, format, lines)?) };
    Ok(ProbedLog {
        source: source.clone(),
        first_ns: attempt.as_ref().and_then(|attempt| attempt.first_ns),
        format: attempt.map_or(LineFormat::Plain(format), |attempt| attempt.format),
        is_empty,
        reader: Some(reader),
        stored_bytes: None,
    })
}

/// Removes a line at the end that may be incomplete, if there are others.
fn whole_lines(start: &[u8]) -> &[u8] {
    match memchr::memrchr(b'\n', start) {
        Some(end) if start.len() >= PROBE_BYTES => &start[..=end],
        _ => start,
    }
}

fn attempt(file: &str, format: LogFormat, lines: &[u8]) -> Result<Attempt, LogError> {
    let file = file.to_owned();
    if format == LogFormat::Auto {
        return detect(lines).ok_or_else(|| unknown_format(file, lines));
    }
    let format = LineFormat::of(format, lines).map_err(|header| LogError::CsvHeader { file: file.clone(), header })?;
    let attempt = Attempt::new(format, lines);
    match attempt.example {
        Some(ref example) if !attempt.is_plausible() => Err(LogError::WrongFormat {
            file,
            format: attempt.format.format(),
            lines: attempt.lines,
            unreadable: attempt.unreadable,
            line: example.line + 1,
            reason: example.reason,
            text: example.text.clone(),
        }),
        _ => Ok(attempt),
    }
}

fn unknown_format(file: String, lines: &[u8]) -> LogError {
    let (number, first) = (1..)
        .zip(lines.split(|byte| *byte == b'\n'))
        .find(|(_, line)| !line.trim_ascii().is_empty())
        .unwrap_or_default();
    LogError::UnknownFormat { file, line: number, text: escaped(first) }
}
