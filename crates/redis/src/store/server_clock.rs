//! The time, as the servers have it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tollgate_store::Clock;

/// This process's monotonic clock, set to the time of day, or to a server's where one has been heard.
#[derive(Debug)]
pub(crate) struct ServerClock {
    began: Instant,
    /// What this process's clock showed when it began.
    began_ns: u64,
    /// What a server's clock would have shown then; 0 until one was heard.
    server_began_ns: AtomicU64,
}

impl ServerClock {
    pub(crate) fn at_time_of_day() -> ServerClock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ServerClock::at(nanoseconds(since_1970))
    }

    pub(crate) fn at(now_ns: u64) -> ServerClock {
        ServerClock { began: Instant::now(), began_ns: now_ns, server_began_ns: AtomicU64::new(0) }
    }

    /// A server's clock showed this a moment ago.
    pub(crate) fn heard(&self, server_us: u64, now: Instant) {
        let began_ns = server_us.saturating_mul(1_000).saturating_sub(self.elapsed_ns(now));
        self.server_began_ns.store(began_ns, Ordering::Relaxed);
    }

    /// The servers' time as far as it is known.
    pub(crate) fn server_ns(&self, now: Instant) -> u64 {
        let began_ns = match self.server_began_ns.load(Ordering::Relaxed) {
            0 => self.began_ns,
            heard_ns => heard_ns,
        };
        began_ns.saturating_add(self.elapsed_ns(now))
    }

    fn elapsed_ns(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.began))
    }

    /// A clock for what is counted in this process: it does not follow a server's.
    pub(crate) fn own(&self) -> OwnClock {
        OwnClock { began: self.began, began_ns: self.began_ns }
    }
}

/// This process's monotonic clock, set once to the time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnClock {
    began: Instant,
    began_ns: u64,
}

impl Clock for OwnClock {
    fn now_ns(&self) -> u64 {
        self.began_ns.saturating_add(nanoseconds(self.began.elapsed()))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_server_last_heard() {
        let clock = ServerClock::at(5_000_000_000);
        let later = clock.began + Duration::from_secs(2);
        assert_eq!(clock.server_ns(later), 7_000_000_000);
        clock.heard(100_000_000, later);
        assert_eq!(clock.server_ns(later), 100_000_000_000);
        assert_eq!(clock.server_ns(later + Duration::from_millis(1)), 100_001_000_000);
    }
}
