//! What is counted about decisions and rules.
//!
//! Each policy has counters of its own, at places that a verdict tells by
//! position: to count takes a few additions and nothing else. They are attached to
//! the policy, so that a verdict leads to them, also one that a reload has
//! overtaken. Names come in only when the metrics are read.
//!
//! Nothing here is labelled by a client: a label has as many series as it has
//! values, and clients have no end.

mod histograms;
mod policy_counters;
#[cfg(test)]
mod tests;
mod totals;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::Action;
use tollgate::policy::CompiledPolicy;

use crate::decided::{Decided, RefusedBy};
use crate::front_end::FrontEnd;
use crate::metrics::counter::Counter;
use crate::metrics::sharded_counters::{ShardedCounters, add};
use crate::throttle::{THROTTLE_SCOPE, Throttled};
use histograms::{DURATION_ROW, DURATION_SUM, duration_bucket};
use policy_counters::{Outcome, PolicyCounters, decisions_of};
use totals::Totals;

/// A label's value where no rule decided; Prometheus reads it as no label.
pub(crate) const NO_RULE: &str = "";

/// The endpoint of everything that is not told apart. No pattern is called so: each begins with a slash.
pub(crate) const OTHER_ENDPOINTS: &str = "other";

/// The counts of all policies there have been.
#[derive(Debug)]
pub(crate) struct RuleMetrics {
    kept: Mutex<Kept>,
    /// Limits that callers bring along, over RESP: one counter for each outcome, and a row of durations.
    throttled: ShardedCounters,
    /// Requests that were refused because the store could not count them.
    pub(crate) uncounted: Counter,
}

#[derive(Debug, Default)]
struct Kept {
    /// What policies have counted that no verdict refers to any more. A counter must not go back.
    gone: Totals,
    /// The others, the newest last.
    policies: Vec<Arc<PolicyCounters>>,
}

/// Where durations begin among the counters of callers' limits.
const THROTTLED_DURATIONS: usize = Outcome::ALL.len();

impl RuleMetrics {
    pub(crate) fn new() -> RuleMetrics {
        let throttled = ShardedCounters::new(THROTTLED_DURATIONS + DURATION_ROW);
        RuleMetrics { kept: Mutex::default(), throttled, uncounted: Counter::default() }
    }

    /// Has counters for a policy that is about to be in force, so that its series are there from the start.
    pub(crate) fn prepare_for(&self, policy: &CompiledPolicy) {
        policy.attachment(|| self.begin_counting(policy));
    }

    /// Counts a verdict, under the policy that it was decided by, and how long it took, and tells which limits refused it.
    #[inline(always)]
    pub(crate) fn count(&self, decided: Decided<'_>, taken_ns: u64) -> RefusedBy {
        let verdict = decided.verdict;
        if verdict.action() == Action::Reject && verdict.is_uncounted() {
            self.uncounted.inc();
        }
        let policy = verdict.policy();
        match policy.attachment(|| self.begin_counting(policy)) {
            Some(counters) => counters.count(decided, taken_ns),
            None => RefusedBy::default(),
        }
    }

    #[cold]
    fn begin_counting(&self, policy: &CompiledPolicy) -> Arc<PolicyCounters> {
        let counters = Arc::new(PolicyCounters::new(policy));
        let mut kept = self.lock();
        kept.policies.push(Arc::clone(&counters));
        kept.put_away();
        counters
    }

    /// Counts what was decided under limits that callers brought.
    pub(crate) fn count_throttled(&self, throttled: &Throttled) {
        let own = self.throttled.own();
        add(&own, Outcome::Decided(Action::Allow).position(), throttled.allowed);
        add(&own, Outcome::Decided(Action::Reject).position(), throttled.refused);
        add(&own, Outcome::Peek.position(), throttled.peeks);
        if throttled.uncounted > 0 {
            self.uncounted.inc_by(throttled.uncounted);
        }
    }

    /// So many of those took `ns` together, and each as long as the others.
    pub(crate) fn time_throttled(&self, count: u64, ns: u64) {
        let own = self.throttled.own();
        add(&own, THROTTLED_DURATIONS + duration_bucket(ns / count.max(1)), count);
        add(&own, THROTTLED_DURATIONS + DURATION_SUM, ns);
    }

    /// What was counted so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut kept = self.lock();
        kept.put_away();
        let (mut totals, policies) = (kept.gone.clone(), kept.policies.clone());
        // Nobody need wait for the rest.
        drop(kept);
        policies.iter().for_each(|policy| policy.add_to(&mut totals));
        let sums = self.throttled.sums();
        let durations = &mut totals.durations[FrontEnd::Resp.position()];
        durations.iter_mut().zip(&sums[THROTTLED_DURATIONS..]).for_each(|(total, count)| *total += count);
        let throttled = totals.rule(THROTTLE_SCOPE);
        for outcome in Outcome::ALL {
            throttled[decisions_of(FrontEnd::Resp, outcome)] = sums[outcome.position()];
        }
        totals
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Keeps only the counts of policies that are gone: nothing is counted for them any more, and nobody else has
    /// their counters.
    fn put_away(&mut self) {
        for mut policy in std::mem::take(&mut self.policies) {
            match Arc::get_mut(&mut policy) {
                Some(gone) => gone.add_to(&mut self.gone),
                None => self.policies.push(policy),
            }
        }
    }
}
