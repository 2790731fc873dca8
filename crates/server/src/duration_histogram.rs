use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::front_end::FrontEnd;
use crate::sharded_counters::ShardedCounters;

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

    pub(crate) fn observe(&self, front_end: FrontEnd, ns: u64) {
        self.observe_together(front_end, 1, ns);
    }

    /// So many took `ns` together, and each as long as the others.
    pub(crate) fn observe_together(&self, front_end: FrontEnd, count: u64, ns: u64) {
        let each_ns = ns / count.max(1);
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < each_ns);
        let (row, counters) = (front_end.position() * ROW, self.0.mine());
        counters.add(row + bucket, count);
        counters.add(row + SUM, ns);
    }
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for front_end in FrontEnd::ALL {
            let row = front_end.position() * ROW;
            let bounds = BOUNDS_NS.iter().map(|&bound| seconds(bound)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip((row..).map(|at| self.0.read(at))).collect();
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_family(&[("frontend", front_end.name())])?.encode_histogram::<NoLabelSet>(
                seconds(self.0.read(row + SUM)),
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
