//! From the rules that apply to a request to its verdict.
//!
//! A [`Deciding`] says what the store is to be asked, takes the answer, and goes on until the verdict is complete. It
//! never waits: who drives it asks the store, at once in memory and asynchronously elsewhere. Nearly every request asks
//! once. A request that rules with an escalation refuse asks again: to count the violation, to begin a block, and to
//! charge the other rules of a request that is only warned.

mod block;
pub(in crate::limiter) mod escalation;
pub(in crate::limiter) mod together;

use std::cmp::Reverse;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Decision, Verdict as CoreVerdict};
use tollgate_policy::{Access, Matched, MatchedCharge};
use tollgate_store::{Charge, Mode, Outcome};

use crate::holding::Measured;
use crate::limiter::active::ActivePolicy;
use crate::receipt::{HeldCharge, Receipt};
use crate::verdict::{Action, RuleState, Verdict};

/// What is asked about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// May it pass? It is charged. Permits are looked at and not taken.
    Check,
    /// Like `Check`; permits are taken where rules limit concurrency, and charges can be given back or settled.
    Admit,
    /// Like `Admit`, but rules that limit concurrency do not apply: the caller cannot tell when a request ends.
    AdmitRates,
    /// Like `Admit` if the policy in force may need something given back or settled, else like `Check`.
    AdmitWhereNeeded,
    /// Would it pass? Nothing is charged.
    Peek,
}

impl Ask {
    /// What it means under a policy.
    #[inline]
    pub(in crate::limiter) fn under(self, policy: &ActivePolicy) -> Ask {
        match self {
            Ask::AdmitWhereNeeded if policy.needs_receipts => Ask::Admit,
            Ask::AdmitWhereNeeded => Ask::Check,
            ask => ask,
        }
    }

    pub(in crate::limiter) fn wants_receipts(self) -> bool {
        matches!(self, Ask::Admit | Ask::AdmitRates)
    }
}

/// A decision that is being made.
pub(in crate::limiter) struct Deciding<'a> {
    policy: &'a ActivePolicy,
    matched: &'a Matched<'a>,
    ask: Ask,
    /// Charges under limits of callers that are asked for besides.
    extra: &'a [Charge<'a>],
    verdict: Verdict,
    receipt: Receipt,
    /// What the store is asked now: guards of rules that can block, then the charges, then those of callers.
    charges: SmallVec<[Charge<'a>; 4]>,
    /// For each of them but those of callers the position of the matched charge whose key it is.
    positions: SmallVec<[u32; 4]>,
    guards: usize,
    stage: Stage,
    /// The positions of the charges that refuse, one for each rule and key.
    refusing: SmallVec<[u32; 4]>,
}

/// What the store was asked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All charges.
    All,
    /// To count the violation at this position among those that refuse.
    Violation(usize),
    /// To begin the block of its rule.
    Block(usize),
    /// The charges of the rules that do not warn.
    Rest,
    Complete,
}

