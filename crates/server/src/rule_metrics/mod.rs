//! Metrics of decisions and rules.
//!
//! Each policy has its own counters, indexed by positions in a verdict: counting takes a few additions. They are
//! attached to the policy, so that they are found from a verdict, even one decided before a reload. Names are resolved only
//! when metrics are read.
//!
//! No label holds a client: a label has as many series as values, and the number of clients is unbounded.

mod histograms;
mod policy_counters;
#[cfg(test)]
mod tests;
mod total_counts;
mod totals;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::Action;
use tollgate::policy::CompiledPolicy;

use crate::decided::{DecidedRequest, RefusedBy};
use crate::front_end::FrontEnd;
use crate::metrics::counter::CounterMetric;
use crate::metrics::sharded_counters::{ShardedCounters, add};
use crate::throttle::{THROTTLE_SCOPE, ThrottleCounts};
use histograms::{DURATION_ROW, DURATION_SUM, duration_bucket};
use policy_counters::{DecisionOutcome, PolicyCounters, decisions_of};
pub(crate) use total_counts::{DecisionTimes, RuleCounts, TotalCounts};
use totals::Totals;

/// The `rule` label if no rule decided; Prometheus treats it as absent.
pub(crate) const NO_RULE: &str = "";

/// The endpoint of all other requests. No pattern has this name: each begins with a slash.
pub(crate) const OTHER_ENDPOINTS: &str = "other";

/// The counts of all policies so far.
#[derive(Debug)]
pub(crate) struct RuleMetrics {
    retained: Mutex<RetainedCounters>,
    /// Caller-supplied limits over RESP: one counter for each outcome, and a row of durations.
    throttled: ShardedCounters,
    /// Requests that were refused because the store could not count them.
    pub(crate) uncounted: CounterMetric,
}

#[derive(Debug, Default)]
struct RetainedCounters {
    /// The counts of policies that no verdict refers to any more. A counter must not decrease.
    unused: Totals,
    /// The others, the newest last.
    policies: Vec<Arc<PolicyCounters>>,
}

/// The index of durations among the counters of caller-supplied limits.
const THROTTLED_DURATIONS: usize = DecisionOutcome::ALL.len();

impl RuleMetrics {
    pub(crate) fn new() -> RuleMetrics {
        let throttled = ShardedCounters::new(THROTTLED_DURATIONS + DURATION_ROW);
        RuleMetrics { retained: Mutex::default(), throttled, uncounted: CounterMetric::default() }
    }

    /// Creates the counters of a policy before it is active, so that its series exist from the start.
    pub(crate) fn prepare_for(&self, policy: &CompiledPolicy) {
        policy.attachment(|| self.begin_counting(policy));
    }

    /// Counts and times a verdict under the policy that decided it, and returns which limits refused it.
    #[inline(always)]
    pub(crate) fn count(&self, decided: DecidedRequest<'_>, taken_ns: u64) -> RefusedBy {
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
        let mut retained = self.lock();
        retained.policies.push(Arc::clone(&counters));
        retained.fold_unused();
        counters
    }

    /// Counts decisions under caller-supplied limits.
    pub(crate) fn count_throttled(&self, throttled: &ThrottleCounts) {
        let own = self.throttled.own();
        add(&own, DecisionOutcome::Decided(Action::Allow).position(), throttled.allowed);
        add(&own, DecisionOutcome::Decided(Action::Reject).position(), throttled.refused);
        add(&own, DecisionOutcome::Peek.position(), throttled.peeks);
        if throttled.uncounted > 0 {
            self.uncounted.inc_by(throttled.uncounted);
        }
    }

    /// Records that `count` decisions took `ns` in total, evenly.
    pub(crate) fn time_throttled(&self, count: u64, ns: u64) {
        let own = self.throttled.own();
        add(&own, THROTTLED_DURATIONS + duration_bucket(ns / count.max(1)), count);
        add(&own, THROTTLED_DURATIONS + DURATION_SUM, ns);
    }

    /// Returns the totals.
    pub(crate) fn totals(&self) -> Totals {
        let mut retained = self.lock();
        retained.fold_unused();
        let (mut totals, policies) = (retained.unused.clone(), retained.policies.clone());
        // The lock is not needed for the rest.
        drop(retained);
        policies.iter().for_each(|policy| policy.add_to(&mut totals));
        let sums = self.throttled.sums();
        let durations = &mut totals.durations[FrontEnd::Resp.position()];
        durations.iter_mut().zip(&sums[THROTTLED_DURATIONS..]).for_each(|(total, count)| *total += count);
        let throttled = totals.rule(THROTTLE_SCOPE);
        for outcome in DecisionOutcome::ALL {
            throttled[decisions_of(FrontEnd::Resp, outcome)] = sums[outcome.position()];
        }
        totals
    }

    /// Returns the totals as plain numbers.
    pub(crate) fn counts(&self) -> TotalCounts {
        TotalCounts::of(&self.totals())
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, RetainedCounters> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RetainedCounters {
    /// Folds the counters of unused policies into totals: nothing counts for them any more.
    fn fold_unused(&mut self) {
        for mut policy in std::mem::take(&mut self.policies) {
            match Arc::get_mut(&mut policy) {
                Some(unused) => unused.add_to(&mut self.unused),
                None => self.policies.push(policy),
            }
        }
    }
}
