//! Counts what is read.

use super::order::Repairs;
use super::runs::DeliveredSpan;
use crate::log::chunk::LogChunk;
use crate::log::input::ProbedLog;
use crate::log::summary::EXAMPLES_MAX;
use crate::log::{ClockJump, LogError, LogSummary, ReadLog, UnreadableLine};

/// Counts what is read.
pub(super) struct LogTally {
    summary: LogSummary,
    /// The examples of each log, so that they do not depend on the order in which blocks are read.
    examples: Vec<LogExamples>,
    has_delivered: bool,
}

#[derive(Clone, Default)]
struct LogExamples {
    unreadable: Vec<UnreadableLine>,
    jumps: Vec<ClockJump>,
}

/// Where the lines of a chunk are.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkLines {
    /// The index of the log.
    pub(super) log: usize,
    /// The lines of the log before the chunk.
    pub(super) before: u64,
    /// The number of the unconfirmed line of an earlier chunk.
    pub(super) unconfirmed: u64,
}

impl LogTally {
    pub(super) fn new(logs: &[ProbedLog]) -> LogTally {
        let read = |log: &ProbedLog| ReadLog {
            file: log.source.to_string(),
            format: log.format.format(),
            lines: 0,
            unreadable: 0,
        };
        let logs: Vec<ReadLog> = logs.iter().map(read).collect();
        let examples = vec![LogExamples::default(); logs.len()];
        LogTally {
            summary: LogSummary { whole_seconds: true, logs, ..LogSummary::default() },
            examples,
            has_delivered: false,
        }
    }

    /// Counts a chunk.
    pub(super) fn note_chunk(&mut self, lines: ChunkLines, chunk: &mut LogChunk, repairs: &Repairs) {
        let (summary, counts) = (&mut self.summary, chunk.counts);
        summary.lines += counts.lines;
        summary.unreadable += counts.unreadable;
        summary.bytes += counts.text_bytes;
        summary.whole_seconds &= chunk.records.is_empty() || chunk.times.whole_seconds;
        summary.out_of_order += repairs.changed + u64::from(repairs.refuted.is_some());
        let log = &mut summary.logs[lines.log];
        log.lines += counts.lines;
        log.unreadable += counts.unreadable;
        let examples = &mut self.examples[lines.log];
        let unreadable = chunk.examples.drain(..).map(|example| UnreadableLine {
            file: log.file.clone(),
            line: lines.before + example.line + 1,
            ..example
        });
        examples.unreadable.extend(unreadable.take(EXAMPLES_MAX - examples.unreadable.len()));
        let jumps = jumps(lines, repairs).map(|jump| ClockJump { file: log.file.clone(), ..jump });
        examples.jumps.extend(jumps.take(EXAMPLES_MAX - examples.jumps.len()));
    }

    /// Notes the times of delivered records.
    pub(super) fn note_delivered(&mut self, span: DeliveredSpan) {
        let Some((first_ns, last_ns)) = span.first_last_ns else { return };
        if !std::mem::replace(&mut self.has_delivered, true) {
            self.summary.first_ns = first_ns;
        }
        self.summary.last_ns = last_ns;
    }

    /// Returns the summary.
    ///
    /// # Errors
    ///
    /// Most lines of a log are unreadable. Figures of the others would mislead.
    pub(super) fn finish(self) -> Result<LogSummary, LogError> {
        let LogTally { mut summary, examples, .. } = self;
        summary.whole_seconds &= summary.lines > summary.unreadable;
        for (log, LogExamples { unreadable, jumps }) in summary.logs.iter().zip(examples) {
            if log.unreadable > log.lines / 2
                && let Some(first) = unreadable.first()
            {
                return Err(most_unreadable(log, first.clone()));
            }
            summary.examples.extend(unreadable);
            summary.clock_jumps.extend(jumps);
        }
        summary.examples.truncate(EXAMPLES_MAX);
        summary.clock_jumps.truncate(EXAMPLES_MAX);
        Ok(summary)
    }
}

fn most_unreadable(log: &ReadLog, first: UnreadableLine) -> LogError {
    let UnreadableLine { file, line, reason, text } = first;
    LogError::MostUnreadable {
        file,
        format: log.format,
        lines: log.lines,
        unreadable: log.unreadable,
        line,
        reason,
        text,
    }
}

/// Returns the repaired lines of a chunk, without the name of the log.
fn jumps(lines: ChunkLines, repairs: &Repairs) -> impl Iterator<Item = ClockJump> {
    let jump = |line, from_ns, to_ns| ClockJump { file: String::new(), line, from_ns, to_ns };
    let refuted = repairs.refuted.map(|(newest_ns, time_ns)| jump(lines.unconfirmed, newest_ns, time_ns));
    let repaired = repairs
        .examples
        .iter()
        .map(move |repaired| jump(lines.before + u64::from(repaired.line) + 1, repaired.newest_ns, repaired.time_ns));
    refuted.into_iter().chain(repaired)
}
