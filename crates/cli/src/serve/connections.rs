use std::time::Duration;

use clap::Args;
use tollgate_server::{ConnectionLimits, Listeners, usable_descriptors};

use super::arguments::{duration, number_up_to};

/// The default of `--idle-timeout`: `ConnectionLimits::default().idle_timeout` as text.
const DEFAULT_IDLE_TIMEOUT: &str = "75s";

/// An upper bound that catches typing errors: no machine has file descriptors for more.
const MAX_CONNECTIONS: u32 = 10_000_000;

/// The connection limits of each listener.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct ConnectionArguments {
    /// Accept at most this many connections on each listener; close more at once
    #[arg(long, value_name = "NUMBER", default_value_t = of_default(|limits| limits.connections),
          env = "TOLLGATE_MAX_CONNECTIONS", hide_env_values = true,
          value_parser = number_up_to::<MAX_CONNECTIONS>)]
    max_connections: u32,

    /// Accept at most this many of them from one IPv4 address or one IPv6 /64 network
    #[arg(long, value_name = "NUMBER", default_value_t = of_default(|limits| limits.connections_per_address),
          env = "TOLLGATE_MAX_CONNECTIONS_PER_ADDRESS", hide_env_values = true,
          value_parser = number_up_to::<MAX_CONNECTIONS>)]
    max_connections_per_address: u32,

    /// Close a connection that is idle for this long: 500ms, 75s, 2min
    ///
    /// A number without a unit is seconds. The longest is 1day.
    #[arg(long, value_name = "DURATION", default_value = DEFAULT_IDLE_TIMEOUT, value_parser = duration,
          env = "TOLLGATE_IDLE_TIMEOUT", hide_env_values = true)]
    idle_timeout: Duration,
}

impl ConnectionArguments {
    pub(super) fn limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.max_connections as usize,
            connections_per_address: self.max_connections_per_address as usize,
            idle_timeout: self.idle_timeout,
            ..ConnectionLimits::default()
        }
    }
}

fn of_default(limit: impl Fn(&ConnectionLimits) -> usize) -> u32 {
    u32::try_from(limit(&ConnectionLimits::default())).unwrap_or(u32::MAX)
}

/// Raises the limit on open files, and so on connections, to the hard limit, and returns it. `None` if there is no limit
/// or it cannot be read.
pub(super) fn raise_open_files() -> Option<usize> {
    #[cfg(unix)]
    return unix::raise_limit();
    #[cfg(not(unix))]
    None
}

/// A warning if the listeners accept more connections than the limit on open files allows.
pub(super) fn open_files_warning(limits: &ConnectionLimits, listeners: &Listeners) -> Option<String> {
    let granted = limits.descriptors?;
    let listeners = [listeners.http, listeners.grpc, listeners.resp].into_iter().flatten().count();
    let (wanted, usable) = (limits.connections.saturating_mul(listeners), usable_descriptors(granted));
    let plural = if listeners == 1 { "" } else { "s" };
    (usable < wanted).then(|| {
        format!(
            "the limit on open files is {granted}: {usable} connections can be open at once, and --max-connections \
             allows {wanted} on {listeners} listener{plural}; raise the limit (ulimit -n, LimitNOFILE), or lower \
             --max-connections"
        )
    })
}

#[cfg(unix)]
mod unix {
    #[allow(unsafe_code, reason = "the standard library has no call for resource limits")]
    pub(super) fn raise_limit() -> Option<usize> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a local value that outlives the call.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
            return None;
        }
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: as above; the call only reads the value.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
        (limit.rlim_cur != libc::RLIM_INFINITY).then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_idle_timeout_equals_that_of_the_server() {
        assert_eq!(duration(DEFAULT_IDLE_TIMEOUT).unwrap(), ConnectionLimits::default().idle_timeout);
    }
}
