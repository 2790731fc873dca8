//! The smallest bucket that would have let a client through, at several rates.

/// The rates that are measured in one replay.
pub(super) const RUNGS: usize = 8;

/// The counts per period among which a limit is chosen: about ten in each decade, as people choose them.
pub(super) fn candidate_counts() -> Vec<u64> {
    let below_ten = [1, 2, 3, 4, 5, 6, 8];
    let decade = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
    let powers = (0..).map(|power| 10_u64.pow(power));
    let above = powers.flat_map(|power| decade.map(|count| count * power));
    below_ten.into_iter().chain(above).take(RUNGS * RUNGS).collect()
}

/// The rates of a replay: counts in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RungRates {
    pub(super) counts: [u64; RUNGS],
    pub(super) period_ns: u64,
}

/// The buckets of one client that refuse nothing, at the rates of a [`RungRates`].
///
/// The used amount of a bucket that refuses nothing does not depend on its size. So its largest value is the size of
/// the smallest bucket that would have refused nothing. Amounts are scaled by the period: a request is `period_ns`, and
/// `count` is refilled in each nanosecond. So they are exact.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BurstLadder {
    last_ns: u64,
    used: [u64; RUNGS],
    most_used: [u64; RUNGS],
}

impl BurstLadder {
    /// Counts a request.
    #[inline]
    pub(super) fn count(&mut self, time_ns: u64, rates: &RungRates) {
        let elapsed_ns = time_ns.saturating_sub(self.last_ns);
        self.last_ns = time_ns;
        for at in 0..RUNGS {
            let refilled = elapsed_ns.saturating_mul(rates.counts[at]);
            let used = self.used[at].saturating_sub(refilled).saturating_add(rates.period_ns);
            self.used[at] = used;
            self.most_used[at] = self.most_used[at].max(used);
        }
    }

    /// Reads every cache line of the ladder, and thereby brings it into the cache.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.last_ns ^ self.used[RUNGS - 1] ^ self.most_used[RUNGS - 1]
    }

    /// Returns the burst of the smallest bucket of the rate at `rung` that would have refused no request.
    pub(super) fn burst(&self, rung: usize, rates: &RungRates) -> u64 {
        self.most_used[rung].div_ceil(rates.period_ns)
    }
}

/// Returns the rates at these positions of the candidates; beyond their end the last one is repeated.
pub(super) fn rung_rates(candidates: &[u64], positions: [usize; RUNGS], period_ns: u64) -> RungRates {
    let last = candidates.len().saturating_sub(1);
    RungRates { counts: positions.map(|at| candidates[at.min(last)]), period_ns }
}

/// Returns a number that is not below this one, with two significant digits.
pub(super) fn rounded_up(number: u64) -> u64 {
    let digits = number.max(1).ilog10();
    let step = 10_u64.pow(digits.saturating_sub(1));
    number.div_ceil(step).saturating_mul(step)
}

/// Returns the number increased by a share in percent, rounded up.
pub(super) fn with_margin(number: u64, margin_percent: u32) -> u64 {
    let increased = u128::from(number) * (100 + u128::from(margin_percent));
    rounded_up(u64::try_from(increased.div_ceil(100)).unwrap_or(u64::MAX / 100))
}

#[cfg(test)]
mod tests {
    use tollgate::quota::Tick;
    use tollgate::{Quota, Rate};
    use tollgate_core::{Algorithm, Bucket, BucketState};

    use super::*;
    use crate::traffic::SeededRandom;

    const MINUTE_NS: u64 = 60_000_000_000;

    /// Whether a bucket of the store lets all requests pass.
    fn passes(times_ns: &[u64], count: u64, burst: u64) -> bool {
        let rate = Rate::new(count, std::time::Duration::from_nanos(MINUTE_NS)).unwrap().with_burst(burst).unwrap();
        let bucket = Bucket::new(&Quota::token_bucket(rate).unwrap(), Tick::Nanosecond).unwrap();
        let mut state = BucketState::default();
        times_ns.iter().all(|time_ns| bucket.check(&mut state, *time_ns, 1).is_allowed())
    }

    #[test]
    fn burst_is_that_of_the_smallest_bucket_that_refuses_nothing() {
        let candidates = candidate_counts();
        let rates = rung_rates(&candidates, [0, 3, 7, 12, 17, 22, 27, 32], MINUTE_NS);
        for seed in 0..40 {
            let mut random = SeededRandom::new(seed);
            let (mut ladder, mut times_ns) = (BurstLadder::default(), Vec::new());
            let (mut time_ns, mean_ns) = (1_767_225_600_000_000_000, 1 << (24 + seed % 14));
            for _ in 0..300 {
                time_ns += if random.below(3) == 0 { 0 } else { random.exponential(mean_ns) };
                times_ns.push(time_ns);
                ladder.count(time_ns, &rates);
            }
            for (rung, count) in rates.counts.into_iter().enumerate() {
                let burst = ladder.burst(rung, &rates);
                assert!(passes(&times_ns, count, burst), "seed {seed}: {count}/min burst {burst}");
                assert!(burst == 1 || !passes(&times_ns, count, burst - 1), "seed {seed}: {count}/min burst {burst}");
            }
        }
    }

    #[test]
    fn candidates_grow_by_at_most_a_third_from_ten_on() {
        let candidates = candidate_counts();
        assert_eq!((candidates.len(), candidates[0], candidates[63]), (64, 1, 4_000_000));
        assert!(candidates.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(candidates[7..].windows(2).all(|pair| pair[1] * 3 <= pair[0] * 4), "{candidates:?}");
    }

    #[test]
    fn numbers_are_rounded_up_to_two_digits() {
        for (number, expected) in [(1, 1), (9, 9), (57, 57), (101, 110), (996, 1_000), (1_234, 1_300)] {
            assert_eq!(rounded_up(number), expected);
        }
        assert_eq!((with_margin(50, 20), with_margin(1, 20), with_margin(99, 0)), (60, 2, 99));
    }
}
