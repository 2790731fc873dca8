use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

const S_NS: u64 = 1_000_000_000;

/// What is counted about the policy being read again.
#[derive(Clone, Debug)]
pub(crate) struct ReloadMetrics {
    last_success_s: Gauge,
    last_was_successful: Gauge,
    successes: Counter,
    failures: Counter,
    all: Family<ReloadLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    outcome: &'static str,
}

impl ReloadMetrics {
    /// The policy that the service starts with has been read at that time.
    pub(crate) fn new(now_ns: u64) -> ReloadMetrics {
        let all = Family::<ReloadLabels, Counter>::default();
        let counter = |outcome| all.get_or_create_owned(&ReloadLabels { outcome });
        let metrics = ReloadMetrics {
            last_success_s: Gauge::default(),
            last_was_successful: Gauge::default(),
            successes: counter("success"),
            failures: counter("failure"),
            all,
        };
        metrics.note_success(now_ns);
        metrics
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "config_last_reload_success_timestamp",
            "When a policy was last put in force, since 1970",
            Unit::Seconds,
            self.last_success_s.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "Whether the policy in force is the one that was read last",
            self.last_was_successful.clone(),
        );
        registry.register("config_reloads", "Policies read again, by outcome", self.all.clone());
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
        self.last_success_s.set(i64::try_from(now_ns / S_NS).unwrap_or(i64::MAX));
        self.last_was_successful.set(1);
    }
}
