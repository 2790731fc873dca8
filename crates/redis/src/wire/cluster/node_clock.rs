//! Bounds of a server's clock, from its replies.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long after its deadline a call may still start. The margin covers clock drift between two replies. It may be
/// generous, because the charge of a late reply is refunded.
const MARGIN_US: i64 = 5_000;
/// Clock drift is assumed to stay below one part in this number.
const DRIFT: i64 = 4_096;

/// The bounds of a server's clock at a given moment.
///
/// Each reply contains the server's time at some moment between request and reply. The upper bound assumes the moment of
/// the request, so that no call expires whose reply could arrive in time; the lower bound that of the reply. The tightest
/// bounds are kept until a reply contradicts them, because the clock was set.
#[derive(Debug)]
pub(crate) struct NodeClock {
    began: Instant,
    bounds: Mutex<Option<Bounds>>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    upper: Bound,
    lower: Bound,
}

/// One reading of a server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The server's time, in microseconds since 1970.
    pub(crate) server_us: u64,
    /// When the request was sent and the reply received, on our clock.
    pub(crate) sent_at: Instant,
    pub(crate) received_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    /// The bound of the server's clock at the start of ours.
    offset_us: i64,
    /// The time of the reading, on our clock.
    learned_us: i64,
}

impl Bound {
    /// Returns the offset at a time, increased by the possible drift since the reading.
    fn raised_us(self, at_us: i64) -> i64 {
        self.offset_us + (at_us - self.learned_us).max(0) / DRIFT
    }

    /// Returns the offset at a time, lowered by the possible drift.
    fn lowered_us(self, at_us: i64) -> i64 {
        self.offset_us - (at_us - self.learned_us).max(0) / DRIFT
    }
}

impl NodeClock {
    pub(crate) fn new(now: Instant) -> NodeClock {
        NodeClock { began: now, bounds: Mutex::default() }
    }

    /// Tightens the bounds, or replaces them if the clock was set.
    pub(crate) fn observe(&self, reading: Reading) {
        let (sent_us, received_us) = (self.own_us(reading.sent_at), self.own_us(reading.received_at));
        let server_us = signed(reading.server_us);
        let (earliest, latest) = (server_us - received_us, server_us - sent_us);
        let bound = |offset_us| Bound { offset_us, learned_us: received_us };
        let mut bounds = self.bounds();
        let Bounds { upper, lower } = bounds.get_or_insert(Bounds { upper: bound(latest), lower: bound(earliest) });
        let (most, least) = (upper.raised_us(received_us), lower.lowered_us(received_us));
        if latest <= most || most < earliest {
            *upper = bound(latest);
        }
        if least <= earliest || latest < least {
            *lower = bound(earliest);
        }
    }

    /// Returns the least and the greatest number of microseconds by which the server's clock is ahead of the time since
    /// `base`, at the time `now`. `None` before the first reading.
    pub(crate) fn ahead_of(&self, base: Instant, now: Instant) -> Option<(i64, i64)> {
        let now_us = self.own_us(now);
        // This node may be known for a shorter or a longer time than that.
        let base_us = self.own_us(base) - micros(self.began.saturating_duration_since(base));
        let Bounds { upper, lower } = (*self.bounds())?;
        // All times are rounded down.
        Some((lower.lowered_us(now_us) + base_us - 2, upper.raised_us(now_us) + base_us + 2))
    }

    /// Returns the upper bound of the server's clock at a deadline plus the margin, in microseconds since 1970. `None`
    /// before the first reading.
    pub(crate) fn expiry(&self, deadline: Instant) -> Option<u64> {
        let deadline_us = self.own_us(deadline);
        let upper = (*self.bounds())?.upper;
        u64::try_from(upper.raised_us(deadline_us) + deadline_us + MARGIN_US).ok()
    }

    /// Converts a time to microseconds on our clock.
    fn own_us(&self, at: Instant) -> i64 {
        micros(at.saturating_duration_since(self.began))
    }

    fn bounds(&self) -> MutexGuard<'_, Option<Bounds>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX / 4)
}

