use super::counter::CounterMetric;
use super::exposition::{Exposition, MetricKind};

/// A use of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiptUse {
    /// Refunds everything.
    Refund,
    /// Replaces the estimate by the actual cost.
    Settle,
    /// Releases permits.
    Release,
}

/// Metrics of receipt uses.
#[derive(Debug, Default)]
pub(crate) struct ReceiptMetrics {
    /// By [`ReceiptUse`]: known and unknown ones.
    uses: [[CounterMetric; 2]; 3],
    overrun: CounterMetric,
}

impl ReceiptMetrics {
    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_receipt_uses_total";
        exposition.describe(NAME, MetricKind::Counter, "Receipt uses, by operation and outcome.");
        for (operation, used) in ["refund", "settle", "release"].into_iter().zip(&self.uses) {
            for (outcome, count) in ["done", "unknown"].into_iter().zip(used) {
                exposition.sample(NAME, &[("operation", operation), ("outcome", outcome)], count.get());
            }
        }
        exposition.counter(
            "tollgate_settle_overrun_total",
            "Cost that could neither be charged nor recorded as debt at settlement.",
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
