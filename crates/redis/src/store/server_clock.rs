//! The clock of the servers, as estimated by this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tollgate_store::Clock;

/// The monotonic clock of this process, set to the clock of the server that last replied, or else to the time of day.
#[derive(Debug)]
pub(crate) struct ServerClock {
    started: Instant,
    /// The time of day at `started`.
    started_ns: u64,
    /// The clock of a server at `started`; 0 until a server has replied.
    server_started_ns: AtomicU64,
}

impl ServerClock {
    pub(crate) fn at_time_of_day() -> ServerClock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ServerClock::at(nanoseconds(since_1970))
    }

    pub(crate) fn at(now_ns: u64) -> ServerClock {
        ServerClock { started: Instant::now(), started_ns: now_ns, server_started_ns: AtomicU64::new(0) }
    }

    /// Sets the clock to that of a server, which has just reported this time.
    pub(crate) fn observe(&self, server_us: u64, now: Instant) {
        let started_ns = server_us.saturating_mul(1_000).saturating_sub(self.elapsed_ns(now));
        self.server_started_ns.store(started_ns, Ordering::Relaxed);
    }

    /// Returns the time of the servers, as far as it is known.
    pub(crate) fn server_ns(&self, now: Instant) -> u64 {
        let started_ns = match self.server_started_ns.load(Ordering::Relaxed) {
            0 => self.started_ns,
            observed_ns => observed_ns,
        };
        started_ns.saturating_add(self.elapsed_ns(now))
    }

    fn elapsed_ns(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.started))
    }

    /// Returns a clock for the fallback, which does not follow a server's clock.
    pub(crate) fn local(&self) -> LocalClock {
        LocalClock { started: self.started, started_ns: self.started_ns }
    }
}

/// This process's monotonic clock, set once to the time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalClock {
    started: Instant,
    started_ns: u64,
}

impl Clock for LocalClock {
    fn now_ns(&self) -> u64 {
        self.started_ns.saturating_add(nanoseconds(self.started.elapsed()))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_follows_the_server_that_last_replied() {
        let clock = ServerClock::at(5_000_000_000);
        let later = clock.started + Duration::from_secs(2);
        assert_eq!(clock.server_ns(later), 7_000_000_000);
        clock.observe(100_000_000, later);
        assert_eq!(clock.server_ns(later), 100_000_000_000);
        assert_eq!(clock.server_ns(later + Duration::from_millis(1)), 100_001_000_000);
    }
}
