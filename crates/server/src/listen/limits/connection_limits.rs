use std::time::Duration;

/// What one listener grants to connections. Every listener has its own places,
/// so that a flood on one leaves the others alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// So many connections in all.
    pub connections: usize,
    /// So many connections from one address; of IPv6, from one network of 64 bits.
    pub connections_per_address: usize,
    /// How long the head of a request may take, and the handshake before the first.
    pub head_at_most: Duration,
    /// How long a connection may be silent between requests.
    pub idle_at_most: Duration,
    /// How long the body of a request may take.
    pub body_at_most: Duration,
    /// How long somebody may not take what is written to them.
    pub write_at_most: Duration,
    /// How long a client may take for all of a large answer.
    pub answer_at_most: Duration,
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
            head_at_most: Duration::from_secs(10),
            idle_at_most: Duration::from_secs(75),
            body_at_most: Duration::from_secs(10),
            write_at_most: Duration::from_secs(10),
            answer_at_most: Duration::from_secs(30),
            descriptors: None,
        }
    }
}
