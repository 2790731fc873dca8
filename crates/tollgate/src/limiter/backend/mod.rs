//! Where the counters of a limiter are: in this process, or behind any other [`Store`].

pub(in crate::limiter) mod erased;

use std::error::Error;

use smallvec::SmallVec;
use tollgate_core::{Decision, Quota, Settled};
use tollgate_policy::Matched;
use tollgate_store::{
    Board, ChangeError, KeyedCharge, Limit, LimitOptions, MemoryStore, Mode, Notice, Outcome, Receipt as MemoryReceipt,
    Store,
};

use erased::{ErasedLimit, ErasedReceipt, ErasedStore};

/// The store behind a limiter. One in this process is called directly, and answers at once.
#[allow(clippy::large_enum_variant, reason = "a limiter has one")]
pub(in crate::limiter) enum Backend {
    Memory(MemoryStore),
    Other(Box<dyn ErasedStore>),
}

/// The limits of a policy, made by the store that counts them.
#[derive(Clone)]
pub(in crate::limiter) enum Limits {
    Memory(Vec<Limit>),
    Other(Vec<ErasedLimit>),
}

/// A limit that a caller brings along, apart from those of the policy: see
/// [`AsyncLimiter::caller_limit`](crate::AsyncLimiter::caller_limit).
#[derive(Clone, Debug)]
pub struct CallerLimit(pub(in crate::limiter) BackendLimit);

#[derive(Clone, Debug)]
pub(in crate::limiter) enum BackendLimit {
    Memory(Limit),
    Other(ErasedLimit),
}

/// Proof of one charge.
#[derive(Debug)]
pub(crate) enum ChargeReceipt {
    Memory(MemoryReceipt),
    Other(ErasedReceipt),
}

/// One charge that the store is asked to make: to the key of a matched charge, under one of the policy's limits.
#[derive(Clone, Copy, Debug)]
pub(in crate::limiter) struct LimitCharge {
    /// The position of the limit among those of the policy.
    pub(in crate::limiter) limit: u32,
    /// The position of the matched charge whose key it is.
    pub(in crate::limiter) charge: u32,
    pub(in crate::limiter) cost: u64,
    pub(in crate::limiter) mode: Mode,
    pub(in crate::limiter) receipt: bool,
}

pub(in crate::limiter) type LimitCharges = SmallVec<[LimitCharge; 4]>;

/// A charge under a limit that a caller brings along.
#[derive(Clone, Copy, Debug)]
pub struct CallerCharge<'a> {
    /// Under which limit.
    pub limit: &'a CallerLimit,
    /// Whose counter.
    pub key: &'a [u8],
    /// How much.
    pub cost: u64,
}

/// A limiter hands a limit or receipt back to the store that made it: it has one store, and keeps it.
const OF_ANOTHER_STORE: &str = "a limit or receipt of another store";

