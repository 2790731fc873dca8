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
    /// By [`ReceiptUse`]: known and unknown ones.
    uses: [[Counter; 2]; 3],
    overrun: Counter,
}

impl ReceiptMetrics {
    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_receipt_uses_total";
        exposition.describe(NAME, Kind::Counter, "Receipts brought back, and whether they were known.");
        for (operation, used) in ["refund", "settle", "release"].into_iter().zip(&self.uses) {
            for (outcome, count) in ["done", "unknown"].into_iter().zip(used) {
                exposition.sample(NAME, &[("operation", operation), ("outcome", outcome)], count.get());
            }
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
        self.uses[receipt_use as usize][usize::from(!is_known)].inc();
    }
}
