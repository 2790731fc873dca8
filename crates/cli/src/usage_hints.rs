//! Hints for errors in the arguments: for flags that other servers have and `tollgate serve` does not, and for values
//! from environment variables.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::arguments::Cli;

/// Flags of other programs, each with the equivalent of `tollgate serve`.
const SERVE_HINTS: [(&[&str], &str); 3] = [
    (
        &["--port", "-p", "--listen", "--bind", "--address", "--addr", "--host"],
        "the HTTP listener is set by '--http ADDRESS', for example '--http :8080' or '--http 0.0.0.0:8080'; \
         '--grpc', '--resp' and '--admin' set the others",
    ),
    (
        &["--config", "-c", "--policy", "--file", "-f"],
        "the policy file is an argument without a flag: 'tollgate serve FILE'",
    ),
    (&["--redis", "--store"], "the store is part of the policy file: 'store: { redis: { nodes: [HOST:PORT] } }'"),
];

/// Adds the hints to an error in `arguments`; the first one is the name of the program.
pub(crate) fn with_hints(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let is_serve = arguments.get(1).is_some_and(|command| command == "serve");
    let error = with_variable(error, arguments);
    if is_serve { with_serve_hint(error) } else { error }
}

/// Names the environment variable from which an invalid value is.
fn with_variable(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if let Some(variable) = variable_of(&error, arguments) {
        let tip = format!("the value is from the environment variable {variable}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Returns the environment variable of the flag whose value is invalid, if the value is from it.
fn variable_of(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    // As in `--http <ADDRESS>`.
    let long = shown.split(' ').next()?.strip_prefix("--")?;
    let is_given = |argument: &OsString| {
        let argument = argument.to_string_lossy();
        argument.strip_prefix("--").is_some_and(|name| name.split('=').next() == Some(long))
    };
    if arguments.iter().any(is_given) {
        return None;
    }
    let command = Cli::command();
    let command = command.find_subcommand(arguments.get(1)?)?;
    // Commands such as `import envoy` have commands of their own.
    let command = arguments.get(2).and_then(|name| command.find_subcommand(name)).unwrap_or(command);
    let flag = command.get_arguments().find(|flag| flag.get_long() == Some(long))?;
    flag.get_env().map(|variable| variable.to_string_lossy().into_owned())
}

/// Replaces the suggestion of an unknown flag of `serve` by a hint, where the flag is a common one elsewhere.
fn with_serve_hint(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = flag.split('=').next().unwrap_or(flag);
    let hint = SERVE_HINTS.iter().find(|(flags, _)| flags.contains(&flag)).map(|(_, hint)| *hint);
    if let Some(hint) = hint {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
        error.remove(ContextKind::Usage);
    }
    error
}
