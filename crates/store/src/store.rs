use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Decision, Quota, Settled};

use crate::board::{Board, ChangeError, Notice};
use crate::charge::Mode;

/// Where counters live: the interface that every front end and every limiter
/// goes through, so that memory, a shared server or a store of one's own are
/// exchangeable.
///
/// # What an implementation promises
///
/// - [`decide`](Store::decide) is one atomic step over all its charges: where
///   one that binds is refused, none is made. It may refuse what would have
///   passed while another step is under way; it never lets pass what is over a
///   limit.
/// - Two limits of the same scope share their counters, also when their quotas
///   differ: what was used under one stays used under the other.
/// - A key that was never seen is untouched. Keys of different scopes, and
///   different bytes within a scope, never share a counter.
/// - A cost of 0 is allowed and changes nothing.
/// - A receipt gives back at most what it was made for, once, less what time
///   has given back already.
/// - No call panics or waits for ever. A store that cannot answer says so with
///   [`Verdict::NoRoom`](tollgate_core::Verdict::NoRoom), which is its trouble and not the client's.
///
/// The algorithms themselves are in `tollgate-core`, as functions of a state,
/// the time and a cost: an implementation keeps the states and calls them.
pub trait Store: Send + Sync + 'static {
    /// A quota that is ready to be charged.
    type Limit: Clone + fmt::Debug + Send + Sync + 'static;
    /// Proof of a charge.
    type Receipt: fmt::Debug + Send + Sync + 'static;

    /// Prepares a quota whose keys are counted under `scope`.
    fn limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Self::Limit, Box<dyn Error + Send + Sync>>;

    /// Prepares a quota that a caller chose, whose keys must not push out those of [`limit`](Store::limit). The scope
    /// is none of theirs. A store whose keys do not make room for each other takes it as any other.
    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Self::Limit, Box<dyn Error + Send + Sync>> {
        self.limit(scope, quota, options)
    }

    /// Makes charges, all or none.
    fn decide(&self, charges: &[KeyedCharge<'_, Self::Limit>]) -> impl Future<Output = Outcome<Self::Receipt>> + Send;

    /// Gives a charge back, or lets go of a permit. It returns at once; a store
    /// that has to tell another machine does so in its own time.
    fn give_back(&self, receipt: Self::Receipt);

    /// Gives back so much of what a key has used, for a caller who has no
    /// receipt: never more than was used. It returns at once, like
    /// [`give_back`](Store::give_back). A store that cannot gives nothing back.
    fn credit(&self, limit: &Self::Limit, key: &[u8], cost: u64) {
        let _ = (limit, key, cost);
    }

    /// Replaces an estimated cost by the true one.
    fn settle(&self, receipt: Self::Receipt, true_cost: u64) -> impl Future<Output = Settled> + Send;

    /// Extends the lease of a permit to its full length from now. It returns at
    /// once, like [`give_back`](Store::give_back); `false` if it is known to be lost, or is none.
    fn renew(&self, receipt: &Self::Receipt) -> bool;

    /// The time by which this store decides, in nanoseconds since 1970.
    fn now_ns(&self) -> u64;

    /// Makes keys as if untouched, for everybody who shares the store. Permits
    /// that are held are forgotten too: who holds one goes on, and letting go of
    /// it then does nothing. It may be asked for again.
    fn reset(&self, keys: &[(&Self::Limit, &[u8])]) -> impl Future<Output = Result<(), ChangeError>> + Send {
        let _ = keys;
        async { Err(ChangeError::NotOffered) }
    }

    /// Says what this process must have in common with all others that share the store, so that they count the same
    /// client under the same key; `None` if that is nothing. A store that is shared compares it and tells of a
    /// difference. It returns at once.
    fn agree_on(&self, fingerprint: Option<&str>) {
        let _ = fingerprint;
    }

    /// The notices of those who share the store, if it has a board for them.
    #[inline]
    fn board(&self) -> Option<&Board> {
        None
    }

    /// Puts up a notice for everybody who shares the store. It may be asked for again.
    fn post(&self, notice: Notice) -> impl Future<Output = Result<(), ChangeError>> + Send {
        let _ = notice;
        async { Err(ChangeError::NotOffered) }
    }

    /// Takes a notice down for everybody who shares the store. It may be asked for again.
    fn remove(&self, name: &str) -> impl Future<Output = Result<(), ChangeError>> + Send {
        let _ = name;
        async { Err(ChangeError::NotOffered) }
    }
}

/// What a store that can fail, or that is far away, may do with a limit. One in
/// this process has no use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// What happens to a check when the store fails.
    pub on_failure: OnFailure,
    /// How long a refusal stays true.
    pub refusals: Refusals,
}

