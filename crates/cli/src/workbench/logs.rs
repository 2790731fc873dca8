use std::path::{Path, PathBuf};

use tollgate_workbench::log::{LogError, LogFormat, LogOptions, LogSource, LogSummary, read_logs};
use tollgate_workbench::{LogRecord, UtcTime};

use super::progress_bar::ProgressBarOnTerminal;
use super::table::{count, grouped};
use crate::exit::Failure;
use crate::output::log_info;

/// The help of every `--log`.
pub(crate) const LOG_HELP: &str = "Access log; `-` reads stdin. May be repeated";

/// The details of every `--log`.
pub(crate) const LOG_LONG_HELP: &str = "\
Access log; `-` reads stdin. May be repeated

Logs may be compressed (gzip, Zstandard). Requests of several logs are merged
in the order of time.";

/// The help of every `--log-format`.
pub(crate) const LOG_FORMAT_HELP: &str = "\
Format of the logs: auto, combined, nginx-json, envoy-json, caddy-json,
traefik-json, alb, csv or events (of `tollgate serve`)";

/// The file name that means stdin.
const STDIN: &str = "-";

/// The most examples of unreadable lines, and of lines out of order, that are printed.
const MAX_EXAMPLES: usize = 3;

/// Reads logs, shows the progress on a terminal, and reports on stderr what could not be read.
///
/// `fields` are the fields of the log that the analysis needs; `None` for all.
pub(crate) fn read(
    files: &[PathBuf],
    format: LogFormat,
    fields: Option<Vec<String>>,
    on_batch: &mut dyn FnMut(&[LogRecord<'_>]),
) -> Result<LogSummary, Failure> {
    let sources: Vec<LogSource> = files.iter().map(|file| source(file)).collect();
    let options = LogOptions { format, fields, ..LogOptions::default() };
    let progress = ProgressBarOnTerminal::new();
    let read = read_logs(&sources, &options, &progress, on_batch);
    progress.clear();
    let summary = read.map_err(|error| failure(&error))?;
    report(&summary);
    Ok(summary)
}

/// Refuses stdin for a policy and a log at once: each would read only a part.
pub(crate) fn check_stdin(policies: &[&Path], logs: &[PathBuf]) -> Result<(), Failure> {
    let policies = policies.iter().filter(|file| **file == Path::new(STDIN)).count();
    let logs = logs.iter().filter(|file| *file == Path::new(STDIN)).count();
    if policies + logs > 1 {
        return Err(Failure::wrong_usage("stdin can be read only once").with_hint("name files for all but one `-`"));
    }
    Ok(())
}

/// The requests that were read, in words: their number and their span of time.
pub(crate) fn span_text(summary: &LogSummary) -> String {
    let (from, to) = (UtcTime::from_ns(summary.first_ns), UtcTime::from_ns(summary.last_ns));
    format!("{} to {}", from, to)
}

fn source(file: &Path) -> LogSource {
    if file == Path::new(STDIN) { LogSource::Stdin } else { LogSource::File(file.to_owned()) }
}

fn failure(error: &LogError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Reports what was left out or changed.
fn report(summary: &LogSummary) {
    if summary.unreadable > 0 {
        let lines = format!("{} of {}", grouped(summary.unreadable), count(summary.lines, "line"));
        log_info(format_args!("warning: {lines} could not be read and are left out"));
        for line in summary.examples.iter().take(MAX_EXAMPLES) {
            log_info(format_args!("  {}:{}: {}: {}", line.file, line.line, line.reason, line.text));
        }
    }
    if summary.out_of_order > 0 {
        let lines = count(summary.out_of_order, "request");
        log_info(format_args!("warning: {lines} too far out of order: their times are moved forward"));
        for jump in summary.clock_jumps.iter().take(MAX_EXAMPLES) {
            let (from, to) = (UtcTime::from_ns(jump.from_ns), UtcTime::from_ns(jump.to_ns));
            log_info(format_args!("  {}:{}: from {from} to {to}", jump.file, jump.line));
        }
    }
    if summary.whole_seconds && summary.lines > 0 {
        log_info("note: the log has whole seconds; requests of one second are taken as simultaneous");
    }
}
