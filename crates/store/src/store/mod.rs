//! The interface that all stores share.

pub(crate) mod charge;
pub(crate) mod outcome;
pub(crate) mod overrides;
pub(crate) mod receipt;

use std::any::Any;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::{Quota, Settled};

use crate::limit::Limit;
use crate::limit::options::LimitOptions;
use crate::store::charge::Charge;
use crate::store::outcome::Outcome;
use crate::store::overrides::{ChangeError, SharedOverrides, StoredOverride};
use crate::store::receipt::Receipt;

/// What a call that has to be waited for returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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
/// - No call panics or waits for ever, for limits and receipts that it made
///   itself. A store that cannot answer says so with
///   [`Verdict::NoRoom`](tollgate_core::Verdict::NoRoom), which is its trouble and not the client's.
///
/// The algorithms themselves are in `tollgate-core`, as functions of a state,
/// the time and a cost: an implementation keeps the states and calls them. What
/// it needs beside a [`Limit`] or a [`Receipt`] it keeps in them.
pub trait Store: Any + Send + Sync {
    /// Prepares a quota whose keys are counted under `scope`.
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>>;

    /// Prepares a quota that a caller chose, whose keys must not push out those of [`limit`](Store::limit). The scope
    /// is none of theirs. A store whose keys do not make room for each other takes it as any other.
    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.limit(scope, quota, options)
    }

    /// Makes charges, all or none.
    fn decide<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome>;

    /// Gives a charge back, or lets go of a permit. It returns at once; a store
    /// that has to tell another machine does so in its own time.
    fn give_back(&self, receipt: Receipt);

    /// Gives back so much of what a key has used, for a caller who has no
    /// receipt: never more than was used. It returns at once, like
    /// [`give_back`](Store::give_back). A store that cannot gives nothing back.
    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        let _ = (limit, key, cost);
    }

    /// Replaces an estimated cost by the true one.
    fn settle(&self, receipt: Receipt, true_cost: u64) -> BoxFuture<'_, Settled>;

    /// Extends the lease of a permit to its full length from now. It returns at
    /// once, like [`give_back`](Store::give_back); `false` if it is known to be lost, or is none.
    fn renew(&self, receipt: &Receipt) -> bool;

    /// The time by which this store decides, in nanoseconds since 1970.
    fn now_ns(&self) -> u64;

    /// What it offers to operators, if it offers that.
    fn admin(&self) -> Option<&dyn StoreAdmin> {
        None
    }
}

/// What a store offers to operators: resets and overrides that hold for every instance that shares the store.
pub trait StoreAdmin: Send + Sync {
    /// Makes keys as if untouched, for all instances that share the store. Permits
    /// that are held are forgotten too: who holds one goes on, and letting go of
    /// it then does nothing. It may be asked for again.
    fn reset<'a>(&'a self, keys: &'a [(&'a Limit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>>;

    /// Says what this process must have in common with all others that share the store, so that they count the same
    /// client under the same key; `None` if that is nothing. A store that is shared compares it and tells of a
    /// difference. It returns at once.
    fn agree_on(&self, fingerprint: Option<&str>) {
        let _ = fingerprint;
    }

    /// The overrides that all instances share, as this one knows them.
    fn overrides(&self) -> &SharedOverrides;

    /// Sets an override on every instance that shares the store. It may be asked for again.
    fn set_override(&self, stored: StoredOverride) -> BoxFuture<'_, Result<(), ChangeError>>;

    /// Removes an override on every instance that shares the store. It may be asked for again.
    fn remove_override<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>>;
}

/// Several owners may share a store.
impl<S: Store + ?Sized> Store for Arc<S> {
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        (**self).limit(scope, quota, options)
    }

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        (**self).caller_limit(scope, quota, options)
    }

    fn decide<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        (**self).decide(charges)
    }

    fn give_back(&self, receipt: Receipt) {
        (**self).give_back(receipt);
    }

    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        (**self).credit(limit, key, cost);
    }

    fn settle(&self, receipt: Receipt, true_cost: u64) -> BoxFuture<'_, Settled> {
        (**self).settle(receipt, true_cost)
    }

    fn renew(&self, receipt: &Receipt) -> bool {
        (**self).renew(receipt)
    }

    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn admin(&self) -> Option<&dyn StoreAdmin> {
        (**self).admin()
    }
}
