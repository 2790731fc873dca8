//! The road of a request: what the policy says of it, one step in the store, the verdict.

use std::cmp::Reverse;
use std::pin::pin;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Decision;
use tollgate_policy::{Access, Matched, MatchedCharge, Request};
use tollgate_store::{KeyedCharge, Mode, Outcome, Store};

use super::Limiter;
use super::active::Active;
use super::block;
use super::immediate::immediately;
use super::violations::Step;
use crate::holding::Measured;
use crate::receipt::{Held, Receipt};
use crate::verdict::{Action, Draft, RuleState, Told, Verdict};

/// What somebody wants to know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// May it pass? Charges it.
    Check,
    /// Like `Check`, with permits and receipts.
    Admit,
    /// Like `Admit`, as if no rule limited how many are under way: nobody could say when they end.
    AdmitRates,
    /// Like `Admit` if the policy in force may want receipts, else like `Check`.
    #[cfg_attr(not(feature = "tower"), allow(dead_code))]
    AdmitWhereNeeded,
    /// Would it pass? Charges nothing.
    Look,
}

impl Asking {
    fn wants_receipts(self) -> bool {
        matches!(self, Asking::Admit | Asking::AdmitRates)
    }
}

/// The charges of a request; before them the guards of its rules that can
/// block, and behind them what is charged besides the rules.
pub(super) struct Laid<'a, L> {
    entries: SmallVec<[KeyedCharge<'a, L>; 4]>,
    /// For each entry, the position of its charge; of a guard, that of the first charge of its rule.
    charges: SmallVec<[usize; 4]>,
    guards: usize,
}

impl<'a, L> Laid<'a, L> {
    fn besides(&self) -> &[KeyedCharge<'a, L>] {
        &self.entries[self.charges.len()..]
    }
}

impl<S: Store> Limiter<S> {
    pub(super) async fn ask(&self, request: &Request<'_>, asking: Asking) -> (Verdict, Receipt<S>) {
        self.ask_watched(request, asking, |_, _| {}).await
    }

