//! Everything the program says to a person, on stderr. Data goes to stdout,
//! and there is none yet.

use std::fmt::Display;
use std::io::{self, Write};

use crate::exit::Exit;
use crate::failure::Failure;

/// Says one line.
pub(crate) fn say(line: impl Display) {
    write_line(format_args!("tollgate: {line}"));
}

/// Says what went wrong, with a hint if there is one.
pub(crate) fn failure(failure: &Failure) -> Exit {
    write_line(format_args!("error: {}", failure.what));
    if let Some(hint) = &failure.hint {
        write_line(format_args!("hint: {hint}"));
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
