//! The counters of one policy, each at its place, so that counting looks nothing up.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tollgate::policy::CompiledPolicy;
use tollgate::{Action, ChargeVerdict, Request, RuleState, Source, Verdict};

use super::histograms::{DURATION_ROW, DURATION_SUM, HeadroomSteps, STEPS, duration_bucket, step_and_share};
use super::totals::Totals;
use super::{NO_RULE, OTHER_ENDPOINTS};
use crate::decided::{Decided, RefusedBy};
use crate::front_end::FrontEnd;
use crate::metrics::sharded_counters::{ShardedCounters, add};

/// What was decided under one policy.
#[derive(Debug)]
pub(super) struct PolicyCounters {
    rules: Box<[Rule]>,
    /// The path patterns that are told apart. All others are counted behind them.
    endpoints: Box<[Box<str>]>,
    /// The quotas of the policy. Those of overrides are not among them.
    quotas: Box<[QuotaHeadroom]>,
    /// A row of durations for each front end, one for each quota, one for each rule, then one for what no rule decided.
    counters: ShardedCounters,
    first_rule_row: usize,
    row_length: usize,
}

#[derive(Debug)]
struct Rule {
    name: Arc<str>,
    denies: bool,
}

/// Where the headroom of a quota is counted.
#[derive(Debug)]
struct QuotaHeadroom {
    rule: usize,
    steps: HeadroomSteps,
}

/// What became of a request, as metrics tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It asked and took nothing. Counted apart: it was not let through.
    Peek,
    Decided(Action),
}

/// So many pairs of a rule and an endpoint are told apart at most, ..
const MOST_PAIRS: usize = 16_384;
/// .. and never more endpoints than these.
const MOST_ENDPOINTS: usize = 255;

const QUOTAS: usize = FrontEnd::ALL.len() * DURATION_ROW;
/// The counters of a quota: its steps of headroom, and the sum.
const QUOTA_ROW: usize = STEPS + 1;

/// What the row of a rule begins with: the requests that it decided, by front end and outcome, ..
const DECISIONS: usize = FrontEnd::ALL.len() * Outcome::ALL.len();
/// .. how often its limit said no, whether or not the rule decided, ..
pub(super) const REFUSALS: usize = DECISIONS;
/// .. how often it would have, where it is only watched, ..
pub(super) const SHADOW_REFUSALS: usize = DECISIONS + 1;
/// .. how often it let a request pass with a warning, ..
pub(super) const WARNINGS: usize = DECISIONS + 2;
/// .. how often its headroom was in each step under limits that are not of a quota, and all that headroom together, in
/// millionths.
pub(super) const HEADROOM: usize = DECISIONS + 3;
pub(super) const HEADROOM_SUM: usize = HEADROOM + STEPS;
/// Then a pair for each endpoint: allowed and refused.
pub(super) const ROW: usize = HEADROOM_SUM + 1;

impl PolicyCounters {
    pub(super) fn new(policy: &CompiledPolicy) -> PolicyCounters {
        let rules: Box<[Rule]> =
            policy.rules().iter().map(|rule| Rule { name: Arc::clone(&rule.name), denies: rule.deny }).collect();
        let most = (MOST_PAIRS / (rules.len() + 1)).min(MOST_ENDPOINTS);
        let endpoints: Box<[Box<str>]> = policy.endpoints().take(most).map(Box::from).collect();
        let row_length = ROW + 2 * (endpoints.len() + 1);
        let of_quota = |quota: &tollgate::policy::RuleQuota| QuotaHeadroom {
            rule: quota.rule as usize,
            steps: HeadroomSteps::of(quota.advertised.limit),
        };
        let quotas: Box<[QuotaHeadroom]> = policy.quotas().iter().map(of_quota).collect();
        let first_rule_row = QUOTAS + quotas.len() * QUOTA_ROW;
        let counters = ShardedCounters::new(first_rule_row + (rules.len() + 1) * row_length);
        PolicyCounters { rules, endpoints, quotas, counters, first_rule_row, row_length }
    }

