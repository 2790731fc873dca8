use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tollgate_core::Charged;
use tollgate_store::Receipt;

use super::limit::RedisLimit;
use crate::call::Target;
use crate::transport::Slot;

/// Proof of a charge, wherever it was counted.
#[derive(Debug)]
pub(crate) struct RedisReceipt {
    pub(super) limit: RedisLimit,
    pub(super) key: Box<[u8]>,
    pub(super) target: Target,
    pub(super) made: MadeWhere,
}

/// Who counted a charge.
#[derive(Debug)]
pub(super) enum MadeWhere {
    Server {
        slot: Slot,
        charged: Charged,
        lease_lost: Arc<AtomicBool>,
    },
    /// This instance alone, while the store failed.
    Here {
        receipt: Receipt,
    },
    /// Nobody: it passed because the store failed.
    Nowhere {
        cost: u64,
    },
}
