//! Decides a request from the rules that apply to it.
//!
//! A [`DecisionMachine`] returns the charges for the store, takes the outcome, and continues until the verdict is
//! complete. It does no I/O: its driver calls the store, directly in memory and asynchronously otherwise. Nearly every
//! request needs one call. A request that is refused by rules with an escalation needs more: to count the violation, to
//! begin a block, and to charge the other rules of a request that only gets a warning.

mod block;
pub(in crate::limiter) mod escalation;
pub(in crate::limiter) mod joint;

use std::cmp::Reverse;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{ChargeVerdict as CoreVerdict, Decision};
use tollgate_policy::{Access, Matched, MatchedCharge};
use tollgate_store::{Charge, ChargeMode, Outcome};

use crate::limiter::active::ActivePolicy;
use crate::limiter::permit_queue::queue_key;
use crate::receipt::{HeldCharge, HeldPermit, Receipt};
use crate::verdict::{Action, RuleState, Verdict};

/// How a request is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckMode {
    /// Decides and charges. Concurrency limits are checked, but no permit is taken.
    Check,
    /// Like `Check`; takes permits of concurrency limits, and returns a receipt to refund or settle the charges.
    Permit,
    /// Like `Permit`, but concurrency limits do not apply, because the caller does not learn when a request ends.
    PermitWithoutConcurrency,
    /// Like `Permit` if charges of the active policy may be refunded, settled or released, else like `Check`.
    PermitIfNeeded,
    /// Decides without charging: enforced rules get [`ChargeMode::Guard`], shadow rules [`ChargeMode::Peek`].
    Peek,
}

impl CheckMode {
    /// Resolves `PermitIfNeeded` under a policy.
    #[inline]
    pub(in crate::limiter) fn resolve(self, policy: &ActivePolicy) -> CheckMode {
        match self {
            CheckMode::PermitIfNeeded if policy.needs_receipts => CheckMode::Permit,
            CheckMode::PermitIfNeeded => CheckMode::Check,
            mode => mode,
        }
    }

    pub(in crate::limiter) fn wants_receipts(self) -> bool {
        matches!(self, CheckMode::Permit | CheckMode::PermitWithoutConcurrency)
    }
}

/// The state machine of one decision.
pub(in crate::limiter) struct DecisionMachine<'a> {
    policy: &'a ActivePolicy,
    matched: &'a Matched<'a>,
    mode: CheckMode,
    /// Charges under callers' limits.
    caller_charges: &'a [Charge<'a>],
    verdict: Verdict,
    receipt: Receipt,
    /// The charges for the next call of the store: first the block guards, then the matched charges, then the caller
    /// charges. A block guard is a charge to the block bucket of a rule that can block. It is never made, and refuses
    /// the request while the key is blocked.
    charges: SmallVec<[Charge<'a>; 4]>,
    /// Parallel to `charges` without the caller charges: the position in `matched.charges` of the charge whose key is
    /// used.
    positions: SmallVec<[u32; 4]>,
    /// The number of block guards at the start of `charges`. (Matched charges may have the mode `Guard` too: those of
    /// enforced rules in a peek, and those of concurrency limits in a check.)
    guards: usize,
    stage: Stage,
    /// The positions of the charges that refuse, one for each rule and key.
    refusing: SmallVec<[u32; 4]>,
}

/// The call of the store whose outcome comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All charges.
    All,
    /// Counts the violation of `refusing[index]`.
    Violation(usize),
    /// Begins the block of the rule of `refusing[index]`.
    Block(usize),
    /// The charges of the rules that do not warn.
    Rest,
    Complete,
}

