//! The `tollgate` program: parses arguments, prints results and returns exit codes. The other crates do the work.

mod arguments;
mod blocks;
mod calibrate;
mod check;
mod colours;
mod compare;
mod completions;
mod demo;
mod exit;
mod explain;
mod import;
mod init;
mod keys;
mod limits;
mod manual;
mod message;
mod output;
mod policy_file;
mod ready;
mod region;
mod remote;
mod request;
mod serve;
mod simulate;
mod status;
mod top;
mod usage_hints;
mod validate;
mod workbench;

use std::ffi::OsString;

use clap::Parser;
use tollgate::policy::json_schema;

use arguments::{Cli, CliCommand};
pub use exit::Exit;

/// Runs the program with `arguments`; the first one is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let arguments = match Cli::try_parse_from(&arguments) {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&usage_hints::with_hints(error, &arguments)),
    };
    let result = match arguments.command {
        CliCommand::Serve(arguments) => serve::serve(&arguments),
        CliCommand::Demo(arguments) => demo::demo(&arguments),
        CliCommand::Init(arguments) => init::init(&arguments),
        CliCommand::Validate(arguments) => validate::validate(&arguments),
        CliCommand::Explain(arguments) => explain::explain(&arguments),
        CliCommand::Limits(arguments) => limits::limits(&arguments),
        CliCommand::Simulate(arguments) => simulate::simulate(&arguments),
        CliCommand::Compare(arguments) => compare::compare(&arguments),
        CliCommand::Calibrate(arguments) => calibrate::calibrate(&arguments),
        CliCommand::Check(arguments) => check::check(&arguments),
        CliCommand::Ready(arguments) => ready::ready(&arguments),
        CliCommand::Keys(arguments) => keys::keys(&arguments),
        CliCommand::Status(arguments) => status::status(&arguments),
        CliCommand::Top(arguments) => top::top(&arguments),
        CliCommand::Import(arguments) => import::import(&arguments),
        CliCommand::Message(arguments) => message::message(&arguments),
        CliCommand::Completions(arguments) => completions::completions(&arguments),
        CliCommand::Manual(arguments) => manual::manual(&arguments),
        CliCommand::Schema => output::print(&format!("{}\n", json_schema().trim_end())).map(|()| Exit::Done),
    };
    let exit = match result {
        Ok(exit) => exit,
        Err(failure) => output::print_failure(&failure),
    };
    output::flush();
    exit
}
