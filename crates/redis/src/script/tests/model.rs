//! What the script must do: the pure functions of the core, over a plain map of whole states.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{
    Algorithm, Bucket, BucketState, Charged, CompiledQuota, CounterState, Decision, Leases, Log, Verdict, WindowState,
};
use tollgate_store::{Mode, shadow_groups};

use crate::call::{Line, SlotCharge, Target};
use crate::script::Replayed;

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    keys: HashMap<Arc<[u8]>, Stored>,
    /// What changed in the call under way: what was there before it, and
    /// whether what is there now is worth keeping.
    changes: HashMap<Arc<[u8]>, (Option<Stored>, bool)>,
    /// The keys that were carried over from another family in the call under way.
    carried: HashMap<Arc<[u8]>, Carried>,
}

#[derive(Clone, Debug)]
struct Carried {
    before: Stored,
    /// Whether anything was in force, so that what is there now stands for it.
    has_used: bool,
    is_written: bool,
}

#[derive(Clone, Debug)]
enum Stored {
    Bucket { by: Bucket, state: BucketState },
    Window(WindowState),
    Counter(CounterState),
    Log(Log),
    Leases(Leases),
}

impl Stored {
    /// What is used by now, by the quota that it was counted under. Permits have holders: nothing of them is carried over.
    fn used(&self, now: u64) -> u64 {
        match self {
            Stored::Bucket { by, state } => by.used_tokens(*state, now),
            Stored::Window(state) => state.used_at(now),
            Stored::Counter(state) => state.used_at(now),
            Stored::Log(log) => log.used(),
            Stored::Leases(_) => 0,
        }
    }

    fn is_of(&self, algorithm: &CompiledQuota) -> bool {
        matches!(
            (self, algorithm),
            (Stored::Bucket { .. }, CompiledQuota::Bucket(_))
                | (Stored::Window(_), CompiledQuota::FixedWindow(_))
                | (Stored::Counter(_), CompiledQuota::SlidingCounter(_))
                | (Stored::Log(_), CompiledQuota::SlidingLog(_))
                | (Stored::Leases(_), CompiledQuota::Concurrency(_))
        )
    }

