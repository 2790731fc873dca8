//! What a block says of the limits of its rule.

use tollgate_core::{Decision, Verdict};
use tollgate_policy::{Matched, MatchedCharge};

use super::active::Active;
use super::admit::is_of_same;
use crate::verdict::{RuleState, Told};

/// Notes that the rule of a charge is blocked for its key: none of its limits
/// lets anything pass before the block ends, whatever it would say itself.
pub(super) fn note<L>(active: &Active<L>, matched: &Matched<'_>, charge: usize, left_ns: u64, verdict: &mut Told) {
    let of_rule = &matched.charges[charge];
    let mut is_told = false;
    for state in &mut verdict.states {
        if is_of_same(matched, of_rule, &matched.charges[state.charge as usize]) {
            state.decision = blocked(&state.decision, left_ns);
            is_told |= state.charge as usize == charge;
        }
    }
    // Where the block answers and the servers of its limits do not, it is not known how they stand.
    if !is_told {
        verdict.states.push(unasked(active, of_rule, charge, left_ns));
        verdict.states.sort_by_key(|state| state.charge);
    }
}

/// When the block ends, the limit may still stand in the way.
fn blocked(decision: &Decision, left_ns: u64) -> Decision {
    let later = |ns: u64| ns.max(left_ns);
    let verdict = match decision.verdict {
        // Also when it ends.
        Verdict::Impossible => Verdict::Impossible,
        _ => Verdict::Refused { retry_after: Some(later(decision.retry_after().unwrap_or(0))) },
    };
    Decision {
        verdict,
        limit: decision.limit,
        remaining: 0,
        next_after: later(decision.next_after),
        reset_after: later(decision.reset_after),
    }
}

fn unasked<L>(active: &Active<L>, charge: &MatchedCharge, at: usize, left_ns: u64) -> RuleState {
    let limit = active.facts.quotas[charge.quota as usize].limit;
    let unknown = Decision { verdict: Verdict::NoRoom, limit, remaining: 0, next_after: 0, reset_after: 0 };
    RuleState {
        rule: charge.rule,
        quota: charge.quota,
        charge: u32::try_from(at).unwrap_or(u32::MAX),
        decision: blocked(&unknown, left_ns),
        shadow: active.facts.rules[charge.rule as usize].shadow,
    }
}