impl<'a> Deciding<'a> {
    /// Begins. `undecided` is a verdict of the policy; `extra` charges under limits of callers are asked for with all
    /// others.
    pub(in crate::limiter) fn new(
        undecided: &'a Verdict,
        matched: &'a Matched<'a>,
        ask: Ask,
        extra: &'a [Charge<'a>],
    ) -> Deciding<'a> {
        let policy = &*undecided.policy;
        let mut verdict = undecided.another(undecided.now_ns);
        verdict.endpoint = matched.endpoint;
        if !matched.denials.is_empty() {
            verdict.rare().denials.extend_from_slice(&matched.denials);
        }
        let mut deciding = Deciding {
            policy,
            matched,
            ask,
            extra,
            verdict,
            receipt: Receipt::nothing(),
            charges: SmallVec::new(),
            positions: SmallVec::new(),
            guards: 0,
            stage: Stage::Complete,
            refusing: SmallVec::new(),
        };
        deciding.begin();
        deciding
    }

    fn begin(&mut self) {
        if let Some(access) = denial(self.policy, self.matched) {
            return self.verdict.deny(access);
        }
        if self.matched.access != Access::Rules {
            return;
        }
        self.verdict.unlimited = self.matched.unlimited;
        if !self.matched.charges.is_empty() || !self.extra.is_empty() {
            self.ask_for_charges(|_| true);
            self.stage = Stage::All;
        }
    }

    /// What the store is to be asked; `None` once the verdict is complete.
    pub(in crate::limiter) fn next(&self) -> Option<&[Charge<'a>]> {
        (self.stage != Stage::Complete).then_some(&self.charges)
    }

    pub(in crate::limiter) fn finish(self) -> (Verdict, Receipt) {
        (self.verdict, self.receipt)
    }

    /// Takes the store's answer.
    pub(in crate::limiter) fn answer(&mut self, outcome: Outcome) {
        match std::mem::replace(&mut self.stage, Stage::Complete) {
            Stage::All if outcome.passed => self.passed(outcome),
            Stage::All => self.refused(&outcome),
            Stage::Violation(at) => self.counted(at, &outcome),
            Stage::Block(at) => self.begun(at, &outcome),
            Stage::Rest if outcome.passed => {
                self.passed(outcome);
                self.verdict.action = Action::Warn;
            }
            Stage::Rest => {
                self.note_states(&outcome);
                self.reject();
            }
            Stage::Complete => {}
        }
    }

    fn passed(&mut self, outcome: Outcome) {
        self.note_states(&outcome);
        self.verdict.pass();
        let since_ns = self.verdict.now_ns;
        let (policy, matched, positions) = (self.policy, self.matched, &self.positions);
        self.receipt = Receipt::new(outcome.receipts.into_iter().map(|(at, receipt)| {
            let charge = &matched.charges[positions[at] as usize];
            let (rule, quota) = (&policy.rules[charge.rule as usize], &policy.quotas[charge.quota as usize]);
            HeldCharge {
                receipt,
                lease_ns: quota.is_concurrency.then_some(quota.lease_ns),
                measured: quota.is_concurrency.then(|| Measured { since_ns, time: Arc::clone(&rule.holding) }),
                is_estimate: rule.variable_cost,
                follows_request: !rule.own_cost,
            }
        }));
    }

    /// Refused: perhaps blocked, else violations are counted where rules say so.
    fn refused(&mut self, outcome: &Outcome) {
        self.note_states(outcome);
        let mut longest = None;
        for (&charge, decision) in self.positions[..self.guards].iter().zip(&outcome.decisions) {
            let Some(left_ns) = decision.retry_after() else { continue };
            block::note(self.policy, self.matched, charge, left_ns, &mut self.verdict);
            longest = longest.max(Some((left_ns, charge)));
        }
        if let Some((_, charge)) = longest {
            return self.verdict.block(charge);
        }
        let callers_refuse = self.verdict.caller_decisions().iter().any(|decision| !decision.is_allowed());
        if self.verdict.is_troubled() || callers_refuse {
            // A request that could not be counted violates nothing, and neither does one that no rule refuses.
            return self.verdict.reject();
        }
        self.refusing = self.refusing_charges(&outcome.decisions);
        self.count_violation(0);
    }

    /// Asks to count the violation of the next refusing charge from this one on whose rule counts them.
    fn count_violation(&mut self, from: usize) {
        let mode = self.violation_mode();
        for at in from..self.refusing.len() {
            let charge = self.refusing[at];
            let rule = self.matched.charges[charge as usize].rule;
            let Some(escalation) = &self.policy.rules[rule as usize].escalation else { continue };
            let Some(violations) = escalation.violations else { continue };
            let limits = [Some(violations), escalation.pace].into_iter().flatten();
            self.clear_charges();
            limits.for_each(|limit| self.push(limit, charge, 1, mode));
            self.stage = Stage::Violation(at);
            return;
        }
        self.conclude_violations();
    }

    fn violation_mode(&self) -> Mode {
        if self.ask == Ask::Peek { Mode::Guard } else { Mode::Enforce }
    }

    /// A violation was counted: it warns, rejects, or begins a block.
    fn counted(&mut self, at: usize, outcome: &Outcome) {
        let charge = self.refusing[at];
        let rule = self.matched.charges[charge as usize].rule;
        let Some(escalation) = &self.policy.rules[rule as usize].escalation else { return };
        let counted = outcome.decisions[0];
        // Where a pace refuses, as many as are warned came a moment ago.
        let is_paced = escalation.pace.is_some() && !outcome.passed;
        match (counted.verdict, escalation.block) {
            _ if is_paced => {}
            (CoreVerdict::Allowed { .. }, _) => {
                // One that is only looked at is not among those that were counted.
                let looked = u64::from(self.violation_mode() == Mode::Guard);
                if counted.limit - counted.remaining + looked <= escalation.warn_first {
                    self.verdict.rare().warned.push(rule);
                }
            }
            (CoreVerdict::Refused { .. }, Some(limit)) => {
                let mode = self.violation_mode();
                self.clear_charges();
                self.push(limit, charge, 1, mode);
                self.stage = Stage::Block(at);
                return;
            }
            _ => {}
        }
        self.count_violation(at + 1);
    }

    /// A block has begun, by this request or by another a moment ago.
    fn begun(&mut self, at: usize, outcome: &Outcome) {
        let charge = self.refusing[at];
        let rule = self.matched.charges[charge as usize].rule;
        let block_ns = self.policy.rules[rule as usize].escalation.as_ref().map_or(0, |step| step.block_ns);
        let for_ns = outcome.decisions[0].retry_after().unwrap_or(block_ns);
        block::note(self.policy, self.matched, charge, for_ns, &mut self.verdict);
        self.verdict.block(charge);
    }

    /// All violations are counted: where every rule that refuses only warns, the others are charged.
    fn conclude_violations(&mut self) {
        if self.verdict.warned().len() < self.refusing.len() {
            return self.reject();
        }
        self.verdict.rare().warned.dedup();
        // A warned request passes uncharged by the rules that warn, and must pass all others.
        let (matched, refusing) = (self.matched, self.refusing.clone());
        let is_warned = |charge: &MatchedCharge| {
            refusing.iter().any(|at| is_of_same(matched, &matched.charges[*at as usize], charge))
        };
        self.verdict.states.retain(|state| is_warned(&matched.charges[state.charge as usize]));
        self.ask_for_charges(|charge| !is_warned(charge));
        self.stage = Stage::Rest;
    }

    fn reject(&mut self) {
        if !self.verdict.warned().is_empty() {
            self.verdict.rare().warned.clear();
        }
        self.verdict.reject();
    }

    /// Asks for the charges that are wanted; before them a guard for each rule that can block.
    fn ask_for_charges(&mut self, is_wanted: impl Fn(&MatchedCharge) -> bool) {
        let (policy, matched, ask) = (self.policy, self.matched, self.ask);
        let applies = |charge: &MatchedCharge| {
            let is_left_out = ask == Ask::AdmitRates && policy.quotas[charge.quota as usize].is_concurrency;
            !is_left_out && is_wanted(charge)
        };
        let chosen = || (0..).zip(&matched.charges).filter(|(_, charge)| applies(charge));
        self.clear_charges();
        if policy.blocks {
            self.push_guards(chosen());
        }
        self.guards = self.charges.len();
        let mut last: Option<&MatchedCharge> = None;
        for (at, charge) in chosen() {
            let quota = &policy.quotas[charge.quota as usize];
            let is_more_of_rule = last.replace(charge).is_some_and(|last| is_of_same(matched, last, charge));
            let mode = match mode(policy, charge, ask) {
                // Enforced, the limits of a rule are charged all or none: so they are as shadows.
                Mode::Shadow if is_more_of_rule => Mode::ShadowJoined,
                mode => mode,
            };
            let former = quota.former_limit_at.filter(|_| mode.binds());
            for limit in std::iter::once(quota.limit_at).chain(former) {
                self.push(limit, at, charge.cost, mode);
            }
        }
        let wants_receipts = ask.wants_receipts();
        self.charges[self.guards..].iter_mut().for_each(|charge| charge.receipt = wants_receipts);
        self.charges.extend_from_slice(self.extra);
    }

    fn clear_charges(&mut self) {
        self.charges.clear();
        self.positions.clear();
    }

    /// Asks for a charge to the key of the matched charge at a position, under one of the policy's limits.
    fn push(&mut self, limit: u32, position: u32, cost: u64, mode: Mode) {
        let key = self.matched.key(&self.matched.charges[position as usize]);
        self.positions.push(position);
        self.charges.push(Charge { limit: self.policy.limit(limit), key, cost, mode, receipt: false });
    }

    /// Asks for a guard for each rule that can block, and key.
    fn push_guards<'m>(&mut self, chosen: impl Iterator<Item = (u32, &'m MatchedCharge)>) {
        let mut last: Option<&MatchedCharge> = None;
        for (at, charge) in chosen {
            let is_first_of_rule = last.replace(charge).is_none_or(|last| !is_of_same(self.matched, last, charge));
            let rule = &self.policy.rules[charge.rule as usize];
            let block = rule.escalation.as_ref().and_then(|escalation| escalation.block);
            if let Some(limit) = block.filter(|_| is_first_of_rule && !rule.shadow && charge.cost > 0) {
                self.push(limit, at, 1, Mode::Guard);
            }
        }
    }

    fn note_states(&mut self, outcome: &Outcome) {
        let (policy, verdict) = (self.policy, &mut self.verdict);
        verdict.source = outcome.source;
        // Those that were noted before are of rules that warn.
        let has_warned = !verdict.states.is_empty();
        let entries = self.positions.iter().zip(&outcome.decisions).enumerate().skip(self.guards);
        // Where a refusal was known, it is not known how the others stand.
        for (_, (&charge, decision)) in entries.filter(|(entry, _)| outcome.asked.contains(*entry)) {
            if let Some(last) = verdict.states.last_mut().filter(|last| last.charge == charge) {
                // The same limit as a program of the version before counts it: the tighter of both holds.
                last.decision = tighter(last.decision, *decision);
                continue;
            }
            let MatchedCharge { rule, quota, .. } = self.matched.charges[charge as usize];
            let shadow = policy.rules[rule as usize].shadow;
            verdict.states.push(RuleState { rule, quota, charge, decision: *decision, shadow });
        }
        if has_warned {
            // All are told in the order of the policy.
            verdict.states.sort_by_key(|state| state.charge);
        }
        let of_callers = outcome.decisions.get(self.positions.len()..).unwrap_or_default();
        if !of_callers.is_empty() {
            verdict.rare().caller_decisions = of_callers.to_vec();
        }
    }

    /// The positions of the charges that refuse, one for each rule and key.
    fn refusing_charges(&self, decisions: &[Decision]) -> SmallVec<[u32; 4]> {
        let mut refusing: SmallVec<[u32; 4]> = SmallVec::new();
        for (&position, decision) in self.positions[self.guards..].iter().zip(&decisions[self.guards..]) {
            let charges = &self.matched.charges;
            let charge = &charges[position as usize];
            let last = refusing.last().map(|last| &charges[*last as usize]);
            let is_new = last.is_none_or(|last| !is_of_same(self.matched, last, charge));
            if !decision.is_allowed() && is_new && !self.policy.rules[charge.rule as usize].shadow {
                refusing.push(position);
            }
        }
        refusing
    }
}

