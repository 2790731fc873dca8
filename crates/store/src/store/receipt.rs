use std::any::Any;

use tollgate_core::Charged;

use crate::limit::Limit;
use crate::store::charge::KeyHash;

/// Proof of a charge, with which it can be given back, settled or released:
/// once, because that takes the receipt.
#[derive(Debug)]
#[must_use = "a charge that may have to be given back needs its receipt"]
pub struct Receipt {
    pub(crate) limit: Limit,
    /// Whose counter, in a memory store.
    pub(crate) key: KeyHash,
    pub(crate) charged: Charged,
    /// What any other store needs besides.
    private: Option<Box<dyn Any + Send + Sync>>,
}

impl Receipt {
    pub(crate) fn in_memory(limit: Limit, key: KeyHash, charged: Charged) -> Receipt {
        Receipt { limit, key, charged, private: None }
    }

    /// A receipt of a store of one's own, with what that store needs to find the charge again.
    pub fn new(limit: Limit, charged: Charged, private: impl Any + Send + Sync) -> Receipt {
        Receipt { limit, key: KeyHash(0), charged, private: Some(Box::new(private)) }
    }

    /// What was charged.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.charged.cost
    }

    /// Which charge it was, in the time of its store.
    #[must_use]
    pub fn charged(&self) -> &Charged {
        &self.charged
    }

    /// The limit it was charged to.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// What its store gave to [`Receipt::new`]; `None` if that was of another type.
    #[must_use]
    pub fn private<T: Any>(&self) -> Option<&T> {
        self.private.as_deref()?.downcast_ref()
    }

    /// The same by value, with the limit and the charge, for what can be done once.
    #[must_use]
    pub fn into_parts<T: Any>(self) -> Option<(Limit, Charged, T)> {
        let private = self.private?.downcast().ok()?;
        Some((self.limit, self.charged, *private))
    }
}
