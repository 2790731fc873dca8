//! Reads access logs: many files, compressed or not, in several formats, as one sequence of requests in time order.

mod chunk;
mod error;
mod format;
mod formats;
#[cfg(fuzzing)]
pub mod fuzzing;
mod input;
mod merge;
mod options;
mod parse;
mod parser_pool;
mod summary;
mod text;

pub use error::LogError;
pub use format::{LogFormat, UnknownLogFormat};
pub use options::{LogOptions, LogSource, Progress};
pub use summary::{ClockJump, LogSummary, ReadLog, UnreadableLine};

use std::num::NonZero;

use self::input::{ProbedLog, probe_log};
use self::merge::{LogMerge, MergeSettings};
use self::parse::FieldChoice;
use self::parser_pool::ParserPool;
use crate::LogRecord;

/// Reads logs and calls `on_batch` on this thread with their requests in time order over all logs.
///
/// # Errors
///
/// A log that cannot be read, or that is not in the format.
pub fn read_logs(
    sources: &[LogSource],
    options: &LogOptions,
    progress: &dyn Progress,
    on_batch: &mut dyn FnMut(&[LogRecord<'_>]),
) -> Result<LogSummary, LogError> {
    if sources.is_empty() {
        return Err(LogError::NoLogs);
    }
    if sources.iter().filter(|source| **source == LogSource::Stdin).count() > 1 {
        return Err(LogError::StdinTwice);
    }
    let logs = sources.iter().map(|source| probe_log(source, options.format, options.block_bytes));
    read_probed(logs.collect::<Result<Vec<ProbedLog>, LogError>>()?, options, progress, on_batch)
}

/// Reads logs whose beginnings have been inspected.
fn read_probed(
    logs: Vec<ProbedLog>,
    options: &LogOptions,
    progress: &dyn Progress,
    on_batch: &mut dyn FnMut(&[LogRecord<'_>]),
) -> Result<LogSummary, LogError> {
    if logs.iter().all(|log| log.is_empty) {
        let names: Vec<String> = logs.iter().map(|log| log.source.to_string()).collect();
        return Err(LogError::Empty { files: names.join(", ") });
    }
    progress.total(logs.iter().map(|log| log.stored_bytes).sum());
    let settings = MergeSettings::new(options);
    std::thread::scope(|scope| {
        let pool = ParserPool::start(scope, settings.threads);
        LogMerge::new(&settings, pool, logs, progress).run(on_batch)
    })
}

impl MergeSettings {
    fn new(options: &LogOptions) -> MergeSettings {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        MergeSettings {
            threads: if options.threads == 0 { cores() } else { options.threads },
            tolerance_ns: u64::try_from(options.out_of_order.as_nanos()).unwrap_or(u64::MAX),
            waiting_bytes_max: options.waiting_bytes_max,
            block_bytes: options.block_bytes,
            choice: FieldChoice(options.fields.clone().map(Into::into)),
        }
    }
}
