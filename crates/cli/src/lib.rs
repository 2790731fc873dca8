//! The `tollgate` program: arguments in, exit codes out. What it does is in the other crates.

mod arguments;
mod colours;
mod exit;
mod explain;
mod import;
mod init;
mod limits;
mod message;
mod output;
mod policy_file;
mod serve;
mod validate;

use std::ffi::OsString;

use clap::Parser;
use tollgate::policy::json_schema;

use arguments::{Arguments, Command};
pub use exit::Exit;

/// Runs the program with `arguments`, of which the first is its own name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(answer) => return output::usage(&answer),
    };
    let done = match arguments.command {
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Init(arguments) => init::init(&arguments),
        Command::Validate(arguments) => validate::validate(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Limits(arguments) => limits::limits(&arguments),
        Command::Import(arguments) => import::import(&arguments),
        Command::Message(arguments) => message::message(&arguments),
        Command::Schema => output::print(&format!("{}\n", json_schema().trim_end())).map(|()| Exit::Done),
    };
    let exit = match done {
        Ok(exit) => exit,
        Err(failure) => output::failure(&failure),
    };
    output::finish();
    exit
}
