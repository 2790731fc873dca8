//! What a verdict adds to which counters.

use std::sync::atomic::AtomicU64;

use tollgate::{Action, ChargeVerdict, RuleState, Source, Verdict};

use super::cells::Cell;
use super::endpoints::Passage;
use super::headroom::{STEPS, step_and_share};
use super::policy_counters::{PolicyCounters, QUOTA_ROW};
use crate::decided::{Decided, RefusedBy};
use crate::metrics::sharded_counters::Adding;
use crate::outcome::Outcome;

/// The thread that counts, with its copy of a policy's counters.
pub(super) struct Tally<'a, A> {
    pub(super) policy: &'a PolicyCounters,
    pub(super) counters: &'a [AtomicU64],
    pub(super) adding: A,
}

impl<A: Adding> Tally<'_, A> {
    /// Counts a verdict, and tells which limits refused it; of a peek it tells nothing.
    ///
    /// A part of its caller, which has all it needs at hand.
    #[inline(always)]
    pub(super) fn count(self, decided: &Decided<'_>) -> RefusedBy {
        let row = self.policy.row(decided.deciding.map(RuleState::rule_position).or(decided.denied_by));
        let outcome = Outcome::of(decided.request, decided.action);
        self.add(row + Cell::decided(decided.front_end, outcome).position());
        let Outcome::Decided(action) = outcome else { return RefusedBy::default() };
        let passage = if action.is_allowed() { Passage::Allowed } else { Passage::Refused };
        self.add(row + self.policy.pair(decided.verdict.endpoint(), passage));
        if action == Action::Warn {
            self.count_warnings(decided.verdict);
        }
        // Without the store nobody knows how its limits stand.
        let is_known = decided.verdict.source() != Source::Fallback;
        let refused_by = self.count_states(decided.states, is_known);
        match decided.verdict.denials().next() {
            Some(_) => self.count_denials(decided.verdict, refused_by),
            None => refused_by,
        }
    }

    /// Each rule that denies, or would if it were no shadow.
    #[cold]
    fn count_denials(&self, verdict: &Verdict, mut refused_by: RefusedBy) -> RefusedBy {
        for (rule, shadow) in verdict.denials() {
            let cell = if shadow { Cell::SHADOW_REFUSALS } else { Cell::REFUSALS };
            self.add(self.policy.row(Some(rule)) + cell.position());
            refused_by.any = true;
            refused_by.shadow |= shadow;
        }
        refused_by
    }

    /// Each rule that was met, whether or not it decided.
    #[inline(always)]
    fn count_states(&self, states: &[RuleState], is_known: bool) -> RefusedBy {
        let (quotas, rows) = (self.policy.quotas(), self.counters.as_chunks::<QUOTA_ROW>().0);
        let mut refused_by = RefusedBy::default();
        let mut refused_last = None;
        for state in states {
            if !state.decision.is_allowed() {
                // A rule with several limits says no once. What could not be counted is no rule's refusal.
                let rule = Some(state.rule_position());
                if refused_last != rule && state.decision.verdict != ChargeVerdict::NoRoom {
                    refused_last = rule;
                    let cell = if state.shadow { Cell::SHADOW_REFUSALS } else { Cell::REFUSALS };
                    self.add(self.policy.row(rule) + cell.position());
                }
                refused_by.any = true;
                refused_by.shadow |= state.shadow;
            }
            if !is_known {
                continue;
            }
            let at = state.quota_position();
            let known = quotas.get(at).and_then(|quota| quota.limit.step_and_part(&state.decision));
            let (Some((step, part)), Some(row)) = (known, rows.get(at)) else {
                self.count_other_headroom(state);
                continue;
            };
            self.adding.add(&row[step.min(STEPS - 1)], 1);
            self.adding.add(&row[STEPS], part);
        }
        refused_by
    }

    #[cold]
    fn count_warnings(&self, verdict: &Verdict) {
        let row = |rule| self.policy.row(Some(rule));
        verdict.warned_rules().for_each(|rule| self.add(row(rule) + Cell::WARNINGS.position()));
    }

    /// Under a limit that was set by hand, or that is not the quota's own.
    #[cold]
    fn count_other_headroom(&self, state: &RuleState) {
        let row = self.policy.row(Some(state.rule_position()));
        let (step, share) = step_and_share(&state.decision);
        self.add(row + Cell::headroom(step).position());
        if let Some(sum) = self.counters.get(row + Cell::HEADROOM_SUM.position()) {
            self.adding.add(sum, share);
        }
    }

    #[inline]
    fn add(&self, at: usize) {
        if let Some(counter) = self.counters.get(at) {
            self.adding.add(counter, 1);
        }
    }
}
