//! Policy files named on the command line.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tollgate::policy::{CompiledPolicy, LoadError, Loaded, MissingSecrets, STARTER, load_with, parse, parse_with};

use crate::exit::{Exit, Failure};

/// The file name that means stdin.
const STDIN: &str = "-";

/// One byte more than a policy may have, so that the policy reader reports a larger one.
const MAX_STDIN_BYTES: u64 = (4 << 20) + 1;

/// Whether a file name means stdin.
pub(crate) fn is_stdin(file: &Path) -> bool {
    file == Path::new(STDIN)
}

/// The name of a policy file in messages.
pub(crate) fn name_of(file: &Path) -> String {
    if is_stdin(file) { "stdin".to_owned() } else { file.display().to_string() }
}

/// Reads and checks a policy; `-` is stdin.
pub(crate) fn read(file: &Path, missing: MissingSecrets) -> Result<Loaded, LoadError> {
    if !is_stdin(file) {
        return load_with(file, missing);
    }
    // Files that the policy names are relative to the current directory.
    parse_with(&stdin_text()?, &name_of(file), Some(Path::new("")), missing).map_err(LoadError::Invalid)
}

/// Reads the text of a file that is not a policy; `-` is stdin.
pub(crate) fn text(file: &Path) -> Result<String, LoadError> {
    if is_stdin(file) {
        return stdin_text();
    }
    std::fs::read_to_string(file).map_err(|error| LoadError::Io { path: file.to_owned(), error })
}

/// Reads a policy, and fails if it is invalid.
pub(crate) fn read_valid(file: &Path, missing: MissingSecrets) -> Result<Loaded, Failure> {
    read(file, missing).map_err(|error| load_failure(&error))
}

/// The policy that applies if no file is named.
pub(crate) fn starter() -> Loaded {
    parse(STARTER, "the starter policy", None).unwrap_or_else(|report| unreachable!("a test parses it: {report}"))
}

/// Compiles a policy. A policy that cannot be compiled is invalid.
pub(crate) fn compile(file: &Path, loaded: &Loaded) -> Result<CompiledPolicy, Failure> {
    CompiledPolicy::new(&loaded.policy)
        .map_err(|error| Failure::report(Exit::No, format!("{}: error: {error}", name_of(file))))
}

/// The failure for a policy that was not loaded: exit code 1 if it is invalid, 3 if it cannot be read.
pub(crate) fn load_failure(error: &LoadError) -> Failure {
    match error {
        LoadError::Invalid(report) => {
            let text = report.to_string();
            match &report.errors[..] {
                [] => Failure::report(Exit::No, text),
                [error] => explained(Exit::No, &text, error.code),
                _ => Failure::report(Exit::No, format!("{text}\n"))
                    .with_hint("`tollgate message CODE` explains an error by its code, which is in brackets"),
            }
        }
        LoadError::Io { path, error: cause } if cause.kind() == io::ErrorKind::NotFound => {
            let hint = format!("`tollgate init {}` writes a starter policy", path.display());
            Failure::report(Exit::Failed, error.to_string()).with_hint(hint)
        }
        error => Failure::report(Exit::Failed, error.to_string()),
    }
}

/// A failure with one error of this code. The general hint is separated from those of the error.
pub(crate) fn explained(exit: Exit, error: &str, code: &str) -> Failure {
    Failure::report(exit, format!("{error}\n")).with_hint(format!("`tollgate message {code}` explains this error"))
}

fn stdin_text() -> Result<String, LoadError> {
    let path = || PathBuf::from(name_of(Path::new(STDIN)));
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_STDIN_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| LoadError::Io { path: path(), error })?;
    String::from_utf8(bytes).map_err(|error| {
        let text = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        LoadError::NotText { path: path(), line: 1 + text.iter().filter(|byte| **byte == b'\n').count() }
    })
}