/// Why it is denied, if it is: nothing is charged then, whatever else applies to it.
pub(in crate::limiter) fn denial(policy: &ActivePolicy, matched: &Matched<'_>) -> Option<Access> {
    let is_by_rule = || matched.denials.iter().any(|rule| !policy.rules[*rule as usize].shadow);
    match matched.access {
        Access::Denied => Some(Access::Denied),
        Access::Rules | Access::Unauthorized if is_by_rule() => Some(Access::Denied),
        Access::Unauthorized => Some(Access::Unauthorized),
        Access::Rules | Access::Allowed => None,
    }
}

/// Whether two charges are of the same rule for the same key: a rule may have several quotas.
pub(in crate::limiter) fn is_of_same(matched: &Matched<'_>, one: &MatchedCharge, other: &MatchedCharge) -> bool {
    one.rule == other.rule && matched.key(one) == matched.key(other)
}

fn mode(policy: &ActivePolicy, charge: &MatchedCharge, ask: Ask) -> Mode {
    // A permit that would not be given back is only looked at.
    let holds_permits = policy.quotas[charge.quota as usize].is_concurrency;
    let is_made = ask.wants_receipts() || ask == Ask::Check && !holds_permits;
    match (policy.rules[charge.rule as usize].shadow, is_made) {
        (false, true) => Mode::Enforce,
        (false, false) => Mode::Guard,
        (true, true) => Mode::Shadow,
        (true, false) => Mode::Watch,
    }
}

/// Which of two answers under one quota leaves less.
fn tighter(one: Decision, other: Decision) -> Decision {
    let rank = |decision: &Decision| (!decision.is_allowed(), decision.retry_after(), Reverse(decision.remaining));
    let reset_after = one.reset_after.max(other.reset_after);
    Decision { reset_after, ..if rank(&other) > rank(&one) { other } else { one } }
}
