use super::counter::Counter;
use super::exposition::{Exposition, Kind};

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
#[derive(Debug, Default)]
pub(crate) struct ReceiptMetrics {
    refund: Used,
    settle: Used,
    release: Used,
    overrun: Counter,
}

#[derive(Debug, Default)]
struct Used {
    known: Counter,
    unknown: Counter,
}

impl ReceiptMetrics {
    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_receipt_uses_total";
        exposition.describe(NAME, Kind::Counter, "Receipts brought back, and whether they were known.");
        for (operation, used) in [("refund", &self.refund), ("settle", &self.settle), ("release", &self.release)] {
            exposition.sample(NAME, &[("operation", operation), ("outcome", "done")], used.known.get());
            exposition.sample(NAME, &[("operation", operation), ("outcome", "unknown")], used.unknown.get());
        }
        exposition.counter(
            "tollgate_settle_overrun_total",
            "What requests truly cost beyond what could be charged or owed when they were settled.",
            self.overrun.get(),
        );
    }

    /// Counts what a settlement could not charge.
    pub(crate) fn count_overrun(&self, overrun: u64) {
        self.overrun.inc_by(overrun);
    }

    pub(crate) fn count(&self, receipt_use: ReceiptUse, is_known: bool) {
        let used = match receipt_use {
            ReceiptUse::Refund => &self.refund,
            ReceiptUse::Settle => &self.settle,
            ReceiptUse::Release => &self.release,
        };
        if is_known { &used.known } else { &used.unknown }.inc();
    }
}
