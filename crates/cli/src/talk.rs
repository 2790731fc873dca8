//! Everything the program says to a person, on stderr. Data goes to stdout, through `answer`.

use std::fmt::Display;
use std::io::{self, Write};

use crate::colours::Colours;
use crate::exit::Exit;
use crate::failure::{Failure, What};

/// Says one line.
pub(crate) fn say(line: impl Display) {
    write_line(format_args!("tollgate: {line}"));
}

/// Says what is likely wrong: blocks of lines, with an empty line after each.
pub(crate) fn warn(blocks: impl IntoIterator<Item = impl Display>) {
    for block in blocks {
        write_line(Colours::of_stderr().message(&block.to_string()));
        write_line("");
    }
}

/// Says what went wrong, with a hint if there is one.
pub(crate) fn failure(failure: &Failure) -> Exit {
    let colours = Colours::of_stderr();
    match &failure.what {
        What::Sentence(sentence) => write_line(colours.message(&format!("error: {sentence}"))),
        What::Report(report) => write_line(colours.message(report)),
    }
    if let Some(hint) = &failure.hint {
        write_line(colours.message(&format!("hint: {hint}")));
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
