//! What the program writes: data to stdout, everything it says to a person to stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Serialize;
use tollgate_server::observe::{Level, LogFormat, Observer};

use crate::colours::Colours;
use crate::exit::{Exit, Failure, What};

/// The log of a service that runs. Whatever is said then is a line of it.
static LOG: OnceLock<(Arc<Observer>, LogFormat)> = OnceLock::new();

/// How long the program waits at its end for somebody to read what it said.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Prints a text that ends its own lines.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::failed(format!("cannot write the answer: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints JSON that people can read too.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot write the answer as JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// From now on everything that is said goes through the log.
pub(crate) fn through(observer: &Arc<Observer>, format: LogFormat) {
    // A program runs one service; a second log would be that of a test.
    let _ = LOG.set((Arc::clone(observer), format));
}

/// Waits until everything that was said is written.
pub(crate) fn finish() {
    if let Some((log, _)) = LOG.get() {
        log.flush(READ_WITHIN);
    }
}

/// Says one line.
pub(crate) fn say(line: impl Display) {
    match LOG.get() {
        Some((log, _)) => log.say(Level::Info, line),
        None => write_line(format_args!("tollgate: {line}")),
    }
}

/// Says something of a service that runs, and how grave it is.
pub(crate) fn say_as(level: Level, message: impl Display) {
    match LOG.get() {
        Some((log, _)) => log.say(level, message),
        None => write_line(format_args!("tollgate: {}: {message}", level.name())),
    }
}

/// What is wrong with a file that is read again every second: it is said once, and not every second.
#[derive(Default)]
pub(crate) struct Complaint(Option<String>);

impl Complaint {
    pub(crate) fn say(&mut self, sentence: String) {
        if self.0.as_ref() != Some(&sentence) {
            say_as(Level::Error, &sentence);
            self.0 = Some(sentence);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

/// Says what is likely wrong: blocks of lines, with an empty line after each.
pub(crate) fn warn(blocks: impl IntoIterator<Item = impl Display>) {
    for block in blocks {
        write_line(format_args!("{}\n", Colours::of_stderr().message(&block.to_string())));
    }
}

/// Says what went wrong, with a hint if there is one.
pub(crate) fn failure(failure: &Failure) -> Exit {
    let mut report = match &failure.what {
        What::Sentence(sentence) => format!("error: {sentence}"),
        What::Report(report) => report.clone(),
    };
    if let Some(hint) = &failure.hint {
        report.push_str(&format!("\nhint: {hint}"));
    }
    match LOG.get() {
        Some((log, LogFormat::Json)) => log.say(Level::Error, report),
        log => {
            // It is the last word, and comes behind what was said before.
            log.iter().for_each(|(log, _)| log.flush(READ_WITHIN));
            write_line(Colours::of_stderr().message(&report));
        }
    }
    failure.exit
}

/// Shows help or version where they were asked for, else what was wrong with the arguments.
pub(crate) fn usage(answer: &clap::Error) -> Exit {
    // Nobody is left to tell that nobody could be told.
    let _ = answer.print();
    if answer.use_stderr() { Exit::WrongUsage } else { Exit::Done }
}

/// A service goes on when nobody reads what it says, where `eprintln!` would panic.
fn write_line(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
