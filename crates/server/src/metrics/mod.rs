//! What the service counts about itself, and how Prometheus reads it.

pub(crate) mod counter;
pub(crate) mod duration_histogram;
pub(crate) mod exposition;
pub(crate) mod policy_info;
pub(crate) mod public_names;
pub(crate) mod receipt_metrics;
pub(crate) mod reload_metrics;
pub(crate) mod sharded_counters;
pub(crate) mod shared_store_metrics;
pub(crate) mod thread_slot;

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use tollgate::policy::CompiledPolicy;
use tollgate::{AsyncLimiter, ChargeVerdict, CheckedPolicy, Decision, MemoryStore, RedisStore};

use crate::decided::{Decided, RefusedBy};
use crate::front_end::FrontEnd;
use crate::listen::ConnectionMetrics;
use crate::observe::Observer;
use crate::receipts::Receipts;
use crate::rule_metrics::RuleMetrics;
use crate::snapshot::SnapshotMetrics;
use counter::Counter;
use duration_histogram::DurationHistogram;
use exposition::{Exposition, Kind};
use policy_info::PolicyInfo;
use receipt_metrics::ReceiptMetrics;
use reload_metrics::ReloadMetrics;

/// What the service counts about itself, and the parts that count for themselves.
pub(crate) struct Metrics {
    limiter: Limiter<Store>,
    kept_receipts: Arc<Receipts>,
    observer: Arc<Observer>,
    snapshots: Option<SnapshotMetrics>,
    rules: RuleMetrics,
    policy: PolicyInfo,
    durations: DurationHistogram,
    uncounted: Counter,
    pub(crate) connections: ConnectionMetrics,
    pub(crate) reloads: ReloadMetrics,
    pub(crate) receipts: ReceiptMetrics,
}

impl Metrics {
    pub(crate) fn new(limiter: &AsyncLimiter, receipts: &Arc<Receipts>, observer: &Arc<Observer>) -> Metrics {
        let mut registry = Registry::with_prefix("tollgate");
        let durations = DurationHistogram::new();
        registry.register_with_unit(
            "decision_duration",
            "How long deciding took, without reading the request or writing the answer",
            Unit::Seconds,
            durations.clone(),
        );
        // A gauge rather than an `info`, which Prometheus' own text format does not know.
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "Which tollgate this is", build);
        let uncounted = Counter::default();
        registry.register(
            "uncounted_refusals",
            "Requests refused because the store could not count them: it is full, or does not answer",
            uncounted.clone(),
        );
        let policy = PolicyInfo::default();
        registry.register("policy_info", "Which policy is in force, by what it says", policy.clone());
        let store = StoreMetrics { limiter: limiter.clone(), receipts: Arc::clone(receipts) };
        registry.register_collector(Box::new(store));
        registry.register_collector(Box::new(ObserverMetrics(Arc::clone(observer))));
        let connections = ConnectionMetrics::default();
        connections.register(&mut registry);
        let reloads = ReloadMetrics::new(limiter.now_ns());
        reloads.register(&mut registry);
        let receipts = ReceiptMetrics::default();
        receipts.register(&mut registry);
        Metrics { registry, rules: RuleMetrics::new(), policy, durations, uncounted, connections, reloads, receipts }
    }

    /// Shows what is counted about snapshots too.
    pub(crate) fn show_snapshots(&mut self, snapshots: &SnapshotMetrics) {
        self.snapshots = Some(snapshots.clone());
    }

    /// Makes ready for a policy that is about to be in force.
    pub(crate) fn prepare_for(&self, policy: &CheckedPolicy, compiled: &Arc<CompiledPolicy>) {
        self.policy.set(policy.fingerprint());
        self.rules.prepare_for(compiled);
    }

    /// Counts a decision, and how long it took, and tells which limits refused it.
    #[inline]
    pub(crate) fn count(&self, decided: &Decided<'_>, taken_ns: u64) -> RefusedBy {
        self.durations.observe(decided.front_end, taken_ns);
        if decided.is_uncounted {
            self.uncounted.inc();
        }
        self.rules.count(decided)
    }

    /// Counts what was decided under a limit that the caller brought.
    pub(crate) fn count_throttled(&self, cost: u64, decision: &Decision) {
        self.rules.count_throttled(cost, decision);
        if decision.verdict == ChargeVerdict::NoRoom {
            self.uncounted.inc();
        }
    }

    /// So many of those took so long together.
    pub(crate) fn time_throttled(&self, count: u64, taken_ns: u64) {
        self.durations.observe_together(FrontEnd::Resp, count, taken_ns);
    }

    /// Everything, in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let exposition = &mut Exposition::behind(&mut text);
        self.durations.write(exposition);
        // A gauge rather than an `info`, which the text format does not know.
        exposition.describe("tollgate_build_info", Kind::Gauge, "Which tollgate this is.");
        exposition.sample("tollgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        exposition.counter(
            "tollgate_uncounted_refusals_total",
            "Requests refused because the store could not count them: it is full, or does not answer.",
            self.uncounted.get(),
        );
        self.policy.write(exposition);
        self.connections.write(exposition);
        self.reloads.write(exposition);
        self.receipts.write(exposition);
        if let Some(snapshots) = &self.snapshots {
            snapshots.write(exposition);
        }
        self.write_store(exposition);
        self.observer.write_metrics(exposition);
        self.rules.write(&mut text);
        text
    }

