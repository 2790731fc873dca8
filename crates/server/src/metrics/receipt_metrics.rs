use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What a caller does with a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiptUse {
    /// Everything is given back.
    Refund,
    /// The true cost replaces the estimate.
    Settle,
    /// Permits are let go of.
    Release,
}

/// How often receipts were brought back, and for what.
#[derive(Clone, Debug)]
pub(crate) struct ReceiptMetrics {
    by_use: [Used; 3],
    overrun: Counter,
    all: Family<ReceiptLabels, Counter>,
}

#[derive(Clone, Debug)]
struct Used {
    known: Counter,
    unknown: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReceiptLabels {
    operation: &'static str,
    outcome: &'static str,
}

impl Default for ReceiptMetrics {
    fn default() -> ReceiptMetrics {
        let all = Family::<ReceiptLabels, Counter>::default();
        let counter = |operation, outcome| all.get_or_create_owned(&ReceiptLabels { operation, outcome });
        let used = |operation| Used { known: counter(operation, "done"), unknown: counter(operation, "unknown") };
        ReceiptMetrics { by_use: ["refund", "settle", "release"].map(used), overrun: Counter::default(), all }
    }
}

impl ReceiptMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("receipt_uses", "Receipts brought back, and whether they were known", self.all.clone());
        registry.register(
            "settle_overrun",
            "What requests truly cost beyond what could be charged or owed when they were settled",
            self.overrun.clone(),
        );
    }

    /// Counts what a settlement could not charge.
    pub(crate) fn count_overrun(&self, overrun: u64) {
        self.overrun.inc_by(overrun);
    }

    pub(crate) fn count(&self, receipt_use: ReceiptUse, is_known: bool) {
        let used = match receipt_use {
            ReceiptUse::Refund => &self.by_use[0],
            ReceiptUse::Settle => &self.by_use[1],
            ReceiptUse::Release => &self.by_use[2],
        };
        if is_known { &used.known } else { &used.unknown }.inc();
    }
}
