//! Limits that callers bring along: a key, a quota and a cost, without a rule.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use tollgate::policy::model::{self, StoreSettings};
use tollgate::{
    AsyncLimiter, Charge, ChargeVerdict, CheckedPolicy, Decision, Limit, LimitOptions, OnFailure, Quota, Refusals,
};

/// Where the keys of callers count, apart from those of every rule: no rule can
/// have this name. In metrics it stands where a rule's name does.
pub(crate) const THROTTLE_SCOPE: &str = "*throttle";

/// So many are kept for a shared store. Beyond them it begins anew: to prepare one takes no time beside a call.
const MOST_KEPT: usize = 2_000;

/// A quota that a caller brings along, ready for the store once it was asked
/// about: a caller nearly always comes back with the same.
#[derive(Clone, Debug)]
pub(crate) struct CallerQuota {
    quota: Quota,
    limit: Option<Limit>,
}

/// Prepares the quotas of callers. An entry carries the quota that wrote it: under
/// whatever quota a key comes, what it has used stays used, and callers take
/// nothing from the policy, neither room for its keys nor for its quotas.
pub(crate) struct CallerQuotas {
    on_failure: OnFailure,
    /// Those of a shared store, which connections have in common. In memory each connection prepares its own.
    shared: Mutex<HashMap<Quota, Limit, RandomState>>,
}

/// Why a charge was not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotThrottled {
    /// The store fails, and this instance does not count alone.
    NoAnswer,
    /// The store does not take the quota.
    NotTaken,
}

impl CallerQuota {
    pub(crate) fn new(quota: Quota) -> CallerQuota {
        CallerQuota { quota, limit: None }
    }
}

impl CallerQuotas {
    /// For a policy, whose store says what happens when it fails.
    pub(crate) fn new(policy: &CheckedPolicy) -> CallerQuotas {
        let on_failure = match &policy.store {
            StoreSettings::Memory(_) => OnFailure::Closed,
            StoreSettings::Redis(settings) => match settings.on_failure {
                model::OnFailure::Open => OnFailure::Open,
                model::OnFailure::Closed => OnFailure::Closed,
                model::OnFailure::Local => OnFailure::Local { share: settings.fallback_share },
            },
        };
        CallerQuotas { on_failure, shared: Mutex::default() }
    }

    /// Decides whether `cost` may pass for `key`, and charges it if so, where the counters are in this process.
    #[inline]
    pub(crate) fn check_now(
        &self,
        limiter: &AsyncLimiter,
        key: &[u8],
        asked: &mut CallerQuota,
        cost: u64,
    ) -> Option<Decision> {
        if asked.limit.is_none() {
            limiter.memory_store()?;
            asked.limit = limiter.caller_limit(THROTTLE_SCOPE, asked.quota, self.options()).ok();
        }
        match &asked.limit {
            Some(limit) => limiter.check_caller_now(Charge::new(limit, key, cost)),
            None => Some(no_room(&asked.quota)),
        }
    }

    /// The same where they are shared.
    pub(crate) async fn check(
        &self,
        limiter: &AsyncLimiter,
        key: &[u8],
        asked: &mut CallerQuota,
        cost: u64,
    ) -> Result<Decision, NotThrottled> {
        if asked.limit.is_none() {
            asked.limit = self.prepared(limiter, asked.quota);
        }
        let limit = asked.limit.as_ref().ok_or(NotThrottled::NotTaken)?;
        let decision = limiter.check_caller(Charge::new(limit, key, cost)).await;
        if decision.verdict == ChargeVerdict::NoRoom { Err(NotThrottled::NoAnswer) } else { Ok(decision) }
    }

    fn prepared(&self, limiter: &AsyncLimiter, quota: Quota) -> Option<Limit> {
        let mut limits = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = limits.get(&quota) {
            return Some(limit.clone());
        }
        let limit = limiter.caller_limit(THROTTLE_SCOPE, quota, self.options()).ok()?;
        if limits.len() >= MOST_KEPT {
            limits.clear();
        }
        limits.insert(quota, limit.clone());
        Some(limit)
    }

    fn options(&self) -> LimitOptions {
        LimitOptions { on_failure: self.on_failure, refusals: Refusals::Brief }
    }
}

fn no_room(quota: &Quota) -> Decision {
    Decision { verdict: ChargeVerdict::NoRoom, limit: quota.burst(), remaining: 0, next_after: 0, reset_after: 0 }
}

/// What was decided under limits that callers brought, and not counted yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Throttled {
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    /// Those that cost nothing.
    pub(crate) peeks: u64,
    /// Those for which the store had no room.
    pub(crate) uncounted: u64,
}

impl Throttled {
    #[inline]
    pub(crate) fn add(&mut self, cost: u64, decision: &Decision) {
        match decision.is_allowed() {
            _ if cost == 0 => self.peeks += 1,
            true => self.allowed += 1,
            false => self.refused += 1,
        }
        self.uncounted += u64::from(decision.verdict == ChargeVerdict::NoRoom);
    }

    pub(crate) fn count(&self) -> u64 {
        self.allowed + self.refused + self.peeks
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tollgate::{Limiter, ManualClock, PolicyBuilder, Rate};

    use super::*;

    #[test]
    fn any_number_of_quotas_takes_a_bounded_place() {
        let policy = PolicyBuilder::default().build().unwrap();
        let limiter = Limiter::in_memory(&policy, ManualClock::at(1)).unwrap();
        let quotas = CallerQuotas::new(&policy);
        let quota = |count: u64| {
            let rate = Rate::new(count, Duration::from_secs(1)).unwrap();
            Quota::token_bucket(rate).unwrap().with_max_debt(0).unwrap()
        };
        for count in 1..=5_000 {
            assert!(quotas.prepared(&limiter, quota(count)).is_some(), "{count}");
        }
        assert!(quotas.shared.lock().unwrap().len() <= MOST_KEPT);
        assert_eq!(limiter.store().stats().quotas, 0, "a caller uses up no quota of the policy's");
    }
}
