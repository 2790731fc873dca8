use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Args;
use tollgate_server::ConnectionLimits;

/// What each listener grants to connections.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct ConnectionArguments {
    /// How many connections each listener takes; more are closed at once
    #[arg(long, value_name = "NUMBER", default_value_t = of_default(|limits| limits.connections))]
    max_connections: NonZeroUsize,

    /// How many of them from one address, or from one IPv6 network of 64 bits
    #[arg(long, value_name = "NUMBER", default_value_t = of_default(|limits| limits.connections_per_address))]
    max_connections_per_address: NonZeroUsize,

    /// How long a connection may be silent between requests
    #[arg(long, value_name = "SECONDS", default_value_t = ConnectionLimits::default().idle_at_most.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle_timeout: u64,
}

impl ConnectionArguments {
    pub(super) fn limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.max_connections.get(),
            connections_per_address: self.max_connections_per_address.get(),
            idle_at_most: Duration::from_secs(self.idle_timeout),
            ..ConnectionLimits::default()
        }
    }
}

fn of_default(limit: impl Fn(&ConnectionLimits) -> usize) -> NonZeroUsize {
    NonZeroUsize::new(limit(&ConnectionLimits::default())).unwrap_or(NonZeroUsize::MIN)
}
