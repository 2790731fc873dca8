use tollgate_core::Charged;

use crate::limit::Limit;

/// Proof of a charge, with which it can be given back, settled or released:
/// once, because that takes the receipt.
#[derive(Debug)]
#[must_use = "a charge that may have to be given back needs its receipt"]
pub struct Receipt {
    pub(crate) limit: Limit,
    pub(crate) hash: u64,
    pub(crate) charged: Charged,
}

impl Receipt {
    /// What was charged.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.charged.cost
    }

    /// The limit it was charged to.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }
}
