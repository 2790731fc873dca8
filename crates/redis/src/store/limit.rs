use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::{Algorithm, AlgorithmKind, Bucket, BucketState, Decision, Quota, Tick, Verdict};
use tollgate_store::{Limit, LimitOptions};

use crate::call::Terms;

/// A quota under a scope, ready to be charged in the store that made it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisLimit(pub(super) Arc<Prepared>);

#[derive(Debug)]
pub(super) struct Prepared {
    /// Never used again, so that what is remembered of a limit does not outlive it.
    pub(super) id: u64,
    pub(super) prefix_and_scope: Box<[u8]>,
    pub(super) terms: Arc<Terms>,
    pub(super) options: LimitOptions,
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

impl Prepared {
    pub(super) fn next_id() -> u64 {
        static LIMITS: AtomicU64 = AtomicU64::new(0);
        LIMITS.fetch_add(1, Ordering::Relaxed)
    }
}

impl RedisLimit {
    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    pub(super) fn quota(&self) -> &Quota {
        &self.0.terms.quota
    }

    pub(super) fn is_concurrency(&self) -> bool {
        self.quota().kind() == AlgorithmKind::Concurrency
    }

    /// How long a counter remembers a charge: its window, or until a bucket is full again.
    pub(super) fn remembers_for(&self) -> Duration {
        let quota = self.quota();
        let tokens = u128::from(quota.burst().max(quota.queue_size() + 1));
        let refill_ns = tokens * u128::from(quota.period_ns()) / u128::from(quota.amount().max(1));
        // The previous window of a counter still weighs.
        let windows_ns = 2 * u128::from(quota.period_ns());
        let longest_ns = if quota.burst() > 0 { refill_ns } else { windows_ns };
        Duration::from_nanos(u64::try_from(longest_ns).unwrap_or(u64::MAX))
    }

    /// An answer of somebody who does not know the counter: what is sure is
    /// the limit, and that nothing can be promised.
    pub(super) fn uncounted(&self, verdict: Verdict) -> Decision {
        let bucket = Bucket::new(self.quota(), Tick::Microsecond);
        let limit = bucket.map_or(self.quota().amount(), |bucket| bucket.look(&BucketState::default(), 0, 0).limit);
        Decision { verdict, limit, remaining: 0, next_after: 0, reset_after: 0 }
    }
}