/// Asks the store and the receipts when somebody asks us.
struct StoreMetrics {
    limiter: AsyncLimiter,
    receipts: Arc<Receipts>,
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(store) = self.limiter.store_as::<RedisStore>() {
            shared_store_metrics::encode(&store.stats(), &mut encoder)?;
        }
        let mut write = |name: &str, help: &str, unit: Option<&Unit>, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
        };
        let receipts = ConstGauge::new(self.receipts.len() as u64);
        write("receipts", "Receipts that callers may bring back.", None, &receipts)?;
        let evicted = ConstCounter::new(self.receipts.evicted());
        write(
            "receipts_evicted",
            "Receipts forgotten early because their caller, or all, had too many.",
            receipts.evicted(),
        );
        // Keys elsewhere are not ours to count.
        let Some(stats) = self.limiter.memory_store().map(MemoryStore::stats) else { return Ok(()) };
        write("keys", "About how many keys are live.", None, &ConstGauge::new(stats.live_keys as u64))?;
        let evictions = ConstCounter::new(stats.evictions);
        write("evictions", "Live keys of rules that had to make room for others.", None, &evictions)?;
        let evictions = ConstCounter::new(stats.caller_evictions);
        write("caller_evictions", "Live keys of callers that had to make room for others.", None, &evictions)?;
        let quotas = ConstGauge::new(stats.quotas as u64);
        write("bucket_quotas", "Bucket quotas that the store tells apart, of 4096.", None, &quotas)?;
        let quotas = ConstGauge::new(stats.quotas_used as u64);
        write("bucket_quotas_used", "Those of them that a limit uses.", None, &quotas)?;
        write("store", "Memory of the store's tables.", Some(&Unit::Bytes), &ConstGauge::new(stats.bytes as u64))
    }
}

fn write_memory_store(stats: &Stats, exposition: &mut Exposition<'_>) {
    exposition.gauge("tollgate_keys", "About how many keys are live.", stats.live_keys as u64);
    exposition.counter(
        "tollgate_evictions_total",
        "Live keys of rules that had to make room for others.",
        stats.evictions,
    );
    exposition.counter(
        "tollgate_caller_evictions_total",
        "Live keys of callers that had to make room for others.",
        stats.caller_evictions,
    );
    exposition.gauge(
        "tollgate_bucket_quotas",
        "Bucket quotas that the store tells apart, of 4096.",
        stats.quotas as u64,
    );
    exposition.gauge("tollgate_bucket_quotas_used", "Those of them that a limit uses.", stats.quotas_used as u64);
    exposition.gauge("tollgate_store_bytes", "Memory of the store's tables.", stats.bytes as u64);
}
