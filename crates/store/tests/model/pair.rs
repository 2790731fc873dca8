//! A store with ample capacity and the model, which run the same steps and are compared.

use std::sync::OnceLock;
use std::time::Duration;

use tollgate_core::{AlgorithmKind, ChargeVerdict, Charged, Decision, Quota};
use tollgate_store::{Capacity, ChargeReceipt, Limit, ManualClock, MemoryOptions, MemoryStore, WhenFull};

use super::{Model, Operation, Who};

pub(crate) const SCOPES: usize = 4;
pub(crate) const KEYS: u64 = 3;

/// Capacity for many times the keys in use.
const ROOMY: MemoryOptions = MemoryOptions { capacity: Capacity::Entries(1024), when_full: WhenFull::RefuseNew };

/// One step. Numbers of limits, keys and receipts wrap around, so every number is valid.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Forward(u64),
    Back(u64),
    Peek(Target),
    Check(Target, u64),
    CheckWithReceipt(Target, u64),
    Reserve(Target, u64, u64),
    CheckAll(Vec<(Target, u64)>),
    CheckAllWithReceipts(Vec<(Target, u64)>),
    Refund(usize),
    Settle(usize, u64),
    Renew(usize),
    Penalise(Target, u64),
    Reset(Target),
}

/// A limit and a key in its scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) limit: usize,
    pub(crate) key: u64,
}

pub(crate) struct Pair {
    pub(crate) store: MemoryStore,
    clock: ManualClock,
    now: u64,
    model: Model,
    limits: Vec<(usize, Limit)>,
    held: Vec<Held>,
}

/// A receipt of the store, and that of the model.
struct Held {
    receipt: ChargeReceipt,
    charged: Charged,
    quota: Quota,
    who: Who,
}

impl Pair {
    /// Each quota with the number of its scope. Of the quotas in one scope only those of the first one's family are
    /// used: between families counts are carried over, which the model does not do.
    pub(crate) fn new(quotas: &[(usize, Quota)], now: u64) -> Pair {
        let first = |scope: usize| quotas.iter().find(|(other, _)| other % SCOPES == scope % SCOPES);
        let is_of_first = |(scope, quota): &&(usize, Quota)| {
            first(*scope).is_some_and(|(_, first)| family(first.kind()) == family(quota.kind()))
        };
        let clock = ManualClock::at(now);
        let store = MemoryStore::with(ROOMY, clock.clone()).unwrap();
        let limit = |(scope, quota): &(usize, Quota)| {
            let scope = scope % SCOPES;
            (scope, store.limit(&scope_name(scope, scopes_without_collisions()), *quota).unwrap())
        };
        let limits = quotas.iter().filter(is_of_first).map(limit).collect();
        Pair { store, clock, now, model: Model::default(), limits, held: Vec::new() }
    }

