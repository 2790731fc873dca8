use std::time::Duration;

/// Limits and timeouts of the connections of one listener. Every listener has its own slots,
/// so that a flood on one leaves the others alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// So many connections in all.
    pub connections: usize,
    /// So many connections from one address; of IPv6, from one network of 64 bits.
    pub connections_per_address: usize,
    /// How long the head of a request may take, and the handshake before the first.
    pub header_timeout: Duration,
    /// How long a connection may be idle between requests.
    pub idle_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How long a write may make no progress.
    pub write_timeout: Duration,
    /// How long a client may take for all of a large answer.
    pub answer_timeout: Duration,
    /// How many descriptors the system grants to the process, for the connections of all listeners and everything
    /// else. `None` is as many as it likes.
    pub descriptors: Option<usize>,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            connections: 10_000,
            // A gateway opens hundreds, and all come from its one address.
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
