use std::sync::atomic::AtomicU64;

use super::exposition::{Exposition, Kind};
use super::sharded_counters::{Adding, Mine, ShardedCounters};
use crate::front_end::FrontEnd;

/// From a decision in memory, which takes less than a microsecond, to several
/// times the 20 ms that a gateway usually waits.
const BOUNDS_NS: [u64; 13] = [
    1_000,
    5_000,
    20_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// How long decisions took, for each front end. Counts without a lock, because
/// every decision passes through here.
#[derive(Debug)]
pub(crate) struct DurationHistogram(ShardedCounters);

/// For each front end a counter for each bound, one for what is above them all, and the sum.
const ROW: usize = BOUNDS_NS.len() + 2;
const SUM: usize = ROW - 1;

impl DurationHistogram {
    pub(crate) fn new() -> DurationHistogram {
        DurationHistogram(ShardedCounters::new(FrontEnd::ALL.len() * ROW))
    }

    #[inline]
    pub(crate) fn observe(&self, front_end: FrontEnd, ns: u64) {
        self.observe_together(front_end, 1, ns);
    }

    /// So many took `ns` together, and each as long as the others.
    #[inline]
    pub(crate) fn observe_together(&self, front_end: FrontEnd, count: u64, ns: u64) {
        let each_ns = ns / count.max(1);
        // One after the other, because nearly all are among the first.
        let bucket = BOUNDS_NS.iter().position(|&bound| each_ns <= bound).unwrap_or(BOUNDS_NS.len());
        let row = front_end.position() * ROW;
        match self.0.own() {
            Some((counters, adding)) => add(counters, &adding, row, bucket, count, ns),
            None => self.add_first_or_shared(row, bucket, count, ns),
        }
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_decision_duration_seconds";
        let help = "How long deciding took, without reading the request or writing the answer.";
        exposition.describe(NAME, Kind::Histogram, help);
        let sums = self.0.sums();
        for front_end in FrontEnd::ALL {
            let row = &sums[front_end.position() * ROW..][..ROW];
            let counts = BOUNDS_NS.into_iter().zip(row.iter().copied());
            exposition.durations(NAME, Some(("frontend", front_end.name())), counts, row[BOUNDS_NS.len()], row[SUM]);
        }
    }

    #[cold]
    fn add_first_or_shared(&self, row: usize, bucket: usize, count: u64, ns: u64) {
        match self.0.mine() {
            Mine::Own(counters, adding) => add(counters, &adding, row, bucket, count, ns),
            Mine::Shared(counters, adding) => add(counters, &adding, row, bucket, count, ns),
        }
    }
}

#[inline]
fn add(counters: &[AtomicU64], adding: &impl Adding, row: usize, bucket: usize, count: u64, ns: u64) {
    // Looked for once, so that neither counter has to be looked for.
    let behind = counters.get(row..).unwrap_or_default();
    if let Some(row) = behind.first_chunk::<ROW>() {
        adding.add(&row[bucket.min(SUM - 1)], count);
        adding.add(&row[SUM], ns);
    }
}
