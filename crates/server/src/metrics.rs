use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::answer::{Action, Answer};
use crate::duration_histogram::DurationHistogram;
use crate::engine::Store;
use crate::front_end::FrontEnd;
use crate::request::Request;
use crate::starter;
use crate::text_format::prometheus_text;

/// What the service counts about itself. Nothing here is labelled by a client:
/// a label has as many series as it has values, and clients have no end.
pub(crate) struct Metrics {
    registry: Registry,
    http: FrontEndMetrics,
}

/// Counters at hand, so that counting looks nothing up.
struct FrontEndMetrics {
    by_rule: OutcomeCounters,
    without_rule: OutcomeCounters,
    duration: DurationHistogram,
}

struct OutcomeCounters {
    allowed: Counter,
    rejected: Counter,
    peeked: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    rule: &'static str,
    outcome: &'static str,
    frontend: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

type Decisions = Family<DecisionLabels, Counter>;

/// A label's value where no rule applied; Prometheus reads it as no label.
const NO_RULE: &str = "";

/// The outcome of a request that takes nothing. Counted apart: it was not let through, it asked.
const PEEK: &str = "peek";

impl Metrics {
    pub(crate) fn new(store: &Arc<Store>) -> Metrics {
        let mut registry = Registry::with_prefix("tollgate");
        let decisions = Decisions::default();
        let http = FrontEndMetrics::new(FrontEnd::Http, &decisions);
        registry.register("decisions", "Requests decided, by rule and outcome", decisions);
        registry.register_with_unit(
            "decision_duration",
            "How long deciding took, without reading the request or writing the answer",
            Unit::Seconds,
            http.duration.clone(),
        );
        // A gauge rather than an `info`, which Prometheus' own text format does not know.
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "Which tollgate this is", build);
        registry.register_collector(Box::new(StoreMetrics(Arc::clone(store))));
        Metrics { registry, http }
    }

    pub(crate) fn count(&self, front_end: FrontEnd, request: &Request, answer: &Answer, taken_ns: u64) {
        let metrics = match front_end {
            FrontEnd::Http => &self.http,
        };
        let outcomes = if answer.rule.is_some() { &metrics.by_rule } else { &metrics.without_rule };
        let counter = match answer.action() {
            _ if request.cost == 0 => &outcomes.peeked,
            Action::Allow => &outcomes.allowed,
            Action::Reject => &outcomes.rejected,
        };
        counter.inc();
        metrics.duration.observe(taken_ns);
    }

    pub(crate) fn text(&self) -> String {
        let mut openmetrics = String::new();
        prometheus_client::encoding::text::encode(&mut openmetrics, &self.registry)
            .unwrap_or_else(|error| unreachable!("a string takes whatever is written to it: {error}"));
        prometheus_text(&openmetrics)
    }
}

impl FrontEndMetrics {
    fn new(front_end: FrontEnd, decisions: &Decisions) -> FrontEndMetrics {
        FrontEndMetrics {
            by_rule: OutcomeCounters::new(front_end, starter::RULE, decisions),
            without_rule: OutcomeCounters::new(front_end, NO_RULE, decisions),
            duration: DurationHistogram::new(front_end),
        }
    }
}

impl OutcomeCounters {
    fn new(front_end: FrontEnd, rule: &'static str, decisions: &Decisions) -> OutcomeCounters {
        let counter =
            |outcome| decisions.get_or_create_owned(&DecisionLabels { rule, outcome, frontend: front_end.name() });
        OutcomeCounters {
            allowed: counter(Action::Allow.name()),
            rejected: counter(Action::Reject.name()),
            peeked: counter(PEEK),
        }
    }
}

/// Asks the store when somebody asks us.
struct StoreMetrics(Arc<Store>);

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.0.stats();
        let mut write = |name: &str, help: &str, unit: Option<&Unit>, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
        };
        write("keys", "About how many keys are live.", None, &ConstGauge::new(stats.live_keys as u64))?;
        write("evictions", "Live keys that had to make room for others.", None, &ConstCounter::new(stats.evictions))?;
        write("store", "Memory of the store's tables.", Some(&Unit::Bytes), &ConstGauge::new(stats.bytes as u64))
    }
}

impl fmt::Debug for StoreMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreMetrics")
    }
}
