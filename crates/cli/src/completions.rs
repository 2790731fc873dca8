use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::arguments::Cli;
use crate::exit::{Exit, Failure};
use crate::output;

/// Print shell completions
///
/// Bash reads them from ~/.local/share/bash-completion/completions/tollgate,
/// zsh from a file `_tollgate` in a directory of $fpath, and fish from
/// ~/.config/fish/completions/tollgate.fish.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Shell to print completions for
    shell: Shell,
}

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut Cli::command(), "tollgate", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
