//! What is counted about rules.
//!
//! Each policy has counters of its own, at places that a verdict tells by
//! position: to count takes a few additions and nothing else. A thread remembers
//! the counters of the policy that it counted for last, and looks them up only
//! after a reload. Names come in only when the metrics are read. A verdict that a
//! reload has overtaken is counted for the policy that decided it.
//!
//! Nothing here is labelled by a client: a label has as many series as it has
//! values, and clients have no end.

mod cells;
mod endpoints;
mod headroom;
mod policy_counters;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod totals;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::policy::CompiledPolicy;
use tollgate::{Action, Decision};

use crate::decided::{Decided, RefusedBy};
use crate::front_end::FrontEnd;
use crate::metrics::sharded_counters::ShardedCounters;
use crate::outcome::Outcome;
use crate::throttle::THROTTLE_SCOPE;
use cells::Cell;
use policy_counters::PolicyCounters;
use totals::Totals;

/// A label's value where no rule decided; Prometheus reads it as no label.
const NO_RULE: &str = "";

/// The counts of all policies there have been.
#[derive(Debug)]
pub(crate) struct RuleMetrics {
    kept: Mutex<Kept>,
    /// Limits that callers bring along, over RESP: one counter for each outcome.
    throttled: ShardedCounters,
}

#[derive(Debug, Default)]
struct Kept {
    /// What policies have counted that no verdict refers to any more. A counter must not go back.
    gone: Totals,
    /// The others, the newest last.
    policies: Vec<Arc<PolicyCounters>>,
}

impl RuleMetrics {
    pub(crate) fn new() -> RuleMetrics {
        RuleMetrics { kept: Mutex::default(), throttled: ShardedCounters::new(Outcome::ALL.len()) }
    }

    /// Has counters for a policy that is about to be in force, so that its series are there from the start.
    pub(crate) fn prepare_for(&self, policy: &Arc<CompiledPolicy>) {
        self.for_policy(policy);
    }

    /// Counts a verdict, under the policy that it was decided by, and tells which limits refused it.
    #[inline]
    pub(crate) fn count(&self, decided: &Decided<'_>) -> RefusedBy {
        let policy = decided.verdict.policy();
        let counted = LAST_COUNTERS.try_with(|last| {
            let last = last.try_borrow().ok()?;
            let counters = last.as_ref().filter(|counters| counters.are_of(policy))?;
            Some(counters.count(decided))
        });
        match counted {
            Ok(Some(refused_by)) => refused_by,
            _ => self.count_for(policy, decided),
        }
    }

    /// Counts for a policy that this thread has not counted for before, and remembers its counters.
    #[cold]
    fn count_for(&self, policy: &Arc<CompiledPolicy>, decided: &Decided<'_>) -> RefusedBy {
        let counters = self.for_policy(policy);
        let refused_by = counters.count(decided);
        // A thread that ends remembers nothing any more.
        let _ = LAST_COUNTERS.try_with(|last| last.replace(Some(counters)));
        refused_by
    }

    /// The counters of a policy; new ones if it has none.
    fn for_policy(&self, policy: &Arc<CompiledPolicy>) -> Arc<PolicyCounters> {
        let mut kept = self.lock();
        if let Some(known) = kept.policies.iter().find(|counters| counters.are_of(policy)) {
            return Arc::clone(known);
        }
        let counters = Arc::new(PolicyCounters::new(policy));
        kept.policies.push(Arc::clone(&counters));
        kept.put_away();
        counters
    }

    /// Counts what was decided under a limit that the caller brought.
    pub(crate) fn count_throttled(&self, cost: u64, decision: &Decision) {
        let outcome = match decision.is_allowed() {
            _ if cost == 0 => Outcome::Peek,
            true => Outcome::Decided(Action::Allow),
            false => Outcome::Decided(Action::Reject),
        };
        self.throttled.add(outcome.position(), 1);
    }

    /// Writes them in Prometheus' text format, behind what is there already.
    pub(crate) fn write(&self, text: &mut String) {
        let mut kept = self.lock();
        kept.put_away();
        let mut totals = kept.gone.clone();
        let policies = kept.policies.clone();
        // Nobody need wait for the rest.
        drop(kept);
        policies.iter().for_each(|policy| policy.add_to(&mut totals));
        let (throttled, sums) = (totals.rule(THROTTLE_SCOPE), self.throttled.sums());
        for outcome in Outcome::ALL {
            throttled[Cell::decided(FrontEnd::Resp, outcome).position()] = sums[outcome.position()];
        }
        text::write(&totals, text);
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Keeps only the counts of policies that are gone: nothing is counted for them any more.
    fn put_away(&mut self) {
        let (live, gone) = std::mem::take(&mut self.policies).into_iter().partition(|policy| policy.is_live());
        self.policies = live;
        let gone: Vec<Arc<PolicyCounters>> = gone;
        gone.iter().for_each(|policy| policy.add_to(&mut self.gone));
    }
}

thread_local! {
    /// The counters that this thread added to last.
    static LAST_COUNTERS: RefCell<Option<Arc<PolicyCounters>>> = const { RefCell::new(None) };
}