/// How long after its deadline a call may be executed at most, if the server's clock is known exactly.
#[cfg(test)]
pub(crate) const MARGIN: std::time::Duration = std::time::Duration::from_micros(MARGIN_US as u64);

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER_US: u64 = 1_700_000_000_000_000;

    struct TestServer {
        clock: NodeClock,
        began: Instant,
        ahead_us: i64,
    }

    impl TestServer {
        fn new() -> TestServer {
            let began = Instant::now();
            TestServer { clock: NodeClock::new(began), began, ahead_us: 0 }
        }

        fn at(&self, us: u64) -> Instant {
            self.began + Duration::from_micros(us)
        }

        /// Records a reply whose request and reply took these times on the network.
        fn reply(&self, sent_us: u64, there_us: u64, back_us: u64) {
            let server_us = self.time_us(sent_us + there_us);
            let (sent_at, received_at) = (self.at(sent_us), self.at(sent_us + there_us + back_us));
            self.clock.observe(Reading { server_us, sent_at, received_at });
        }

        fn time_us(&self, us: u64) -> u64 {
            (SERVER_US + us).saturating_add_signed(self.ahead_us)
        }

        /// Returns how long after its deadline a call may start; negative if it expires before its deadline.
        fn slack_us(&self, deadline_us: u64) -> i64 {
            let expiry = self.clock.expiry(self.at(deadline_us)).unwrap();
            signed(expiry) - signed(self.time_us(deadline_us))
        }
    }

    #[test]
    fn calls_have_no_expiry_before_the_first_reading() {
        let server = TestServer::new();
        assert_eq!(server.clock.expiry(server.at(20_000)), None);
    }

    #[test]
    fn tightest_reading_determines_the_bound() {
        let server = TestServer::new();
        server.reply(0, 900_000, 10);
        assert_eq!(server.slack_us(1_000_000), 900_000 + MARGIN_US + (1_000_000 - 900_010) / DRIFT);
        server.reply(1_000_000, 100, 100);
        assert_eq!(server.slack_us(1_000_200), 100 + MARGIN_US);
        server.reply(2_000_000, 50_000, 10);
        assert!(server.slack_us(2_000_200) < MARGIN_US + 100 + 300);
    }

    #[test]
    fn calls_never_expire_before_their_deadline_at_any_latency() {
        let server = TestServer::new();
        for (sent, there, back) in [(0, 5_000, 1), (10_000, 1, 5_000), (30_000, 90_000, 3), (200_000, 30, 30)] {
            server.reply(sent, there, back);
            assert!(server.slack_us(sent + there + back + 20_000) >= MARGIN_US);
        }
    }

    #[test]
    fn clock_set_forward_or_back_is_followed_by_the_next_reading() {
        let mut server = TestServer::new();
        server.reply(0, 100, 100);
        for ahead_us in [3_600_000_000, -7_200_000_000, 20_000, 0] {
            server.ahead_us = ahead_us;
            server.reply(1_000_000, 100, 100);
            let slack = server.slack_us(1_000_200);
            assert!((MARGIN_US..=MARGIN_US + 500).contains(&slack), "{ahead_us}: {slack}");
        }
    }

    #[test]
    fn offset_of_the_clock_is_within_bounds_as_wide_as_the_fastest_round_trip() {
        let mut server = TestServer::new();
        let base = server.began + Duration::from_secs(5);
        assert_eq!(server.clock.ahead_of(base, base), None);
        for second in 10..600 {
            // It runs 100 parts in a million fast.
            server.ahead_us = second * 100;
            let sent_us = second as u64 * 1_000_000;
            server.reply(sent_us, 300 + sent_us % 7_000, 200);
            let now = server.at(sent_us + 20_000);
            let (least, most) = server.clock.ahead_of(base, now).unwrap();
            let ahead = signed(server.time_us(5_000_000));
            assert!((least..=most).contains(&ahead), "{second}: {least} {ahead} {most}");
            assert!(most - least < 8_500, "{second}: {}", most - least);
        }
        // A node that was known before the base, and one that is known only since.
        let late = NodeClock::new(base + Duration::from_secs(7));
        let at = base + Duration::from_secs(8);
        late.observe(Reading { server_us: SERVER_US, sent_at: at, received_at: at });
        let (least, most) = late.ahead_of(base, at).unwrap();
        assert!((least..=most).contains(&(SERVER_US as i64 - 8_000_000)), "{least} {most}");
    }

    #[test]
    fn bound_follows_a_clock_that_runs_fast() {
        let mut server = TestServer::new();
        // 100 parts in a million, over ten minutes.
        for second in 0..600 {
            server.ahead_us = second * 100;
            server.reply(second as u64 * 1_000_000, 200, 200);
            let slack = server.slack_us(second as u64 * 1_000_000 + 20_000);
            assert!((MARGIN_US - 400..=MARGIN_US + 1_000).contains(&slack), "{second}: {slack}");
        }
    }
}