impl Default for LimitOptions {
    fn default() -> LimitOptions {
        LimitOptions { on_failure: OnFailure::Local { share: (1, 2) }, refusals: Refusals::Brief }
    }
}

/// What happens to a check when the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It passes.
    Open,
    /// It is refused, and said to be the store's trouble.
    Closed,
    /// This instance counts on its own, with this share of the quota: numerator and denominator.
    Local {
        /// Numerator and denominator.
        share: (u32, u32),
    },
}

/// Whether a refusal may be answered from memory as long as it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusals {
    /// Each must reach the store: permits, which come back at any time, and what is counted.
    Counted,
    /// Like `Counted`. Besides, every charge comes with a guard of the same key, whose limit is `Final`: while the
    /// guard refuses, nothing is charged.
    Guarded,
    /// Something may be given back, so for a moment only.
    #[default]
    Brief,
    /// Nothing is ever given back: until the time at which it ends.
    Final,
}

/// A charge to a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyedCharge<'a, L> {
    /// Under which limit.
    pub limit: &'a L,
    /// Whose counter.
    pub key: &'a [u8],
    /// How much.
    pub cost: u64,
    /// What it is to the others.
    pub mode: Mode,
    /// Whether a receipt is wanted.
    pub receipt: bool,
}

/// What became of charges that were to be made together.
#[derive(Debug)]
pub struct Outcome<R> {
    /// Whether the whole passed.
    pub passed: bool,
    /// The answer to each charge, in order. Where the whole is refused, an
    /// allowed one was not made, and says what remains.
    pub decisions: SmallVec<[Decision; 4]>,
    /// The receipts that were wanted, of charges that were made, each with the position of its charge.
    pub receipts: Vec<(usize, R)>,
    /// Where the answer comes from.
    pub source: Source,
    /// Which of the decisions say anything.
    pub asked: Asked,
}

/// Which charges were asked about. Where one is known to be refused, a store
/// that is far away need not ask about the others, and does not know what would
/// be said of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Every decision is an answer.
    #[default]
    All,
    /// Only the decisions at these positions are answers. The others hold a place and say nothing.
    Only(SmallVec<[usize; 4]>),
}

impl Asked {
    /// Whether the decision at this position is an answer.
    #[must_use]
    pub fn contains(&self, position: usize) -> bool {
        match self {
            Asked::All => true,
            Asked::Only(positions) => positions.contains(&position),
        }
    }
}

/// Where an answer comes from, which says how exact it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// From the counters themselves.
    #[default]
    Exact,
    /// From a refusal that is remembered because it still holds.
    Cached,
    /// From a share that this instance took in advance.
    Leased,
    /// From this region's share.
    Regional,
    /// From counters of this instance alone, as the policy wants it.
    Local,
    /// From what the policy says should happen when the store fails.
    Fallback,
}

impl Source {
    /// Its name in answers and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Exact => "exact",
            Source::Cached => "cached",
            Source::Leased => "leased",
            Source::Regional => "regional",
            Source::Local => "local",
            Source::Fallback => "fallback",
        }
    }
}

/// Several owners may share a store.
impl<S: Store> Store for Arc<S> {
    type Limit = S::Limit;
    type Receipt = S::Receipt;

    fn limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<S::Limit, Box<dyn Error + Send + Sync>> {
        (**self).limit(scope, quota, options)
    }

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<S::Limit, Box<dyn Error + Send + Sync>> {
        (**self).caller_limit(scope, quota, options)
    }

    fn decide(&self, charges: &[KeyedCharge<'_, S::Limit>]) -> impl Future<Output = Outcome<S::Receipt>> + Send {
        (**self).decide(charges)
    }

    fn give_back(&self, receipt: S::Receipt) {
        (**self).give_back(receipt);
    }

    fn credit(&self, limit: &S::Limit, key: &[u8], cost: u64) {
        (**self).credit(limit, key, cost);
    }

    fn settle(&self, receipt: S::Receipt, true_cost: u64) -> impl Future<Output = Settled> + Send {
        (**self).settle(receipt, true_cost)
    }

    fn renew(&self, receipt: &S::Receipt) -> bool {
        (**self).renew(receipt)
    }

    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn reset(&self, keys: &[(&S::Limit, &[u8])]) -> impl Future<Output = Result<(), ChangeError>> + Send {
        (**self).reset(keys)
    }

    #[inline]
    fn board(&self) -> Option<&Board> {
        (**self).board()
    }

    fn post(&self, notice: Notice) -> impl Future<Output = Result<(), ChangeError>> + Send {
        (**self).post(notice)
    }

    fn remove(&self, name: &str) -> impl Future<Output = Result<(), ChangeError>> + Send {
        (**self).remove(name)
    }
}
