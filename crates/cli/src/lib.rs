//! The `tollgate` program: arguments in, exit codes out. What it does is in the other crates.

mod arguments;
mod exit;
mod failure;
mod listen_address;
mod serve;
mod talk;

use std::ffi::OsString;

use clap::Parser;

use arguments::{Arguments, Command};
pub use exit::Exit;

/// Runs the program with `arguments`, of which the first is its own name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(answer) => return talk::usage(&answer),
    };
    let done = match arguments.command {
        Command::Serve(arguments) => serve::serve(&arguments),
    };
    match done {
        Ok(()) => Exit::Done,
        Err(failure) => talk::failure(&failure),
    }
}
