//! What a verdict adds to which counters.

use tollgate::{ChargeVerdict, Request, RuleState, Source, Verdict};

use super::cells::{Cell, headroom};
use super::endpoints::Passage;
use crate::front_end::FrontEnd;
use crate::outcome::Outcome;

/// Who counts. Rules and endpoints are told by their positions in the verdict's plan.
pub(super) trait Tally {
    fn rule(&mut self, rule: Option<usize>, cell: Cell, amount: u64);

    fn endpoint(&mut self, rule: Option<usize>, endpoint: Option<usize>, passage: Passage);
}

/// Counts a verdict.
#[inline]
pub(super) fn count(tally: &mut impl Tally, front_end: FrontEnd, request: &Request<'_>, verdict: &Verdict) {
    let outcome = Outcome::of(request, verdict);
    let rule = verdict.deciding().map(RuleState::rule_position);
    tally.rule(rule, Cell::decided(front_end, outcome), 1);
    let Outcome::Decided(action) = outcome else { return };
    let passage = if action.is_allowed() { Passage::Allowed } else { Passage::Refused };
    tally.endpoint(rule, verdict.endpoint(), passage);
    verdict.warned_rules().for_each(|rule| tally.rule(Some(rule), Cell::WARNINGS, 1));
    count_states(tally, verdict);
}

/// Each rule that was met, whether or not it decided.
fn count_states(tally: &mut impl Tally, verdict: &Verdict) {
    // Without the store nobody knows how its limits stand.
    let is_known = verdict.source() != Source::Fallback;
    let mut refused_last = None;
    for state in verdict.states() {
        let rule = Some(state.rule_position());
        if is_known {
            let left = headroom(&state.decision);
            tally.rule(rule, Cell::headroom(left), 1);
            tally.rule(rule, Cell::HEADROOM_SUM, left);
        }
        // A rule with several limits says no once. What could not be counted is no rule's refusal.
        let is_refused = !state.decision.is_allowed() && state.decision.verdict != ChargeVerdict::NoRoom;
        if is_refused && refused_last != rule {
            refused_last = rule;
            tally.rule(rule, if state.shadow { Cell::SHADOW_REFUSALS } else { Cell::REFUSALS }, 1);
        }
    }
}
