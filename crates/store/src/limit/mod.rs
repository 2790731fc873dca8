//! A limit: a quota under a scope, as the store that made it counts it.

pub(crate) mod caller_rule;
pub(crate) mod family;
pub(crate) mod key;
pub(crate) mod options;

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tollgate_core::{Bucket, CompiledQuota, Decision, Quota, Tick, Verdict};

use crate::limit::caller_rule::CallerRule;
use crate::limit::family::Families;
use crate::limit::key::{HashSecret, Key, ScopeHasher};
use crate::limit::options::LimitOptions;
use crate::table::cell::{TAG_BITS, Tag};
use crate::table::quotas::TagUse;

/// A quota under a name, ready to be charged in the store that made it. Cheap to clone.
///
/// The name is the scope in which keys are counted. A limit of the same name
/// with another quota reads the same counters: that is how a limit changes
/// while it is in use.
///
/// Two limits are equal if one is a clone of the other.
#[derive(Clone, Debug)]
pub struct Limit(pub(crate) Arc<Prepared>);

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) rule: Rule,
    /// The memory store that made it, or [`ELSEWHERE`].
    pub(crate) store: u64,
    pub(crate) keys: ScopeHasher,
    /// In the time of the store that made it.
    pub(crate) compiled: CompiledQuota,
    /// Keeps the tag of a bucket as long as anything can be charged under it.
    pub(crate) _tag_use: Option<TagUse>,
    /// The families of algorithms that have counted in this scope, where counts are carried over between them.
    pub(crate) families: Option<Arc<Families>>,
    pub(crate) quota: Quota,
    pub(crate) scope: Box<str>,
    pub(crate) options: LimitOptions,
}

/// How the store that made a limit counts its keys.
#[derive(Debug)]
pub(crate) enum Rule {
    /// In the lock-free table of a memory store.
    Bucket(BucketRule),
    /// In a locked table of a memory store, by its algorithm.
    Locked,
    /// Among the keys of callers.
    Caller(CallerRule),
    /// In a store that is no memory store.
    Elsewhere(Box<dyn Any + Send + Sync>),
}

/// A bucket quota and its number in the store: what a check of a known key reads, in one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketRule {
    pub(crate) bucket: Bucket,
    pub(crate) tag: Tag,
}

/// Stands for the store of a limit that no memory store made.
const ELSEWHERE: u64 = u64::MAX;

impl Limit {
    /// A limit of a store of one's own. The quota is compiled for `tick`, and `private` is what that store wants to
    /// find with the limit again.
    pub fn new(scope: &str, quota: Quota, options: LimitOptions, tick: Tick, private: impl Any + Send + Sync) -> Limit {
        Limit(Arc::new(Prepared {
            rule: Rule::Elsewhere(Box::new(private)),
            store: ELSEWHERE,
            keys: ScopeHasher::new(scope, &HashSecret::of_process()),
            compiled: CompiledQuota::new(&quota, tick),
            _tag_use: None,
            families: None,
            quota,
            scope: scope.into(),
            options,
        }))
    }

    /// The quota.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.0.quota
    }

    /// The quota, compiled in the time of the store that made the limit.
    #[must_use]
    pub fn compiled(&self) -> &CompiledQuota {
        &self.0.compiled
    }

    /// The name under which keys are counted.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.0.scope
    }

    /// What its store may do with it.
    #[must_use]
    pub fn options(&self) -> LimitOptions {
        self.0.options
    }

    /// What its store gave to [`Limit::new`]; `None` if that was of another type.
    #[must_use]
    pub fn private<T: Any>(&self) -> Option<&T> {
        match &self.0.rule {
            Rule::Elsewhere(private) => private.downcast_ref(),
            Rule::Bucket(_) | Rule::Locked | Rule::Caller(_) => None,
        }
    }

    /// The answer of a store that does not know the counter: what is sure is
    /// the limit, and that nothing can be promised.
    #[must_use]
    pub fn uncounted(&self, verdict: Verdict) -> Decision {
        let limit = match &self.0.compiled {
            CompiledQuota::Bucket(bucket) => bucket.shape().limit,
            _ => self.0.quota.amount(),
        };
        Decision { verdict, limit, remaining: 0, next_after: 0, reset_after: 0 }
    }

    /// The other families that may hold what a key of this limit has used.
    pub(crate) fn other_families(&self) -> u8 {
        self.0.families.as_ref().map_or(0, |families| families.others(self.0.compiled.family()))
    }

    #[inline]
    pub(crate) fn hash<K: Key + ?Sized>(&self, key: &K) -> u64 {
        self.0.keys.hash(key)
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

/// Why a limit cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// A store tells at most 4,096 bucket quotas apart: those of its limits, and those that live keys were counted
    /// under.
    TooManyQuotas,
    /// The keys of callers are counted by token buckets without debts and by fixed windows alone.
    NotForCallers,
    /// One key's log or permits may need more bytes than the store has for one key.
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
                write!(f, "a store can tell at most {} different bucket quotas apart: use another store", 1 << TAG_BITS)
            }
            LimitError::NotForCallers => {
                f.write_str("a limit that callers bring must be a token bucket without a debt, or a fixed window")
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