    /// Counts a verdict of this policy and how long it took, and tells which limits refused it; of a peek it tells
    /// nothing.
    #[inline(always)]
    pub(super) fn count(&self, decided: Decided<'_>, taken_ns: u64) -> RefusedBy {
        let Decided { front_end, request, verdict, deciding } = decided;
        let own: &[AtomicU64] = &self.counters.own();
        let durations = front_end.position() * DURATION_ROW;
        add(own, durations + duration_bucket(taken_ns), 1);
        add(own, durations + DURATION_SUM, taken_ns);
        let row = self.row(match deciding {
            Some(state) => state.rule_position(),
            None => verdict.denied_by().unwrap_or(self.rules.len()),
        });
        let outcome = Outcome::of(request, verdict.action());
        add(own, row + decisions_of(front_end, outcome), 1);
        let Outcome::Decided(action) = outcome else { return RefusedBy::default() };
        let endpoint = verdict.endpoint().unwrap_or(usize::MAX).min(self.endpoints.len());
        add(own, row + ROW + 2 * endpoint + usize::from(!action.is_allowed()), 1);
        // Without the store the state of its limits is not known.
        let may_be_refused = verdict.source() == Source::Fallback || self.count_headroom(own, verdict.states());
        if may_be_refused || action == Action::Warn || verdict.denials().next().is_some() {
            return self.count_refusals(own, verdict);
        }
        RefusedBy::default()
    }

    /// The headroom of each rule that was met, whether or not it decided. Says whether one of them refuses.
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

    /// Each rule that refuses, denies or warns, or would if it were no shadow.
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
            // A rule with several limits says no once. What could not be counted is no rule's refusal.
            let rule = state.rule_position();
            let is_counted = refused_last != Some(rule) && state.decision.verdict != ChargeVerdict::NoRoom;
            if is_counted {
                refused_last = Some(rule);
            }
            refuses(rule, state.shadow, is_counted);
        }
        verdict.denials().for_each(|(rule, shadow)| refuses(rule, shadow, true));
        refused_by
    }

    /// Under a limit that was set by hand, or that is not the quota's own.
    #[cold]
    fn count_other_headroom(&self, own: &[AtomicU64], state: &RuleState) {
        let row = self.row(state.rule_position());
        let (step, share) = step_and_share(&state.decision);
        add(own, row + HEADROOM + step, 1);
        add(own, row + HEADROOM_SUM, share);
    }

    /// Where the row of a rule begins, or the one behind those of the rules.
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
            let endpoints = self.endpoints.iter().map(|endpoint| &**endpoint).chain([OTHER_ENDPOINTS]);
            for (endpoint, pair) in endpoints.zip(row[ROW..].as_chunks::<2>().0) {
                totals.add_endpoint(name, endpoint, *pair);
            }
        }
        for (quota, row) in self.quotas.iter().zip(sums[QUOTAS..].as_chunks::<QUOTA_ROW>().0) {
            let Some(rule) = self.rules.get(quota.rule) else { continue };
            let counted = &mut totals.rule(&rule.name)[HEADROOM..];
            counted.iter_mut().zip(&row[..STEPS]).for_each(|(total, count)| *total += count);
            counted[STEPS] += quota.steps.share(row[STEPS]);
        }
    }
}

/// Where the row of a rule counts the requests that it decided.
#[inline(always)]
pub(super) const fn decisions_of(front_end: FrontEnd, outcome: Outcome) -> usize {
    front_end.position() * Outcome::ALL.len() + outcome.position()
}

impl Outcome {
    /// All of them, each at its [`position`](Outcome::position).
    pub(super) const ALL: [Outcome; 7] = [
        Outcome::Peek,
        Outcome::Decided(Action::Allow),
        Outcome::Decided(Action::Warn),
        Outcome::Decided(Action::Delay),
        Outcome::Decided(Action::Reject),
        Outcome::Decided(Action::Block),
        Outcome::Decided(Action::Deny),
    ];

    #[inline]
    fn of(request: &Request<'_>, action: Action) -> Outcome {
        // A denied request was not told what remains either.
        if request.cost == 0 && action != Action::Deny { Outcome::Peek } else { Outcome::Decided(action) }
    }

    #[inline]
    pub(super) const fn position(self) -> usize {
        match self {
            Outcome::Peek => 0,
            // In the order in which actions are declared.
            Outcome::Decided(action) => 1 + action as usize,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Outcome::Peek => "peek",
            Outcome::Decided(action) => action.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{PolicyBuilder, rule};

    use super::*;

    #[test]
    fn each_outcome_stands_at_its_position() {
        for (at, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome.position(), at, "{}", outcome.name());
        }
    }

    #[test]
    fn there_are_no_more_endpoints_than_so_many_whatever_the_policy_has() {
        for (rules, told_apart) in [(0, 0), (3, 3), (100, 100), (255, 64), (2_000, 8)] {
            let all = (0..rules).fold(PolicyBuilder::default(), |policy, at| {
                policy.rule(rule(&format!("r{at}")).limit("1/s").path(&format!("/{at}")))
            });
            let counters = PolicyCounters::new(&CompiledPolicy::new(&all.build().unwrap()).unwrap());
            assert_eq!(counters.endpoints.len(), told_apart, "{rules} rules");
            assert_eq!(counters.row(1) - counters.row(0), ROW + 2 * (told_apart + 1));
        }
    }
}
