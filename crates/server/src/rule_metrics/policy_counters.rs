//! The counters of one policy, indexed so that counting needs no lookup.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tollgate::policy::{CompiledPolicy, CompiledRule, RuleQuota};
use tollgate::quota::ChargeVerdict;
use tollgate::store::Source;
use tollgate::verdict::RuleState;
use tollgate::{Action, Request, Verdict};

use super::histograms::{DURATION_ROW, DURATION_SUM, HeadroomSteps, STEPS, duration_bucket, step_and_share};
use super::totals::Totals;
use super::{NO_RULE, OTHER_ENDPOINTS};
use crate::decided::{DecidedRequest, RefusedBy};
use crate::front_end::FrontEnd;
use crate::metrics::sharded_counters::{ShardedCounters, add};

/// The decisions under one policy.
#[derive(Debug)]
pub(super) struct PolicyCounters {
    rules: Box<[CountedRule]>,
    /// The path patterns with their own counters. All others share the entry after them.
    endpoints: Box<[Box<str>]>,
    /// The quotas of the policy, without overrides.
    quotas: Box<[QuotaHeadroom]>,
    /// A row of durations for each front end, one for each quota, one for each rule, then one for decisions without a
    /// rule.
    counters: ShardedCounters,
    first_rule_row: usize,
    row_length: usize,
}

#[derive(Debug)]
struct CountedRule {
    name: Arc<str>,
    denies: bool,
}

/// The headroom counters of a quota.
#[derive(Debug)]
struct QuotaHeadroom {
    rule: usize,
    /// Whether it is the first quota of its grant: each request is checked under one of these.
    is_first: bool,
    steps: HeadroomSteps,
}

/// The outcome of a request in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionOutcome {
    /// A request with cost 0. Counted separately: it consumed nothing.
    Peek,
    Decided(Action),
}

/// The maximum number of pairs of a rule and an endpoint.
const MAX_PAIRS: usize = 16_384;
/// The maximum number of endpoints.
const MAX_ENDPOINTS: usize = 255;

const QUOTAS: usize = FrontEnd::ALL.len() * DURATION_ROW;
/// The counters of a quota: headroom steps, and the sum.
const QUOTA_ROW: usize = STEPS + 1;

/// A rule's row begins with its decisions, by front end and outcome, ..
const DECISIONS: usize = FrontEnd::ALL.len() * DecisionOutcome::ALL.len();
/// .. its refusals, whether or not the rule decided, ..
pub(super) const REFUSALS: usize = DECISIONS;
/// .. its refusals as a shadow rule, ..
pub(super) const SHADOW_REFUSALS: usize = DECISIONS + 1;
/// .. its warnings, ..
pub(super) const WARNINGS: usize = DECISIONS + 2;
/// .. the requests that it checked while the store did not answer, ..
const CHECKED_IN_FALLBACK: usize = DECISIONS + 3;
/// .. its headroom steps under limits that are not quotas of the policy, and the sum of that headroom in millionths.
pub(super) const HEADROOM: usize = DECISIONS + 4;
pub(super) const HEADROOM_SUM: usize = HEADROOM + STEPS;
/// Then a pair for each endpoint: allowed and refused.
pub(super) const ROW: usize = HEADROOM_SUM + 1;

impl PolicyCounters {
    pub(super) fn new(policy: &CompiledPolicy) -> PolicyCounters {
        let rules: Box<[CountedRule]> =
            policy.rules().iter().map(|rule| CountedRule { name: Arc::clone(&rule.name), denies: rule.deny }).collect();
        let max_endpoints = (MAX_PAIRS / (rules.len() + 1)).min(MAX_ENDPOINTS);
        let endpoints: Box<[Box<str>]> = policy.endpoints().take(max_endpoints).map(Box::from).collect();
        let row_length = ROW + 2 * (endpoints.len() + 1);
        let headroom = |quota: &RuleQuota| QuotaHeadroom {
            rule: quota.rule as usize,
            is_first: policy.rules().get(quota.rule as usize).is_some_and(|rule| is_first(rule, quota)),
            steps: HeadroomSteps::of(quota.advertised.limit),
        };
        let quotas: Box<[QuotaHeadroom]> = policy.quotas().iter().map(headroom).collect();
        let first_rule_row = QUOTAS + quotas.len() * QUOTA_ROW;
        let counters = ShardedCounters::new(first_rule_row + (rules.len() + 1) * row_length);
        PolicyCounters { rules, endpoints, quotas, counters, first_rule_row, row_length }
    }

