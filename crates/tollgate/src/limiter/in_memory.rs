//! Decisions in a memory store: plain code from what a request matches to its verdict.

use arrayvec::ArrayVec;
use tollgate_policy::{Access, CommonCharges, Matched, Request};
use tollgate_store::{Charge, KeyHash, MemoryStore};

use super::active::ActivePolicy;
use super::decision::{Ask, Deciding};
use crate::receipt::Receipt;
use crate::verdict::{RuleState, Verdict, VerdictData};

/// Decides a request after what it matches was written down.
#[inline(never)]
pub(super) fn decide_uncommon<'r>(
    store: &MemoryStore,
    request: &Request<'r>,
    ask: Ask,
    matched: &mut Option<Matched<'r>>,
    mut verdict: Verdict,
) -> (Verdict, Receipt) {
    let matched = matched.insert(Matched::new(Access::Rules));
    verdict.policy.match_into(request, verdict.now_ns, matched);
    if ask == Ask::Check && is_plain(&verdict.policy, matched) {
        decide_plain(store, matched, &mut verdict);
        return (verdict, Receipt::nothing());
    }
    decide_any(store, &verdict, matched, ask, &[])
}

/// Whether the charges of a request are few, are made as they were matched, and a refusal is only a refusal: nearly
/// always.
#[inline]
fn is_plain(policy: &ActivePolicy, matched: &Matched<'_>) -> bool {
    matched.access == Access::Rules
        && matched.denials.is_empty()
        && (1..=FEW).contains(&matched.charges.len())
        && (policy.is_plain || matched.charges.iter().all(|charge| policy.rules[charge.rule as usize].is_plain))
}

/// Decides a request that every rule it matches treats as most requests, without keeping what it matches. False if it
/// has to be decided otherwise.
///
/// Everything it calls becomes part of it, so it is a part of `check_in_memory` and nothing else: other callers take
/// [`decide_common_apart`].
#[inline(always)]
pub(super) fn decide_common(store: &MemoryStore, request: &Request<'_>, verdict: &mut VerdictData) -> bool {
    let VerdictData { policy, states, now_ns, .. } = &mut *verdict;
    let policy = &**policy;
    if !policy.is_common {
        return false;
    }
    let Some(mut charges) = policy.compiled.common_charges(request) else { return false };
    let endpoint = charges.endpoint();
    if let Some(only) = charges.only() {
        let Ok(only) = only else { return false };
        let charge = policy.common_charge(store, &only);
        // Not moved about: what was just written in words is slow to read as larger pieces.
        if let Some(decision) = store.decide_one(&charge, *now_ns) {
            verdict.endpoint = endpoint;
            verdict.decided_one(only.rule, only.quota, decision);
            return true;
        }
    }
    let Some(passed) = decide_several(store, policy, &mut charges, states, *now_ns) else { return false };
    verdict.endpoint = endpoint;
    // A policy that needs no receipts has no queues, and so no delays.
    if passed && !verdict.policy.needs_receipts {
        verdict.passed(0);
    } else {
        verdict.decided_plain(passed);
    }
    true
}

/// Makes the charges of a common request, all or none, and writes their states. `None` if the request is not common
/// after all.
#[inline(always)]
fn decide_several(
    store: &MemoryStore,
    policy: &ActivePolicy,
    found: &mut CommonCharges<'_, '_>,
    states: &mut Vec<RuleState>,
    now_ns: u64,
) -> Option<bool> {
    let mut charges = FewCharges::new();
    let mut positions = [(0, 0); FEW];
    for charge in found {
        let charge = charge.ok()?;
        *positions.get_mut(charges.len())? = (charge.rule, charge.quota);
        charges.try_push(policy.common_charge(store, &charge)).ok()?;
    }
    if charges.is_empty() {
        return None;
    }
    states.resize(charges.len(), RuleState::UNDECIDED);
    let passed = store.decide_charges_at(now_ns, &charges, states);
    // After the swaps, each of which waits until all writes before it are done.
    for (at, (state, (rule, quota))) in states.iter_mut().zip(positions).enumerate() {
        state.set(rule, quota, at);
    }
    Some(passed)
}

#[inline(never)]
pub(super) fn decide_common_apart(store: &MemoryStore, request: &Request<'_>, verdict: &mut VerdictData) -> bool {
    decide_common(store, request, verdict)
}

/// Decides a request to which up to four charges of plain rules apply.
#[inline]
fn decide_plain(store: &MemoryStore, matched: &Matched<'_>, verdict: &mut VerdictData) {
    verdict.endpoint = matched.endpoint;
    verdict.unlimited = matched.unlimited;
    let VerdictData { policy, states, now_ns, .. } = verdict;
    let passed = {
        let mut charges = FewCharges::new();
        states.resize(matched.charges.len(), RuleState::UNDECIDED);
        for ((at, charge), state) in matched.charges.iter().enumerate().zip(&mut *states) {
            charges.push(policy.charge(store, charge.quota, matched.key(charge), charge.cost));
            state.set(charge.rule, charge.quota, at);
        }
        store.decide_charges_at(*now_ns, &charges, states)
    };
    verdict.decided_plain(passed);
}

/// How many charges are decided in place.
const FEW: usize = 4;

type FewCharges<'a> = ArrayVec<Charge<'a, KeyHash>, FEW>;

/// Decides any request in memory.
pub(super) fn decide_any(
    store: &MemoryStore,
    undecided: &Verdict,
    matched: &Matched<'_>,
    ask: Ask,
    extra: &[Charge<'_>],
) -> (Verdict, Receipt) {
    let policy = &*undecided.policy;
    let mut deciding = Deciding::new(undecided, matched, ask.under(policy), extra);
    while let Some(charges) = deciding.next() {
        let outcome = store.decide_now(charges);
        deciding.answer(outcome);
    }
    deciding.finish()
}
