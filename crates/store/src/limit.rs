use std::fmt;
use std::sync::Arc;

use tollgate_core::{Bucket, Concurrency, FixedWindow, Quota, SlidingCounter, SlidingLog};

use crate::callers::CallerRule;

use crate::entry::{TAG_BITS, Tag};
use crate::family::{Families, Family};
use crate::key::{Key, ScopeHasher};
use crate::quotas::TagUse;

/// A quota under a name, ready to be checked in the store that made it. Cheap to clone.
///
/// The name is the scope in which keys are counted. A limit of the same name
/// with another quota reads the same counters: that is how a limit changes
/// while it is in use.
#[derive(Clone, Debug)]
pub struct Limit(pub(crate) Arc<Prepared>);

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) rule: Rule,
    /// Keeps the tag of a bucket as long as anything can be charged under it.
    pub(crate) _tag_use: Option<TagUse>,
    pub(crate) keys: ScopeHasher,
    /// The families of algorithms that have counted in this scope.
    pub(crate) families: Arc<Families>,
    pub(crate) store: u64,
    pub(crate) quota: Quota,
    pub(crate) scope: Box<str>,
}

/// The quota, compiled for the algorithm that it names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Bucket(BucketRule),
    FixedWindow(FixedWindow),
    SlidingCounter(SlidingCounter),
    SlidingLog(SlidingLog),
    Concurrency(Concurrency),
    /// A quota that a caller chose.
    Caller(CallerRule),
}

/// A bucket quota and its number in the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketRule {
    pub(crate) bucket: Bucket,
    pub(crate) tag: Tag,
}

impl Limit {
    /// The quota.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.0.quota
    }

    /// The name under which keys are counted.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.0.scope
    }

    /// The other families that may hold what a key of this limit has used.
    pub(crate) fn other_families(&self) -> u8 {
        self.0.families.others(Family::of(&self.0.rule))
    }

    #[inline]
    pub(crate) fn hash<K: Key + ?Sized>(&self, key: &K) -> u64 {
        self.0.keys.hash(key)
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
