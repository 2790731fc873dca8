use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate_core::{AlgorithmKind, Bucket, Concurrency, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick};

use crate::entry::{TAG_BITS, Tag};
use crate::family::{Families, Family};
use crate::key::{Key, ScopeHasher};

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
    /// A store tells at most 4,096 bucket quotas apart.
    TooManyQuotas,
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
            LimitError::TooLarge { needs, holds } => write!(
                f,
                "one key may take {needs} bytes, and a memory store of this capacity has {holds} for one key: raise the \
                 capacity, or choose sliding-window-counter instead of a log"
            ),
        }
    }
}

impl std::error::Error for LimitError {}

/// The bucket quotas of a store, by tag. They are never forgotten, because an
/// entry may have been written under any of them.
#[derive(Debug, Default)]
pub(crate) struct Quotas(RwLock<Vec<Known>>);

/// A bucket, and the first quota that compiled to it.
#[derive(Clone, Copy, Debug)]
struct Known {
    bucket: Bucket,
    quota: Quota,
}

impl Quotas {
    pub(crate) fn prepare(&self, quota: &Quota) -> Result<Rule, LimitError> {
        let tick = Tick::Nanosecond;
        let compiled = match quota.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
                Bucket::new(quota, tick)
                    .map(|bucket| Ok(Rule::Bucket(BucketRule { bucket, tag: self.tag(bucket, quota)? })))
            }
            AlgorithmKind::FixedWindow => FixedWindow::new(quota, tick).map(|window| Ok(Rule::FixedWindow(window))),
            AlgorithmKind::SlidingWindowCounter => {
                SlidingCounter::new(quota, tick).map(|counter| Ok(Rule::SlidingCounter(counter)))
            }
            AlgorithmKind::SlidingWindowLog => SlidingLog::new(quota, tick).map(|log| Ok(Rule::SlidingLog(log))),
            AlgorithmKind::Concurrency => Concurrency::new(quota, tick).map(|permits| Ok(Rule::Concurrency(permits))),
        };
        compiled.unwrap_or_else(|| unreachable!("every kind compiles by its own constructor"))
    }

    fn tag(&self, bucket: Bucket, quota: &Quota) -> Result<Tag, LimitError> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(tag) = known.iter().position(|other| other.bucket == bucket) {
            return Ok(tag as Tag);
        }
        if known.len() >= 1 << TAG_BITS {
            return Err(LimitError::TooManyQuotas);
        }
        known.push(Known { bucket, quota: *quota });
        Ok((known.len() - 1) as Tag)
    }

    pub(crate) fn with<R>(&self, tag: Tag, read: impl FnOnce(&Bucket) -> R) -> R {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        read(&known[usize::from(tag)].bucket)
    }

    /// The quota behind a tag.
    #[cfg(not(loom))]
    pub(crate) fn quota(&self, tag: Tag) -> Option<Quota> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(usize::from(tag)).map(|known| known.quota)
    }
}
