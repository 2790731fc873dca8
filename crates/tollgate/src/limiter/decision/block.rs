//! The effect of a block on the states of its rule.

use tollgate_core::{ChargeVerdict as CoreVerdict, Decision};
use tollgate_policy::{Matched, MatchedCharge};

use super::has_same_rule_and_key;
use crate::limiter::active::ActivePolicy;
use crate::verdict::{RuleState, Verdict};

/// Notes that the rule of the charge at `position` blocks its key: none of its limits allows anything before the block
/// ends.
pub(in crate::limiter) fn note(
    policy: &ActivePolicy,
    matched: &Matched<'_>,
    position: u32,
    left_ns: u64,
    verdict: &mut Verdict,
) {
    let charge = &matched.charges[position as usize];
    let mut is_noted = false;
    for state in &mut verdict.states {
        if has_same_rule_and_key(matched, charge, &matched.charges[state.charge as usize]) {
            state.decision = blocked(&state.decision, left_ns);
            is_noted |= state.charge == position;
        }
    }
    // If the server of the block replied and those of its limits did not, the state of the limits is unknown.
    if !is_noted {
        verdict.states.push(blocked_state_without_count(policy, charge, position, left_ns));
        verdict.states.sort_by_key(|state| state.charge);
    }
}

/// Returns the decision of a limit whose rule blocks the key. The limit may still refuse when the block ends.
fn blocked(decision: &Decision, left_ns: u64) -> Decision {
    let later = |ns: u64| ns.max(left_ns);
    let verdict = match decision.verdict {
        CoreVerdict::Impossible => CoreVerdict::Impossible,
        // It refuses until the block ends, and longer if its limit says so.
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

/// Returns the state of a limit whose count is unknown, of a rule that blocks the key.
fn blocked_state_without_count(
    policy: &ActivePolicy,
    charge: &MatchedCharge,
    position: u32,
    left_ns: u64,
) -> RuleState {
    let limit = policy.quotas[charge.quota as usize].max_remaining;
    let unknown = Decision { verdict: CoreVerdict::Unavailable, limit, remaining: 0, next_after: 0, reset_after: 0 };
    RuleState {
        rule: charge.rule,
        quota: charge.quota,
        charge: position,
        decision: blocked(&unknown, left_ns),
        shadow: policy.rules[charge.rule as usize].shadow,
    }
}
