//! Counts over time, in a bounded number of intervals.

use super::{HOUR_NS, MINUTE_NS, SECOND_NS};

/// The lengths of intervals. Each is a multiple of the one before, so that intervals can be joined.
const LENGTHS_NS: [u64; 14] = [
    SECOND_NS / 100,
    SECOND_NS / 10,
    SECOND_NS,
    5 * SECOND_NS,
    15 * SECOND_NS,
    MINUTE_NS,
    5 * MINUTE_NS,
    15 * MINUTE_NS,
    HOUR_NS,
    3 * HOUR_NS,
    6 * HOUR_NS,
    24 * HOUR_NS,
    7 * 24 * HOUR_NS,
    28 * 24 * HOUR_NS,
];

/// The largest number of intervals.
const MAX_INTERVALS: usize = 240;

/// Counts of `N` kinds over time. When there are too many intervals, they are joined to longer ones.
#[derive(Clone, Debug)]
pub struct TimeSeries<const N: usize> {
    length_at: usize,
    /// The number of the first interval since 1970.
    first: u64,
    counts: Vec<[u64; N]>,
}

impl<const N: usize> Default for TimeSeries<N> {
    fn default() -> TimeSeries<N> {
        TimeSeries { length_at: 0, first: 0, counts: Vec::new() }
    }
}

impl<const N: usize> TimeSeries<N> {
    /// Creates a series of intervals of a second or more, for logs: most have times in whole seconds.
    pub(crate) fn of_seconds() -> TimeSeries<N> {
        let length_at = LENGTHS_NS.iter().position(|length_ns| *length_ns == SECOND_NS).unwrap_or(0);
        TimeSeries { length_at, ..TimeSeries::default() }
    }

    /// Adds 1 to a kind. A time before the first interval is counted in the first one.
    #[inline]
    pub(crate) fn count(&mut self, time_ns: u64, kind: usize) {
        let at = (time_ns / self.length_ns()).saturating_sub(self.first) as usize;
        match self.counts.get_mut(at) {
            Some(counts) => counts[kind] += 1,
            None => self.at(time_ns)[kind] += 1,
        }
    }

    /// Returns the length of an interval.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        LENGTHS_NS[self.length_at]
    }

    /// Returns the start of the first interval, in nanoseconds since 1970.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.first * self.length_ns()
    }

    /// Returns the end of the last interval.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns().saturating_add(self.length_ns().saturating_mul(self.counts.len() as u64))
    }

    /// Returns the counts of all intervals.
    #[must_use]
    pub fn counts(&self) -> &[[u64; N]] {
        &self.counts
    }

    /// Returns the interval of a time, after making space for it.
    #[cold]
    fn at(&mut self, time_ns: u64) -> &mut [u64; N] {
        if self.counts.is_empty() {
            self.first = time_ns / self.length_ns();
        }
        while self.position(time_ns) >= MAX_INTERVALS && self.length_at + 1 < LENGTHS_NS.len() {
            self.join();
        }
        // Beyond the longest intervals everything is counted in the last one.
        let at = self.position(time_ns).min(MAX_INTERVALS - 1);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, [0; N]);
        }
        &mut self.counts[at]
    }

    fn position(&self, time_ns: u64) -> usize {
        let at = (time_ns / self.length_ns()).saturating_sub(self.first);
        usize::try_from(at).unwrap_or(usize::MAX)
    }

    /// Joins intervals to the next longer ones.
    fn join(&mut self) {
        let factor = LENGTHS_NS[self.length_at + 1] / LENGTHS_NS[self.length_at];
        let first = self.first / factor;
        let mut joined: Vec<[u64; N]> = Vec::new();
        for (number, counts) in (self.first..).zip(&self.counts) {
            let at = usize::try_from(number / factor - first).unwrap_or(usize::MAX);
            joined.resize(joined.len().max(at + 1), [0; N]);
            for (sum, count) in joined[at].iter_mut().zip(counts) {
                *sum += count;
            }
        }
        (self.first, self.counts, self.length_at) = (first, joined, self.length_at + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_when_intervals_are_joined() {
        let mut series = TimeSeries::<2>::default();
        let start = 1_700_000_000 * SECOND_NS;
        for at in 0..100_000 {
            series.count(start + at * SECOND_NS, usize::from(at % 4 == 0));
        }
        let sums = series.counts().iter().fold([0, 0], |[one, two], [more, others]| [one + more, two + others]);
        assert_eq!(sums, [75_000, 25_000]);
        assert_eq!((series.length_ns(), series.counts().len()), (15 * MINUTE_NS, 112));
        assert!(series.start_ns() <= start && start - series.start_ns() < series.length_ns());
    }

    #[test]
    fn clock_that_jumps_takes_bounded_memory() {
        let mut series = TimeSeries::<1>::default();
        for time_ns in [5, u64::MAX, 0, 1_700_000_000 * SECOND_NS] {
            series.count(time_ns, 0);
        }
        assert_eq!(series.counts().iter().map(|[count]| count).sum::<u64>(), 4);
        assert!(series.counts().len() <= MAX_INTERVALS);
    }
}
