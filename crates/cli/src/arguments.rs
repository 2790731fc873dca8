use clap::{Parser, Subcommand, ValueEnum};

use crate::calibrate::CalibrateArguments;
use crate::check::CheckArguments;
use crate::compare::CompareArguments;
use crate::completions::CompletionsArguments;
use crate::demo::DemoArguments;
use crate::explain::ExplainArguments;
use crate::import::ImportArguments;
use crate::init::InitArguments;
use crate::keys::KeysArguments;
use crate::limits::LimitsArguments;
use crate::manual::ManualArguments;
use crate::message::MessageArguments;
use crate::ready::ReadyArguments;
use crate::serve::ServeArguments;
use crate::simulate::SimulateArguments;
use crate::status::StatusArguments;
use crate::top::TopArguments;
use crate::validate::ValidateArguments;

/// Rate limiter for HTTP, gRPC (Envoy) and Redis clients
///
/// Data is printed on stdout, messages on stderr. Exit codes: 0 success or yes,
/// 1 no (an invalid policy), 2 wrong usage, 3 failure.
///
/// Each flag has an environment variable; the flag overrides the variable.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Serve(ServeArguments),
    Demo(DemoArguments),
    Init(InitArguments),
    Validate(ValidateArguments),
    Explain(ExplainArguments),
    Limits(LimitsArguments),
    Simulate(SimulateArguments),
    Compare(CompareArguments),
    Calibrate(CalibrateArguments),
    Check(CheckArguments),
    Ready(ReadyArguments),
    Keys(KeysArguments),
    Status(StatusArguments),
    Top(TopArguments),
    Import(ImportArguments),
    Message(MessageArguments),
    /// Print the JSON Schema of policy files, for editors
    ///
    /// The schema describes the form of a file. Relations between parts, for
    /// example whether an identity is declared, are checked by `tollgate
    /// validate` only.
    Schema,
    Completions(CompletionsArguments),
    Manual(ManualArguments),
}

/// The format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// The format of documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// For people
    Markdown,
    /// For programs
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Calls `check` for a command and all commands below it.
    fn for_each_command(command: &clap::Command, check: &mut impl FnMut(&clap::Command)) {
        check(command);
        command.get_subcommands().for_each(|below| for_each_command(below, check));
    }

    #[test]
    fn every_flag_has_an_environment_variable_that_help_shows() {
        let (mut flags, mut variables) = (0, Vec::new());
        for_each_command(&Cli::command(), &mut |command| {
            let help = command.clone().render_long_help().to_string();
            let is_flag = |argument: &&clap::Arg| {
                let is_built_in = ["help", "version"].contains(&argument.get_id().as_str());
                !argument.is_positional() && !is_built_in
            };
            for flag in command.get_arguments().filter(is_flag) {
                flags += 1;
                let long = flag.get_long().unwrap_or_default().to_owned();
                let name = format!("{} --{long}", command.get_name());
                let variable = flag.get_env().unwrap_or_else(|| panic!("{name} has no environment variable"));
                let variable = variable.to_str().unwrap().to_owned();
                assert!(variable.starts_with("TOLLGATE_"), "{name}: {variable}");
                assert!(help.contains(&format!("[env: {variable}")), "the help of {name} does not show {variable}");
                assert!(flag.is_hide_env_values_set(), "the help of {name} shows the value of {variable}");
                variables.push((variable, long));
            }
        });
        assert!(flags > 30, "{flags} flags");
        // A flag of several commands has the same variable in all of them.
        variables.sort();
        variables.dedup();
        let repeated: Vec<_> = variables.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
        assert!(repeated.is_empty(), "variables of several flags: {repeated:?}");
    }

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
