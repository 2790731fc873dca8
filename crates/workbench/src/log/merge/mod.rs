//! Reads all logs at once, and delivers their records in time order.
//!
//! A log whose latest time is T has no further records before T minus the tolerance: later ones are moved there. So the
//! records before the lowest of these bounds are complete. The log with the lowest bound is read next. A log is opened
//! when the bound reaches its beginning: of a hundred rotated logs, one or two are open.
//!
//! Which block is read next depends only on the logs, so the result is the same for any number of threads.

mod order;
mod runs;
mod tally;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use self::order::LogOrder;
use self::runs::ChunkRuns;
use self::tally::{ChunkLines, LogTally};
use super::chunk::LogChunk;
use super::input::{BlockReader, ProbedLog, open_log};
use super::parse::FieldChoice;
use super::parser_pool::{LogInput, ParsedBlock, ParserPool};
use super::{LogError, LogSummary, Progress};
use crate::LogRecord;

/// The smallest blocks where many logs are open: with a thousand, some hundred megabytes are in use.
const MANY_LOGS_BLOCK_BYTES: usize = 16 << 10;

/// How logs are merged.
pub(super) struct MergeSettings {
    pub(super) threads: usize,
    pub(super) tolerance_ns: u64,
    pub(super) waiting_bytes_max: usize,
    pub(super) block_bytes: usize,
    pub(super) choice: FieldChoice,
}

/// What happens to records at the time of the bound, which may be followed by others of the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    /// They are delivered.
    Deliver,
    /// They wait if other logs may have records of this time, which are sorted by log.
    WaitForOtherLogs,
}

/// Merges logs.
pub(super) struct LogMerge<'m> {
    settings: &'m MergeSettings,
    pool: ParserPool,
    /// Logs that are not open yet, the earliest last.
    waiting: Vec<(usize, ProbedLog)>,
    active: Vec<ActiveLog>,
    runs: ChunkRuns,
    /// All records before this time are delivered.
    floor_ns: u64,
    tally: LogTally,
    progress: &'m dyn Progress,
}

/// A log that is being read.
struct ActiveLog {
    index: usize,
    input: Arc<LogInput>,
    first_ns: u64,
    order: LogOrder,
    /// The slot of the chunk whose last record is unconfirmed, and the number of that line.
    unconfirmed: (usize, u64),
    next_number: u64,
    /// The lines of all blocks before the next.
    line_ends: u64,
    /// Blocks that arrived before their turn.
    early: HashMap<u64, Result<LogChunk, LogError>>,
}

