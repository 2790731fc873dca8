use std::sync::Arc;

/// An event of a client that an operator should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientEvent {
    /// A password file is unreadable or empty: new connections use the last password.
    PasswordUnreadable { file: String, why: String },
    /// A password file is readable again.
    PasswordReadable { file: String },
    /// A server belongs to a cluster, but the client uses it as a single server. Reported once.
    BelongsToCluster { server: String },
}

/// The callback for the events of a client.
pub(crate) type OnClientEvent = Arc<dyn Fn(ClientEvent) + Send + Sync>;
