//! The largest cost that can ever pass.

use tollgate_core::{AlgorithmKind, Quota};

use super::periods::quotas;
use crate::model::{CostSource, Grant, Rule};

/// What a grant can hold at most; `None` if it holds anything.
pub(super) fn of_grant(grant: &Grant) -> Option<u64> {
    quotas(grant).iter().map(of_quota).min()
}

pub(crate) fn of_quota(quota: &Quota) -> u64 {
    match quota.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => quota.burst(),
        AlgorithmKind::LeakyQueue => quota.queue_size().min(served_within_wait(quota).saturating_add(1)),
        _ => quota.amount(),
    }
}

/// How many a queue lets go within its longest wait.
pub(super) fn served_within_wait(quota: &Quota) -> u64 {
    let served = u128::from(quota.ahead_ns()) * u128::from(quota.amount()) / u128::from(quota.period_ns().max(1));
    u64::try_from(served).unwrap_or(u64::MAX)
}

/// The least that a request can cost under a rule, and the most that the policy itself says one costs.
pub(super) fn costs(rule: &Rule) -> (u64, u64) {
    match &rule.cost.source {
        CostSource::OfTheRequest => (1, 1),
        CostSource::Fixed(cost) | CostSource::Estimate(cost) => (*cost, *cost),
        // A request can say 1, whatever holds for those that say nothing.
        CostSource::Header { default, .. } => (1, *default),
        CostSource::Methods { costs, default } => {
            let all = || costs.iter().map(|(_, cost)| *cost).chain([*default]);
            (all().min().unwrap_or(1), all().max().unwrap_or(1))
        }
    }
}
