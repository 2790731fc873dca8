//! One request of a log.

use std::net::IpAddr;

/// One request of a log. Texts are borrowed from the batch of lines that contains them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// The time of the request in nanoseconds since 1970.
    pub time_ns: u64,
    /// The client's address.
    pub client_ip: Option<IpAddr>,
    /// The authenticated user.
    pub user: Option<&'a str>,
    /// The method; empty if it is unknown.
    pub method: &'a str,
    /// The host.
    pub host: Option<&'a str>,
    /// The path as it was sent, possibly with a query; empty if it is unknown.
    pub target: &'a str,
    /// The status of the response.
    pub status: Option<u16>,
    /// Header fields by name in lower case, and identities that the log names (CSV columns).
    pub fields: &'a [(&'a str, &'a str)],
}
