//! The interface of all stores.

pub(crate) mod charge;
pub(crate) mod outcome;
pub(crate) mod overrides;
pub(crate) mod receipt;

use std::any::Any;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::{Quota, Settlement};

use crate::limit::Limit;
use crate::limit::options::LimitOptions;
use crate::store::charge::Charge;
use crate::store::outcome::Outcome;
use crate::store::overrides::{ChangeError, SharedOverrides, StoredOverride};
use crate::store::receipt::ChargeReceipt;

/// A boxed future, as the asynchronous methods of [`Store`] return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store of rate limit counters: the interface that limiters and front ends use, so that memory, a shared server and
/// custom stores are interchangeable.
///
/// # Contract
///
/// - [`check_all`](Store::check_all) is one atomic step over all its charges: if an enforced or guard charge is
///   refused, none is made. While another step is in flight, it may refuse a request that would otherwise have passed;
///   it never admits a request over a limit.
/// - Two limits of the same scope share their counters, even if their quotas differ: what was used under one stays used
///   under the other.
/// - A key that was never charged is unused. Keys of different scopes, and different bytes within a scope, never share
///   a counter.
/// - A cost of 0 is allowed and changes nothing.
/// - A receipt refunds at most its charge, once, minus what time has refilled already.
/// - No call panics or blocks for ever, for limits and receipts of this store. A store that cannot decide returns
///   [`ChargeVerdict::Unavailable`](tollgate_core::ChargeVerdict::Unavailable), which is a fault of the store and not
///   of the client.
///
/// The algorithms are in `tollgate-core`, as functions of a state, the time and a cost: an implementation stores the
/// states and calls them. It can attach private data to a [`Limit`] and to a [`ChargeReceipt`].
///
/// # Example
///
/// A store that counts the refusals of another store:
///
/// ```
/// use std::error::Error;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use tollgate_store::{
///     BoxFuture, Charge, ChargeReceipt, Limit, LimitOptions, MemoryStore, Outcome, Quota, Settlement, Store,
/// };
///
/// struct CountingStore {
///     inner: MemoryStore,
///     refusals: AtomicU64,
/// }
///
/// impl Store for CountingStore {
///     fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
///         Store::limit(&self.inner, scope, quota, options)
///     }
///
///     fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
///         Box::pin(async move {
///             let outcome = self.inner.check_all_now(charges);
///             self.refusals.fetch_add(u64::from(!outcome.passed), Ordering::Relaxed);
///             outcome
///         })
///     }
///
///     fn refund(&self, receipt: ChargeReceipt) {
///         self.inner.refund(receipt);
///     }
///
///     fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> BoxFuture<'_, Settlement> {
///         Store::settle(&self.inner, receipt, true_cost)
///     }
///
///     fn renew(&self, receipt: &ChargeReceipt) -> bool {
///         self.inner.renew(receipt)
///     }
///
///     fn now_ns(&self) -> u64 {
///         Store::now_ns(&self.inner)
///     }
/// }
/// ```
pub trait Store: Any + Send + Sync {
    /// Prepares a limit: a quota whose keys are counted under `scope`.
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>>;

    /// Prepares a caller's limit: one whose quota a caller sends with its request. Its keys must not evict those of
    /// [`limit`](Store::limit), and its scope must differ from theirs. A store without evictions treats it like any
    /// other limit.
    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.limit(scope, quota, options)
    }

    /// Decides charges together, and makes all of them or none.
    fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome>;

    /// Refunds a charge, or releases a permit. It returns at once; a store that has to contact another machine does
    /// that in the background.
    fn refund(&self, receipt: ChargeReceipt);

    /// Refunds `cost` of the used amount of a key, for a caller without a receipt, and never more than was used. It
    /// returns at once, like [`refund`](Store::refund). The default implementation refunds nothing.
    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        let _ = (limit, key, cost);
    }

    /// Replaces an estimated cost by the true cost.
    fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> BoxFuture<'_, Settlement>;

    /// Extends the lease of a permit to its full length from now. It returns at once, like [`refund`](Store::refund).
    /// `false` if the lease is known to be lost, or if the receipt has none.
    fn renew(&self, receipt: &ChargeReceipt) -> bool;

    /// Returns the time by which this store decides, in nanoseconds since 1970.
    fn now_ns(&self) -> u64;

    /// Sends back the tokens that this instance has leased ahead of requests, before it stops. Takes at most half a
    /// second. The store stays usable.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Returns the admin interface, if the store has one.
    fn admin(&self) -> Option<&dyn StoreAdmin> {
        None
    }
}

/// The admin interface of a store: resets and overrides that apply to all instances that share the store.
pub trait StoreAdmin: Send + Sync {
    /// Resets keys to unused, for all instances that share the store. Held permits are dropped too: their holders
    /// continue, and a later release has no effect. Repeating the call is safe.
    fn reset<'a>(&'a self, keys: &'a [(&'a Limit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>>;

    /// Announces the fingerprint of the settings that determine keys, such as the secret with which values are hashed.
    /// Processes that share the store count a client under the same key only if their fingerprints are equal. A shared
    /// store compares the fingerprints and reports a difference. `None` if this process has no such setting. It returns
    /// at once.
    fn compare_fingerprint(&self, fingerprint: Option<&str>) {
        let _ = fingerprint;
    }

    /// Returns the overrides that all instances share, as this instance knows them.
    fn overrides(&self) -> &SharedOverrides;

    /// Sets an override on all instances that share the store. Repeating the call is safe.
    fn set_override(&self, stored: StoredOverride) -> BoxFuture<'_, Result<(), ChangeError>>;

    /// Removes an override on all instances that share the store. Repeating the call is safe.
    fn remove_override<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>>;
}

/// A store can be shared by several owners.
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

    fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        (**self).check_all(charges)
    }

    fn refund(&self, receipt: ChargeReceipt) {
        (**self).refund(receipt);
    }

    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        (**self).credit(limit, key, cost);
    }

    fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> BoxFuture<'_, Settlement> {
        (**self).settle(receipt, true_cost)
    }

    fn renew(&self, receipt: &ChargeReceipt) -> bool {
        (**self).renew(receipt)
    }

    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        (**self).close()
    }

    fn admin(&self) -> Option<&dyn StoreAdmin> {
        (**self).admin()
    }
}
