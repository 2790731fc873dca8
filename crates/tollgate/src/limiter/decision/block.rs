//! What a block says of the limits of its rule.

use tollgate_core::{Decision, Verdict as CoreVerdict};
use tollgate_policy::{Matched, MatchedCharge};

use super::is_of_same;
use crate::limiter::active::ActivePolicy;
use crate::verdict::{RuleState, Verdict};

/// Notes that the rule of a charge is blocked for its key: none of its limits
/// lets anything pass before the block ends, whatever it would say itself.
pub(in crate::limiter) fn note(
    policy: &ActivePolicy,
    matched: &Matched<'_>,
    charge: u32,
    left_ns: u64,
    verdict: &mut Verdict,
) {
    let of_rule = &matched.charges[charge as usize];
    let mut is_noted = false;
    for state in &mut verdict.states {
        if is_of_same(matched, of_rule, &matched.charges[state.charge as usize]) {
            state.decision = blocked(&state.decision, left_ns);
            is_noted |= state.charge == charge;
        }
    }
    // Where the block answers and the servers of its limits do not, it is not known how they stand.
    if !is_noted {
        verdict.states.push(unasked(policy, of_rule, charge, left_ns));
        verdict.states.sort_by_key(|state| state.charge);
    }
}

/// When the block ends, the limit may still refuse.
fn blocked(decision: &Decision, left_ns: u64) -> Decision {
    let later = |ns: u64| ns.max(left_ns);
    let verdict = match decision.verdict {
        // Also when it ends.
        CoreVerdict::Impossible => CoreVerdict::Impossible,
        _ => CoreVerdict::Refused { retry_after: Some(later(decision.retry_after().unwrap_or(0))) },
    };
    Decision {
        verdict,
        limit: decision.limit,
        remaining: 0,
        next_after: later(decision.next_after),
        reset_after: later(decision.reset_after),
    }
}

fn unasked(policy: &ActivePolicy, charge: &MatchedCharge, at: u32, left_ns: u64) -> RuleState {
    let limit = policy.quotas[charge.quota as usize].limit;
    let unknown = Decision { verdict: CoreVerdict::NoRoom, limit, remaining: 0, next_after: 0, reset_after: 0 };
    RuleState {
        rule: charge.rule,
        quota: charge.quota,
        charge: at,
        decision: blocked(&unknown, left_ns),
        shadow: policy.rules[charge.rule as usize].shadow,
    }
}
