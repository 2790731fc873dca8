use std::time::Duration;

use super::open::Beginning;
use crate::metrics::counter::{Counter, Gauge};
use crate::metrics::exposition::Exposition;

const S_NS: u64 = 1_000_000_000;

/// What is counted about snapshots. All clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotMetrics {
    last_success_s: Gauge,
    failures: Counter,
    bytes: Gauge,
    duration_ns: Gauge,
}

impl SnapshotMetrics {
    /// What another process has written is as good as our own.
    pub(super) fn new(beginning: &Beginning) -> SnapshotMetrics {
        let metrics = SnapshotMetrics::default();
        if let Beginning::Restored { restored, .. } = beginning {
            metrics.last_success_s.set(restored.written_at_ns / S_NS);
        }
        metrics
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        exposition.gauge(
            "tollgate_snapshot_last_success_timestamp_seconds",
            "When the counters were last written down, since 1970.",
            self.last_success_s.get(),
        );
        exposition.counter(
            "tollgate_snapshot_failures_total",
            "Snapshots that could not be written.",
            self.failures.get(),
        );
        exposition.gauge("tollgate_snapshot_bytes", "The size of the last snapshot.", self.bytes.get());
        exposition.gauge_seconds(
            "tollgate_snapshot_duration_seconds",
            "How long writing the last snapshot took.",
            self.duration_ns.get(),
        );
    }

    pub(super) fn note_success(&self, wall_ns: u64, bytes: u64, took: Duration) {
        self.last_success_s.set(wall_ns / S_NS);
        self.bytes.set(bytes);
        self.duration_ns.set(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn note_failure(&self) {
        self.failures.inc();
    }
}
