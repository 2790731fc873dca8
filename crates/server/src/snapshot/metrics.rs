use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::beginning::Beginning;

const S_NS: u64 = 1_000_000_000;

/// What is counted about snapshots.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotMetrics {
    last_success_s: Gauge,
    failures: Counter,
    bytes: Gauge,
    duration: Gauge<f64, AtomicU64>,
}

impl SnapshotMetrics {
    /// What another process has written is as good as our own.
    pub(super) fn new(beginning: &Beginning) -> SnapshotMetrics {
        let metrics = SnapshotMetrics::default();
        if let Beginning::Restored { restored, .. } = beginning {
            metrics.last_success_s.set(seconds(restored.written_at_ns));
        }
        metrics
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "snapshot_last_success_timestamp",
            "When the counters were last written down, since 1970",
            Unit::Seconds,
            self.last_success_s.clone(),
        );
        registry.register("snapshot_failures", "Snapshots that could not be written", self.failures.clone());
        registry.register_with_unit("snapshot", "The size of the last snapshot", Unit::Bytes, self.bytes.clone());
        registry.register_with_unit(
            "snapshot_duration",
            "How long writing the last snapshot took",
            Unit::Seconds,
            self.duration.clone(),
        );
    }

    pub(super) fn note_success(&self, wall_ns: u64, bytes: u64, took: Duration) {
        self.last_success_s.set(seconds(wall_ns));
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.duration.set(took.as_secs_f64());
    }

    pub(super) fn note_failure(&self) {
        self.failures.inc();
    }
}

fn seconds(ns: u64) -> i64 {
    i64::try_from(ns / S_NS).unwrap_or(i64::MAX)
}
