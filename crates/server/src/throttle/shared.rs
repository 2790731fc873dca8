//! Limits that callers bring along, where the counters are shared.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::RandomState;
use tollgate::policy::model::{self, StoreSettings};
use tollgate::{
    ChargeVerdict, CheckedPolicy, Decision, KeyedCharge, LimitOptions, Mode, OnFailure, Quota, Refusals, Store,
};

use super::THROTTLE_SCOPE;

/// So many are kept ready. Beyond them it begins anew: to prepare one takes no time beside a call.
const MOST_KEPT: usize = 2_000;

/// The quotas of callers, ready for a shared store. There a value says itself
/// which quota wrote it, and so it does where this instance counts alone: there
/// may be any number of them.
pub(crate) struct SharedQuotas<L> {
    on_failure: OnFailure,
    limits: Mutex<HashMap<Quota, L, RandomState>>,
}

/// Why a limit that a caller brought along was not asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotThrottled {
    /// The store fails, and this instance does not count alone.
    NoAnswer,
    /// The store does not take the quota.
    NotTaken,
}

impl<L: Clone> SharedQuotas<L> {
    /// For a policy, whose store says what happens when it fails.
    pub(crate) fn new(policy: &CheckedPolicy) -> SharedQuotas<L> {
        let on_failure = match &policy.store {
            StoreSettings::Memory(_) => OnFailure::Closed,
            StoreSettings::Redis(settings) => match settings.on_failure {
                model::OnFailure::Open => OnFailure::Open,
                model::OnFailure::Closed => OnFailure::Closed,
                model::OnFailure::Local => OnFailure::Local { share: settings.fallback_share },
            },
        };
        SharedQuotas { on_failure, limits: Mutex::default() }
    }

    /// Decides whether `cost` may pass for `key`, and charges it if so. A cost of 0 only looks.
    pub(crate) async fn check<S: Store<Limit = L>>(
        &self,
        store: &S,
        key: &[u8],
        quota: &Quota,
        cost: u64,
    ) -> Result<Decision, NotThrottled> {
        let limit = self.prepared(store, quota).ok_or(NotThrottled::NotTaken)?;
        let charge = KeyedCharge { limit: &limit, key, cost, mode: Mode::Enforce, receipt: false };
        let outcome = store.decide(&[charge]).await;
        let decision = outcome.decisions.first().copied().ok_or(NotThrottled::NoAnswer)?;
        if decision.verdict == ChargeVerdict::NoRoom { Err(NotThrottled::NoAnswer) } else { Ok(decision) }
    }

    fn prepared<S: Store<Limit = L>>(&self, store: &S, quota: &Quota) -> Option<L> {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = limits.get(quota) {
            return Some(limit.clone());
        }
        let options = LimitOptions { on_failure: self.on_failure, refusals: Refusals::Brief };
        let limit = store.caller_limit(THROTTLE_SCOPE, *quota, options).ok()?;
        if limits.len() >= MOST_KEPT {
            limits.clear();
        }
        limits.insert(*quota, limit.clone());
        Some(limit)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use tollgate::{ManualClock, MemoryOptions, MemoryStore, Rate};

    use super::*;

    #[test]
    fn any_number_of_quotas_takes_a_bounded_place() {
        let store = MemoryStore::with(MemoryOptions::default(), ManualClock::at(1)).unwrap();
        let shared: SharedQuotas<tollgate::Limit> =
            SharedQuotas { on_failure: OnFailure::Local { share: (1, 2) }, limits: Mutex::default() };
        let quota = |count: u64| {
            let rate = Rate::new(count, Duration::from_secs(1)).unwrap();
            Quota::token_bucket(rate).unwrap().with_max_debt(0).unwrap()
        };
        for count in 1..=5_000 {
            assert!(shared.prepared(&store, &quota(count)).is_some(), "{count}");
        }
        assert!(shared.limits.lock().unwrap().len() <= MOST_KEPT);
        assert_eq!(store.stats().quotas, 0, "a caller uses up no quota of the policy's");
    }
}
