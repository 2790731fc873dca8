//! Every command there is.

/// A command as clients can ask about it.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) which: Name,
    /// How many arguments, its name included; negative where there may be more.
    pub(super) arity: i64,
    /// Whether its first argument is a key.
    pub(super) has_key: bool,
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum Name {
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

/// The busiest first: they are looked for in this order.
pub(super) const COMMANDS: [Command; 12] = [
    Command {
        name: "CL.THROTTLE",
        which: Name::Throttle,
        arity: -5,
        has_key: true,
        group: "generic",
        summary: "Charges a key under a limit given with it",
    },
    Command {
        name: "TOLL.CHECK",
        which: Name::Check,
        arity: -3,
        has_key: false,
        group: "generic",
        summary: "Decides a request under the policy",
    },
    about_connections("PING", Name::Ping, -1, "Answers, to show that it lives"),
    about_connections("ECHO", Name::Echo, 2, "Answers what it is told"),
    about_connections("HELLO", Name::Hello, -1, "Chooses the protocol, and tells about the server"),
    about_connections("AUTH", Name::Auth, -2, "Shows that a client knows the access token"),
    about_connections("SELECT", Name::Select, 2, "Chooses a database; there is one, 0"),
    about_connections("CLIENT", Name::Client, -2, "Tells and asks about this connection"),
    about_server("COMMAND", Name::Command, -1, "Tells which commands there are"),
    about_server("INFO", Name::Info, -1, "Tells about the server"),
    about_connections("QUIT", Name::Quit, -1, "Closes the connection"),
    about_connections("RESET", Name::Reset, 1, "Makes the connection as it was at first"),
];

const fn about_connections(name: &'static str, which: Name, arity: i64, summary: &'static str) -> Command {
    Command { name, which, arity, has_key: false, group: "connection", summary }
}

const fn about_server(name: &'static str, which: Name, arity: i64, summary: &'static str) -> Command {
    Command { name, which, arity, has_key: false, group: "server", summary }
}

impl Command {
    /// Whether it can have so many arguments, its name included.
    pub(super) fn takes(&self, count: usize) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }
}
