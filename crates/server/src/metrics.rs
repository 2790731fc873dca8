use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use tollgate::{Limiter, Request, Verdict};

use crate::duration_histogram::{DurationHistogram, DurationHistograms};
use crate::engine::Store;
use crate::front_end::FrontEnd;
use crate::outcome::Outcome;
use crate::text_format::prometheus_text;

/// What the service counts about itself. Nothing here is labelled by a client:
/// a label has as many series as it has values, and clients have no end.
pub(crate) struct Metrics {
    registry: Registry,
    http: FrontEndMetrics,
    grpc: FrontEndMetrics,
}

/// Counters at hand, so that counting takes no lock.
struct FrontEndMetrics {
    /// One for each rule of the policy, by the name of the deciding rule.
    by_rule: HashMap<Arc<str>, OutcomeCounters>,
    without_rule: OutcomeCounters,
    duration: DurationHistogram,
}

/// One for each outcome, at its position.
struct OutcomeCounters([Counter; Outcome::ALL.len()]);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    rule: Arc<str>,
    outcome: &'static str,
    frontend: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

type Decisions = Family<DecisionLabels, Counter>;

/// A label's value where no rule decided; Prometheus reads it as no label.
const NO_RULE: &str = "";

impl Metrics {
    pub(crate) fn new(limiter: &Limiter<Store>) -> Metrics {
        let mut registry = Registry::with_prefix("tollgate");
        let decisions = Decisions::default();
        let http = FrontEndMetrics::new(FrontEnd::Http, limiter, &decisions);
        let grpc = FrontEndMetrics::new(FrontEnd::Grpc, limiter, &decisions);
        registry.register("decisions", "Requests decided, by rule and outcome", decisions);
        registry.register_with_unit(
            "decision_duration",
            "How long deciding took, without reading the request or writing the answer",
            Unit::Seconds,
            DurationHistograms(vec![http.duration.clone(), grpc.duration.clone()]),
        );
        // A gauge rather than an `info`, which Prometheus' own text format does not know.
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "Which tollgate this is", build);
        registry.register_collector(Box::new(StoreMetrics(limiter.clone())));
        Metrics { registry, http, grpc }
    }

    pub(crate) fn count(&self, front_end: FrontEnd, request: &Request<'_>, verdict: &Verdict, taken_ns: u64) {
        let metrics = match front_end {
            FrontEnd::Http => &self.http,
            FrontEnd::Grpc => &self.grpc,
        };
        let counters = verdict.rule().and_then(|rule| metrics.by_rule.get(rule)).unwrap_or(&metrics.without_rule);
        counters.0[Outcome::of(request, verdict).position()].inc();
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
    fn new(front_end: FrontEnd, limiter: &Limiter<Store>, decisions: &Decisions) -> FrontEndMetrics {
        let counters = |rule: &Arc<str>| OutcomeCounters::new(front_end, rule, decisions);
        let plan = limiter.plan();
        FrontEndMetrics {
            by_rule: plan.rules().iter().map(|rule| (Arc::clone(&rule.name), counters(&rule.name))).collect(),
            without_rule: counters(&Arc::from(NO_RULE)),
            duration: DurationHistogram::new(front_end),
        }
    }
}

impl OutcomeCounters {
    fn new(front_end: FrontEnd, rule: &Arc<str>, decisions: &Decisions) -> OutcomeCounters {
        OutcomeCounters(Outcome::ALL.map(|outcome| {
            let labels = DecisionLabels { rule: Arc::clone(rule), outcome: outcome.name(), frontend: front_end.name() };
            decisions.get_or_create_owned(&labels)
        }))
    }
}

/// Asks the store when somebody asks us.
struct StoreMetrics(Limiter<Store>);

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.0.store().stats();
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
