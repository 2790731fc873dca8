//! Receipts of charges to divided limits.

use tollgate_core::Charged;
use tollgate_store::{ChargeReceipt, Limit};

use super::key_table::KeyName;

/// The private data in a [`ChargeReceipt`] for a divided limit.
#[derive(Debug)]
pub(super) struct DividedReceipt {
    pub(super) name: KeyName,
    /// What the fallback has charged; `None` if the share of the region decided, or if the limit failed open.
    pub(super) fallback: Option<ChargeReceipt>,
    /// Whether the share of the region decided.
    pub(super) is_decided: bool,
}

impl DividedReceipt {
    pub(super) fn of_share(limit: &Limit, name: &KeyName, charged: Charged) -> ChargeReceipt {
        let data = DividedReceipt { name: name.clone(), fallback: None, is_decided: true };
        ChargeReceipt::new(limit.clone(), charged, data)
    }

    pub(super) fn of_fallback(
        limit: &Limit,
        name: &KeyName,
        cost: u64,
        fallback: Option<ChargeReceipt>,
    ) -> ChargeReceipt {
        let charged = fallback.as_ref().map_or(Charged { cost, ..Charged::default() }, |receipt| *receipt.charged());
        ChargeReceipt::new(limit.clone(), charged, DividedReceipt { name: name.clone(), fallback, is_decided: false })
    }
}
