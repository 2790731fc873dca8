//! Output of the program: data on stdout, messages on stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Serialize;
use tollgate_server::observe::{EventFormat, Level, Observer};

use crate::colours::Colours;
use crate::exit::{Exit, Failure, FailureText};

/// The log of a running service. All messages go through it once it is set.
static LOG: OnceLock<(Arc<Observer>, EventFormat)> = OnceLock::new();

/// The longest wait for the log to be written when the program ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Prints a text on stdout; the text includes its line ends.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::failed(format!("cannot write to stdout: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as indented JSON on stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot write the result as JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// Sends all further messages to the log of a service.
pub(crate) fn use_log(observer: &Arc<Observer>, format: EventFormat) {
    // A process runs one service; only a test would set a second log.
    let _ = LOG.set((Arc::clone(observer), format));
}

/// Waits until the log is written, for at most [`FLUSH_TIMEOUT`].
pub(crate) fn flush() {
    if let Some((log, _)) = LOG.get() {
        log.flush(FLUSH_TIMEOUT);
    }
}

/// Writes an informational message to the log, or to stderr without one.
pub(crate) fn log_info(message: impl Display) {
    match LOG.get() {
        Some((log, _)) => log.say(Level::Info, message),
        None => write_line(format_args!("tollgate: {message}")),
    }
}

/// Writes a message of this level to the log, or to stderr without one.
pub(crate) fn log(level: Level, message: impl Display) {
    match LOG.get() {
        Some((log, _)) => log.say(level, message),
        None => write_line(format_args!("tollgate: {}: {message}", level.name())),
    }
}

/// The last error of a file that is checked every second, so that the same error is logged once.
#[derive(Default)]
pub(crate) struct RepeatedError(Option<String>);

impl RepeatedError {
    pub(crate) fn log(&mut self, sentence: String) {
        if self.0.as_ref() != Some(&sentence) {
            log(Level::Error, &sentence);
            self.0 = Some(sentence);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

/// Prints warnings and notes on stderr, with an empty line after each.
pub(crate) fn print_diagnostics(diagnostics: impl IntoIterator<Item = impl Display>) {
    for diagnostic in diagnostics {
        write_line(format_args!("{}\n", Colours::of_stderr().message(&diagnostic.to_string())));
    }
}

/// Prints a failure and its hint on stderr, and returns its exit code.
pub(crate) fn print_failure(failure: &Failure) -> Exit {
    let mut report = match &failure.text {
        FailureText::Sentence(sentence) => format!("error: {sentence}"),
        FailureText::Report(report) => report.clone(),
    };
    if let Some(hint) = &failure.hint {
        report.push_str(&format!("\nhint: {hint}"));
    }
    match LOG.get() {
        Some((log, EventFormat::Json)) => log.say(Level::Error, report),
        log => {
            // The failure is the last message, after everything in the log.
            log.iter().for_each(|(log, _)| log.flush(FLUSH_TIMEOUT));
            write_line(Colours::of_stderr().message(&report));
        }
    }
    failure.exit
}

/// Prints the help or the version if they were requested, else the error in the arguments.
pub(crate) fn usage(error: &clap::Error) -> Exit {
    // There is no other stream to report an error of this one.
    let _ = error.print();
    if error.use_stderr() { Exit::WrongUsage } else { Exit::Done }
}

/// Writes a line to stderr and ignores errors: a service must continue if stderr is closed, where `eprintln!` panics.
fn write_line(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
