use std::time::Duration;

use clap::Args;
use tollgate_server::{ConnectionLimits, Listeners, usable_descriptors};

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

/// Raises the limit on open files, and so on connections, as far as the system allows without asking an administrator, and returns it. `None` where there
/// is none, or none is known.
pub(super) fn raise_open_files() -> Option<usize> {
    #[cfg(unix)]
    return unix::raise_limit();
    #[cfg(not(unix))]
    None
}

/// A warning, where the listeners may take more connections than can be open.
pub(super) fn open_files_warning(limits: &ConnectionLimits, listeners: &Listeners) -> Option<String> {
    let granted = limits.descriptors?;
    let listeners = [listeners.http, listeners.grpc, listeners.resp].into_iter().flatten().count();
    let (wanted, usable) = (limits.connections.saturating_mul(listeners), usable_descriptors(granted));
    (usable < wanted).then(|| {
        format!(
            "the limit on open files is {granted}: {usable} connections can be open at once, and --max-connections \
             allows {wanted} on {listeners} listener(s); raise the limit (ulimit -n, LimitNOFILE), or lower \
             --max-connections"
        )
    })
}

#[cfg(unix)]
mod unix {
    #[allow(unsafe_code, reason = "the standard library knows no limits of a process")]
    pub(super) fn raise_limit() -> Option<usize> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a value of ours that lives through the call.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
            return None;
        }
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: as above, and it is only read.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
        (limit.rlim_cur != libc::RLIM_INFINITY).then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
    }
}
