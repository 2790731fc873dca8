use clap::{Parser, Subcommand, ValueEnum};

use crate::explain::ExplainArguments;
use crate::import::ImportArguments;
use crate::init::InitArguments;
use crate::limits::LimitsArguments;
use crate::message::MessageArguments;
use crate::serve::ServeArguments;
use crate::validate::ValidateArguments;

/// Decides, for every request, whether it may pass
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 yes or done,
/// 1 no (an invalid policy), 2 wrong usage, 3 it failed.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArguments),
    Init(InitArguments),
    Validate(ValidateArguments),
    Explain(ExplainArguments),
    Limits(LimitsArguments),
    Import(ImportArguments),
    Message(MessageArguments),
    /// Print the JSON Schema of policy files, for editors
    ///
    /// It knows the form of a file. What concerns several parts at once, such
    /// as whether an identity exists, only `tollgate validate` tells.
    Schema,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// How documentation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// For people
    Markdown,
    /// For programs
    Json,
}
