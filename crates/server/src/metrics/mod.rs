//! Metrics of the service, in Prometheus' format.

pub(crate) mod counter;
pub(crate) mod exposition;
pub(crate) mod public_names;
pub(crate) mod receipt_metrics;
pub(crate) mod region_metrics;
pub(crate) mod reload_metrics;
pub(crate) mod sharded_counters;
pub(crate) mod shared_store_metrics;

use tollgate::redis::RedisStore;
use tollgate::store::Stats;

use crate::engine::Engine;
use crate::listen::ConnectionMetrics;
use crate::rule_metrics::RuleMetrics;
use crate::store::{memory_stats, region_status};
use exposition::{Exposition, MetricKind};
use receipt_metrics::ReceiptMetrics;
use reload_metrics::ReloadMetrics;

/// The metrics of the service.
pub(crate) struct ServiceMetrics {
    pub(crate) rules: RuleMetrics,
    pub(crate) connections: ConnectionMetrics,
    pub(crate) reloads: ReloadMetrics,
    pub(crate) receipts: ReceiptMetrics,
}

impl ServiceMetrics {
    /// Creates the metrics; the policy was loaded at that time.
    pub(crate) fn new(now_ns: u64) -> ServiceMetrics {
        ServiceMetrics {
            rules: RuleMetrics::new(),
            connections: ConnectionMetrics::default(),
            reloads: ReloadMetrics::new(now_ns),
            receipts: ReceiptMetrics::default(),
        }
    }

    /// Returns these and the metrics of the engine's parts, in Prometheus' text format.
    pub(crate) fn text(&self, engine: &Engine) -> String {
        let totals = self.rules.totals();
        let mut text = String::with_capacity(totals.text_bytes());
        let exposition = &mut Exposition::append_to(&mut text);
        // Gauges instead of `info`, which the text format does not support.
        exposition.describe("tollgate_build_info", MetricKind::Gauge, "The version of tollgate.");
        exposition.sample("tollgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        exposition.describe("tollgate_policy_info", MetricKind::Gauge, "The fingerprint of the active policy.");
        // Instances that share counters and differ in this apply different limits to the same key.
        engine.with_fingerprint(|fingerprint| {
            exposition.sample("tollgate_policy_info", &[("fingerprint", fingerprint)], 1);
        });
        exposition.counter(
            "tollgate_uncounted_refusals_total",
            "Requests refused because the store could not count them: it is full or unreachable.",
            self.rules.uncounted.get(),
        );
        self.connections.write(exposition);
        self.reloads.write(exposition);
        self.receipts.write(exposition);
        if let Some(writer) = engine.snapshots() {
            writer.metrics().write(exposition);
        }
        write_stores(engine, exposition);
        engine.observer().write_metrics(exposition);
        totals.write(exposition);
        text
    }
}

/// Writes the metrics of the store and of receipts.
fn write_stores(engine: &Engine, exposition: &mut Exposition<'_>) {
    if let Some(store) = engine.limiter().store_as::<RedisStore>() {
        shared_store_metrics::write(&store.stats(), exposition);
    }
    if let Some(status) = region_status(engine.limiter()) {
        region_metrics::write(&status, exposition);
    }
    let receipts = engine.receipts();
    exposition.gauge("tollgate_receipts", "Valid receipts.", receipts.len() as u64);
    exposition.counter(
        "tollgate_receipts_evicted_total",
        "Receipts evicted because their caller, or all callers, had too many.",
        receipts.evicted(),
    );
    // Keys of a shared store are not counted here.
    if let Some(stats) = memory_stats(engine.limiter()) {
        write_memory_store(&stats, exposition);
    }
}

fn write_memory_store(stats: &Stats, exposition: &mut Exposition<'_>) {
    exposition.gauge("tollgate_keys", "Number of live keys; an estimate in a large store.", stats.live_keys as u64);
    exposition.counter("tollgate_evictions_total", "Live keys of rules evicted for others.", stats.evictions);
    exposition.counter(
        "tollgate_caller_evictions_total",
        "Live keys of caller-supplied limits evicted for others.",
        stats.caller_evictions,
    );
    exposition.gauge("tollgate_bucket_quotas", "Distinct bucket quotas in the store, of 4096.", stats.quotas as u64);
    exposition.gauge("tollgate_bucket_quotas_used", "Bucket quotas in use.", stats.quotas_used as u64);
    exposition.gauge("tollgate_store_bytes", "Memory of the store's tables in bytes.", stats.bytes as u64);
}
