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

/// How long decisions took, for each front end. Counts without a lock, because
/// every decision passes through here. All clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct DurationHistogram(Arc<[Observed; FrontEnd::ALL.len()]>);

#[derive(Debug, Default)]
struct Observed {
    /// One for each bound, and one for what is above them all.
    counts: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl DurationHistogram {
    pub(crate) fn observe(&self, front_end: FrontEnd, ns: u64) {
        self.observe_together(front_end, 1, ns);
    }

    /// So many took `ns` together, and each as long as the others.
    pub(crate) fn observe_together(&self, front_end: FrontEnd, count: u64, ns: u64) {
        let observed = &self.0[front_end.position()];
        let each_ns = ns / count.max(1);
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < each_ns);
        observed.counts[bucket].fetch_add(count, Ordering::Relaxed);
        observed.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for front_end in FrontEnd::ALL {
            let observed = &self.0[front_end.position()];
            let bounds = BOUNDS_NS.iter().map(|&bound| seconds(bound)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> =
                bounds.zip(&observed.counts).map(|(bound, count)| (bound, count.load(Ordering::Relaxed))).collect();
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_family(&[("frontend", front_end.name())])?.encode_histogram::<NoLabelSet>(
                seconds(observed.sum_ns.load(Ordering::Relaxed)),
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

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}