    /// What a key that has used so much by now is to another algorithm; `None` if it is as if untouched.
    fn carried(algorithm: &CompiledQuota, used: u64, now: u64) -> Option<Stored> {
        if used == 0 {
            return None;
        }
        match algorithm {
            CompiledQuota::Bucket(own) => Some(Stored::Bucket { by: *own, state: own.carried(used, now) }),
            CompiledQuota::FixedWindow(window) => Some(Stored::Window(window.carried(used, now))),
            CompiledQuota::SlidingCounter(counter) => Some(Stored::Counter(counter.carried(used, now))),
            CompiledQuota::SlidingLog(log) => Some(Stored::Log(log.carried(used, now))),
            CompiledQuota::Concurrency(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Look {
        cost: u64,
    },
    Check {
        cost: u64,
    },
    /// What a refusal writes: a state carried over, a clock followed.
    Refuse,
    Force {
        cost: u64,
    },
    GiveBack {
        charged: Charged,
        amount: u64,
    },
    Credit {
        cost: u64,
    },
    Settle {
        charged: Charged,
        true_cost: u64,
    },
    Renew {
        charged: Charged,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Done {
    decision: Option<Decision>,
    charged: Charged,
    unpaid: u64,
    renewed: bool,
}

/// What a line must come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Requests(Vec<Replayed>),
    Unpaid(u64),
    Overrun(u64),
    Held(bool),
    Nothing,
}

impl Model {
    /// Ends a call: keys that are as if untouched are forgotten, unless they are another family's.
    pub(super) fn end_call(&mut self) {
        for (key, carried) in std::mem::take(&mut self.carried) {
            if !carried.is_written {
                self.keys.insert(key, carried.before);
            }
        }
        for (key, (before, is_live)) in std::mem::take(&mut self.changes) {
            let is_other = |before: &Stored| {
                let now = self.keys.get(&key);
                now.is_some_and(|now| std::mem::discriminant(now) != std::mem::discriminant(before))
            };
            match before {
                _ if is_live => {}
                Some(before) if is_other(&before) => drop(self.keys.insert(key, before)),
                _ => drop(self.keys.remove(&key)),
            }
        }
    }

    pub(super) fn line(&mut self, line: &Line, now: u64) -> Expected {
        match line {
            Line::Decide { times, charges } => {
                let mut answers: Vec<Replayed> = Vec::new();
                for _ in 0..*times {
                    let again = answers.last().filter(|last| !last.passed).cloned();
                    answers.push(again.unwrap_or_else(|| self.request(charges, now)));
                }
                answers.iter_mut().flat_map(|answer| &mut answer.decisions).for_each(thousandfold);
                Expected::Requests(answers)
            }
            Line::Force { target, cost } => {
                Expected::Unpaid(self.apply(target, now, Operation::Force { cost: *cost }).unpaid)
            }
            Line::GiveBack { target, charged, amount } => {
                self.apply(target, now, Operation::GiveBack { charged: *charged, amount: *amount });
                Expected::Nothing
            }
            Line::Credit { target, cost } => {
                self.apply(target, now, Operation::Credit { cost: *cost });
                Expected::Nothing
            }
            Line::Settle { target, charged, true_cost } => {
                let settle = Operation::Settle { charged: *charged, true_cost: *true_cost };
                Expected::Overrun(self.apply(target, now, settle).unpaid)
            }
            Line::Renew { target, charged } => {
                Expected::Held(self.apply(target, now, Operation::Renew { charged: *charged }).renewed)
            }
            Line::Reset { target } => {
                self.keys.remove(&target.key);
                self.carried.remove(&target.key);
                self.changes.insert(Arc::clone(&target.key), (None, true));
                Expected::Nothing
            }
        }
    }

    pub(super) fn remaining(&self, target: &Target, now: u64) -> u64 {
        // On a copy: between calls nothing is carried over.
        self.clone().look(target, now, 0).remaining
    }

    /// Until one more remains, and until the key is as if untouched.
    pub(super) fn times_ahead(&self, target: &Target, now: u64) -> (u64, u64) {
        let look = self.clone().look(target, now, 0);
        (look.next_after, look.reset_after)
    }

    /// When a bucket is full again, whoever wrote it: what the last charge to it is known by.
    pub(super) fn mark(&self, target: &Target) -> Option<(u64, u32)> {
        match self.keys.get(&target.key) {
            Some(Stored::Bucket { state, .. }) => Some((state.tat, state.part)),
            _ => None,
        }
    }

    fn look(&mut self, target: &Target, now: u64, cost: u64) -> Decision {
        let asked = self.apply(target, now, Operation::Look { cost }).decision.unwrap();
        let remains = self.apply(target, now, Operation::Look { cost: 0 }).decision.unwrap();
        if asked.is_allowed() { Decision { verdict: asked.verdict, ..remains } } else { asked }
    }

    fn request(&mut self, charges: &[SlotCharge], now: u64) -> Replayed {
        let mut decisions: SmallVec<[Decision; 4]> =
            charges.iter().map(|charge| self.look(&charge.target, now, charge.cost)).collect();
        let mut charged: SmallVec<[Option<Charged>; 4]> = smallvec![None; charges.len()];
        let stands_in_the_way = |(charge, look): (&SlotCharge, &Decision)| {
            matches!(charge.mode, Mode::Enforce | Mode::Guard) && !look.is_allowed()
        };
        if charges.iter().zip(&decisions).any(stands_in_the_way) {
            for charge in charges.iter().filter(|charge| charge.mode != Mode::Watch && charge.cost > 0) {
                self.apply(&charge.target, now, Operation::Refuse);
            }
            return Replayed { passed: false, decisions, charged };
        }
        let (looks, before) = (decisions.clone(), self.clone());
        for (at, charge) in charges.iter().enumerate().filter(|(_, c)| c.mode == Mode::Enforce && c.cost > 0) {
            let done = self.apply(&charge.target, now, Operation::Check { cost: charge.cost });
            decisions[at] = done.decision.unwrap();
            if !decisions[at].is_allowed() {
                *self = before;
                let mut refused = looks;
                refused[at] = decisions[at];
                return Replayed { passed: false, decisions: refused, charged: smallvec![None; charges.len()] };
            }
            charged[at] = Some(done.charged);
        }
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            let look = |model: &mut Model, at: usize| model.look(&charges[at].target, now, charges[at].cost);
            let fits = group.clone().all(|at| look(self, at).is_allowed());
            for at in group {
                decisions[at] = look(self, at);
                if fits || !decisions[at].is_allowed() {
                    let done = self.apply(&charges[at].target, now, Operation::Check { cost: charges[at].cost });
                    decisions[at] = done.decision.unwrap();
                    charged[at] = decisions[at].is_allowed().then_some(done.charged);
                }
            }
        }
        Replayed { passed: true, decisions, charged }
    }

    fn apply(&mut self, target: &Target, now: u64, operation: Operation) -> Done {
        let found = self.keys.get(&target.key).cloned();
        let is_look = matches!(operation, Operation::Look { .. });
        let other = found.as_ref().filter(|stored| !stored.is_of(target.limit.compiled()));
        let is_receipt = match operation {
            Operation::GiveBack { .. } | Operation::Renew { .. } => true,
            Operation::Settle { charged, true_cost } => true_cost <= charged.cost,
            _ => false,
        };
        if other.is_some() && is_receipt {
            // A receipt of an algorithm that is gone finds nothing to give back to.
            return Done::default();
        }
        if let Some(other) = other.cloned() {
            // The first charge to a key in a call carries it over, for all of them.
            let carried = Stored::carried(target.limit.compiled(), other.used(now), now);
            let has_used = carried.is_some();
            match carried {
                Some(carried) => drop(self.keys.insert(Arc::clone(&target.key), carried)),
                None => drop(self.keys.remove(&target.key)),
            }
            let carried = Carried { before: other, has_used, is_written: false };
            self.carried.entry(Arc::clone(&target.key)).or_insert(carried);
        }
        let stored = self.keys.get(&target.key).cloned();
        let (done, changed) = match target.limit.compiled() {
            CompiledQuota::Bucket(own) => {
                let known = match stored.clone() {
                    Some(Stored::Bucket { by, state }) => Some((by, state)),
                    _ => None,
                };
                let (by, mut state) = known.unwrap_or((*own, BucketState::default()));
                let mut writer = by;
                let done = if known.is_none() && matches!(operation, Operation::Credit { .. }) {
                    // There is nothing to take back from, so nothing is written.
                    Done::default()
                } else if by.is_like(own) {
                    run(own, &mut state, now, operation)
                } else if let Some(done) = run_as_writer(own, &by, &mut state, now, operation) {
                    done
                } else {
                    state = own.adopt(&by, state, now);
                    writer = *own;
                    run(own, &mut state, now, operation)
                };
                let is_changed = (writer, state) != known.unwrap_or((*own, BucketState::default()));
                let is_live = own.untouched_at(&state) > now;
                (done, is_changed.then_some((is_live, Stored::Bucket { by: writer, state })))
            }
            CompiledQuota::FixedWindow(window) => {
                let known = if let Some(Stored::Window(state)) = stored.clone() { Some(state) } else { None };
                apply_to(window, known, now, operation, Stored::Window, |a, b| a == b)
            }
            CompiledQuota::SlidingCounter(counter) => {
                let known = if let Some(Stored::Counter(state)) = stored.clone() { Some(state) } else { None };
                apply_to(counter, known, now, operation, Stored::Counter, |a, b| a == b)
            }
            CompiledQuota::SlidingLog(log) => {
                let known = if let Some(Stored::Log(state)) = stored.clone() { Some(state) } else { None };
                apply_to(log, known, now, operation, Stored::Log, |a, b| {
                    a.debt() == b.debt() && a.entries().eq(b.entries())
                })
            }
            CompiledQuota::Concurrency(permits) => {
                let known = if let Some(Stored::Leases(state)) = stored.clone() { Some(state) } else { None };
                let mut renewed = false;
                let (mut done, changed) = if let Operation::Credit { .. } = operation {
                    (Done::default(), None)
                } else if let Operation::Renew { charged } = operation {
                    let before = known.unwrap_or_default();
                    let mut state = before.clone();
                    renewed = permits.renew(&mut state, now, &charged);
                    let is_live = permits.untouched_at(&state) > now;
                    let changed = (state != before).then_some((is_live, Stored::Leases(state)));
                    (Done::default(), changed)
                } else {
                    apply_to(permits, known, now, operation, Stored::Leases, |a, b| a == b)
                };
                done.renewed = renewed;
                (done, changed)
            }
        };
        // A refusal writes down what was carried over, though nothing else about it changes.
        let carried = self.carried.get_mut(&target.key);
        let is_refusal = matches!(operation, Operation::Refuse | Operation::Check { .. });
        let as_carried = stored.filter(|_| is_refusal && carried.as_ref().is_some_and(|carried| carried.has_used));
        let changed = changed.or_else(|| as_carried.map(|state| (true, state)));
        if let Some((is_live, state)) = changed.filter(|_| !is_look) {
            let mut before = self.keys.insert(Arc::clone(&target.key), state);
            if let Some(carried) = carried {
                carried.is_written = true;
                before = Some(carried.before.clone()).filter(|_| !carried.has_used);
            }
            self.changes.entry(Arc::clone(&target.key)).or_insert((before, is_live)).1 = is_live;
        }
        done
    }
}

/// What was done, and if the state changed: whether it is worth keeping, and what it is now.
type Applied = (Done, Option<(bool, Stored)>);

fn apply_to<A: Algorithm>(
    algorithm: &A,
    known: Option<A::State>,
    now: u64,
    operation: Operation,
    stored: impl Fn(A::State) -> Stored,
    is_same: impl Fn(&A::State, &A::State) -> bool,
) -> Applied
where
    A::State: Clone,
{
    let before = known.unwrap_or_default();
    let mut state = before.clone();
    let done = run(algorithm, &mut state, now, operation);
    let is_live = algorithm.untouched_at(&state) > now;
    let changed = !is_same(&before, &state);
    (done, changed.then(|| (is_live, stored(state))))
}

fn run<A: Algorithm>(algorithm: &A, state: &mut A::State, now: u64, operation: Operation) -> Done {
    let none = Done::default();
    match operation {
        Operation::Look { cost } => Done { decision: Some(algorithm.look(state, now, cost)), ..none },
        Operation::Check { cost } => {
            let decision = Some(algorithm.check(state, now, cost));
            Done { decision, charged: algorithm.charged(state, now, cost), ..none }
        }
        Operation::Refuse => {
            algorithm.refresh(state, now);
            none
        }
        Operation::Force { cost } => Done { unpaid: algorithm.force(state, now, cost), ..none },
        Operation::GiveBack { charged, amount } => {
            algorithm.give_back(state, now, &charged, amount.min(charged.cost));
            none
        }
        Operation::Credit { cost } => {
            algorithm.credit(state, now, cost);
            none
        }
        Operation::Settle { charged, true_cost } => {
            Done { unpaid: algorithm.settle(state, now, &charged, true_cost).overrun, ..none }
        }
        Operation::Renew { .. } => none,
    }
}

/// A receipt from before another quota took over the key: in the terms of the quota that holds it now.
fn run_as_writer(
    own: &Bucket,
    writer: &Bucket,
    state: &mut BucketState,
    now: u64,
    operation: Operation,
) -> Option<Done> {
    let (charged, amount) = match operation {
        Operation::GiveBack { charged, amount } => (charged, amount.min(charged.cost)),
        Operation::Settle { charged, true_cost } if true_cost > charged.cost => {
            let unpaid = writer.owe_for(own, state, now, true_cost - charged.cost);
            return Some(Done { unpaid, ..Done::default() });
        }
        Operation::Settle { charged, true_cost } => (charged, charged.cost - true_cost),
        // Only permits have leases to renew.
        Operation::Renew { .. } => return Some(Done::default()),
        _ => return None,
    };
    let never_the_last = Charged { mark: u64::MAX, ..charged };
    writer.give_back(state, now, &never_the_last, own.unrefilled(&charged, now).min(amount));
    Some(Done::default())
}

fn thousandfold(decision: &mut Decision) {
    decision.next_after *= 1_000;
    decision.reset_after *= 1_000;
    decision.verdict = match decision.verdict {
        Verdict::Allowed { delay } => Verdict::Allowed { delay: delay * 1_000 },
        Verdict::Refused { retry_after } => Verdict::Refused { retry_after: retry_after.map(|after| after * 1_000) },
        other => other,
    };
}
