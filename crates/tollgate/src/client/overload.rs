//! Requests that are not sent because the server refuses most of them.
//!
//! The method is client-side throttling as in Google's book on site reliability: of recent requests, some are dropped
//! with the probability `(sent - 2 * accepted) / (sent + 1)`. A server that refuses less than half of its requests gets
//! all.

use super::random::JitterSource;

const S_NS: u64 = 1_000_000_000;

/// Both counts are halved after this time.
const HALVED_NS: u64 = 30 * S_NS;

/// Requests are sent for each that is accepted.
const RATIO: u64 = 2;

/// So many refusals drop nothing: a few are not an overload.
const TOLERATED: u64 = 10;

/// The recent requests of one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentRequests {
    since_ns: u64,
    pub(super) sent: u64,
    pub(super) accepted: u64,
}

impl RecentRequests {
    /// Decides whether a request is dropped.
    pub(super) fn drops(&mut self, now_ns: u64, random: &mut JitterSource) -> bool {
        self.forget(now_ns);
        let too_many = self.sent.saturating_sub(self.accepted * RATIO + TOLERATED);
        // A dropped request counts as sent, so that more are dropped while the program sends more.
        let drops = too_many > 0 && random.up_to(self.sent) < too_many;
        if drops {
            self.sent += 1;
        }
        drops
    }

    /// Counts a request that came back.
    pub(super) fn count(&mut self, is_accepted: bool, now_ns: u64) {
        self.forget(now_ns);
        self.sent += 1;
        self.accepted += u64::from(is_accepted);
    }

    fn forget(&mut self, now_ns: u64) {
        let halvings = now_ns.saturating_sub(self.since_ns) / HALVED_NS;
        if halvings > 0 {
            let shift = u32::try_from(halvings.min(63)).unwrap_or(63);
            (self.sent, self.accepted, self.since_ns) = (self.sent >> shift, self.accepted >> shift, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped_of_1000(recent: &RecentRequests, now_ns: u64) -> usize {
        let mut random = JitterSource::seeded(5);
        (0..1_000).filter(|_| recent.clone().drops(now_ns, &mut random)).count()
    }

    #[test]
    fn nothing_is_dropped_while_half_of_the_requests_are_accepted() {
        let mut recent = RecentRequests::default();
        (0..1_000).for_each(|at| recent.count(at % 2 == 0, 0));
        assert_eq!(dropped_of_1000(&recent, 0), 0);
    }

    #[test]
    fn most_requests_are_dropped_while_the_server_refuses_all() {
        let mut recent = RecentRequests::default();
        (0..10).for_each(|_| recent.count(false, 0));
        assert_eq!(dropped_of_1000(&recent, 0), 0, "a few refusals are not an overload");
        (0..490).for_each(|_| recent.count(false, 0));
        assert!((950..1_000).contains(&dropped_of_1000(&recent, 0)));
    }

    #[test]
    fn refusals_are_forgotten() {
        let mut recent = RecentRequests::default();
        (0..500).for_each(|_| recent.count(false, 0));
        assert_eq!(dropped_of_1000(&recent, 10 * HALVED_NS), 0);
        assert_eq!(dropped_of_1000(&recent, u64::MAX), 0);
    }
}
