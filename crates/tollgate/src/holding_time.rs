//! Holding times of permits, from which `Retry-After` is estimated where a permit is missing.

use std::sync::atomic::{AtomicU64, Ordering};

const S_NS: u64 = 1_000_000_000;

/// The smallest estimate, and the estimate while nothing was measured.
const SHORTEST_NS: u64 = S_NS;

/// The largest estimate, however long permits are held: half of them are released before the mean.
const LONGEST_NS: u64 = 3_600 * S_NS;

/// A holding time has the weight 1/8: a change shows after about eight releases.
const WEIGHT: u64 = 8;

/// The exponentially weighted mean of the holding times of one rule's permits.
#[derive(Debug, Default)]
pub(crate) struct HoldingTime {
    /// 0 while nothing was measured.
    mean_ns: AtomicU64,
}

impl HoldingTime {
    /// Adds the holding time of one permit.
    pub(crate) fn record(&self, held_ns: u64) {
        let held_ns = held_ns.max(1);
        let weigh = |mean_ns: u64| match mean_ns {
            0 => held_ns,
            // Divided first, so that the sum does not exceed the larger of both.
            mean_ns => (mean_ns - mean_ns / WEIGHT + held_ns / WEIGHT).max(1),
        };
        // The closure always returns a value, so this cannot fail.
        let _ = self.mean_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |mean_ns| Some(weigh(mean_ns)));
    }

    /// Estimates the time until a permit is free. It is not longer than the lease.
    pub(crate) fn estimate_ns(&self, lease_ns: u64) -> u64 {
        let longest_ns = lease_ns.clamp(SHORTEST_NS, LONGEST_NS);
        self.mean_ns.load(Ordering::Relaxed).clamp(SHORTEST_NS, longest_ns)
    }

    /// Continues from the mean of a replaced policy.
    pub(crate) fn continue_from(&self, other: &HoldingTime) {
        self.mean_ns.store(other.mean_ns.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE_NS: u64 = 60 * S_NS;

    #[test]
    fn one_second_is_estimated_while_nothing_was_measured() {
        assert_eq!(HoldingTime::default().estimate_ns(LEASE_NS), S_NS);
    }

    #[test]
    fn estimate_follows_recent_holding_times() {
        let time = HoldingTime::default();
        time.record(20 * S_NS);
        assert_eq!(time.estimate_ns(LEASE_NS), 20 * S_NS);
        (0..40).for_each(|_| time.record(4 * S_NS));
        let estimate_ns = time.estimate_ns(LEASE_NS);
        assert!((4 * S_NS..5 * S_NS).contains(&estimate_ns), "{estimate_ns}");
    }

    #[test]
    fn estimate_lies_between_a_second_and_the_lease_or_an_hour() {
        for (held_ns, lease_ns, estimate_ns) in [
            (1, LEASE_NS, S_NS),
            (u64::MAX, LEASE_NS, LEASE_NS),
            (u64::MAX, u64::MAX, LONGEST_NS),
            (u64::MAX, S_NS / 10, S_NS),
        ] {
            let time = HoldingTime::default();
            time.record(held_ns);
            time.record(held_ns);
            assert_eq!(time.estimate_ns(lease_ns), estimate_ns, "{held_ns} {lease_ns}");
        }
    }
}