    /// Counts and times a verdict of this policy, and returns which limits refused it; nothing for a peek.
    #[inline(always)]
    pub(super) fn count(&self, decided: DecidedRequest<'_>, taken_ns: u64) -> RefusedBy {
        let DecidedRequest { front_end, request, verdict, deciding } = decided;
        let own: &[AtomicU64] = &self.counters.own();
        let durations = front_end.position() * DURATION_ROW;
        add(own, durations + duration_bucket(taken_ns), 1);
        add(own, durations + DURATION_SUM, taken_ns);
        let row = self.row(match deciding {
            Some(state) => state.rule_position(),
            None => verdict.denied_by().unwrap_or(self.rules.len()),
        });
        let outcome = DecisionOutcome::of(request, verdict.action());
        add(own, row + decisions_of(front_end, outcome), 1);
        let DecisionOutcome::Decided(action) = outcome else { return RefusedBy::default() };
        let endpoint = verdict.endpoint().unwrap_or(usize::MAX).min(self.endpoints.len());
        add(own, row + ROW + 2 * endpoint + usize::from(!action.is_allowed()), 1);
        let may_be_refused = match verdict.source() {
            Source::Fallback => self.count_checked_in_fallback(own, verdict.states()),
            _ => self.count_headroom(own, verdict.states()),
        };
        if may_be_refused || action == Action::Warn || verdict.denials().next().is_some() {
            return self.count_refusals(own, verdict);
        }
        RefusedBy::default()
    }

    /// Counts the headroom of each matched rule, whether or not it decided. Returns whether one of them refuses.
    #[inline(always)]
    fn count_headroom(&self, own: &[AtomicU64], states: &[RuleState]) -> bool {
        let mut is_refused = false;
        for state in states {
            is_refused |= !state.decision.is_allowed();
            let (at, remaining) = (state.quota_position(), state.decision.remaining);
            match self.quotas.get(at) {
                Some(quota) if quota.steps.limit == state.decision.limit => {
                    let row = QUOTAS + at * QUOTA_ROW;
                    add(own, row + quota.steps.step(remaining), 1);
                    add(own, row + STEPS, remaining >> quota.steps.dropped_bits);
                }
                _ => self.count_other_headroom(own, state),
            }
        }
        is_refused
    }

    /// Counts the checks of each matched rule without headroom: without the store, the state of its limits is unknown. A
    /// check that could not be counted at all is none. Returns true, because one of them may refuse.
    #[cold]
    fn count_checked_in_fallback(&self, own: &[AtomicU64], states: &[RuleState]) -> bool {
        let mut last = None;
        for state in states.iter().filter(|state| state.decision.verdict != ChargeVerdict::Unavailable) {
            // A rule with several limits counts once.
            let rule = state.rule_position();
            if last.replace(rule) != Some(rule) {
                add(own, self.row(rule) + CHECKED_IN_FALLBACK, 1);
            }
        }
        true
    }

    /// Counts each rule that refuses, denies or warns, shadow rules included.
    #[cold]
    fn count_refusals(&self, own: &[AtomicU64], verdict: &Verdict) -> RefusedBy {
        if verdict.action() == Action::Warn {
            verdict.warned_rules().for_each(|rule| add(own, self.row(rule) + WARNINGS, 1));
        }
        let mut refused_by = RefusedBy::default();
        let mut refuses = |rule: usize, shadow: bool, is_counted: bool| {
            if is_counted {
                add(own, self.row(rule) + if shadow { SHADOW_REFUSALS } else { REFUSALS }, 1);
            }
            refused_by.any = true;
            refused_by.shadow |= shadow;
        };
        let mut refused_last = None;
        for state in verdict.states().iter().filter(|state| !state.decision.is_allowed()) {
            // A rule with several limits counts once. A request that could not be counted is not a refusal by a rule.
            let rule = state.rule_position();
            let is_counted = refused_last != Some(rule) && state.decision.verdict != ChargeVerdict::Unavailable;
            if is_counted {
                refused_last = Some(rule);
            }
            refuses(rule, state.shadow, is_counted);
        }
        verdict.denials().for_each(|(rule, shadow)| refuses(rule, shadow, true));
        refused_by
    }

    /// Counts headroom under an override, or a limit other than the quota's own.
    #[cold]
    fn count_other_headroom(&self, own: &[AtomicU64], state: &RuleState) {
        let row = self.row(state.rule_position());
        let (step, share) = step_and_share(&state.decision);
        add(own, row + HEADROOM + step, 1);
        add(own, row + HEADROOM_SUM, share);
    }