impl<'a> DecisionMachine<'a> {
    /// Begins a decision. `blank` is an undecided verdict of the policy.
    pub(in crate::limiter) fn new(
        blank: &'a Verdict,
        matched: &'a Matched<'a>,
        mode: CheckMode,
        caller_charges: &'a [Charge<'a>],
    ) -> DecisionMachine<'a> {
        let policy = &*blank.policy;
        let mut verdict = blank.blank_of_same_policy(blank.now_ns);
        verdict.endpoint = matched.endpoint;
        if !matched.denials.is_empty() {
            verdict.cold().denials.extend_from_slice(&matched.denials);
        }
        let mut machine = DecisionMachine {
            policy,
            matched,
            mode,
            caller_charges,
            verdict,
            receipt: Receipt::nothing(),
            charges: SmallVec::new(),
            positions: SmallVec::new(),
            guards: 0,
            stage: Stage::Complete,
            refusing: SmallVec::new(),
        };
        machine.begin();
        machine
    }

    fn begin(&mut self) {
        if let Some(access) = denial(self.policy, self.matched) {
            return self.verdict.deny(access);
        }
        if self.matched.access != Access::Rules {
            return;
        }
        self.verdict.unlimited = self.matched.unlimited;
        if !self.matched.charges.is_empty() || !self.caller_charges.is_empty() {
            self.prepare_charges(|_| true);
            self.stage = Stage::All;
        }
    }

    /// Returns the charges for the store; `None` when the verdict is complete.
    pub(in crate::limiter) fn next(&self) -> Option<&[Charge<'a>]> {
        (self.stage != Stage::Complete).then_some(&self.charges)
    }

    pub(in crate::limiter) fn finish(self) -> (Verdict, Receipt) {
        (self.verdict, self.receipt)
    }

    /// Processes the outcome of a call of the store.
    pub(in crate::limiter) fn apply(&mut self, outcome: Outcome) {
        match std::mem::replace(&mut self.stage, Stage::Complete) {
            Stage::All if outcome.passed => self.on_passed(outcome),
            Stage::All => self.on_refused(&outcome),
            Stage::Violation(at) => self.on_violation_counted(at, &outcome),
            Stage::Block(at) => self.on_block_begun(at, &outcome),
            Stage::Rest if outcome.passed => {
                self.on_passed(outcome);
                self.verdict.action = Action::Warn;
            }
            Stage::Rest => {
                self.note_states(&outcome);
                self.reject();
            }
            Stage::Complete => {}
        }
    }

    fn on_passed(&mut self, outcome: Outcome) {
        self.note_states(&outcome);
        self.verdict.allow();
        let since_ns = self.verdict.now_ns;
        let (policy, matched, positions) = (self.policy, self.matched, &self.positions);
        self.receipt = Receipt::new(outcome.receipts.into_iter().map(|(at, receipt)| {
            let charge = &matched.charges[positions[at] as usize];
            let (rule, quota) = (&policy.rules[charge.rule as usize], &policy.quotas[charge.quota as usize]);
            let permit = quota.is_concurrency.then(|| HeldPermit {
                lease_ns: quota.lease_ns,
                since_ns,
                holding: Arc::clone(&rule.holding),
                queue_key: queue_key(policy.limit(quota.limit_index).scope(), matched.key(charge)),
            });
            let (has_variable_cost, has_request_cost) = (rule.variable_cost, !rule.has_own_cost);
            HeldCharge { receipt, permit, has_variable_cost, has_request_cost }
        }));
    }

    /// Handles a refusal: the key may be blocked; otherwise violations are counted by rules with an escalation.
    fn on_refused(&mut self, outcome: &Outcome) {
        self.note_states(outcome);
        let mut longest = None;
        for (&position, decision) in self.positions[..self.guards].iter().zip(&outcome.decisions) {
            let Some(left_ns) = decision.retry_after() else { continue };
            block::note(self.policy, self.matched, position, left_ns, &mut self.verdict);
            longest = longest.max(Some((left_ns, position)));
        }
        if let Some((_, position)) = longest {
            return self.verdict.block(position);
        }
        let caller_limit_refuses = self.verdict.caller_decisions().iter().any(|decision| !decision.is_allowed());
        if self.verdict.is_store_degraded() || caller_limit_refuses {
            // Not counted as a violation: the request could not be counted, or a caller's limit refuses it.
            return self.verdict.reject();
        }
        self.refusing = self.refusing_charges(&outcome.decisions);
        self.count_violation(0);
    }

    /// Counts the violation of the next refusing charge whose rule counts violations, starting at this index.
    fn count_violation(&mut self, from: usize) {
        let mode = self.violation_mode();
        for at in from..self.refusing.len() {
            let position = self.refusing[at];
            let rule = self.matched.charges[position as usize].rule;
            let Some(escalation) = &self.policy.rules[rule as usize].escalation else { continue };
            let Some(violations) = escalation.violations else { continue };
            let limits = [Some(violations), escalation.sampling_limit].into_iter().flatten();
            self.clear_charges();
            limits.for_each(|limit| self.push(limit, position, 1, mode));
            self.stage = Stage::Violation(at);
            return;
        }
        self.conclude_violations();
    }

    /// The mode of a violation's charge. A peek of the request must not count it: `Guard` refuses without charging.
    fn violation_mode(&self) -> ChargeMode {
        if self.mode == CheckMode::Peek { ChargeMode::Guard } else { ChargeMode::Enforce }
    }

    /// Handles a counted violation: it warns, rejects, or begins a block.
    fn on_violation_counted(&mut self, at: usize, outcome: &Outcome) {
        let position = self.refusing[at];
        let rule = self.matched.charges[position as usize].rule;
        let Some(escalation) = &self.policy.rules[rule as usize].escalation else { return };
        let counted = outcome.decisions[0];
        // The sampling bucket has `warn_first` tokens. If it refuses, `warn_first` violations were counted recently,
        // and this one gets no warning.
        let is_unsampled = escalation.sampling_limit.is_some() && !outcome.passed;
        match (counted.verdict, escalation.block) {
            _ if is_unsampled => {}
            (CoreVerdict::Allowed { .. }, _) => {
                // A peek does not count this violation, so it is added.
                let uncounted = u64::from(self.violation_mode() == ChargeMode::Guard);
                if counted.limit - counted.remaining + uncounted <= escalation.warn_first {
                    self.verdict.cold().warned.push(rule);
                }
            }
            (CoreVerdict::Refused { .. }, Some(limit)) => {
                let mode = self.violation_mode();
                self.clear_charges();
                self.push(limit, position, 1, mode);
                self.stage = Stage::Block(at);
                return;
            }
            _ => {}
        }
        self.count_violation(at + 1);
    }

    /// Handles the begin of a block, by this request or by a concurrent one.
    fn on_block_begun(&mut self, at: usize, outcome: &Outcome) {
        let position = self.refusing[at];
        let rule = self.matched.charges[position as usize].rule;
        let block_ns = self.policy.rules[rule as usize].escalation.as_ref().map_or(0, |escalation| escalation.block_ns);
        let for_ns = outcome.decisions[0].retry_after().unwrap_or(block_ns);
        block::note(self.policy, self.matched, position, for_ns, &mut self.verdict);
        self.verdict.block(position);
    }

    /// Handles the end of counting: if every refusing rule only warns, the other rules are charged.
    fn conclude_violations(&mut self) {
        if self.verdict.warned().len() < self.refusing.len() {
            return self.reject();
        }
        self.verdict.cold().warned.dedup();
        // A request with a warning is not charged by the rules that warn, and must pass all others.
        let (matched, refusing) = (self.matched, self.refusing.clone());
        let is_warned = |charge: &MatchedCharge| {
            refusing.iter().any(|position| has_same_rule_and_key(matched, &matched.charges[*position as usize], charge))
        };
        self.verdict.states.retain(|state| is_warned(&matched.charges[state.charge as usize]));
        self.prepare_charges(|charge| !is_warned(charge));
        self.stage = Stage::Rest;
    }

    fn reject(&mut self) {
        if !self.verdict.warned().is_empty() {
            self.verdict.cold().warned.clear();
        }
        self.verdict.reject();
    }

    /// Prepares the selected charges, preceded by the block guards.
    fn prepare_charges(&mut self, is_wanted: impl Fn(&MatchedCharge) -> bool) {
        let (policy, matched, check_mode) = (self.policy, self.matched, self.mode);
        let applies = |charge: &MatchedCharge| {
            let is_left_out = check_mode == CheckMode::PermitWithoutConcurrency
                && policy.quotas[charge.quota as usize].is_concurrency;
            !is_left_out && is_wanted(charge)
        };
        let chosen = || (0..).zip(&matched.charges).filter(|(_, charge)| applies(charge));
        self.clear_charges();
        if policy.blocks {
            self.push_guards(chosen());
        }
        self.guards = self.charges.len();
        let mut last: Option<&MatchedCharge> = None;
        for (position, charge) in chosen() {
            let quota = &policy.quotas[charge.quota as usize];
            let is_further_limit =
                last.replace(charge).is_some_and(|last| has_same_rule_and_key(matched, last, charge));
            let mode = match charge_mode(policy, charge, check_mode) {
                // The limits of an enforced rule are charged all or none; those of a shadow rule too.
                ChargeMode::Shadow if is_further_limit => ChargeMode::ShadowJoined,
                mode => mode,
            };
            // The counter of the former version of tollgate, for rolling upgrades.
            let former = quota.former_limit.filter(|_| mode.can_refuse());
            for limit in std::iter::once(quota.limit_index).chain(former) {
                self.push(limit, position, charge.cost, mode);
            }
        }
        let wants_receipts = check_mode.wants_receipts();
        self.charges[self.guards..].iter_mut().for_each(|charge| charge.receipt = wants_receipts);
        self.charges.extend_from_slice(self.caller_charges);
    }

    fn clear_charges(&mut self) {
        self.charges.clear();
        self.positions.clear();
    }

    /// Adds a charge to the key of a matched charge under one of the policy's limits.
    fn push(&mut self, limit: u32, position: u32, cost: u64, mode: ChargeMode) {
        let key = self.matched.key(&self.matched.charges[position as usize]);
        self.positions.push(position);
        self.charges.push(Charge { limit: self.policy.limit(limit), key, cost, mode, receipt: false });
    }

    /// Adds one guard for each pair of a blocking rule and a key.
    fn push_guards<'m>(&mut self, chosen: impl Iterator<Item = (u32, &'m MatchedCharge)>) {
        let mut last: Option<&MatchedCharge> = None;
        for (position, charge) in chosen {
            let is_first_of_rule =
                last.replace(charge).is_none_or(|last| !has_same_rule_and_key(self.matched, last, charge));
            let rule = &self.policy.rules[charge.rule as usize];
            let block = rule.escalation.as_ref().and_then(|escalation| escalation.block);
            if let Some(limit) = block.filter(|_| is_first_of_rule && !rule.shadow && charge.cost > 0) {
                self.push(limit, position, 1, ChargeMode::Guard);
            }
        }
    }

    fn note_states(&mut self, outcome: &Outcome) {
        let (policy, verdict) = (self.policy, &mut self.verdict);
        verdict.source = outcome.source;
        // States noted before are of rules that warn.
        let has_warned = !verdict.states.is_empty();
        let entries = self.positions.iter().zip(&outcome.decisions).enumerate().skip(self.guards);
        // After a refusal from the refusal cache the state of the other charges is unknown.
        for (_, (&position, decision)) in entries.filter(|(entry, _)| outcome.decided.contains(*entry)) {
            if let Some(last) = verdict.states.last_mut().filter(|last| last.charge == position) {
                // The counter of the former version, charged too during a rolling upgrade: the tighter one applies.
                last.decision = tighter(last.decision, *decision);
                continue;
            }
            let MatchedCharge { rule, quota, .. } = self.matched.charges[position as usize];
            let shadow = policy.rules[rule as usize].shadow;
            verdict.states.push(RuleState { rule, quota, charge: position, decision: *decision, shadow });
        }
        if has_warned {
            // States are reported in the order of the policy.
            verdict.states.sort_by_key(|state| state.charge);
        }
        let caller_decisions = outcome.decisions.get(self.positions.len()..).unwrap_or_default();
        if !caller_decisions.is_empty() {
            verdict.cold().caller_decisions = caller_decisions.to_vec();
        }
    }

    /// Returns the positions of the charges that refuse, one for each rule and key.
    fn refusing_charges(&self, decisions: &[Decision]) -> SmallVec<[u32; 4]> {
        let mut refusing: SmallVec<[u32; 4]> = SmallVec::new();
        for (&position, decision) in self.positions[self.guards..].iter().zip(&decisions[self.guards..]) {
            let charges = &self.matched.charges;
            let charge = &charges[position as usize];
            let last = refusing.last().map(|last| &charges[*last as usize]);
            let is_new = last.is_none_or(|last| !has_same_rule_and_key(self.matched, last, charge));
            if !decision.is_allowed() && is_new && !self.policy.rules[charge.rule as usize].shadow {
                refusing.push(position);
            }
        }
        refusing
    }
}

