//! What settling costs above their estimate adds to a promise.

use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick, most_admitted,
};

use crate::model::{CostSource, Rule};

/// What may be owed, where costs can be settled above their estimate.
///
/// Whatever is settled, no more than this is charged in any span: the bound of
/// the limit, and once the debt. What cannot even be owed is lost, and each
/// request that was under way when the key ran empty can add to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// So much at most.
    pub most: u64,
    /// The most that is charged in any span as long as the quota's period.
    pub charged_in_period: u64,
    /// How long a request can be refused where all of it is owed.
    pub longest_refusal_ns: Option<u64>,
}

impl Debt {
    /// What a request of `cost` has to reckon with under a quota of a rule.
    pub(super) fn of(rule: &Rule, quota: &Quota, cost: u64) -> Option<Debt> {
        let is_settled = match rule.cost.source {
            CostSource::Estimate(_) => true,
            // A caller that names a cost may settle it, but most never do: told where the rule speaks of it.
            CostSource::OfTheRequest => !quota.owes_by_default(),
            _ => false,
        };
        if !is_settled || quota.kind() == AlgorithmKind::Concurrency {
            return None;
        }
        Some(Debt {
            most: quota.max_debt(),
            charged_in_period: most_admitted(quota, quota.period_ns())?.saturating_add(quota.max_debt()),
            longest_refusal_ns: longest_refusal_ns(quota, cost),
        })
    }
}

/// Asked of the algorithm itself, right after everything was spent and owed at the start of a window.
fn longest_refusal_ns(quota: &Quota, cost: u64) -> Option<u64> {
    fn ask<A: Algorithm>(algorithm: &A, at_ns: u64, cost: u64) -> Option<u64> {
        let mut state = A::State::default();
        algorithm.owe(&mut state, at_ns, u64::MAX);
        algorithm.look(&state, at_ns, cost).retry_after()
    }
    let (at_ns, tick) = (quota.period_ns(), Tick::Nanosecond);
    match quota.kind() {
        AlgorithmKind::FixedWindow => ask(&FixedWindow::new(quota, tick)?, at_ns, cost),
        AlgorithmKind::SlidingWindowCounter => ask(&SlidingCounter::new(quota, tick)?, at_ns, cost),
        AlgorithmKind::SlidingWindowLog => ask(&SlidingLog::new(quota, tick)?, at_ns, cost),
        _ => ask(&Bucket::new(quota, tick)?, at_ns, cost),
    }
}
