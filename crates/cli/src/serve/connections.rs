use std::time::Duration;

use clap::Args;
use tollgate_server::ConnectionLimits;

/// No machine has descriptors for more.
const MOST_CONNECTIONS: i64 = 10_000_000;

/// What each listener grants to connections.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct ConnectionArguments {
    /// How many connections each listener takes; more are closed at once
    #[arg(long, value_name = "NUMBER", default_value_t = of_default(|limits| limits.connections),
          value_parser = clap::value_parser!(u32).range(1..=MOST_CONNECTIONS))]
    max_connections: u32,

    /// How many of them from one address, or from one IPv6 network of 64 bits
    #[arg(long, value_name = "NUMBER", default_value_t = of_default(|limits| limits.connections_per_address),
          value_parser = clap::value_parser!(u32).range(1..=MOST_CONNECTIONS))]
    max_connections_per_address: u32,

    /// How long a connection may be silent between requests
    #[arg(long, value_name = "SECONDS", default_value_t = ConnectionLimits::default().idle_timeout.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle_timeout: u64,
}

impl ConnectionArguments {
    pub(super) fn limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.max_connections as usize,
            connections_per_address: self.max_connections_per_address as usize,
            idle_timeout: Duration::from_secs(self.idle_timeout),
            ..ConnectionLimits::default()
        }
    }
}

fn of_default(limit: impl Fn(&ConnectionLimits) -> usize) -> u32 {
    u32::try_from(limit(&ConnectionLimits::default())).unwrap_or(u32::MAX)
}