    /// Runs a step on both. Panics if they disagree.
    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Forward(ns) => self.set_clock(self.now.saturating_add(*ns)),
            // Store and model may drop an expired log at different moments.
            Step::Back(_) if self.limits.iter().any(|(_, limit)| is_log(limit)) => {}
            Step::Back(ns) => self.set_clock(self.now.saturating_sub(*ns)),
            Step::Peek(target) => {
                let (limit, who) = self.resolve(*target);
                let decision = self.store.peek(&limit, &who.1);
                assert_eq!(decision, self.model.look(limit.quota(), who, self.now, 0), "peek");
            }
            Step::Check(target, cost) => {
                let (limit, who) = self.resolve(*target);
                let decision = self.store.check(&limit, &who.1, *cost);
                let answer = self.model.apply(limit.quota(), who, self.now, Operation::Check { cost: *cost });
                assert_eq!(Some(decision), answer.decision, "check");
            }
            Step::CheckWithReceipt(target, cost) => {
                let (limit, who) = self.resolve(*target);
                let answered = self.store.check_with_receipt(&limit, &who.1, *cost);
                self.compare_noted(&limit, who, answered, Operation::Check { cost: *cost });
            }
            Step::Reserve(target, cost, patience) => {
                let (limit, who) = self.resolve(*target);
                let answered = self.store.reserve(&limit, &who.1, *cost, *patience);
                self.compare_noted(&limit, who, answered, Operation::Reserve { cost: *cost, patience: *patience });
            }
            Step::CheckAll(charges) => self.check_all(charges, false),
            Step::CheckAllWithReceipts(charges) => self.check_all(charges, true),
            Step::Refund(number) => {
                if let Some(held) = self.take_held(*number) {
                    self.store.refund(held.receipt);
                    let operation = Operation::GiveBack { charged: held.charged };
                    self.model.apply(&held.quota, held.who, self.now, operation);
                }
            }
            Step::Settle(number, true_cost) => {
                if let Some(held) = self.take_held(*number) {
                    let settled = self.store.settle(held.receipt, *true_cost);
                    let operation = Operation::Settle { charged: held.charged, true_cost: *true_cost };
                    let answer = self.model.apply(&held.quota, held.who, self.now, operation);
                    assert_eq!(settled.overrun, answer.unpaid, "settle");
                }
            }
            Step::Renew(number) => {
                if let Some(at) = number.checked_rem(self.held.len()) {
                    let held = &self.held[at];
                    let operation = Operation::Renew { charged: held.charged };
                    let answer = self.model.apply(&held.quota, held.who, self.now, operation);
                    assert_eq!(self.store.renew(&held.receipt), answer.renewed, "renew");
                }
            }
            Step::Penalise(target, cost) => {
                let (limit, who) = self.resolve(*target);
                let unpaid = self.store.penalise(&limit, &who.1, *cost);
                let answer = self.model.apply(limit.quota(), who, self.now, Operation::Force { cost: *cost });
                assert_eq!(unpaid, answer.unpaid, "penalise");
            }
            Step::Reset(target) => {
                let (limit, who) = self.resolve(*target);
                self.store.reset(&limit, &who.1);
                self.model.apply(limit.quota(), who, self.now, Operation::Reset);
            }
        }
    }

    /// Peeks at every key under every limit on both. Panics if they disagree.
    pub(crate) fn peek_everything(&self) -> Vec<Decision> {
        let targets = self.limits.iter().flat_map(|(scope, limit)| (0..KEYS).map(move |key| (limit, (*scope, key))));
        let look = |(limit, who): (&Limit, Who)| {
            let decision = self.store.peek(limit, &who.1);
            assert_eq!(decision, self.model.look(limit.quota(), who, self.now, 0), "peek of {who:?}");
            decision
        };
        targets.map(look).collect()
    }

    /// Refunds every receipt, the last one first.
    pub(crate) fn refund_everything(&mut self) {
        while !self.held.is_empty() {
            self.step(&Step::Refund(self.held.len() - 1));
        }
    }

    /// Returns the store's decisions for joint charges, with which the model agrees.
    pub(crate) fn check_all(&mut self, charges: &[(Target, u64)], with_receipts: bool) {
        self.answers_to_all(charges, with_receipts);
    }

    pub(crate) fn answers_to_all(&mut self, charges: &[(Target, u64)], with_receipts: bool) -> (bool, Vec<Decision>) {
        let resolved: Vec<_> = charges.iter().map(|(target, cost)| (self.resolve(*target), *cost)).collect();
        let prepared: Vec<_> =
            resolved.iter().map(|((limit, who), cost)| self.store.charge(limit, &who.1, *cost)).collect();
        let mut decisions = Vec::new();
        let (all, receipts) = if with_receipts {
            let receipts = self.store.check_all_with_receipts(&prepared, &mut decisions);
            (receipts.is_some(), receipts.unwrap_or_default())
        } else {
            (self.store.check_all(&prepared, &mut decisions), Vec::new())
        };
        let (expected_decisions, charged) = self.model_of_all(&resolved);
        assert_eq!(decisions, expected_decisions, "check_all");
        assert_eq!(all, charged.is_some(), "check_all as a whole");
        if with_receipts && let Some(charged) = charged {
            assert_eq!(receipts.len(), charged.len(), "a receipt for each charge of more than 0");
            let made = resolved.iter().filter(|(_, cost)| *cost > 0);
            for ((receipt, charged), ((limit, who), _)) in receipts.into_iter().zip(charged).zip(made) {
                assert_eq!(receipt.cost(), charged.cost);
                self.held.push(Held { receipt, charged, quota: *limit.quota(), who: *who });
            }
        }
        (all, decisions)
    }

    /// Returns the decisions, and the charges if all were made.
    fn model_of_all(&mut self, charges: &[((Limit, Who), u64)]) -> (Vec<Decision>, Option<Vec<Charged>>) {
        let now = self.now;
        let look = |((limit, who), cost): &((Limit, Who), u64)| self.model.look(limit.quota(), *who, now, *cost);
        let mut decisions: Vec<_> = charges.iter().map(look).collect();
        let mut made = Vec::new();
        if decisions.iter().all(Decision::is_allowed) {
            for (((limit, who), cost), decision) in
                charges.iter().zip(&mut decisions).filter(|((_, cost), _)| *cost > 0)
            {
                let answer = self.model.apply(limit.quota(), *who, now, Operation::Check { cost: *cost });
                *decision = answer.decision.unwrap();
                let Some(charged) = answer.charged else { break };
                made.push((limit, *who, charged));
            }
            if decisions.iter().all(Decision::is_allowed) {
                return (decisions, Some(made.into_iter().map(|(_, _, charged)| charged).collect()));
            }
        }
        if made.is_empty() {
            for (((limit, who), cost), decision) in
                charges.iter().zip(&mut decisions).filter(|((_, cost), _)| *cost > 0)
            {
                let refused = self.model.apply(limit.quota(), *who, now, Operation::Refuse { cost: *cost });
                *decision = refused.decision.unwrap();
            }
            return (decisions, None);
        }
        let stood_in_the_way = decisions.iter().position(|decision| !decision.is_allowed());
        for (limit, who, charged) in made.into_iter().rev() {
            self.model.apply(limit.quota(), who, now, Operation::GiveBack { charged });
        }
        for (at, ((limit, who), cost)) in charges.iter().enumerate() {
            // A peek was decided before anything was charged, and undoing may round up.
            if *cost == 0 || !decisions[at].is_allowed() {
                continue;
            }
            // A charge after the refused one is decided on the current state.
            let again = self.model.look(limit.quota(), *who, now, *cost);
            let is_later = stood_in_the_way.is_some_and(|refused| at > refused);
            let verdict = match decisions[at].verdict {
                // Undone under another quota, it may find more used than before: rounded up.
                _ if is_later && !again.is_allowed() => ChargeVerdict::Allowed { delay: 0 },
                _ if is_later => again.verdict,
                verdict => verdict,
            };
            decisions[at] = Decision { verdict, ..self.model.look(limit.quota(), *who, now, 0) };
        }
        (decisions, None)
    }

    fn compare_noted(
        &mut self,
        limit: &Limit,
        who: Who,
        (decision, receipt): (Decision, Option<ChargeReceipt>),
        operation: Operation,
    ) {
        let answer = self.model.apply(limit.quota(), who, self.now, operation);
        assert_eq!(Some(decision), answer.decision, "{operation:?}");
        assert_eq!(receipt.is_some(), answer.charged.is_some(), "{operation:?}: receipt");
        if let (Some(receipt), Some(charged)) = (receipt, answer.charged) {
            self.held.push(Held { receipt, charged, quota: *limit.quota(), who });
        }
    }

    fn resolve(&self, target: Target) -> (Limit, Who) {
        let (scope, limit) = &self.limits[target.limit % self.limits.len()];
        (limit.clone(), (*scope, target.key % KEYS))
    }

    fn take_held(&mut self, number: usize) -> Option<Held> {
        number.checked_rem(self.held.len()).map(|at| self.held.swap_remove(at))
    }

    fn set_clock(&mut self, now: u64) {
        self.now = now;
        self.clock.set(now);
    }
}

