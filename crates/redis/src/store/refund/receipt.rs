use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tollgate_core::Charged;
use tollgate_store::{Limit, Receipt};

use crate::call::Target;
use crate::transport::Slot;

/// What a shared store keeps with a receipt, wherever the charge was counted.
#[derive(Debug)]
pub(in crate::store) struct SharedReceipt {
    /// The key as it was given.
    pub(in crate::store) key: Box<[u8]>,
    /// Its name on the servers.
    pub(in crate::store) name: Arc<[u8]>,
    pub(in crate::store) made: MadeWhere,
}

/// Who counted a charge.
#[derive(Debug)]
pub(in crate::store) enum MadeWhere {
    Server {
        slot: Slot,
        lease_lost: Arc<AtomicBool>,
    },
    /// This instance alone, while the store failed.
    Here {
        receipt: Receipt,
    },
    /// No store: it passed because the store failed.
    Nowhere,
}

impl SharedReceipt {
    /// A receipt of a charge to the key of `target`, which was given as `key`.
    pub(in crate::store) fn receipt(target: &Target, key: &[u8], charged: Charged, made: MadeWhere) -> Receipt {
        let shared = SharedReceipt { key: key.into(), name: Arc::clone(&target.key), made };
        Receipt::new(target.limit.clone(), charged, shared)
    }

    /// What a receipt is for: the key under its limit, the charge, and what is kept of it here.
    ///
    /// # Panics
    /// If the receipt was made by a store of another kind.
    pub(in crate::store) fn take(receipt: Receipt) -> (Target, Charged, SharedReceipt) {
        match receipt.into_parts::<SharedReceipt>() {
            Some((limit, charged, shared)) => (shared.target(&limit), charged, shared),
            None => panic!("{OF_ANOTHER_STORE}"),
        }
    }

    /// The same without taking it.
    pub(in crate::store) fn of(receipt: &Receipt) -> &SharedReceipt {
        match receipt.private() {
            Some(shared) => shared,
            None => panic!("{OF_ANOTHER_STORE}"),
        }
    }

    pub(in crate::store) fn target(&self, limit: &Limit) -> Target {
        Target { key: Arc::clone(&self.name), limit: limit.clone() }
    }
}

const OF_ANOTHER_STORE: &str = "a receipt can only be used in the store that made it";

/// What a test may see of a receipt.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenReceipt {
    Server(Charged),
    Here,
    Nowhere,
}

#[cfg(test)]
pub(crate) fn seen_receipt(receipt: &Receipt) -> SeenReceipt {
    match &SharedReceipt::of(receipt).made {
        MadeWhere::Server { .. } => SeenReceipt::Server(*receipt.charged()),
        MadeWhere::Here { .. } => SeenReceipt::Here,
        MadeWhere::Nowhere => SeenReceipt::Nowhere,
    }
}

/// The name of its key on the servers.
#[cfg(test)]
pub(crate) fn key_name(receipt: &Receipt) -> Arc<[u8]> {
    Arc::clone(&SharedReceipt::of(receipt).name)
}
