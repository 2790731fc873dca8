//! What a shared store keeps with a limit.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, CompiledQuota, MAX_SPAN_NS, Quota};
use tollgate_store::{Limit, LimitOptions};

use crate::call::TICK;

/// The part of a limit that only a shared store knows.
#[derive(Debug)]
pub(crate) struct SharedLimit {
    /// What the names of its keys begin with.
    pub(crate) prefix_and_scope: Box<[u8]>,
    pub(super) origin: Origin,
    /// The share that this instance counts alone when the store fails.
    pub(super) fallback: Option<Limit>,
}

/// Who chose a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Policy,
    /// A caller, who may choose any number of keys as well.
    Caller,
}

/// Why a shared store cannot keep a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LimitError {
    /// Permits without a lease: nothing would take back those of an instance that died.
    #[error(
        "concurrency in a shared store needs a lease: without one, the permits of an instance that died would never come back"
    )]
    NoLease,
    /// More tokens may be promised ahead than the server can count exactly.
    #[error("a shared store can promise at most 2^52 tokens ahead: promise less, or lower the rate")]
    TooManyTokens,
}

/// Counts and times stay below this, so that quotients of doubles are exact.
const EXACT: u64 = 1 << 52;

/// Prepares a limit, if a server that counts in doubles can keep its quota exactly.
pub(crate) fn prepare(
    scope: &str,
    quota: Quota,
    options: LimitOptions,
    shared: SharedLimit,
) -> Result<Limit, LimitError> {
    if quota.kind() == AlgorithmKind::Concurrency && quota.period_ns() >= MAX_SPAN_NS {
        return Err(LimitError::NoLease);
    }
    let limit = Limit::new(scope, quota, options, TICK, shared);
    if let CompiledQuota::Bucket(bucket) = limit.compiled()
        && bucket.shape().tokens_below_ceiling() + u128::from(quota.max_debt()) >= u128::from(EXACT)
    {
        return Err(LimitError::TooManyTokens);
    }
    Ok(limit)
}

/// A limit that no store made, for tests of what a server does with it.
#[cfg(test)]
pub(crate) fn limit_of(quota: Quota) -> Result<Limit, LimitError> {
    let shared = SharedLimit { prefix_and_scope: Box::default(), origin: Origin::Policy, fallback: None };
    prepare("", quota, LimitOptions::default(), shared)
}

impl SharedLimit {
    /// What a shared store keeps with this limit.
    ///
    /// # Panics
    /// If the limit was made by a store of another kind.
    pub(crate) fn of(limit: &Limit) -> &SharedLimit {
        match limit.private() {
            Some(shared) => shared,
            None => panic!("a limit can only be used in the store that made it"),
        }
    }
}

pub(crate) fn is_concurrency(limit: &Limit) -> bool {
    limit.quota().kind() == AlgorithmKind::Concurrency
}

/// How long a counter remembers a charge: its window, or until a bucket is full again.
pub(super) fn remembers_for(quota: &Quota) -> Duration {
    let tokens = u128::from(quota.burst().max(quota.queue_size() + 1));
    let refill_ns = tokens * u128::from(quota.period_ns()) / u128::from(quota.amount().max(1));
    // The previous window of a counter still weighs.
    let windows_ns = 2 * u128::from(quota.period_ns());
    let longest_ns = if quota.burst() > 0 { refill_ns } else { windows_ns };
    Duration::from_nanos(u64::try_from(longest_ns).unwrap_or(u64::MAX))
}
