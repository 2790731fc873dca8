//! The command table.

/// The description of a command.
pub(super) struct CommandSpec {
    pub(super) name: &'static str,
    pub(super) which: CommandName,
    /// The number of arguments, including its name; negative if there may be more.
    pub(super) arity: i64,
    /// Whether its first argument is a key.
    pub(super) has_key: bool,
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum CommandName {
    Throttle,
    Check,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Info,
    Quit,
    Reset,
}

/// The busiest first: the table is searched in this order.
pub(super) const COMMANDS: [CommandSpec; 12] = [
    CommandSpec {
        name: "CL.THROTTLE",
        which: CommandName::Throttle,
        arity: -5,
        has_key: true,
        group: "generic",
        summary: "Charges a key under a limit given with it",
    },
    CommandSpec {
        name: "TOLL.CHECK",
        which: CommandName::Check,
        arity: -3,
        has_key: false,
        group: "generic",
        summary: "Decides a request under the policy",
    },
    connection_command("PING", CommandName::Ping, -1, "Returns PONG or its argument"),
    connection_command("ECHO", CommandName::Echo, 2, "Returns its argument"),
    connection_command("HELLO", CommandName::Hello, -1, "Selects the protocol, and describes the server"),
    connection_command("AUTH", CommandName::Auth, -2, "Authenticates with the access token"),
    connection_command("SELECT", CommandName::Select, 2, "Selects a database; the only one is 0"),
    connection_command("CLIENT", CommandName::Client, -2, "Describes this connection"),
    server_command("COMMAND", CommandName::Command, -1, "Describes the commands"),
    server_command("INFO", CommandName::Info, -1, "Describes the server"),
    connection_command("QUIT", CommandName::Quit, -1, "Closes the connection"),
    connection_command("RESET", CommandName::Reset, 1, "Resets the state of the connection"),
];

const fn connection_command(name: &'static str, which: CommandName, arity: i64, summary: &'static str) -> CommandSpec {
    CommandSpec { name, which, arity, has_key: false, group: "connection", summary }
}

const fn server_command(name: &'static str, which: CommandName, arity: i64, summary: &'static str) -> CommandSpec {
    CommandSpec { name, which, arity, has_key: false, group: "server", summary }
}

impl CommandSpec {
    /// Returns whether the command accepts this many arguments, including its name.
    pub(super) fn takes(&self, count: usize) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }
}
