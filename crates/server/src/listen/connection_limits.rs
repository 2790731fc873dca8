use std::time::Duration;

/// Limits and timeouts of the connections of one listener. Every listener has its own slots, so that a flood on one
/// does not affect the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The maximum number of connections.
    pub connections: usize,
    /// The maximum from one address, or from one IPv6 /64 network.
    pub connections_per_address: usize,
    /// The timeout of request headers, and of the TLS handshake.
    pub header_timeout: Duration,
    /// The idle timeout between requests.
    pub idle_timeout: Duration,
    /// The timeout of a request body.
    pub body_timeout: Duration,
    /// The timeout of a write that makes no progress.
    pub write_timeout: Duration,
    /// The timeout for reading a large response.
    pub answer_timeout: Duration,
    /// The process's limit on file descriptors, for connections of all listeners and everything else. `None` is
    /// unlimited.
    pub descriptors: Option<usize>,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            connections: 10_000,
            // A gateway opens hundreds of connections, all from one address.
            connections_per_address: 1_000,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            descriptors: None,
        }
    }
}
