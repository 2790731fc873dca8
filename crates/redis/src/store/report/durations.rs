//! A histogram of the durations of calls.

use std::time::Duration;

use crate::store::report::stats::Counter;

/// The bounds of the buckets: from a server nearby to one that is practically down. A gateway usually waits for 20 ms.
const BOUNDS_US: [u64; 12] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 1_000_000];

/// The durations of calls since the store was built, as a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDurations {
    /// For each bound, the number of calls that took longer than the previous bound and no longer than this one.
    pub counts: Vec<(Duration, u64)>,
    /// The number of calls that took longer than the last bound.
    pub longer: u64,
    /// The sum of all durations.
    pub sum: Duration,
}

#[derive(Debug, Default)]
pub(in crate::store) struct DurationCounters {
    /// One for each bound, and one for longer durations.
    counts: [Counter; BOUNDS_US.len() + 1],
    sum_ns: Counter,
}

impl DurationCounters {
    pub(in crate::store) fn observe(&self, taken: Duration) {
        let index = BOUNDS_US.partition_point(|bound| u128::from(*bound) * 1_000 < taken.as_nanos());
        self.counts[index].add(1);
        self.sum_ns.add(u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(in crate::store) fn snapshot(&self) -> CallDurations {
        let bounds = BOUNDS_US.iter().map(|bound| Duration::from_micros(*bound));
        CallDurations {
            counts: bounds.zip(self.counts.iter().map(Counter::read)).collect(),
            longer: self.counts[BOUNDS_US.len()].read(),
            sum: Duration::from_nanos(self.sum_ns.read()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_at_the_first_bound_not_below_them() {
        let durations = DurationCounters::default();
        for taken_us in [0, 100, 101, 250, 2_000_000] {
            durations.observe(Duration::from_micros(taken_us));
        }
        let seen = durations.snapshot();
        let first: Vec<u64> = seen.counts.iter().take(3).map(|(_, count)| *count).collect();
        assert_eq!((first, seen.longer), (vec![2, 2, 0], 1));
        assert_eq!(seen.sum, Duration::from_micros(2_000_451));
    }
}