/// Returns why the request is denied, if it is. A denied request is charged nothing.
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
pub(in crate::limiter) fn has_same_rule_and_key(
    matched: &Matched<'_>,
    one: &MatchedCharge,
    other: &MatchedCharge,
) -> bool {
    one.rule == other.rule && matched.key(one) == matched.key(other)
}

fn charge_mode(policy: &ActivePolicy, charge: &MatchedCharge, mode: CheckMode) -> ChargeMode {
    // A permit that would not be released is only checked.
    let holds_permits = policy.quotas[charge.quota as usize].is_concurrency;
    let is_charged = mode.wants_receipts() || mode == CheckMode::Check && !holds_permits;
    match (policy.rules[charge.rule as usize].shadow, is_charged) {
        (false, true) => ChargeMode::Enforce,
        // It can refuse, and is not charged.
        (false, false) => ChargeMode::Guard,
        (true, true) => ChargeMode::Shadow,
        (true, false) => ChargeMode::Peek,
    }
}

/// Returns the tighter of two decisions under one quota.
fn tighter(one: Decision, other: Decision) -> Decision {
    let rank = |decision: &Decision| (!decision.is_allowed(), decision.retry_after(), Reverse(decision.remaining));
    let reset_after = one.reset_after.max(other.reset_after);
    Decision { reset_after, ..if rank(&other) > rank(&one) { other } else { one } }
}