impl Backend {
    /// Makes charges, all or none, in a store in this process.
    pub(in crate::limiter) fn decide_in_memory(
        store: &MemoryStore,
        limits: &Limits,
        matched: &Matched<'_>,
        charges: &[LimitCharge],
        extra: &[CallerCharge<'_>],
    ) -> Outcome<ChargeReceipt> {
        let charges = keyed(matched, charges, extra, |at| limits.memory(at), |limit| limit.0.memory());
        store.decide_as(&charges, |limit| limit, ChargeReceipt::Memory)
    }

    /// The same in any other store.
    pub(in crate::limiter) async fn decide_elsewhere(
        store: &dyn ErasedStore,
        limits: &Limits,
        matched: &Matched<'_>,
        charges: &[LimitCharge],
        extra: &[CallerCharge<'_>],
    ) -> Outcome<ChargeReceipt> {
        let charges = keyed(matched, charges, extra, |at| limits.other(at), |limit| limit.0.other());
        let Outcome { passed, decisions, receipts, source, asked } = store.decide(&charges).await;
        let wrap = |(at, receipt)| (at, ChargeReceipt::Other(receipt));
        Outcome { passed, decisions, receipts: receipts.into_iter().map(wrap).collect(), source, asked }
    }

    /// Decides charges of cost 0 or more to one key, each under a limit, all or none.
    pub(in crate::limiter) async fn decide_for_key(
        &self,
        limits: &[BackendLimit],
        key: &[u8],
        cost: u64,
        mode: Mode,
    ) -> Outcome<ChargeReceipt> {
        let charge = |limit| KeyedCharge { limit, key, cost, mode, receipt: false };
        match self {
            Backend::Memory(store) => {
                let charges: SmallVec<[KeyedCharge<'_, BackendLimit>; 4]> = limits.iter().map(charge).collect();
                store.decide_as(&charges, BackendLimit::memory, ChargeReceipt::Memory)
            }
            Backend::Other(store) => {
                let charges: SmallVec<[KeyedCharge<'_, ErasedLimit>; 4]> = limits
                    .iter()
                    .map(|limit| KeyedCharge { limit: limit.other(), key, cost, mode, receipt: false })
                    .collect();
                let Outcome { passed, decisions, source, asked, .. } = store.decide(&charges).await;
                Outcome { passed, decisions, receipts: Vec::new(), source, asked }
            }
        }
    }

    /// Decides one charge under a limit that a caller brings along, in a store in this process.
    #[inline]
    pub(in crate::limiter) fn check_caller_in_memory(store: &MemoryStore, charge: CallerCharge<'_>) -> Decision {
        store.check(charge.limit.0.memory(), charge.key, charge.cost)
    }

    pub(in crate::limiter) fn limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<BackendLimit, Box<dyn Error + Send + Sync>> {
        Ok(match self {
            Backend::Memory(store) => BackendLimit::Memory(Store::limit(store, scope, quota, options)?),
            Backend::Other(store) => BackendLimit::Other(store.limit(scope, quota, options)?),
        })
    }

    pub(in crate::limiter) fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<CallerLimit, Box<dyn Error + Send + Sync>> {
        Ok(CallerLimit(match self {
            Backend::Memory(store) => BackendLimit::Memory(store.caller_limit(scope, quota)?),
            Backend::Other(store) => BackendLimit::Other(store.caller_limit(scope, quota, options)?),
        }))
    }

    /// The time by which the store decides, in nanoseconds since 1970.
    #[inline]
    pub(in crate::limiter) fn now_ns(&self) -> u64 {
        match self {
            Backend::Memory(store) => Store::now_ns(store),
            Backend::Other(store) => store.now_ns(),
        }
    }

    pub(in crate::limiter) fn give_back(&self, receipt: ChargeReceipt) {
        match (self, receipt) {
            (Backend::Memory(store), ChargeReceipt::Memory(receipt)) => store.refund(receipt),
            (Backend::Other(store), ChargeReceipt::Other(receipt)) => store.give_back(receipt),
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    pub(in crate::limiter) fn credit(&self, limit: &BackendLimit, key: &[u8], cost: u64) {
        match self {
            Backend::Memory(store) => store.credit(limit.memory(), key, cost),
            Backend::Other(store) => store.credit(limit.other(), key, cost),
        }
    }

    pub(in crate::limiter) async fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> Settled {
        match (self, receipt) {
            (Backend::Memory(store), ChargeReceipt::Memory(receipt)) => store.settle(receipt, true_cost),
            (Backend::Other(store), ChargeReceipt::Other(receipt)) => store.settle(receipt, true_cost).await,
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    /// The same in a store in this process.
    pub(in crate::limiter) fn settle_in_memory(store: &MemoryStore, receipt: ChargeReceipt, true_cost: u64) -> Settled {
        match receipt {
            ChargeReceipt::Memory(receipt) => store.settle(receipt, true_cost),
            ChargeReceipt::Other(_) => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    pub(in crate::limiter) fn renew(&self, receipt: &ChargeReceipt) -> bool {
        match (self, receipt) {
            (Backend::Memory(store), ChargeReceipt::Memory(receipt)) => store.renew(receipt),
            (Backend::Other(store), ChargeReceipt::Other(receipt)) => store.renew(receipt),
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    pub(in crate::limiter) async fn reset(&self, limits: &[BackendLimit], key: &[u8]) -> Result<(), ChangeError> {
        match self {
            Backend::Memory(store) => {
                limits.iter().for_each(|limit| store.reset(limit.memory(), key));
                Ok(())
            }
            Backend::Other(store) => {
                let keys: Vec<(&ErasedLimit, &[u8])> = limits.iter().map(|limit| (limit.other(), key)).collect();
                store.reset(&keys).await
            }
        }
    }

    pub(in crate::limiter) fn agree_on(&self, fingerprint: Option<&str>) {
        match self {
            Backend::Memory(store) => Store::agree_on(store, fingerprint),
            Backend::Other(store) => store.agree_on(fingerprint),
        }
    }

    #[inline]
    pub(in crate::limiter) fn board(&self) -> Option<&Board> {
        match self {
            Backend::Memory(store) => Store::board(store),
            Backend::Other(store) => store.board(),
        }
    }

    pub(in crate::limiter) async fn post(&self, notice: Notice) -> Result<(), ChangeError> {
        match self {
            Backend::Memory(store) => Store::post(store, notice).await,
            Backend::Other(store) => store.post(notice).await,
        }
    }

    pub(in crate::limiter) async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        match self {
            Backend::Memory(store) => Store::remove(store, name).await,
            Backend::Other(store) => store.remove(name).await,
        }
    }
}

/// Charges with their keys, in order; those of callers come last.
fn keyed<'a, L>(
    matched: &'a Matched<'a>,
    charges: &[LimitCharge],
    extra: &[CallerCharge<'a>],
    limit: impl Fn(u32) -> &'a L,
    caller_limit: impl Fn(&'a CallerLimit) -> &'a L,
) -> SmallVec<[KeyedCharge<'a, L>; 4]> {
    let of_policy = charges.iter().map(|charge| KeyedCharge {
        limit: limit(charge.limit),
        key: matched.key(&matched.charges[charge.charge as usize]),
        cost: charge.cost,
        mode: charge.mode,
        receipt: charge.receipt,
    });
    let of_callers = extra.iter().map(|charge| KeyedCharge {
        limit: caller_limit(charge.limit),
        key: charge.key,
        cost: charge.cost,
        mode: Mode::Enforce,
        receipt: false,
    });
    of_policy.chain(of_callers).collect()
}

impl Limits {
    /// None yet, of a store's kind.
    pub(in crate::limiter) fn none_of(backend: &Backend) -> Limits {
        match backend {
            Backend::Memory(_) => Limits::Memory(Vec::new()),
            Backend::Other(_) => Limits::Other(Vec::new()),
        }
    }

    /// Adds a limit, and returns its position.
    pub(in crate::limiter) fn push(&mut self, limit: BackendLimit) -> u32 {
        let length = match (self, limit) {
            (Limits::Memory(limits), BackendLimit::Memory(limit)) => {
                limits.push(limit);
                limits.len()
            }
            (Limits::Other(limits), BackendLimit::Other(limit)) => {
                limits.push(limit);
                limits.len()
            }
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        };
        u32::try_from(length - 1).unwrap_or(u32::MAX)
    }

    pub(in crate::limiter) fn len(&self) -> usize {
        match self {
            Limits::Memory(limits) => limits.len(),
            Limits::Other(limits) => limits.len(),
        }
    }

    pub(in crate::limiter) fn truncate(&mut self, length: usize) {
        match self {
            Limits::Memory(limits) => limits.truncate(length),
            Limits::Other(limits) => limits.truncate(length),
        }
    }

    /// The limit at a position.
    pub(in crate::limiter) fn get(&self, at: u32) -> BackendLimit {
        match self {
            Limits::Memory(limits) => BackendLimit::Memory(limits[at as usize].clone()),
            Limits::Other(limits) => BackendLimit::Other(limits[at as usize].clone()),
        }
    }

    #[inline]
    pub(in crate::limiter) fn memory(&self, at: u32) -> &Limit {
        match self {
            Limits::Memory(limits) => &limits[at as usize],
            Limits::Other(_) => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    fn other(&self, at: u32) -> &ErasedLimit {
        match self {
            Limits::Other(limits) => &limits[at as usize],
            Limits::Memory(_) => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }
}

impl BackendLimit {
    #[inline]
    fn memory(&self) -> &Limit {
        match self {
            BackendLimit::Memory(limit) => limit,
            BackendLimit::Other(_) => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    fn other(&self) -> &ErasedLimit {
        match self {
            BackendLimit::Other(limit) => limit,
            BackendLimit::Memory(_) => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }
}
