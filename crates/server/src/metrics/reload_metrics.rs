use super::counter::{CounterMetric, GaugeMetric};
use super::exposition::Exposition;

const S_NS: u64 = 1_000_000_000;

/// Metrics of policy reloads.
#[derive(Debug, Default)]
pub(crate) struct ReloadMetrics {
    last_success_s: GaugeMetric,
    last_was_successful: GaugeMetric,
    successes: CounterMetric,
    failures: CounterMetric,
}

impl ReloadMetrics {
    /// Creates the metrics; the policy was loaded at that time.
    pub(crate) fn new(now_ns: u64) -> ReloadMetrics {
        let metrics = ReloadMetrics::default();
        metrics.note_success(now_ns);
        metrics
    }

    pub(crate) fn last_success_s(&self) -> u64 {
        self.last_success_s.get()
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        exposition.gauge(
            "tollgate_config_last_reload_success_timestamp_seconds",
            "Unix time of the last successful policy load.",
            self.last_success_s.get(),
        );
        exposition.gauge(
            "tollgate_config_last_reload_successful",
            "1 if the policy that was read last is active, else 0.",
            self.last_was_successful.get(),
        );
        let outcomes = [("success", self.successes.get()), ("failure", self.failures.get())];
        exposition.counter_by("tollgate_config_reloads_total", "Policy reloads, by outcome.", "outcome", outcomes);
    }

    pub(crate) fn count(&self, succeeded: bool, now_ns: u64) {
        if succeeded {
            self.successes.inc();
            self.note_success(now_ns);
        } else {
            self.failures.inc();
            self.last_was_successful.set(0);
        }
    }

    fn note_success(&self, now_ns: u64) {
        self.last_success_s.set(now_ns / S_NS);
        self.last_was_successful.set(1);
    }
}
