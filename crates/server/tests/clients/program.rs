//! Third-party programs and their paths.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// Creates a command from the environment variable of its name, or from the PATH.
pub(crate) fn command(name: &str) -> Command {
    Command::new(configured_path(name).unwrap_or_else(|| name.into()))
}

/// Returns the path of a program or of its packages, if the environment variable of its name is set.
pub(crate) fn configured_path(name: &str) -> Option<OsString> {
    std::env::var_os(name.replace('-', "_").to_uppercase())
}

/// Returns the path of a script beside these tests.
pub(crate) fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn stdout_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout.into_owned()
}

pub(crate) fn port(address: SocketAddr) -> String {
    address.port().to_string()
}
