//! An upper bound of a server's clock, from its answers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// A call may start this long after its deadline. The margin covers clock drift between two answers. It may be
/// generous, because the charge of a late answer is given back.
const MARGIN_US: i64 = 5_000;
/// Clock drift is assumed to stay below one part in this.
const DRIFT: i64 = 4_096;

/// The most that a server's clock can show at a given moment.
///
/// Each answer carries the server's time at some moment between request and answer. The bound assumes the request:
/// so no call expires whose answer could arrive in time. The tightest bound is kept until an answer contradicts it,
/// because the clock was set.
#[derive(Debug)]
pub(crate) struct NodeClock {
    began: Instant,
    bound: Mutex<Option<Bound>>,
}

/// A server's clock was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// What it showed, in microseconds since 1970.
    pub(crate) server_us: u64,
    pub(crate) asked_at: Instant,
    pub(crate) heard_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    /// The most that the server's clock showed when ours began.
    offset_us: i64,
    /// When that was learned, on our clock.
    learned_us: i64,
}

impl Bound {
    fn offset_us(self, at_us: i64) -> i64 {
        self.offset_us + (at_us - self.learned_us).max(0) / DRIFT
    }
}

impl NodeClock {
    pub(crate) fn new(now: Instant) -> NodeClock {
        NodeClock { began: now, bound: Mutex::default() }
    }

    /// Tightens the bound, or replaces it where the clock was set.
    pub(crate) fn observe(&self, reading: Reading) {
        let (asked_us, heard_us) = (self.own_us(reading.asked_at), self.own_us(reading.heard_at));
        let server_us = signed(reading.server_us);
        let (earliest, latest) = (server_us - heard_us, server_us - asked_us);
        let mut bound = self.bound();
        let known = bound.map(|bound| bound.offset_us(heard_us));
        if known.is_none_or(|known| latest <= known || known < earliest) {
            *bound = Some(Bound { offset_us: latest, learned_us: heard_us });
        }
    }

    /// What the server's clock shows at most at a deadline, with a margin, in microseconds since 1970.
    pub(crate) fn expiry(&self, deadline: Instant) -> Option<u64> {
        let deadline_us = self.own_us(deadline);
        let bound = (*self.bound())?;
        u64::try_from(bound.offset_us(deadline_us) + deadline_us + MARGIN_US).ok()
    }

    fn own_us(&self, at: Instant) -> i64 {
        i64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(i64::MAX / 4)
    }

    fn bound(&self) -> MutexGuard<'_, Option<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long after its deadline a call may be carried out at most, where clocks are known exactly.
#[cfg(test)]
pub(crate) const MARGIN: std::time::Duration = std::time::Duration::from_micros(MARGIN_US as u64);

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SERVER_US: u64 = 1_700_000_000_000_000;

    struct Server {
        clock: NodeClock,
        began: Instant,
        ahead_us: i64,
    }

    impl Server {
        fn new() -> Server {
            let began = Instant::now();
            Server { clock: NodeClock::new(began), began, ahead_us: 0 }
        }

        fn at(&self, us: u64) -> Instant {
            self.began + Duration::from_micros(us)
        }

        /// An answer of which both ways took so long.
        fn answers(&self, asked_us: u64, there_us: u64, back_us: u64) {
            let server_us = self.shows(asked_us + there_us);
            let (asked_at, heard_at) = (self.at(asked_us), self.at(asked_us + there_us + back_us));
            self.clock.observe(Reading { server_us, asked_at, heard_at });
        }

        fn shows(&self, us: u64) -> u64 {
            (SERVER_US + us).saturating_add_signed(self.ahead_us)
        }

        /// By how much a call may be begun too late, or too early if it is negative.
        fn slack_us(&self, deadline_us: u64) -> i64 {
            let expiry = self.clock.expiry(self.at(deadline_us)).unwrap();
            signed(expiry) - signed(self.shows(deadline_us))
        }
    }

    #[test]
    fn nothing_expires_while_the_clock_is_not_known() {
        let server = Server::new();
        assert_eq!(server.clock.expiry(server.at(20_000)), None);
    }

    #[test]
    fn the_tightest_answer_counts() {
        let server = Server::new();
        server.answers(0, 900_000, 10);
        assert_eq!(server.slack_us(1_000_000), 900_000 + MARGIN_US + (1_000_000 - 900_010) / DRIFT);
        server.answers(1_000_000, 100, 100);
        assert_eq!(server.slack_us(1_000_200), 100 + MARGIN_US);
        server.answers(2_000_000, 50_000, 10);
        assert!(server.slack_us(2_000_200) < MARGIN_US + 100 + 300);
    }

    #[test]
    fn no_call_expires_too_early_whatever_the_ways_take() {
        let server = Server::new();
        for (asked, there, back) in [(0, 5_000, 1), (10_000, 1, 5_000), (30_000, 90_000, 3), (200_000, 30, 30)] {
            server.answers(asked, there, back);
            assert!(server.slack_us(asked + there + back + 20_000) >= MARGIN_US);
        }
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once_in_both_directions() {
        let mut server = Server::new();
        server.answers(0, 100, 100);
        for ahead_us in [3_600_000_000, -7_200_000_000, 20_000, 0] {
            server.ahead_us = ahead_us;
            server.answers(1_000_000, 100, 100);
            let slack = server.slack_us(1_000_200);
            assert!((MARGIN_US..=MARGIN_US + 500).contains(&slack), "{ahead_us}: {slack}");
        }
    }

    #[test]
    fn a_clock_that_runs_fast_is_not_lost() {
        let mut server = Server::new();
        // 100 parts in a million, over ten minutes.
        for second in 0..600 {
            server.ahead_us = second * 100;
            server.answers(second as u64 * 1_000_000, 200, 200);
            let slack = server.slack_us(second as u64 * 1_000_000 + 20_000);
            assert!((MARGIN_US - 400..=MARGIN_US + 1_000).contains(&slack), "{second}: {slack}");
        }
    }
}
