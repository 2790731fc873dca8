//! Decisions in the memory store, from matching a request to its verdict.
//!
//! A *plain* rule is enforced, does not limit concurrency, has no escalation, and counts each of its quotas under one
//! limit. A *common* request is one under a policy of plain rules without overrides that also matches by
//! `CompiledPolicy::common_charges`. There are three levels, each a fallback of the one before:
//! 1. [`decide_common`]: the request is common and has one to four charges. The key of each charge is hashed as its
//!    rule is matched; then all charges are made in one step, all or none.
//! 2. `decide_plain`: the matched rules are plain, and there are one to four charges. They are collected in a list of
//!    matches first.
//! 3. [`decide_any`]: everything else, by the state machine of `decision`. This includes common requests without
//!    charges or with more than four.

use arrayvec::ArrayVec;
use tollgate_policy::{Access, CommonCharges, Matched, Request};
use tollgate_store::{Charge, KeyHash, MemoryStore};

use super::active::ActivePolicy;
use super::decision::{CheckMode, DecisionMachine};
use crate::receipt::Receipt;
use crate::verdict::{RuleState, Verdict, VerdictData};

/// Decides a request that is not common: the second and third level.
#[inline(never)]
pub(super) fn decide_uncommon<'r>(
    store: &MemoryStore,
    request: &Request<'r>,
    mode: CheckMode,
    matched: &mut Option<Matched<'r>>,
    mut verdict: Verdict,
) -> (Verdict, Receipt) {
    let matched = matched.insert(Matched::new(Access::Rules));
    verdict.policy.match_into(request, verdict.now_ns, matched);
    if mode == CheckMode::Check && is_plain(&verdict.policy, matched) {
        decide_plain(store, matched, &mut verdict);
        return (verdict, Receipt::nothing());
    }
    decide_any(store, &verdict, matched, mode, &[])
}

/// Whether all charges of a request are of plain rules, and there are some, but at most [`FEW`].
#[inline]
fn is_plain(policy: &ActivePolicy, matched: &Matched<'_>) -> bool {
    matched.access == Access::Rules
        && matched.denials.is_empty()
        && (1..=FEW).contains(&matched.charges.len())
        && (policy.is_plain || matched.charges.iter().all(|charge| policy.rules[charge.rule as usize].is_plain))
}

/// Decides a common request without collecting the matched rules. Returns `false` if the request is not common, or has
/// no charge or more than [`FEW`].
///
/// All code that it calls is inlined. To limit code size only `check_in_memory` inlines it; other callers use
/// [`decide_common_not_inlined`].
#[inline(always)]
pub(super) fn decide_common(store: &MemoryStore, request: &Request<'_>, verdict: &mut VerdictData) -> bool {
    let VerdictData { policy, states, now_ns, .. } = &mut *verdict;
    let policy = &**policy;
    if !policy.is_common {
        return false;
    }
    let Some(mut charges) = policy.compiled.common_charges(request) else { return false };
    let endpoint = charges.endpoint();
    if let Some(only_charge) = charges.only() {
        // An error means that the request is not common.
        let Ok(only) = only_charge else { return false };
        let charge = policy.common_charge(store, &only);
        // The decision is used in place: moving it would load it in larger pieces than it was written in, which stalls
        // the processor (no store-to-load forwarding).
        if let Some(decision) = store.check_fast_path(&charge, *now_ns) {
            verdict.endpoint = endpoint;
            verdict.set_only_decision(only.rule, only.quota, decision);
            return true;
        }
    }
    let Some(passed) = decide_several(store, policy, &mut charges, states, *now_ns) else { return false };
    verdict.endpoint = endpoint;
    // Every policy with queues has `needs_receipts`. So if it is false, nothing is delayed.
    if passed && !verdict.policy.needs_receipts {
        verdict.allow_after(0);
    } else {
        verdict.allow_or_reject(passed);
    }
    true
}

/// Makes the charges of a common request, all or none, and writes their states. Returns `None` if the request is not
/// common, or has no charge or more than [`FEW`].
#[inline(always)]
fn decide_several(
    store: &MemoryStore,
    policy: &ActivePolicy,
    found: &mut CommonCharges<'_, '_>,
    states: &mut Vec<RuleState>,
    now_ns: u64,
) -> Option<bool> {
    let mut charges = FewCharges::new();
    let mut rules_and_quotas = [(0, 0); FEW];
    for charge in found {
        let charge = charge.ok()?;
        *rules_and_quotas.get_mut(charges.len())? = (charge.rule, charge.quota);
        charges.try_push(policy.common_charge(store, &charge)).ok()?;
    }
    if charges.is_empty() {
        return None;
    }
    states.resize(charges.len(), RuleState::UNDECIDED);
    let passed = store.check_all_into_at(now_ns, &charges, states);
    // For speed, written after the charges: their compare-and-swaps would wait for these writes.
    for (at, (state, (rule, quota))) in states.iter_mut().zip(rules_and_quotas).enumerate() {
        state.set(rule, quota, at);
    }
    Some(passed)
}

#[inline(never)]
pub(super) fn decide_common_not_inlined(store: &MemoryStore, request: &Request<'_>, verdict: &mut VerdictData) -> bool {
    decide_common(store, request, verdict)
}

/// Decides a request with up to four charges of plain rules.
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
        store.check_all_into_at(*now_ns, &charges, states)
    };
    verdict.allow_or_reject(passed);
}

/// The largest number of charges that are decided without allocation.
const FEW: usize = 4;

type FewCharges<'a> = ArrayVec<Charge<'a, KeyHash>, FEW>;

/// Decides any request in the memory store.
pub(super) fn decide_any(
    store: &MemoryStore,
    blank: &Verdict,
    matched: &Matched<'_>,
    mode: CheckMode,
    caller_charges: &[Charge<'_>],
) -> (Verdict, Receipt) {
    let policy = &*blank.policy;
    let mut machine = DecisionMachine::new(blank, matched, mode.resolve(policy), caller_charges);
    while let Some(charges) = machine.next() {
        let outcome = store.check_all_now(charges);
        machine.apply(outcome);
    }
    machine.finish()
}
