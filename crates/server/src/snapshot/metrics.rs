use std::time::Duration;

use super::open::StartupSnapshot;
use crate::metrics::counter::{CounterMetric, GaugeMetric};
use crate::metrics::exposition::Exposition;

const S_NS: u64 = 1_000_000_000;

/// Metrics of snapshots. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotMetrics {
    last_success_s: GaugeMetric,
    failures: CounterMetric,
    bytes: GaugeMetric,
    duration_ns: GaugeMetric,
}

impl SnapshotMetrics {
    /// A snapshot of an earlier process counts as a success.
    pub(super) fn new(startup: &StartupSnapshot) -> SnapshotMetrics {
        let metrics = SnapshotMetrics::default();
        if let StartupSnapshot::Restored { restored, .. } = startup {
            metrics.last_success_s.set(restored.written_at_ns / S_NS);
        }
        metrics
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        exposition.gauge(
            "tollgate_snapshot_last_success_timestamp_seconds",
            "Unix time of the last successful snapshot.",
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
            "Time to write the last snapshot.",
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
