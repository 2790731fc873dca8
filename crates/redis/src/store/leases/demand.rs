//! The demand for keys: an estimate for keys without a lease, and the demand for one leased key.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of cells of the estimate. Keys that share a cell are overestimated, which only leases their tokens early.
const CELLS: usize = 1 << 14;

/// The span over which requests of keys without a lease are counted.
const SPAN_NS: u64 = 500_000_000;

/// The number of requests within the span from which a key is leased: 20 a second.
const FREQUENT: u64 = 10;

/// Counts the requests of keys without a lease, in a fixed amount of memory.
#[derive(Debug)]
pub(super) struct DemandEstimate {
    /// In each cell, from the highest bit: the number of the span (32 bits), the requests of the span before (16 bits)
    /// and of this one (16 bits).
    cells: Box<[AtomicU64]>,
}

impl DemandEstimate {
    pub(super) fn new() -> DemandEstimate {
        DemandEstimate { cells: (0..CELLS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts a request for the key of this hash. Returns whether there have been enough to lease its tokens.
    pub(super) fn count(&self, hash: u64, now_ns: u64) -> bool {
        let cell = &self.cells[hash as usize % CELLS];
        let span = now_ns / SPAN_NS % (1 << 32);
        let known = cell.load(Ordering::Relaxed);
        let (before, current) = match span.wrapping_sub(known >> 32) % (1 << 32) {
            0 => ((known >> 16) & 0xffff, known & 0xffff),
            1 => (known & 0xffff, 0),
            _ => (0, 0),
        };
        let current = (current + 1).min(0xffff);
        // A request that another thread counts meanwhile is lost, which only makes the estimate smaller.
        cell.store(span << 32 | before << 16 | current, Ordering::Relaxed);
        let left_ns = SPAN_NS - now_ns % SPAN_NS;
        current + before * left_ns / SPAN_NS >= FREQUENT
    }
}

/// The demand for one key, in tokens, whether or not they were granted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// The number of the current horizon.
    horizon: u64,
    before: u64,
    current: u64,
}

impl Demand {
    pub(super) fn add(&mut self, cost: u64, now_ns: u64, horizon_ns: u64) {
        self.turn(now_ns / horizon_ns);
        self.current = self.current.saturating_add(cost);
    }

    /// Returns the tokens wanted in a horizon: the larger number of the current and the last one.
    pub(super) fn per_horizon(&mut self, now_ns: u64, horizon_ns: u64) -> u64 {
        self.turn(now_ns / horizon_ns);
        self.current.max(self.before)
    }

    fn turn(&mut self, horizon: u64) {
        if horizon != self.horizon {
            self.before = if horizon == self.horizon + 1 { self.current } else { 0 };
            (self.horizon, self.current) = (horizon, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_with_twenty_requests_a_second_is_leased() {
        let estimate = DemandEstimate::new();
        let frequent = |every_ms: u64| {
            let hash = every_ms;
            (0..100).filter(|at| estimate.count(hash, at * every_ms * 1_000_000)).count()
        };
        assert_eq!(frequent(60), 0);
        assert!(frequent(45) > 80);
    }

    #[test]
    fn burst_is_noticed_within_ten_requests() {
        let estimate = DemandEstimate::new();
        assert_eq!((0..20).position(|_| estimate.count(7, 123_456_789)), Some(9));
    }

    #[test]
    fn demand_of_a_horizon_fades_after_the_next() {
        let mut demand = Demand::default();
        (0..50).for_each(|_| demand.add(2, 1_000_000, 1_000_000));
        assert_eq!(demand.per_horizon(1_500_000, 1_000_000), 100);
        assert_eq!(demand.per_horizon(2_500_000, 1_000_000), 100);
        assert_eq!(demand.per_horizon(3_500_000, 1_000_000), 0);
    }
}
