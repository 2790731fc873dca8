//! Programs of other people, and where they are.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// A command that is on the path, or where the variable of its name says.
pub(crate) fn command(name: &str) -> Command {
    Command::new(place(name).unwrap_or_else(|| name.into()))
}

/// The directory of packages of that name, if it is a special one.
pub(crate) fn place(name: &str) -> Option<OsString> {
    std::env::var_os(name.replace('-', "_").to_uppercase())
}

/// A script beside these tests.
pub(crate) fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs it, and returns what it printed. It has to succeed.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout.into_owned()
}

pub(crate) fn port(address: SocketAddr) -> String {
    address.port().to_string()
}
