//! The private data of a Redis store in each [`Limit`].

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::{AlgorithmKind, CompiledQuota, MAX_SPAN_NS, Quota};
use tollgate_store::{Limit, LimitOptions};

use crate::call::TICK;
use crate::regions::RegionalLimit;
use crate::store::leases::terms::LeaseTerms;

/// The private data of a Redis store in a [`Limit`].
#[derive(Debug)]
pub(crate) struct RedisLimitData {
    /// The prefix and the scope of the limit: the beginning of the names of its keys.
    pub(crate) prefix_and_scope: Box<[u8]>,
    pub(super) origin: Origin,
    /// The limit of the fallback: the share of the quota that this instance enforces by itself while the servers fail.
    /// `None` unless the limit's failure mode is [`Local`](tollgate_store::OnFailure::Local).
    pub(super) fallback: Option<Limit>,
    /// The terms under which tokens are leased; `None` if the server decides every request.
    pub(super) lease: Option<LeaseTerms>,
    /// The limit of all regions together; `None` if it is not divided.
    pub(super) regional: Option<Arc<RegionalLimit>>,
    /// The limits that the region enforces with another share than that of the policy.
    pub(super) other_shares: Mutex<Vec<Limit>>,
}

/// The source of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Policy,
    /// A caller, which may also choose any number of keys.
    Caller,
}

/// The reason why a shared store cannot enforce a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RedisLimitError {
    /// Permits without a lease: those of an instance that died would never be released.
    #[error(
        "concurrency in a shared store needs a lease: without one, the permits of an instance that died would never be released"
    )]
    NoLease,
    /// More tokens may be reserved ahead than the server can count exactly.
    #[error("a shared store can reserve at most 2^52 tokens ahead: shorten the reservations, or lower the rate")]
    TooManyTokens,
}

/// The bound below which counts and times must stay, so that quotients of doubles are exact.
const EXACT_BELOW: u64 = 1 << 52;

/// Prepares a limit, if a server that computes in doubles can enforce its quota exactly.
pub(crate) fn prepare(
    scope: &str,
    quota: Quota,
    options: LimitOptions,
    data: RedisLimitData,
) -> Result<Limit, RedisLimitError> {
    if quota.kind() == AlgorithmKind::Concurrency && quota.period_ns() >= MAX_SPAN_NS {
        return Err(RedisLimitError::NoLease);
    }
    let limit = Limit::new(scope, quota, options, TICK, data);
    if let CompiledQuota::Bucket(bucket) = limit.compiled()
        && bucket.shape().tokens_below_ceiling() + u128::from(quota.max_debt()) >= u128::from(EXACT_BELOW)
    {
        return Err(RedisLimitError::TooManyTokens);
    }
    Ok(limit)
}

/// Creates a limit without a store, for tests of the script.
#[cfg(test)]
pub(crate) fn limit_of(quota: Quota) -> Result<Limit, RedisLimitError> {
    prepare("", quota, LimitOptions::default(), RedisLimitData::of_policy(Box::default()))
}

impl RedisLimitData {
    /// Creates the data of a limit of the policy without a fallback.
    pub(super) fn of_policy(prefix_and_scope: Box<[u8]>) -> RedisLimitData {
        let (origin, other_shares) = (Origin::Policy, Mutex::default());
        RedisLimitData { prefix_and_scope, origin, fallback: None, lease: None, regional: None, other_shares }
    }

    /// Returns the private data of a limit.
    ///
    /// # Panics
    /// If the limit was made by a store of another kind.
    pub(crate) fn of(limit: &Limit) -> &RedisLimitData {
        match limit.private() {
            Some(data) => data,
            None => panic!("a limit can only be used in the store that made it"),
        }
    }
}

pub(crate) fn is_concurrency(limit: &Limit) -> bool {
    limit.quota().kind() == AlgorithmKind::Concurrency
}

/// Returns how long a charge affects a key's state: two windows, or the time in which a bucket refills.
pub(super) fn retention(quota: &Quota) -> Duration {
    let tokens = u128::from(quota.burst().max(quota.queue_size() + 1));
    let refill_ns = tokens * u128::from(quota.period_ns()) / u128::from(quota.amount().max(1));
    // The previous window of a sliding counter still counts.
    let windows_ns = 2 * u128::from(quota.period_ns());
    let longest_ns = if quota.burst() > 0 { refill_ns } else { windows_ns };
    Duration::from_nanos(u64::try_from(longest_ns).unwrap_or(u64::MAX))
}
