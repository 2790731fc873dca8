//! What the service counts about itself, and how Prometheus reads it.

pub(crate) mod counter;
pub(crate) mod exposition;
pub(crate) mod public_names;
pub(crate) mod receipt_metrics;
pub(crate) mod reload_metrics;
pub(crate) mod sharded_counters;
pub(crate) mod shared_store_metrics;

use tollgate::{RedisStore, Stats};

use crate::engine::Engine;
use crate::listen::ConnectionMetrics;
use crate::rule_metrics::RuleMetrics;
use exposition::{Exposition, Kind};
use receipt_metrics::ReceiptMetrics;
use reload_metrics::ReloadMetrics;

/// What the service counts about itself.
pub(crate) struct Metrics {
    pub(crate) rules: RuleMetrics,
    pub(crate) connections: ConnectionMetrics,
    pub(crate) reloads: ReloadMetrics,
    pub(crate) receipts: ReceiptMetrics,
}

impl Metrics {
    /// The policy that the service starts with has been read at that time.
    pub(crate) fn new(now_ns: u64) -> Metrics {
        Metrics {
            rules: RuleMetrics::new(),
            connections: ConnectionMetrics::default(),
            reloads: ReloadMetrics::new(now_ns),
            receipts: ReceiptMetrics::default(),
        }
    }

    /// These and what the parts of the engine count for themselves, in Prometheus' text format.
    pub(crate) fn text(&self, engine: &Engine) -> String {
        let totals = self.rules.totals();
        let mut text = String::with_capacity(totals.text_bytes());
        let exposition = &mut Exposition::behind(&mut text);
        // Gauges rather than `info`, which the text format does not know.
        exposition.describe("tollgate_build_info", Kind::Gauge, "Which tollgate this is.");
        exposition.sample("tollgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        exposition.describe("tollgate_policy_info", Kind::Gauge, "Which policy is in force, by what it says.");
        // Instances that share counters and differ in this hold the same key to different limits.
        engine.with_fingerprint(|fingerprint| {
            exposition.sample("tollgate_policy_info", &[("fingerprint", fingerprint)], 1);
        });
        exposition.counter(
            "tollgate_uncounted_refusals_total",
            "Requests refused because the store could not count them: it is full, or does not answer.",
            self.rules.uncounted.get(),
        );
        self.connections.write(exposition);
        self.reloads.write(exposition);
        self.receipts.write(exposition);
        if let Some(keeper) = engine.snapshots() {
            keeper.metrics().write(exposition);
        }
        write_stores(engine, exposition);
        engine.observer().write_metrics(exposition);
        totals.write(exposition);
        text
    }
}

/// What the store and the receipts say of themselves.
fn write_stores(engine: &Engine, exposition: &mut Exposition<'_>) {
    if let Some(store) = engine.limiter().store_as::<RedisStore>() {
        shared_store_metrics::write(&store.stats(), exposition);
    }
    let receipts = engine.receipts();
    exposition.gauge("tollgate_receipts", "Receipts that callers may bring back.", receipts.len() as u64);
    exposition.counter(
        "tollgate_receipts_evicted_total",
        "Receipts forgotten early because their caller, or all, had too many.",
        receipts.evicted(),
    );
    // Keys elsewhere are not ours to count.
    if let Some(store) = engine.limiter().memory_store() {
        write_memory_store(&store.stats(), exposition);
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
