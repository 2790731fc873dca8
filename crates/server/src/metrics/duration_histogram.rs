use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

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
/// every decision passes through here. All clones count together.
#[derive(Clone, Debug)]
pub(crate) struct DurationHistogram(Arc<ShardedCounters>);

/// For each front end a counter for each bound, one for what is above them all, and the sum.
const ROW: usize = BOUNDS_NS.len() + 2;
const SUM: usize = ROW - 1;

impl DurationHistogram {
    pub(crate) fn new() -> DurationHistogram {
        DurationHistogram(Arc::new(ShardedCounters::new(FrontEnd::ALL.len() * ROW)))
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

    #[cold]
    fn add_first_or_shared(&self, row: usize, bucket: usize, count: u64, ns: u64) {
        match self.0.mine() {
            Mine::Own(counters, adding) => add(counters, &adding, row, bucket, count, ns),
            Mine::Shared(counters, adding) => add(counters, &adding, row, bucket, count, ns),
        }
    }
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let sums = self.0.sums();
        for front_end in FrontEnd::ALL {
            let row = front_end.position() * ROW;
            let bounds = BOUNDS_NS.iter().map(|&bound| seconds(bound)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(sums[row..].iter().copied()).collect();
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_family(&[("frontend", front_end.name())])?.encode_histogram::<NoLabelSet>(
                seconds(sums[row + SUM]),
                count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
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

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}
