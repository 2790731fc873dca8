use super::counter::{Counter, Gauge};
use super::exposition::Exposition;

const S_NS: u64 = 1_000_000_000;

/// What is counted about the policy being read again.
#[derive(Debug, Default)]
pub(crate) struct ReloadMetrics {
    last_success_s: Gauge,
    last_was_successful: Gauge,
    successes: Counter,
    failures: Counter,
}

impl ReloadMetrics {
    /// The policy that the service starts with has been read at that time.
    pub(crate) fn new(now_ns: u64) -> ReloadMetrics {
        let metrics = ReloadMetrics::default();
        metrics.note_success(now_ns);
        metrics
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        exposition.gauge(
            "tollgate_config_last_reload_success_timestamp_seconds",
            "When a policy was last put in force, since 1970.",
            self.last_success_s.get(),
        );
        exposition.gauge(
            "tollgate_config_last_reload_successful",
            "Whether the policy in force is the one that was read last.",
            self.last_was_successful.get(),
        );
        let outcomes = [("success", self.successes.get()), ("failure", self.failures.get())];
        exposition.counter_by("tollgate_config_reloads_total", "Policies read again, by outcome.", "outcome", outcomes);
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
