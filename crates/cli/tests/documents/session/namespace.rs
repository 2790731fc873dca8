//! A network of its own for each page, so that pages run at once on the default ports, whatever else the machine runs.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// As root, and as another user where the system allows it. The processes of a page are a namespace too: the kernel ends
/// them with the session.
const NAMESPACES: [&[&str]; 2] = [
    &["--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
    &["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
];

/// A command that runs a program in namespaces of its own; `None` if the system permits none.
pub(crate) fn command() -> Option<Command> {
    static PERMITTED: OnceLock<Option<&[&str]>> = OnceLock::new();
    let permitted = PERMITTED.get_or_init(|| NAMESPACES.into_iter().find(|options| is_permitted(options)));
    permitted.map(unshare)
}

fn unshare(options: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120", "unshare"]).args(options);
    command
}

fn is_permitted(options: &[&str]) -> bool {
    let status = unshare(options).args(["ip", "link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
