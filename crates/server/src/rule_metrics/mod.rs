//! What is counted about rules.
//!
//! Each policy has counters of its own, beside its plan, at places that a
//! verdict tells by position: to count takes a few additions and nothing else.
//! Names come in only when somebody reads. A verdict that a reload has overtaken
//! still has its plan, and is counted there.
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

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::policy::CompiledPolicy;
use tollgate::{Action, Decision};

use crate::decided::{Decided, SaidNo};
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
    /// What policies have counted that nobody decides by any more. A counter must not go back.
    gone: Totals,
    /// The others, the newest last.
    policies: Vec<Arc<PolicyCounters>>,
}

impl RuleMetrics {
    pub(crate) fn new() -> RuleMetrics {
        RuleMetrics { kept: Mutex::default(), throttled: ShardedCounters::new(Outcome::ALL.len()) }
    }

    /// Has counters for a policy that is about to be in force, so that its series are there from the start.
    pub(crate) fn prepare_for(&self, plan: &CompiledPolicy) {
        self.of_plan(plan);
    }

    /// Counts a verdict, under the policy that it was decided by, and tells who said no.
    #[inline]
    pub(crate) fn count(&self, decided: &Decided<'_>) -> SaidNo {
        self.of_plan(decided.verdict.plan()).map_or(SaidNo::default(), |counters| counters.count(decided))
    }

    /// The counters of a policy. There are always some: nobody else keeps anything beside a plan.
    #[inline]
    fn of_plan<'a>(&self, plan: &'a CompiledPolicy) -> Option<&'a PolicyCounters> {
        plan.companion(|| self.for_policy(plan)).map(|counters| &**counters)
    }

    #[cold]
    fn for_policy(&self, plan: &CompiledPolicy) -> Arc<PolicyCounters> {
        let counters = Arc::new(PolicyCounters::new(plan));
        let mut kept = self.lock();
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
    /// Keeps only the counts of policies whose plans are gone: nobody counts for them any more.
    fn put_away(&mut self) {
        let policies = std::mem::take(&mut self.policies);
        for policy in policies {
            // Who is its only owner stays so: nobody else could hand it out.
            if Arc::strong_count(&policy) > 1 {
                self.policies.push(policy);
            } else if let Some(policy) = Arc::into_inner(policy) {
                policy.add_to(&mut self.gone);
            }
        }
    }
}
