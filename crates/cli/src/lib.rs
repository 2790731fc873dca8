//! The `tollgate` program: arguments in, exit codes out. What it does is in the other crates.

mod answer;
mod arguments;
mod colours;
mod exit;
mod explain;
mod failure;
mod format;
mod import;
mod init;
mod limits;
mod listen_address;
mod message;
mod policy_file;
mod schema;
mod serve;
mod talk;
mod validate;

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
        Command::Init(arguments) => init::init(&arguments),
        Command::Validate(arguments) => validate::validate(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Limits(arguments) => limits::limits(&arguments),
        Command::Import(arguments) => import::import(&arguments),
        Command::Message(arguments) => message::message(&arguments),
        Command::Schema => schema::schema(),
    };
    let exit = match done {
        Ok(exit) => exit,
        Err(failure) => talk::failure(&failure),
    };
    talk::finish();
    exit
}
