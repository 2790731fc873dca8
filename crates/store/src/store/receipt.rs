use std::any::Any;

use tollgate_core::Charged;

use crate::limit::Limit;
use crate::store::charge::KeyHash;

/// Proof of a charge. It refunds, settles or releases the charge, once, because that consumes the receipt.
///
/// ```
/// use tollgate_store::{MemoryStore, Quota};
///
/// let store = MemoryStore::new();
/// let limit = store.limit("tokens", Quota::token_bucket("1000/h".parse()?)?)?;
/// let (decision, receipt) = store.check_with_receipt(&limit, "alice", 100);
/// assert!(decision.is_allowed());
/// if let Some(receipt) = receipt {
///     assert_eq!(receipt.cost(), 100);
///     store.settle(receipt, 40);
/// }
/// assert!(store.peek(&limit, "alice").remaining >= 960);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a charge can be refunded only with its receipt"]
pub struct ChargeReceipt {
    pub(crate) limit: Limit,
    /// The key of the counter, in a memory store.
    pub(crate) key: KeyHash,
    /// The core's record of the charge.
    pub(crate) charged: Charged,
    /// The private data of a store other than the memory store.
    private: Option<Box<dyn Any + Send + Sync>>,
}

impl ChargeReceipt {
    pub(crate) fn in_memory(limit: Limit, key: KeyHash, charged: Charged) -> ChargeReceipt {
        ChargeReceipt { limit, key, charged, private: None }
    }

    /// Creates a receipt of a store other than the memory store, with the private data that the store needs to find the
    /// charge again.
    pub fn new(limit: Limit, charged: Charged, private: impl Any + Send + Sync) -> ChargeReceipt {
        ChargeReceipt { limit, key: KeyHash(0), charged, private: Some(Box::new(private)) }
    }

    /// Returns the charged cost.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.charged.cost
    }

    /// Returns the core's record of the charge: the cost, the time and the position in the state that a refund needs.
    /// Its times are in the unit of the store ([`Tick`](tollgate_core::Tick)).
    #[must_use]
    pub fn charged(&self) -> &Charged {
        &self.charged
    }

    /// Returns the limit that was charged.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the private data that was passed to [`ChargeReceipt::new`]; `None` if it has another type.
    #[must_use]
    pub fn private<T: Any>(&self) -> Option<&T> {
        self.private.as_deref()?.downcast_ref()
    }

    /// Returns the limit, the record of the charge and the private data by value, for operations that consume the
    /// receipt.
    #[must_use]
    pub fn into_parts<T: Any>(self) -> Option<(Limit, Charged, T)> {
        let private = self.private?.downcast().ok()?;
        Some((self.limit, self.charged, *private))
    }
}