fn is_log(limit: &Limit) -> bool {
    limit.quota().kind() == AlgorithmKind::SlidingWindowLog
}

fn family(kind: AlgorithmKind) -> AlgorithmKind {
    match kind {
        AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => AlgorithmKind::TokenBucket,
        other => other,
    }
}

fn scope_name(scope: usize, names: u32) -> String {
    format!("scope {scope} of {names}")
}

/// Returns a suffix for scope names under which no two keys compete for a slot.
///
/// A store may drop an expired key, and does so if another key needs its slot. If the clock goes back after that, the
/// model, which drops nothing, knows more. Hashes are secret and differ in each process, so collisions have to be tried:
/// every key takes its slot after all others have expired, then the clock goes back, and all must still be known.
fn scopes_without_collisions() -> u32 {
    static CLEAR: OnceLock<u32> = OnceLock::new();
    *CLEAR.get_or_init(|| (0..).find(|names| no_keys_collide(*names)).unwrap())
}

fn no_keys_collide(names: u32) -> bool {
    const START_NS: u64 = 1 << 60;
    let rate: tollgate_core::Rate = "1/s".parse().unwrap();
    let quotas = [Quota::token_bucket(rate).unwrap(), Quota::fixed_window(rate).unwrap()];
    quotas.into_iter().all(|quota| {
        // One store for each, because the second would carry over what the first has counted.
        let clock = ManualClock::at(START_NS);
        let store = MemoryStore::with(ROOMY, clock.clone()).unwrap();
        let limits: Vec<_> = (0..SCOPES).map(|scope| store.limit(&scope_name(scope, names), quota).unwrap()).collect();
        let all = || limits.iter().flat_map(|limit| (0..KEYS).map(move |key| (limit, key)));
        for (limit, key) in all() {
            assert!(store.check(limit, &key, 1).is_allowed());
            clock.advance(Duration::from_secs(10));
        }
        clock.set(START_NS);
        all().all(|(limit, key)| store.peek(limit, &key).remaining < store.peek(limit, &key).limit)
    })
}