    /// Returns the first index of a rule's row, or of the row after the rules.
    #[inline(always)]
    fn row(&self, rule: usize) -> usize {
        self.first_rule_row + rule * self.row_length
    }

    pub(super) fn add_to(&self, totals: &mut Totals) {
        let sums = self.counters.sums();
        for (row, front_end) in totals.durations.iter_mut().zip(sums.as_chunks::<DURATION_ROW>().0) {
            row.iter_mut().zip(front_end).for_each(|(total, count)| *total += count);
        }
        let names = self.rules.iter().map(|rule| (&*rule.name, rule.denies)).chain([(NO_RULE, false)]);
        for ((name, denies), row) in names.zip(sums[self.row(0)..].chunks(self.row_length)) {
            totals.set_denies(name, denies);
            totals.rule(name).iter_mut().zip(row).for_each(|(total, count)| *total += count);
            totals.add_checked(name, row[CHECKED_IN_FALLBACK]);
            totals.add_checked(name, row[HEADROOM..HEADROOM_SUM].iter().sum());
            let endpoints = self.endpoints.iter().map(|endpoint| &**endpoint).chain([OTHER_ENDPOINTS]);
            for (endpoint, pair) in endpoints.zip(row[ROW..].as_chunks::<2>().0) {
                totals.add_endpoint(name, endpoint, *pair);
            }
        }
        for (quota, row) in self.quotas.iter().zip(sums[QUOTAS..].as_chunks::<QUOTA_ROW>().0) {
            let Some(rule) = self.rules.get(quota.rule) else { continue };
            if quota.is_first {
                totals.add_checked(&rule.name, row[..STEPS].iter().sum());
            }
            let counted = &mut totals.rule(&rule.name)[HEADROOM..];
            counted.iter_mut().zip(&row[..STEPS]).for_each(|(total, count)| *total += count);
            counted[STEPS] += quota.steps.share(row[STEPS]);
        }
    }
}

/// Returns whether a quota is the first of its grant: all others have a scope with their period.
fn is_first(rule: &CompiledRule, quota: &RuleQuota) -> bool {
    quota.scope == *rule.name || rule.budget.as_deref() == Some(&*quota.scope)
}

/// Returns the index of a rule's decisions within its row.
#[inline(always)]
pub(super) const fn decisions_of(front_end: FrontEnd, outcome: DecisionOutcome) -> usize {
    front_end.position() * DecisionOutcome::ALL.len() + outcome.position()
}

impl DecisionOutcome {
    /// All outcomes, each at its [`position`](DecisionOutcome::position).
    pub(super) const ALL: [DecisionOutcome; 7] = [
        DecisionOutcome::Peek,
        DecisionOutcome::Decided(Action::Allow),
        DecisionOutcome::Decided(Action::Warn),
        DecisionOutcome::Decided(Action::Delay),
        DecisionOutcome::Decided(Action::Reject),
        DecisionOutcome::Decided(Action::Block),
        DecisionOutcome::Decided(Action::Deny),
    ];

    #[inline]
    fn of(request: &Request<'_>, action: Action) -> DecisionOutcome {
        // A denied request was not a peek.
        if request.cost == 0 && action != Action::Deny {
            DecisionOutcome::Peek
        } else {
            DecisionOutcome::Decided(action)
        }
    }

    #[inline]
    pub(super) const fn position(self) -> usize {
        match self {
            DecisionOutcome::Peek => 0,
            // In the declaration order of actions.
            DecisionOutcome::Decided(action) => 1 + action as usize,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            DecisionOutcome::Peek => "peek",
            DecisionOutcome::Decided(action) => action.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::policy::PolicyBuilder;
    use tollgate::rule;

    use super::*;

    #[test]
    fn outcomes_are_listed_at_their_positions() {
        for (at, outcome) in DecisionOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome.position(), at, "{}", outcome.name());
        }
    }

    #[test]
    fn endpoints_are_limited_by_the_number_of_rules() {
        for (rules, expected) in [(0, 0), (3, 3), (100, 100), (255, 64), (2_000, 8)] {
            let all = (0..rules).fold(PolicyBuilder::default(), |policy, at| {
                policy.rule(rule(&format!("r{at}")).limit("1/s").path(&format!("/{at}")))
            });
            let counters = PolicyCounters::new(&CompiledPolicy::new(&all.build().unwrap()).unwrap());
            assert_eq!(counters.endpoints.len(), expected, "{rules} rules");
            assert_eq!(counters.row(1) - counters.row(0), ROW + 2 * (expected + 1));
        }
    }
}
