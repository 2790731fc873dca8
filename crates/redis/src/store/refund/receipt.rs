use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tollgate_core::Charged;
use tollgate_store::Receipt;

use crate::call::Target;
use crate::store::limit::RedisLimit;
use crate::transport::Slot;

/// Proof of a charge, wherever it was counted.
#[derive(Debug)]
pub struct RedisReceipt {
    pub(in crate::store) limit: RedisLimit,
    pub(in crate::store) key: Box<[u8]>,
    pub(in crate::store) target: Target,
    pub(in crate::store) made: MadeWhere,
}

/// Who counted a charge.
#[derive(Debug)]
pub(in crate::store) enum MadeWhere {
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

/// What a test may see of a receipt.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenReceipt {
    Server(Charged),
    Here,
    Nowhere,
}

#[cfg(test)]
impl RedisReceipt {
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn limit_is_concurrency(&self) -> bool {
        self.limit.is_concurrency()
    }

    pub(crate) fn seen(&self) -> SeenReceipt {
        match &self.made {
            MadeWhere::Server { charged, .. } => SeenReceipt::Server(*charged),
            MadeWhere::Here { .. } => SeenReceipt::Here,
            MadeWhere::Nowhere { .. } => SeenReceipt::Nowhere,
        }
    }

    pub(crate) fn cost(&self) -> u64 {
        match &self.made {
            MadeWhere::Server { charged, .. } => charged.cost,
            MadeWhere::Here { receipt } => receipt.cost(),
            MadeWhere::Nowhere { cost } => *cost,
        }
    }
}
