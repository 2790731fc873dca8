use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

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

/// How long decisions of one front end took. Counts without a lock, because
/// every decision passes through here. All clones count together.
#[derive(Clone, Debug)]
pub(crate) struct DurationHistogram {
    front_end: FrontEnd,
    observed: Arc<Observed>,
}

#[derive(Debug, Default)]
struct Observed {
    /// One for each bound, and one for what is above them all.
    counts: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl DurationHistogram {
    pub(crate) fn new(front_end: FrontEnd) -> DurationHistogram {
        DurationHistogram { front_end, observed: Arc::default() }
    }

    pub(crate) fn observe(&self, ns: u64) {
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < ns);
        self.observed.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.observed.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

/// The histograms of all front ends, as one metric.
#[derive(Debug)]
pub(crate) struct DurationHistograms(pub(crate) Vec<DurationHistogram>);

impl EncodeMetric for DurationHistograms {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.iter().try_for_each(|histogram| histogram.encode_into(&mut encoder))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl DurationHistogram {
    fn encode_into(&self, encoder: &mut MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let bounds = BOUNDS_NS.iter().map(|&bound| seconds(bound)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            bounds.zip(&self.observed.counts).map(|(bound, count)| (bound, count.load(Ordering::Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_family(&[("frontend", self.front_end.name())])?.encode_histogram::<NoLabelSet>(
            seconds(self.observed.sum_ns.load(Ordering::Relaxed)),
            count,
            &buckets,
            None,
        )
    }
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}
