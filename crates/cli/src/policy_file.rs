//! Policies that are named on the command line.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tollgate::policy::{CompiledPolicy, LoadError, Loaded, STARTER, load, parse};

use crate::exit::{Exit, Failure};

/// As a file's name: what comes on stdin.
const STDIN: &str = "-";

/// More than a policy may have, so that the reader says that it is too much.
const MAX_STDIN_BYTES: u64 = (4 << 20) + 1;

/// Whether it is not a file but what comes on stdin.
pub(crate) fn is_stdin(file: &Path) -> bool {
    file == Path::new(STDIN)
}

/// What the policy of a file is called in messages.
pub(crate) fn name_of(file: &Path) -> String {
    if is_stdin(file) { "stdin".to_owned() } else { file.display().to_string() }
}

/// Reads and checks a policy; `-` is stdin.
pub(crate) fn read(file: &Path) -> Result<Loaded, LoadError> {
    if !is_stdin(file) {
        return load(file);
    }
    // Files that it names are looked for where we are.
    parse(&stdin_text()?, &name_of(file), Some(Path::new(""))).map_err(LoadError::Invalid)
}

/// The text of a file that is no policy yet; `-` is stdin.
pub(crate) fn text(file: &Path) -> Result<String, LoadError> {
    if file == Path::new(STDIN) {
        return stdin_text();
    }
    std::fs::read_to_string(file).map_err(|error| LoadError::Io { path: file.to_owned(), error })
}

/// Reads a policy that has to be valid.
pub(crate) fn read_valid(file: &Path) -> Result<Loaded, Failure> {
    read(file).map_err(|error| unread(&error))
}

/// The policy that holds where none is named.
pub(crate) fn starter() -> Loaded {
    parse(STARTER, "the starter policy", None).unwrap_or_else(|report| unreachable!("it is tested: {report}"))
}

/// Compiles a policy. What cannot be used here is as wrong as what cannot be read.
pub(crate) fn compile(file: &Path, loaded: &Loaded) -> Result<CompiledPolicy, Failure> {
    CompiledPolicy::new(&loaded.policy)
        .map_err(|error| Failure::report(Exit::No, format!("{}: error: {error}", name_of(file))))
}

/// Why there is no policy: 1 where it was read and is wrong, 3 where it could not be read.
pub(crate) fn unread(error: &LoadError) -> Failure {
    match error {
        LoadError::Invalid(report) => Failure::report(Exit::No, report.to_string()),
        LoadError::Io { path, error: cause } if cause.kind() == io::ErrorKind::NotFound => {
            let hint = format!("`tollgate init {}` writes a policy to begin with", path.display());
            Failure::report(Exit::Failed, error.to_string()).with_hint(hint)
        }
        error => Failure::report(Exit::Failed, error.to_string()),
    }
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
