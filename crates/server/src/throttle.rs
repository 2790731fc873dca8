//! Caller-supplied limits: a key, a quota and a cost, without a rule.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use tollgate::policy::CheckedPolicy;
use tollgate::policy::model::{self, StoreSettings};
use tollgate::quota::{ChargeVerdict, Decision};
use tollgate::store::{Charge, Limit, LimitOptions, OnFailure, Refusals};
use tollgate::{AsyncLimiter, Quota};

/// The scope of caller-supplied keys, separate from every rule: no rule can have this name. Metrics use it as the
/// rule's name.
pub(crate) const THROTTLE_SCOPE: &str = "*throttle";

/// The size of the cache of prepared limits for a shared store. A full cache is cleared: preparing a limit is cheap
/// compared with a call.
const MAX_CACHED_LIMITS: usize = 2_000;

/// A caller-supplied quota, and its prepared limit after the first use: a caller nearly always sends the same quota.
#[derive(Clone, Debug)]
pub(crate) struct CachedQuota {
    quota: Quota,
    limit: Option<Limit>,
}

/// Prepares caller-supplied quotas. A stored entry carries the quota that wrote it: under any other quota the usage of
/// a key remains, and callers take neither key nor quota capacity from the policy.
pub(crate) struct CallerQuotas {
    on_failure: OnFailure,
    /// Prepared limits of a shared store, common to all connections. For a memory store each connection prepares its
    /// own.
    shared: Mutex<HashMap<Quota, Limit, RandomState>>,
}

/// Why a charge was not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotThrottled {
    /// The store fails, and the policy does not allow local counting.
    StoreUnavailable,
    /// The store does not accept the quota.
    QuotaRejected,
}

impl CachedQuota {
    pub(crate) fn new(quota: Quota) -> CachedQuota {
        CachedQuota { quota, limit: None }
    }
}

impl CallerQuotas {
    /// Uses the `on_failure` mode of the policy's store.
    pub(crate) fn new(policy: &CheckedPolicy) -> CallerQuotas {
        let on_failure = match &policy.store {
            StoreSettings::Memory(_) => OnFailure::Closed,
            StoreSettings::Redis(settings) => match settings.on_failure {
                model::FailureMode::Open => OnFailure::Open,
                model::FailureMode::Closed => OnFailure::Closed,
                model::FailureMode::Local => OnFailure::Local { share: settings.fallback_share },
            },
        };
        CallerQuotas { on_failure, shared: Mutex::default() }
    }

    /// Decides and charges `cost` for `key` in a memory store.
    #[inline]
    pub(crate) fn check_now(
        &self,
        limiter: &AsyncLimiter,
        key: &[u8],
        quota_slot: &mut CachedQuota,
        cost: u64,
    ) -> Option<Decision> {
        if quota_slot.limit.is_none() {
            limiter.memory_store()?;
            quota_slot.limit = limiter.caller_limit(THROTTLE_SCOPE, quota_slot.quota, self.options()).ok();
        }
        match &quota_slot.limit {
            Some(limit) => limiter.check_caller_limit_sync(Charge::new(limit, key, cost)),
            None => Some(uncounted(&quota_slot.quota)),
        }
    }

    /// The same for a shared store.
    pub(crate) async fn check(
        &self,
        limiter: &AsyncLimiter,
        key: &[u8],
        quota_slot: &mut CachedQuota,
        cost: u64,
    ) -> Result<Decision, NotThrottled> {
        if quota_slot.limit.is_none() {
            quota_slot.limit = self.prepared(limiter, quota_slot.quota);
        }
        let limit = quota_slot.limit.as_ref().ok_or(NotThrottled::QuotaRejected)?;
        let decision = limiter.check_caller_limit(Charge::new(limit, key, cost)).await;
        if decision.verdict == ChargeVerdict::Unavailable { Err(NotThrottled::StoreUnavailable) } else { Ok(decision) }
    }

    fn prepared(&self, limiter: &AsyncLimiter, quota: Quota) -> Option<Limit> {
        let mut limits = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = limits.get(&quota) {
            return Some(limit.clone());
        }
        let limit = limiter.caller_limit(THROTTLE_SCOPE, quota, self.options()).ok()?;
        if limits.len() >= MAX_CACHED_LIMITS {
            limits.clear();
        }
        limits.insert(quota, limit.clone());
        Some(limit)
    }

    fn options(&self) -> LimitOptions {
        LimitOptions { on_failure: self.on_failure, refusals: Refusals::Brief, lease: None, regional: false }
    }
}

fn uncounted(quota: &Quota) -> Decision {
    Decision { verdict: ChargeVerdict::Unavailable, limit: quota.burst(), remaining: 0, next_after: 0, reset_after: 0 }
}

/// Decisions under caller-supplied limits that are not yet counted in metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThrottleCounts {
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    /// Decisions with cost 0.
    pub(crate) peeks: u64,
    /// Decisions that the store had no capacity to count.
    pub(crate) uncounted: u64,
}

impl ThrottleCounts {
    #[inline]
    pub(crate) fn add(&mut self, cost: u64, decision: &Decision) {
        match decision.is_allowed() {
            _ if cost == 0 => self.peeks += 1,
            true => self.allowed += 1,
            false => self.refused += 1,
        }
        self.uncounted += u64::from(decision.verdict == ChargeVerdict::Unavailable);
    }

    pub(crate) fn count(&self) -> u64 {
        self.allowed + self.refused + self.peeks
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tollgate::policy::PolicyBuilder;
    use tollgate::{Limiter, ManualClock, Rate};

    use super::*;

    #[test]
    fn the_cache_of_caller_quotas_is_bounded() {
        let policy = PolicyBuilder::default().build().unwrap();
        let limiter = Limiter::with_clock(&policy, ManualClock::at(1)).unwrap();
        let quotas = CallerQuotas::new(&policy);
        let quota = |count: u64| {
            let rate = Rate::new(count, Duration::from_secs(1)).unwrap();
            Quota::token_bucket(rate).unwrap().with_max_debt(0).unwrap()
        };
        for count in 1..=5_000 {
            assert!(quotas.prepared(&limiter, quota(count)).is_some(), "{count}");
        }
        assert!(quotas.shared.lock().unwrap().len() <= MAX_CACHED_LIMITS);
        assert_eq!(limiter.store().stats().quotas, 0, "a caller takes no quota slot of the policy");
    }
}
