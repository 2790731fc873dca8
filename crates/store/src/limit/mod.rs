//! Limits: quotas under a scope, prepared by a store.

pub(crate) mod caller_quota;
pub(crate) mod family;
pub(crate) mod key;
pub(crate) mod options;

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tollgate_core::{Bucket, ChargeVerdict, CompiledQuota, Decision, Quota, Tick};

use crate::limit::caller_quota::CallerQuota;
use crate::limit::family::Families;
use crate::limit::key::{HashSecret, Key, ScopeHasher};
use crate::limit::options::LimitOptions;
use crate::table::cell::{QuotaTag, TAG_BITS};
use crate::table::quotas::TagUse;

/// A quota under a scope, prepared by a store and charged in that store. Cheap to clone.
///
/// The scope is the name under which keys are counted. A limit of the same scope with another quota reads the same
/// counters: that is how a limit changes while it is in use.
///
/// Two limits are equal if one is a clone of the other.
#[derive(Clone, Debug)]
pub struct Limit(pub(crate) Arc<LimitInner>);

#[derive(Debug)]
pub(crate) struct LimitInner {
    pub(crate) table: LimitTable,
    /// The id of the memory store that made the limit, or [`CUSTOM_STORE`].
    pub(crate) store: u64,
    /// Hashes the keys of the scope.
    pub(crate) key_hasher: ScopeHasher,
    /// The quota, compiled for the time unit of the store that made the limit.
    pub(crate) compiled: CompiledQuota,
    /// Reserves the quota tag of a bucket as long as anything can be charged under it.
    pub(crate) _tag_use: Option<TagUse>,
    /// The families of algorithms that have counted in this scope, if counts are carried over between them.
    pub(crate) families: Option<Arc<Families>>,
    pub(crate) quota: Quota,
    pub(crate) scope: Box<str>,
    pub(crate) options: LimitOptions,
}

/// The table in which the store that made a limit counts its keys.
#[derive(Debug)]
pub(crate) enum LimitTable {
    /// In the lock-free table of a memory store.
    Bucket(TaggedBucket),
    /// In a locked table of a memory store, by its algorithm.
    Locked,
    /// In the table of the keys under callers' limits.
    Caller(CallerQuota),
    /// In a store other than the memory store, with its private data.
    Custom(Box<dyn Any + Send + Sync>),
}

/// A compiled bucket quota and its tag, the number of the quota in the store: all that a check of a known key reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaggedBucket {
    pub(crate) bucket: Bucket,
    pub(crate) quota_tag: QuotaTag,
}

/// The store id of limits of stores other than the memory store.
const CUSTOM_STORE: u64 = u64::MAX;

impl Limit {
    /// Creates a limit of a store other than the memory store. The quota is compiled for `tick`, and `private` is data
    /// that the store can read back with [`private`](Limit::private).
    pub fn new(scope: &str, quota: Quota, options: LimitOptions, tick: Tick, private: impl Any + Send + Sync) -> Limit {
        Limit(Arc::new(LimitInner {
            table: LimitTable::Custom(Box::new(private)),
            store: CUSTOM_STORE,
            key_hasher: ScopeHasher::new(scope, &HashSecret::of_process()),
            compiled: CompiledQuota::new(&quota, tick),
            _tag_use: None,
            families: None,
            quota,
            scope: scope.into(),
            options,
        }))
    }

    /// Returns the quota.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.0.quota
    }

    /// Returns the quota, compiled for the time unit of the store that made the limit.
    #[must_use]
    pub fn compiled(&self) -> &CompiledQuota {
        &self.0.compiled
    }

    /// Returns the name under which keys are counted.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.0.scope
    }

    /// Returns the options of the limit.
    #[must_use]
    pub fn options(&self) -> LimitOptions {
        self.0.options
    }

    /// Returns the private data that was passed to [`Limit::new`]; `None` if it has another type.
    #[must_use]
    pub fn private<T: Any>(&self) -> Option<&T> {
        match &self.0.table {
            LimitTable::Custom(private) => private.downcast_ref(),
            LimitTable::Bucket(_) | LimitTable::Locked | LimitTable::Caller(_) => None,
        }
    }

    /// Returns the decision of a store that does not know the counter: only the limit is certain, and nothing remains.
    #[must_use]
    pub fn decision_without_count(&self, verdict: ChargeVerdict) -> Decision {
        let limit = match &self.0.compiled {
            CompiledQuota::Bucket(bucket) => bucket.shape().limit,
            _ => self.0.quota.amount(),
        };
        Decision { verdict, limit, remaining: 0, next_after: 0, reset_after: 0 }
    }

    /// Returns the other families that may contain the used amount of a key of this limit.
    pub(crate) fn other_families(&self) -> u8 {
        self.0.families.as_ref().map_or(0, |families| families.others(self.0.compiled.family()))
    }

    #[inline]
    pub(crate) fn hash<K: Key + ?Sized>(&self, key: &K) -> u64 {
        self.0.key_hasher.hash(key)
    }
}

impl PartialEq for Limit {
    fn eq(&self, other: &Limit) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Limit {}

impl Hash for Limit {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// The reasons why a limit cannot be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The store distinguishes at most 4,096 bucket quotas: those of its limits, and those under which live keys were
    /// counted.
    TooManyQuotas,
    /// A caller's limit must be a token bucket without debt, or a fixed window.
    NotForCallers,
    /// The log or the permits of one key may need more bytes than the store has for one key.
    TooLarge {
        /// The bytes that they may need.
        needs: u64,
        /// The bytes that the store has for one key.
        holds: u64,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::TooManyQuotas => {
                write!(f, "a store distinguishes at most {} bucket quotas: use another store", 1 << TAG_BITS)
            }
            LimitError::NotForCallers => {
                f.write_str("a limit of callers must be a token bucket without debt, or a fixed window")
            }
            LimitError::TooLarge { needs, holds } => write!(
                f,
                "one key may take {needs} bytes, and a memory store of this capacity has {holds} for one key: raise the \
                 capacity, or choose sliding-window-counter instead of a log"
            ),
        }
    }
}

impl std::error::Error for LimitError {}