impl<'m> LogMerge<'m> {
    pub(super) fn new(
        settings: &'m MergeSettings,
        pool: ParserPool,
        logs: Vec<ProbedLog>,
        progress: &'m dyn Progress,
    ) -> LogMerge<'m> {
        let tally = LogTally::new(&logs);
        let mut waiting: Vec<(usize, ProbedLog)> =
            logs.into_iter().enumerate().filter(|(_, log)| !log.is_empty).collect();
        waiting.sort_by_key(|(index, log)| std::cmp::Reverse((log.first_ns, *index)));
        let (active, runs) = (Vec::new(), ChunkRuns::default());
        LogMerge { settings, pool, waiting, active, runs, floor_ns: 0, tally, progress }
    }

    /// Reads all logs.
    pub(super) fn run(mut self, on_batch: &mut dyn FnMut(&[LogRecord<'_>])) -> Result<LogSummary, LogError> {
        while let Some(next) = self.next_log()? {
            self.deliver(self.settings.tolerance_ns, Ties::WaitForOtherLogs, on_batch)?;
            // The tolerance is reduced only where the records do not fit into the memory.
            for divisor in [1, 2, 4, 8, u64::MAX] {
                if self.runs.bytes() > self.settings.waiting_bytes_max {
                    self.deliver(self.settings.tolerance_ns / divisor, Ties::Deliver, on_batch)?;
                }
            }
            self.read_block(next)?;
        }
        let span = self.runs.deliver(u64::MAX, on_batch);
        self.tally.note_delivered(span);
        self.tally.finish()
    }

    /// Returns the position of the log with the lowest bound; none when all are read.
    fn next_log(&mut self) -> Result<Option<usize>, LogError> {
        let tolerance_ns = self.settings.tolerance_ns;
        self.open_in_reach(tolerance_ns)?;
        let logs = self.active.iter().enumerate();
        Ok(logs.min_by_key(|(_, log)| (log.bound_ns(tolerance_ns), log.index)).map(|(position, _)| position))
    }

    /// Delivers the records that cannot be preceded by others, under this tolerance.
    fn deliver(
        &mut self,
        tolerance_ns: u64,
        ties: Ties,
        on_batch: &mut dyn FnMut(&[LogRecord<'_>]),
    ) -> Result<(), LogError> {
        self.open_in_reach(tolerance_ns)?;
        self.floor_ns = self.bound_ns(tolerance_ns).max(self.floor_ns);
        let is_alone = || matches!(self.active.as_slice(), [log] if self.runs.contain_only(log.index));
        // When a clock was set back, all records get the time of the bound, until the log has caught up.
        let includes_bound = ties == Ties::Deliver || is_alone();
        let span = self.runs.deliver(self.floor_ns.saturating_add(u64::from(includes_bound)), on_batch);
        self.tally.note_delivered(span);
        Ok(())
    }

    /// Returns the time before which no further records follow; the end of time without open logs.
    fn bound_ns(&self, tolerance_ns: u64) -> u64 {
        self.active.iter().map(|log| log.bound_ns(tolerance_ns)).min().unwrap_or(u64::MAX)
    }

    /// Opens the logs that begin before the bound under this tolerance; without open logs at least one.
    fn open_in_reach(&mut self, tolerance_ns: u64) -> Result<(), LogError> {
        while let Some((_, log)) = self.waiting.last()
            && (self.active.is_empty() || log.start_ns(self.settings.tolerance_ns) <= self.bound_ns(tolerance_ns))
        {
            let Some((index, log)) = self.waiting.pop() else { break };
            self.open(index, log)?;
        }
        Ok(())
    }

    fn open(&mut self, index: usize, log: ProbedLog) -> Result<(), LogError> {
        let reader = match log.reader {
            Some(reader) => reader,
            None => BlockReader::new(open_log(&log.source)?, self.block_bytes()),
        };
        let name = log.source.to_string();
        let choice = self.settings.choice.clone();
        let input = Arc::new(LogInput { name, reader: Mutex::new(reader), format: log.format, choice });
        // Every thread has work, and the next block is ready when it is needed.
        let blocks = ((2 * self.settings.threads + 2) / (self.active.len() + 1)).max(2);
        for _ in 0..blocks {
            self.pool.request(index, &input, self.runs.spare());
        }
        self.active.push(ActiveLog {
            index,
            input,
            first_ns: log.first_ns.unwrap_or(0),
            order: LogOrder::default(),
            unconfirmed: (0, 0),
            next_number: 0,
            line_ends: 0,
            early: HashMap::new(),
        });
        Ok(())
    }

    /// Returns the size of the blocks of the next log: smaller where many logs are open, to bound the memory.
    fn block_bytes(&self) -> usize {
        let shared = self.settings.block_bytes / (1 + self.active.len() / 8);
        shared.max(MANY_LOGS_BLOCK_BYTES.min(self.settings.block_bytes))
    }

    /// Takes the next block of a log.
    fn read_block(&mut self, position: usize) -> Result<(), LogError> {
        let mut chunk = self.receive(position)?;
        let log = &mut self.active[position];
        let repairs = log.order.repair(&mut chunk, self.settings.tolerance_ns, self.floor_ns);
        let lines = ChunkLines { log: log.index, before: log.line_ends, unconfirmed: log.unconfirmed.1 };
        self.tally.note_chunk(lines, &mut chunk, &repairs);
        self.progress.advance(chunk.counts.stored_bytes, chunk.counts.lines);
        if let Some((time_ns, _)) = repairs.refuted {
            self.runs.change_last_time(log.unconfirmed.0, time_ns);
        }
        let (number, is_last) = (log.next_number, chunk.is_last);
        let last_line = chunk.records.last().map(|record| log.line_ends + u64::from(record.line) + 1);
        log.line_ends += chunk.counts.line_ends;
        log.next_number += 1;
        let slot = self.runs.insert(log.index, number, chunk);
        if let Some(line) = last_line
            && log.order.has_unconfirmed()
        {
            log.unconfirmed = (slot, line);
        }
        if is_last {
            self.active.swap_remove(position);
        } else {
            let spare = self.runs.spare();
            self.pool.request(log.index, &log.input, spare);
        }
        Ok(())
    }

    /// Waits for the next block of a log.
    fn receive(&mut self, position: usize) -> Result<LogChunk, LogError> {
        loop {
            let log = &mut self.active[position];
            if let Some(chunk) = log.early.remove(&log.next_number) {
                return chunk;
            }
            let stopped = || LogError::Stopped { file: log.input.name.clone() };
            let ParsedBlock { log: index, number, chunk } = self.pool.receive().ok_or_else(stopped)?;
            if let Err(error @ LogError::Stopped { .. }) = chunk {
                return Err(error);
            }
            // Blocks after the last one of a log are empty.
            if let Some(owner) = self.active.iter_mut().find(|log| log.index == index) {
                owner.early.insert(number, chunk);
            }
        }
    }
}

impl ActiveLog {
    fn bound_ns(&self, tolerance_ns: u64) -> u64 {
        self.order.bound_ns(self.first_ns, tolerance_ns)
    }
}
