use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tollgate_core::Charged;
use tollgate_store::{ChargeReceipt, Limit};

use crate::call::Target;
use crate::store::leases::LotId;
use crate::transport::Slot;

/// The private data of a Redis store in a [`ChargeReceipt`].
#[derive(Debug)]
pub(in crate::store) struct RedisReceiptData {
    /// The key as supplied by the caller.
    pub(in crate::store) key: Box<[u8]>,
    /// The name of that key on the servers.
    pub(in crate::store) name: Arc<[u8]>,
    pub(in crate::store) admitted_by: AdmittedBy,
}

/// What admitted a charge, and so where it is refunded.
#[derive(Debug)]
pub(in crate::store) enum AdmittedBy {
    /// A server, which counts the charge.
    Server {
        slot: Slot,
        /// Whether a renewal has found that the lease is not held any more.
        lease_lost: Arc<AtomicBool>,
    },
    /// A lease of this instance.
    Lease { slot: Slot, lot: LotId },
    /// The local counters of this instance, because the server failed.
    Fallback { receipt: ChargeReceipt },
    /// The failure mode of the limit, because the server failed ([`OnFailure::Open`](tollgate_store::OnFailure::Open)).
    /// No counter has the charge; only its debt is recorded.
    FailOpen,
}

impl RedisReceiptData {
    /// Creates a receipt of a charge to the key of `target`; `key` is that key as supplied by the caller.
    pub(in crate::store) fn receipt(
        target: &Target,
        key: &[u8],
        charged: Charged,
        admitted_by: AdmittedBy,
    ) -> ChargeReceipt {
        let data = RedisReceiptData { key: key.into(), name: Arc::clone(&target.key), admitted_by };
        ChargeReceipt::new(target.limit.clone(), charged, data)
    }

    /// Splits a receipt into its key and limit, the record of the charge, and the private data of this store.
    ///
    /// # Panics
    /// If the receipt was made by a store of another kind.
    pub(in crate::store) fn take(receipt: ChargeReceipt) -> (Target, Charged, RedisReceiptData) {
        match receipt.into_parts::<RedisReceiptData>() {
            Some((limit, charged, data)) => (data.target(&limit), charged, data),
            None => panic!("{WRONG_STORE}"),
        }
    }

    /// Returns the private data of this store in a receipt. Panics like [`RedisReceiptData::take`].
    pub(in crate::store) fn of(receipt: &ChargeReceipt) -> &RedisReceiptData {
        match receipt.private() {
            Some(data) => data,
            None => panic!("{WRONG_STORE}"),
        }
    }

    pub(in crate::store) fn target(&self, limit: &Limit) -> Target {
        Target { key: Arc::clone(&self.name), limit: limit.clone() }
    }
}

const WRONG_STORE: &str = "a receipt can only be used in the store that made it";

/// What admitted a charge, for tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiptKind {
    Server(Charged),
    Lease,
    Fallback,
    FailOpen,
}

#[cfg(test)]
pub(crate) fn receipt_kind(receipt: &ChargeReceipt) -> ReceiptKind {
    match &RedisReceiptData::of(receipt).admitted_by {
        AdmittedBy::Server { .. } => ReceiptKind::Server(*receipt.charged()),
        AdmittedBy::Lease { .. } => ReceiptKind::Lease,
        AdmittedBy::Fallback { .. } => ReceiptKind::Fallback,
        AdmittedBy::FailOpen => ReceiptKind::FailOpen,
    }
}

/// Returns the name of a receipt's key on the servers.
#[cfg(test)]
pub(crate) fn key_name(receipt: &ChargeReceipt) -> Arc<[u8]> {
    Arc::clone(&RedisReceiptData::of(receipt).name)
}