    /// Like `ask`, with somebody who looks at what was met once it is decided.
    pub(super) async fn ask_watched(
        &self,
        request: &Request<'_>,
        asking: Asking,
        watch: impl FnOnce(&Verdict, &Matched<'_>),
    ) -> (Verdict, Receipt<S>) {
        // Walked on this stack, or else on the heap: within the futures of all callers it would be moved about. It is
        // pinned here, because it would also be moved to whoever pins it.
        if self.shared.store.answers_at_once() {
            immediately(pin!(self.walk(request, asking, watch)))
        } else {
            Box::pin(self.walk(request, asking, watch)).await
        }
    }

    async fn walk(
        &self,
        request: &Request<'_>,
        asking: Asking,
        watch: impl FnOnce(&Verdict, &Matched<'_>),
    ) -> (Verdict, Receipt<S>) {
        // Read once, and at the beginning: who tells how long it took need not read it, too.
        let now_ns = self.shared.store.now_ns();
        let active = self.active();
        let asking = match asking {
            Asking::AdmitWhereNeeded if active.facts.needs_receipts => Asking::Admit,
            Asking::AdmitWhereNeeded => Asking::Check,
            asking => asking,
        };
        let matched = active.match_request(request, now_ns);
        let (verdict, receipt) = self.decide_met(&active, &matched, asking, &[], now_ns).await;
        watch(&verdict, &matched);
        (verdict, receipt)
    }

    /// Decides what was met, together with charges `besides`.
    pub(super) async fn decide_met(
        &self,
        active: &Active<S::Limit>,
        matched: &Matched<'_>,
        asking: Asking,
        besides: &[KeyedCharge<'_, S::Limit>],
        now_ns: u64,
    ) -> (Verdict, Receipt<S>) {
        let mut verdict = Draft::new(&active.facts, now_ns);
        verdict.endpoint = matched.endpoint;
        if !matched.denials.is_empty() {
            verdict.denials.extend_from_slice(&matched.denials);
        }
        if let Some(access) = denial(active, matched) {
            verdict.deny(access);
            return (verdict.finish(), Receipt::nothing());
        }
        match matched.access {
            Access::Allowed | Access::Denied | Access::Unauthorized => {}
            Access::Rules if matched.charges.is_empty() && besides.is_empty() => verdict.unlimited = matched.unlimited,
            Access::Rules => {
                verdict.unlimited = matched.unlimited;
                let laid = lay(active, matched, asking, besides, |_| true);
                let outcome = self.shared.store.decide(&laid.entries).await;
                if !outcome.passed {
                    return self.refused(active, matched, asking, &laid, outcome, verdict).await;
                }
                let receipt = passed(active, matched, &laid, outcome, &mut verdict);
                return (verdict.finish(), receipt);
            }
        }
        (verdict.finish(), Receipt::nothing())
    }

    /// Counts violations, and lets pass after all what is only warned.
    async fn refused(
        &self,
        active: &Active<S::Limit>,
        matched: &Matched<'_>,
        asking: Asking,
        laid: &Laid<'_, S::Limit>,
        outcome: Outcome<S::Receipt>,
        mut verdict: Draft,
    ) -> (Verdict, Receipt<S>) {
        note_states(active, matched, laid, &outcome, &mut verdict);
        let mut longest = None;
        for (charge, left_ns) in blocks(laid, &outcome.decisions) {
            block::note(active, matched, charge, left_ns, &mut verdict);
            longest = longest.max(Some((left_ns, charge)));
        }
        if let Some((_, charge)) = longest {
            verdict.block(charge);
            return (verdict.finish(), Receipt::nothing());
        }
        if verdict.is_troubled() || verdict.besides.iter().any(|decision| !decision.is_allowed()) {
            // What could not be counted is nobody's violation, nor is what no rule refuses.
            verdict.reject();
            return (verdict.finish(), Receipt::nothing());
        }
        let refusing = refusing_charges(active, matched, laid, &outcome.decisions);
        for &at in &refusing {
            let charge = &matched.charges[at];
            match self.violation(active, matched, charge, asking).await {
                Step::Warn => verdict.warned.push(charge.rule),
                Step::Reject => {}
                Step::Block { for_ns } => {
                    block::note(active, matched, at, for_ns, &mut verdict);
                    verdict.block(at);
                    return (verdict.finish(), Receipt::nothing());
                }
            }
        }
        if verdict.warned.len() < refusing.len() {
            verdict.warned.clear();
            verdict.reject();
            return (verdict.finish(), Receipt::nothing());
        }
        verdict.warned.dedup();
        // A warned request passes uncharged by the rules that warn, and meets all others.
        let is_warned =
            |charge: &MatchedCharge| refusing.iter().any(|at| is_of_same(matched, &matched.charges[*at], charge));
        let rest = lay(active, matched, asking, laid.besides(), |charge| !is_warned(charge));
        let outcome = self.shared.store.decide(&rest.entries).await;
        verdict.states.retain(|state| is_warned(&matched.charges[state.charge as usize]));
        if outcome.passed {
            let receipt = passed(active, matched, &rest, outcome, &mut verdict);
            verdict.action = Action::Warn;
            return (verdict.finish(), receipt);
        }
        note_states(active, matched, &rest, &outcome, &mut verdict);
        verdict.warned.clear();
        verdict.reject();
        (verdict.finish(), Receipt::nothing())
    }
}

/// Why it is denied, if it is: nothing is charged then, whatever else it met.
pub(super) fn denial<L>(active: &Active<L>, matched: &Matched<'_>) -> Option<Access> {
    let is_by_rule = || matched.denials.iter().any(|rule| !active.facts.rules[*rule as usize].shadow);
    match matched.access {
        Access::Denied => Some(Access::Denied),
        Access::Rules | Access::Unauthorized if is_by_rule() => Some(Access::Denied),
        Access::Unauthorized => Some(Access::Unauthorized),
        Access::Rules | Access::Allowed => None,
    }
}

/// Whether two charges are of the same rule for the same key: a rule may have several quotas.
pub(super) fn is_of_same(matched: &Matched<'_>, one: &MatchedCharge, other: &MatchedCharge) -> bool {
    one.rule == other.rule && matched.key(one) == matched.key(other)
}

/// Lays out the entries for the store. `wanted` chooses among the charges.
fn lay<'a, L>(
    active: &'a Active<L>,
    matched: &'a Matched<'a>,
    asking: Asking,
    besides: &[KeyedCharge<'a, L>],
    wanted: impl Fn(&MatchedCharge) -> bool,
) -> Laid<'a, L> {
    let mut laid = Laid { entries: SmallVec::new(), charges: SmallVec::new(), guards: 0 };
    let applies = |charge: &MatchedCharge| {
        asking != Asking::AdmitRates || !active.facts.quotas[charge.quota as usize].is_concurrency
    };
    let chosen = || matched.charges.iter().enumerate().filter(|(_, charge)| applies(charge) && wanted(charge));
    if active.blocks {
        lay_guards(active, matched, chosen(), &mut laid);
    }
    let mut last: Option<&MatchedCharge> = None;
    for (at, charge) in chosen() {
        let former = active.former.get(charge.quota as usize).and_then(Option::as_ref);
        let is_more_of_rule = last.replace(charge).is_some_and(|last| is_of_same(matched, last, charge));
        let mode = match mode(active, charge, asking) {
            // Enforced, the limits of a rule are charged all or none: so they are as shadows.
            Mode::Shadow if is_more_of_rule => Mode::ShadowJoined,
            mode => mode,
        };
        let former = former.filter(|_| matches!(mode, Mode::Enforce | Mode::Guard));
        for limit in std::iter::once(&active.limits[charge.quota as usize]).chain(former) {
            let receipt = asking.wants_receipts();
            laid.entries.push(KeyedCharge { limit, key: matched.key(charge), cost: charge.cost, mode, receipt });
            laid.charges.push(at);
        }
    }
    laid.entries.extend(besides.iter().map(|charge| KeyedCharge { ..*charge }));
    laid
}

/// Before the charges, a guard for each rule that can block.
fn lay_guards<'a, L>(
    active: &'a Active<L>,
    matched: &'a Matched<'a>,
    chosen: impl Iterator<Item = (usize, &'a MatchedCharge)>,
    laid: &mut Laid<'a, L>,
) {
    let mut last: Option<&MatchedCharge> = None;
    for (at, charge) in chosen {
        let is_first_of_rule = last.replace(charge).is_none_or(|last| !is_of_same(matched, last, charge));
        let block = active.graduated[charge.rule as usize].as_ref().and_then(|graduated| graduated.block.as_ref());
        let is_watched = active.facts.rules[charge.rule as usize].shadow;
        if let Some(limit) = block.filter(|_| is_first_of_rule && !is_watched && charge.cost > 0) {
            laid.entries.push(KeyedCharge {
                limit,
                key: matched.key(charge),
                cost: 1,
                mode: Mode::Guard,
                receipt: false,
            });
            laid.charges.push(at);
        }
    }
    laid.guards = laid.entries.len();
}

fn mode<L>(active: &Active<L>, charge: &MatchedCharge, asking: Asking) -> Mode {
    // A permit that nobody will give back is only looked at.
    let holds_permits = active.facts.quotas[charge.quota as usize].is_concurrency;
    let is_made = asking.wants_receipts() || asking == Asking::Check && !holds_permits;
    match (active.facts.rules[charge.rule as usize].shadow, is_made) {
        (false, true) => Mode::Enforce,
        (false, false) => Mode::Guard,
        (true, true) => Mode::Shadow,
        (true, false) => Mode::Watch,
    }
}

fn passed<S: Store>(
    active: &Active<S::Limit>,
    matched: &Matched<'_>,
    laid: &Laid<'_, S::Limit>,
    outcome: Outcome<S::Receipt>,
    verdict: &mut Told,
) -> Receipt<S> {
    note_states(active, matched, laid, &outcome, verdict);
    verdict.pass();
    if outcome.receipts.is_empty() {
        return Receipt::nothing();
    }
    let since_ns = verdict.now_ns;
    Receipt::new(outcome.receipts.into_iter().map(|(entry, receipt)| {
        let charge = &matched.charges[laid.charges[entry]];
        let (rule, quota) = (&active.facts.rules[charge.rule as usize], &active.facts.quotas[charge.quota as usize]);
        Held {
            receipt,
            lease_ns: quota.is_concurrency.then_some(quota.lease_ns),
            measured: quota.is_concurrency.then(|| Measured { since_ns, time: Arc::clone(&rule.holding) }),
            is_estimate: rule.variable_cost,
            follows_request: !rule.own_cost,
        }
    }))
}

fn note_states<L, R>(
    active: &Active<L>,
    matched: &Matched<'_>,
    laid: &Laid<'_, L>,
    outcome: &Outcome<R>,
    verdict: &mut Told,
) {
    verdict.source = outcome.source;
    // Those that were noted before are of rules that warn.
    let has_warned = !verdict.states.is_empty();
    let entries = laid.charges.iter().zip(&outcome.decisions).enumerate().skip(laid.guards);
    // Where a refusal was known, nobody knows how the others stand.
    for (_, (at, decision)) in entries.filter(|(entry, _)| outcome.asked.contains(*entry)) {
        let charge = &matched.charges[*at];
        let shadow = active.facts.rules[charge.rule as usize].shadow;
        let position = u32::try_from(*at).unwrap_or(u32::MAX);
        let (rule, quota) = (charge.rule, charge.quota);
        if let Some(last) = verdict.states.last_mut().filter(|last| last.charge == position) {
            // The same limit as a program of the version before counts it: the tighter of both holds.
            last.decision = tighter(last.decision, *decision);
            continue;
        }
        verdict.states.push(RuleState { rule, quota, charge: position, decision: *decision, shadow });
    }
    if has_warned {
        // All are told in the order of the policy.
        verdict.states.sort_by_key(|state| state.charge);
    }
    let besides = outcome.decisions.get(laid.charges.len()..).unwrap_or_default();
    if !besides.is_empty() {
        verdict.besides = besides.to_vec();
    }
}

/// Which of two answers under one quota leaves less.
fn tighter(one: Decision, other: Decision) -> Decision {
    let rank = |decision: &Decision| (!decision.is_allowed(), decision.retry_after(), Reverse(decision.remaining));
    let reset_after = one.reset_after.max(other.reset_after);
    Decision { reset_after, ..if rank(&other) > rank(&one) { other } else { one } }
}

/// The blocks that are in force: the charge that each stands before, and how long it lasts.
fn blocks<L>(laid: &Laid<'_, L>, decisions: &[Decision]) -> impl Iterator<Item = (usize, u64)> {
    let guards = laid.charges[..laid.guards].iter().zip(decisions);
    guards.filter_map(|(at, decision)| Some((*at, decision.retry_after()?)))
}

/// The positions of the charges that refuse, one for each rule and key.
fn refusing_charges<L>(
    active: &Active<L>,
    matched: &Matched<'_>,
    laid: &Laid<'_, L>,
    decisions: &[Decision],
) -> SmallVec<[usize; 4]> {
    let mut refusing: SmallVec<[usize; 4]> = SmallVec::new();
    for (at, decision) in laid.charges[laid.guards..].iter().zip(&decisions[laid.guards..]) {
        let charge = &matched.charges[*at];
        let is_new = refusing.last().is_none_or(|last| !is_of_same(matched, &matched.charges[*last], charge));
        if !decision.is_allowed() && is_new && !active.facts.rules[charge.rule as usize].shadow {
            refusing.push(*at);
        }
    }
    refusing
}
