//! A model of the script: the functions of the core over a map of states.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{
    Algorithm, Bucket, BucketState, ChargeVerdict, Charged, CompiledQuota, CounterState, Decision, Leases, LogState,
    TickSpan, WindowState,
};
use tollgate_store::{ChargeMode, shadow_groups};

use super::outstanding::Outstanding;
use crate::call::{LeaseRequest, ScriptOp, SlotCharge, Target};
use crate::script::Replayed;

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    keys: HashMap<Arc<[u8]>, Stored>,
    /// The tokens leased of each key. The states of the keys do not contain them.
    leased: HashMap<Arc<[u8]>, Outstanding>,
    /// The keys changed by the current call: the state before it, and whether the state now must be kept.
    changes: HashMap<Arc<[u8]>, (Option<Stored>, bool)>,
    /// The keys carried over from another family in the current call.
    carried: HashMap<Arc<[u8]>, Carried>,
    /// The keys with leased tokens that the current call has brought up to date.
    opened: HashMap<Arc<[u8]>, Opened>,
    /// The keys that count leased tokens as used during the current operation.
    held: HashMap<Arc<[u8]>, Held>,
}

#[derive(Clone, Debug)]
struct Opened {
    /// The state and the leased tokens before the call; `None` if tokens were first leased in it.
    before: Option<(Option<Stored>, Outstanding)>,
    is_written: bool,
}

#[derive(Clone, Debug)]
struct Held {
    unheld: Option<Stored>,
    amount: u64,
    by: CompiledQuota,
    is_written: bool,
}

#[derive(Clone, Debug)]
struct Carried {
    before: Stored,
    /// Whether there was any usage, which the state now represents.
    has_used: bool,
    is_written: bool,
}

#[derive(Clone, Debug)]
enum Stored {
    Bucket { by: Bucket, state: BucketState },
    Window(WindowState),
    Counter(CounterState),
    Log(LogState),
    Leases(Leases),
}

impl Stored {
    /// Returns the usage by now, under the quota that counted it. Permits have holders, so they are not carried over.
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

    /// Returns the state of a key with this usage under another algorithm; `None` if it equals that of an unused key.
    fn carried(algorithm: &CompiledQuota, used: u64, now: u64) -> Option<Stored> {
        if used == 0 {
            return None;
        }
        match algorithm {
            CompiledQuota::Bucket(own) => Some(Stored::Bucket { by: *own, state: own.state_with_used(used, now) }),
            CompiledQuota::FixedWindow(window) => Some(Stored::Window(window.state_with_used(used, now))),
            CompiledQuota::SlidingCounter(counter) => Some(Stored::Counter(counter.state_with_used(used, now))),
            CompiledQuota::SlidingLog(log) => Some(Stored::Log(log.state_with_used(used, now))),
            CompiledQuota::Concurrency(_) => None,
        }
    }

    fn is_live(&self, algorithm: &CompiledQuota, now: u64) -> bool {
        let expires_at = match (self, algorithm) {
            (Stored::Bucket { by, state }, _) => by.expires_at(state),
            (Stored::Window(state), CompiledQuota::FixedWindow(window)) => window.expires_at(state),
            (Stored::Counter(state), CompiledQuota::SlidingCounter(counter)) => counter.expires_at(state),
            (Stored::Log(state), CompiledQuota::SlidingLog(log)) => log.expires_at(state),
            _ => panic!("of another algorithm"),
        };
        expires_at > now
    }

    /// Charges as much of `most` as fits. Returns that amount and the state. With `keeps_quota`, a bucket is charged
    /// under the quota that wrote it.
    fn charged(
        state: Option<Stored>,
        algorithm: &CompiledQuota,
        at: u64,
        most: u64,
        keeps_quota: bool,
    ) -> (u64, Option<Stored>) {
        let (amount, charged) = match (algorithm, state.clone()) {
            (CompiledQuota::Bucket(own), state) => {
                let (by, state) = match state {
                    Some(Stored::Bucket { by, state }) => (by, state),
                    _ => (*own, BucketState::default()),
                };
                let own = if keeps_quota { by } else { *own };
                let (amount, state) = fill(&own, own.convert(&by, state, at), at, most);
                (amount, Stored::Bucket { by: own, state })
            }
            (CompiledQuota::FixedWindow(window), state) => {
                let state = if let Some(Stored::Window(state)) = state { state } else { WindowState::default() };
                let (amount, state) = fill(window, state, at, most);
                (amount, Stored::Window(state))
            }
            (CompiledQuota::SlidingCounter(counter), state) => {
                let state = if let Some(Stored::Counter(state)) = state { state } else { CounterState::default() };
                let (amount, state) = fill(counter, state, at, most);
                (amount, Stored::Counter(state))
            }
            (CompiledQuota::SlidingLog(log), state) => {
                let state = if let Some(Stored::Log(state)) = state { state } else { LogState::default() };
                let (amount, state) = fill(log, state, at, most);
                (amount, Stored::Log(state))
            }
            (CompiledQuota::Concurrency(_), _) => panic!("permits are not leased"),
        };
        (amount, if amount > 0 { Some(charged) } else { state })
    }

    /// Returns the state without the newest `amount` of its usage.
    fn without(self, amount: u64, now: u64) -> Stored {
        match self {
            Stored::Bucket { by, state } => {
                let shape = by.shape();
                let units =
                    |span: TickSpan| u128::from(span.ticks) * u128::from(shape.denominator) + u128::from(span.part);
                let held = if shape.queues { shape.tokens_held() } else { shape.limit };
                let given = u128::from(amount.min(held)) * units(shape.emission_interval);
                let used = match state.tat.checked_sub(now) {
                    Some(ticks) => units(TickSpan { ticks, part: state.part }).saturating_sub(given),
                    None => 0,
                };
                let denominator = u128::from(shape.denominator);
                let state = BucketState { tat: now + (used / denominator) as u64, part: (used % denominator) as u32 };
                Stored::Bucket { by, state }
            }
            Stored::Window(state) => Stored::Window(WindowState { used: state.used.saturating_sub(amount), ..state }),
            Stored::Counter(state) => {
                Stored::Counter(CounterState { current: state.current.saturating_sub(amount), ..state })
            }
            Stored::Log(log) => {
                let mut left = log.used().saturating_sub(amount);
                let kept = log.entries().map(|(time, cost)| {
                    let kept = cost.min(left);
                    left -= kept;
                    (time, kept)
                });
                Stored::Log(LogState::of(kept).with_debt(log.debt()))
            }
            Stored::Leases(_) => panic!("permits are not leased"),
        }
    }
}

/// Charges as much of `most` as fits. Returns that amount and the state.
fn fill<A: Algorithm>(algorithm: &A, mut state: A::State, at: u64, most: u64) -> (u64, A::State)
where
    A::State: Clone,
{
    let amount = most - algorithm.force(&mut state.clone(), at, most);
    // A queue has one position more for costs that have already occurred than for requests.
    let remaining = algorithm.peek(&state, at, 0).remaining;
    assert!((remaining.min(most)..=remaining.saturating_add(1).min(most)).contains(&amount));
    if amount > 0 {
        algorithm.force(&mut state, at, amount);
    }
    (amount, state)
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Peek {
        cost: u64,
    },
    Check {
        cost: u64,
    },
    /// The write of a refusal: a state carried over, or a clock followed.
    Refuse,
    Force {
        cost: u64,
    },
    Refund {
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
struct Applied {
    decision: Option<Decision>,
    charged: Charged,
    unpaid: u64,
    renewed: bool,
}

/// The expected result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Requests(Vec<Replayed>),
    Unpaid(u64),
    Overrun(u64),
    Held(bool),
    Leased {
        granted: u64,
        generation: u64,
        expires_in_us: u64,
        outstanding: u64,
        /// The decision for a cost of 1 after the operation.
        decision: Decision,
    },
    Nothing,
}

impl Model {
    /// Ends a call: keys whose state equals that of unused ones are removed, unless they are of another family.
    pub(super) fn end_call(&mut self) {
        for (key, carried) in std::mem::take(&mut self.carried) {
            if !carried.is_written {
                self.keys.insert(key, carried.before);
            }
        }
        for (key, (before, is_live)) in std::mem::take(&mut self.changes) {
            let is_other = |before: &Stored| {
                let now = self.keys.get(&key);
                now.is_none_or(|now| std::mem::discriminant(now) != std::mem::discriminant(before))
            };
            let is_leased = self.leased.get(&key).is_some_and(|leased| leased.total() > 0);
            match before {
                _ if is_live => {}
                Some(before) if is_other(&before) && !is_leased => drop(self.keys.insert(key, before)),
                _ => drop(self.keys.remove(&key)),
            }
        }
        for (key, opened) in std::mem::take(&mut self.opened) {
            // A key that was only read is not written.
            if let Some((state, leased)) = opened.before.filter(|_| !opened.is_written) {
                self.set(&key, state);
                self.leased.insert(key, leased);
            }
        }
        // Permits replace the tokens that are leased.
        self.leased.retain(|key, leased| leased.total() > 0 && !matches!(self.keys.get(key), Some(Stored::Leases(_))));
    }

    pub(super) fn op(&mut self, op: &ScriptOp, now: u64) -> Expected {
        let expected = self.execute(op, now);
        self.release(now);
        expected
    }

    fn execute(&mut self, op: &ScriptOp, now: u64) -> Expected {
        match op {
            ScriptOp::Decide { times, charges } => {
                let mut answers: Vec<Replayed> = Vec::new();
                for _ in 0..*times {
                    let again = answers.last().filter(|last| !last.passed).cloned();
                    answers.push(again.unwrap_or_else(|| self.request(charges, now)));
                }
                answers.iter_mut().flat_map(|answer| &mut answer.decisions).for_each(to_nanoseconds);
                Expected::Requests(answers)
            }
            ScriptOp::Force { target, cost } => {
                Expected::Unpaid(self.apply(target, now, Operation::Force { cost: *cost }).unpaid)
            }
            ScriptOp::Refund { target, charged, amount } => {
                self.apply(target, now, Operation::Refund { charged: *charged, amount: *amount });
                Expected::Nothing
            }
            ScriptOp::Credit { target, cost } => {
                self.apply(target, now, Operation::Credit { cost: *cost });
                Expected::Nothing
            }
            ScriptOp::Settle { target, charged, true_cost } => {
                let settle = Operation::Settle { charged: *charged, true_cost: *true_cost };
                Expected::Overrun(self.apply(target, now, settle).unpaid)
            }
            // Only permits have leases to renew.
            ScriptOp::Renew { target, .. } if !matches!(target.limit.compiled(), CompiledQuota::Concurrency(_)) => {
                Expected::Held(false)
            }
            ScriptOp::Renew { target, charged } => {
                Expected::Held(self.apply(target, now, Operation::Renew { charged: *charged }).renewed)
            }
            ScriptOp::Reset { target } => {
                if let Some(Stored::Leases(_)) = self.keys.remove(&target.key) {
                    self.leased.remove(&target.key);
                }
                self.carried.remove(&target.key);
                self.changes.insert(Arc::clone(&target.key), (None, true));
                if let Some(leased) = self.leased.get_mut(&target.key) {
                    leased.follow_clock_back(now);
                    leased.expire(now, |_, _| {});
                    self.opened.insert(Arc::clone(&target.key), Opened { before: None, is_written: true });
                }
                Expected::Nothing
            }
            ScriptOp::Lease(request) => self.lease(request, now),
            ScriptOp::Refill { .. } => panic!("the model has no regions"),
        }
    }

    fn lease(&mut self, request: &LeaseRequest, now: u64) -> Expected {
        let (target, key) = (&request.target, &request.target.key);
        let own = target.limit.compiled();
        if self.leased.contains_key(key) {
            self.open(target, now, false);
        } else {
            self.carry_over(target, now);
        }
        let mut leased = self.leased.get(key).copied().unwrap_or_default();
        for settlement in &request.settlements {
            if let Some(tokens) = leased.of_generation(settlement.generation) {
                let spent = settlement.spent.min(*tokens);
                *tokens = (*tokens - spent).saturating_sub(settlement.returned);
                let (_, state) = Stored::charged(self.keys.get(key).cloned(), own, now, spent, false);
                self.set(key, state);
            }
        }
        if leased.total() == 0 {
            leased = Outstanding::starting_at(now, request.generation_ms * 1_000);
        }
        // Like a refusal, this stores a state that was carried over.
        self.apply_unheld(target, now, Operation::Refuse);
        let state = self.keys.get(key).cloned();
        let (room, _) = Stored::charged(state.clone(), own, now, u64::MAX, false);
        let most = request.max_outstanding.saturating_sub(leased.total());
        let granted = request.wanted.min(most).min(room.saturating_sub(leased.total()));
        leased.current += granted;
        if granted > 0 {
            self.opened.entry(Arc::clone(key)).or_insert(Opened { before: None, is_written: true });
            let is_live = state.as_ref().is_some_and(|state| state.is_live(own, now));
            self.write(key, state, is_live);
        }
        if self.opened.contains_key(key) {
            self.leased.insert(Arc::clone(key), leased);
        }
        let mut decision = self.peek(target, now, 1);
        to_nanoseconds(&mut decision);
        Expected::Leased {
            granted,
            generation: leased.generation,
            expires_in_us: leased.expires_in(now),
            outstanding: leased.total(),
            decision,
        }
    }

    pub(super) fn remaining(&self, target: &Target, now: u64) -> u64 {
        // On a copy, because nothing is carried over between calls.
        self.clone().peek(target, now, 0).remaining
    }

    /// Returns the times until one more remains, and until the key is as unused.
    pub(super) fn times_ahead(&self, target: &Target, now: u64) -> (u64, u64) {
        let peek = self.clone().peek(target, now, 0);
        (peek.next_after, peek.reset_after)
    }

    /// Returns the time at which a bucket is full again, under any quota: the mark of the last charge to it.
    pub(super) fn mark(&self, target: &Target) -> Option<(u64, u32)> {
        match self.keys.get(&target.key) {
            Some(Stored::Bucket { state, .. }) => Some((state.tat, state.part)),
            _ => None,
        }
    }

    /// Returns the number of tokens leased, the generation of the newest, and the ends of both generations.
    pub(super) fn leased(&self, target: &Target) -> Option<(u64, u64, [u64; 2])> {
        self.leased.get(&target.key).map(|leased| (leased.total(), leased.generation, leased.ends()))
    }

    /// Returns whether the key has leased tokens, and the limit counts them.
    fn is_leased(&self, target: &Target) -> bool {
        let is_token_limit = !matches!(target.limit.compiled(), CompiledQuota::Concurrency(_));
        is_token_limit && self.leased.contains_key(&target.key)
    }

    fn set(&mut self, key: &Arc<[u8]>, state: Option<Stored>) {
        match state {
            Some(state) => drop(self.keys.insert(Arc::clone(key), state)),
            None => drop(self.keys.remove(key)),
        }
    }

    /// Brings a key with leased tokens up to date: charges those of generations that have ended.
    fn open(&mut self, target: &Target, now: u64, keeps_quota: bool) {
        let (key, own) = (&target.key, target.limit.compiled());
        if self.opened.contains_key(key) {
            return;
        }
        let mut state = self.keys.get(key).cloned();
        let mut leased = self.leased[key];
        let opened = Opened { before: Some((state.clone(), leased)), is_written: false };
        let mut is_carried_over = false;
        if let Some(other) = state.as_ref().filter(|state| !state.is_of(own)) {
            state = Stored::carried(own, other.used(now), now);
            is_carried_over = state.is_some();
        }
        leased.follow_clock_back(now);
        leased.expire(now, |end, tokens| {
            // Usage carried over from another algorithm is that of now.
            let at = if is_carried_over { now } else { end };
            state = Stored::charged(state.take(), own, at, tokens, keeps_quota).1;
        });
        self.set(key, state);
        self.leased.insert(Arc::clone(key), leased);
        self.opened.insert(Arc::clone(key), opened);
    }

    /// Charges what fits of a key's leased tokens, until the end of the operation.
    fn hold(&mut self, target: &Target, now: u64) {
        let (key, own) = (&target.key, target.limit.compiled());
        let tokens = self.leased[key].total();
        if tokens == 0 || self.held.contains_key(key) {
            return;
        }
        let unheld = self.keys.get(key).cloned();
        let (amount, state) = Stored::charged(unheld.clone(), own, now, tokens, false);
        self.set(key, state);
        self.held.insert(Arc::clone(key), Held { unheld, amount, by: *target.limit.compiled(), is_written: false });
    }

    fn release(&mut self, now: u64) {
        for (key, held) in std::mem::take(&mut self.held) {
            if !held.is_written {
                self.set(&key, held.unheld);
            } else if let Some(state) = self.keys.remove(&key) {
                let state = if held.amount > 0 { state.without(held.amount, now) } else { state };
                let is_live = state.is_live(&held.by, now);
                self.keys.insert(Arc::clone(&key), state);
                self.changes.entry(key).or_insert((None, is_live)).1 = is_live;
            }
        }
    }

    fn write(&mut self, key: &Arc<[u8]>, state: Option<Stored>, is_live: bool) {
        let mut before = self.keys.get(key).cloned();
        self.set(key, state);
        if let Some(carried) = self.carried.get_mut(key) {
            carried.is_written = true;
            before = Some(carried.before.clone()).filter(|_| !carried.has_used);
        }
        if let Some(opened) = self.opened.get_mut(key) {
            opened.is_written = true;
            before = before.filter(|_| opened.before.is_none());
        }
        if let Some(held) = self.held.get_mut(key) {
            held.is_written = true;
        }
        self.changes.entry(Arc::clone(key)).or_insert((before, is_live)).1 = is_live;
    }

    fn peek(&mut self, target: &Target, now: u64, cost: u64) -> Decision {
        let decision = self.apply(target, now, Operation::Peek { cost }).decision.unwrap();
        let remains = self.apply(target, now, Operation::Peek { cost: 0 }).decision.unwrap();
        if decision.is_allowed() { Decision { verdict: decision.verdict, ..remains } } else { decision }
    }

    fn request(&mut self, charges: &[SlotCharge], now: u64) -> Replayed {
        let mut decisions: SmallVec<[Decision; 4]> =
            charges.iter().map(|charge| self.peek(&charge.target, now, charge.cost)).collect();
        let mut charged: SmallVec<[Option<Charged>; 4]> = smallvec![None; charges.len()];
        let is_refusing = |(charge, peek): (&SlotCharge, &Decision)| {
            matches!(charge.mode, ChargeMode::Enforce | ChargeMode::Guard) && !peek.is_allowed()
        };
        if charges.iter().zip(&decisions).any(is_refusing) {
            for charge in charges.iter().filter(|charge| charge.mode != ChargeMode::Peek && charge.cost > 0) {
                self.apply(&charge.target, now, Operation::Refuse);
            }
            return Replayed { passed: false, decisions, charged };
        }
        let (peeks, before) = (decisions.clone(), self.clone());
        for (at, charge) in charges.iter().enumerate().filter(|(_, c)| c.mode == ChargeMode::Enforce && c.cost > 0) {
            let applied = self.apply(&charge.target, now, Operation::Check { cost: charge.cost });
            decisions[at] = applied.decision.unwrap();
            if !decisions[at].is_allowed() {
                *self = before;
                let mut refused = peeks;
                refused[at] = decisions[at];
                return Replayed { passed: false, decisions: refused, charged: smallvec![None; charges.len()] };
            }
            charged[at] = Some(applied.charged);
        }
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            let peek = |model: &mut Model, at: usize| model.peek(&charges[at].target, now, charges[at].cost);
            let fits = group.clone().all(|at| peek(self, at).is_allowed());
            for at in group {
                decisions[at] = peek(self, at);
                if fits || !decisions[at].is_allowed() {
                    let applied = self.apply(&charges[at].target, now, Operation::Check { cost: charges[at].cost });
                    decisions[at] = applied.decision.unwrap();
                    charged[at] = decisions[at].is_allowed().then_some(applied.charged);
                }
            }
        }
        Replayed { passed: true, decisions, charged }
    }

    /// Applies an operation. Those that ask for capacity see leased tokens as used; the others correct earlier charges,
    /// which do not contain them.
    fn apply(&mut self, target: &Target, now: u64, operation: Operation) -> Applied {
        let own = target.limit.compiled();
        let is_of_own = self.keys.get(&target.key).is_some_and(|stored| stored.is_of(own));
        let is_receipt = match operation {
            Operation::Refund { .. } | Operation::Renew { .. } => true,
            Operation::Settle { charged, true_cost } => true_cost <= charged.cost,
            _ => false,
        };
        let is_leased = self.is_leased(target);
        let is_known = is_of_own || self.opened.contains_key(&target.key) || !self.keys.contains_key(&target.key);
        if is_receipt && (!is_known || is_leased && !is_of_own && !self.opened.contains_key(&target.key)) {
            // A receipt of a replaced algorithm refunds nothing.
            return Applied::default();
        }
        if is_leased {
            let keeps_quota = matches!(operation, Operation::Refund { .. } | Operation::Settle { .. });
            self.open(target, now, keeps_quota);
            let asks_for_capacity = matches!(
                operation,
                Operation::Peek { .. } | Operation::Check { .. } | Operation::Refuse | Operation::Force { .. }
            );
            if asks_for_capacity {
                self.hold(target, now);
            }
        } else {
            self.carry_over(target, now);
        }
        self.apply_unheld(target, now, operation)
    }

    /// The first charge to a key in a call carries it over for all charges.
    fn carry_over(&mut self, target: &Target, now: u64) {
        let own = target.limit.compiled();
        let Some(other) = self.keys.get(&target.key).filter(|stored| !stored.is_of(own)).cloned() else { return };
        let carried = Stored::carried(own, other.used(now), now);
        let has_used = carried.is_some();
        self.set(&target.key, carried);
        let carried = Carried { before: other, has_used, is_written: false };
        self.carried.entry(Arc::clone(&target.key)).or_insert(carried);
    }

    fn apply_unheld(&mut self, target: &Target, now: u64, operation: Operation) -> Applied {
        let is_peek = matches!(operation, Operation::Peek { .. });
        let stored = self.keys.get(&target.key).cloned();
        let (applied, changed) = match target.limit.compiled() {
            CompiledQuota::Bucket(own) => {
                let known = match stored.clone() {
                    Some(Stored::Bucket { by, state }) => Some((by, state)),
                    _ => None,
                };
                let (by, mut state) = known.unwrap_or((*own, BucketState::default()));
                let mut writer = by;
                let applied = if known.is_none() && matches!(operation, Operation::Credit { .. }) {
                    // There is nothing to refund, so nothing is written.
                    Applied::default()
                } else if by.has_same_states_as(own) {
                    run(own, &mut state, now, operation)
                } else if let Some(applied) = run_as_writer(own, &by, &mut state, now, operation) {
                    applied
                } else {
                    state = own.convert(&by, state, now);
                    writer = *own;
                    run(own, &mut state, now, operation)
                };
                let is_changed = (writer, state) != known.unwrap_or((*own, BucketState::default()));
                let is_live = own.expires_at(&state) > now;
                (applied, is_changed.then_some((is_live, Stored::Bucket { by: writer, state })))
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
                let (mut applied, changed) = if let Operation::Credit { .. } = operation {
                    (Applied::default(), None)
                } else if let Operation::Renew { charged } = operation {
                    let before = known.unwrap_or_default();
                    let mut state = before.clone();
                    renewed = permits.renew(&mut state, now, &charged);
                    let is_live = permits.expires_at(&state) > now;
                    let changed = (state != before).then_some((is_live, Stored::Leases(state)));
                    (Applied::default(), changed)
                } else {
                    apply_to(permits, known, now, operation, Stored::Leases, |a, b| a == b)
                };
                applied.renewed = renewed;
                (applied, changed)
            }
        };
        // A refusal stores a state that was carried over, though nothing else changes.
        let is_refusal = matches!(operation, Operation::Refuse | Operation::Check { .. });
        let is_carried_over = self.carried.get(&target.key).is_some_and(|carried| carried.has_used);
        let as_carried = stored.clone().filter(|_| is_refusal && is_carried_over);
        let changed = changed.or_else(|| as_carried.map(|state| (true, state)));
        if let Some((is_live, state)) = changed.filter(|_| !is_peek) {
            self.write(&target.key, Some(state), is_live);
        } else if is_refusal && self.is_leased(target) && self.opened.contains_key(&target.key) {
            // So does one on a key with leased tokens.
            let is_live = stored.as_ref().is_some_and(|state| state.is_live(target.limit.compiled(), now));
            self.write(&target.key, stored, is_live);
        }
        applied
    }
}

/// The result, and if the state changed: whether it must be kept, and the new state.
type AppliedState = (Applied, Option<(bool, Stored)>);

fn apply_to<A: Algorithm>(
    algorithm: &A,
    known: Option<A::State>,
    now: u64,
    operation: Operation,
    stored: impl Fn(A::State) -> Stored,
    is_same: impl Fn(&A::State, &A::State) -> bool,
) -> AppliedState
where
    A::State: Clone,
{
    let before = known.unwrap_or_default();
    let mut state = before.clone();
    let applied = run(algorithm, &mut state, now, operation);
    let is_live = algorithm.expires_at(&state) > now;
    let changed = !is_same(&before, &state);
    (applied, changed.then(|| (is_live, stored(state))))
}

fn run<A: Algorithm>(algorithm: &A, state: &mut A::State, now: u64, operation: Operation) -> Applied {
    let none = Applied::default();
    match operation {
        Operation::Peek { cost } => Applied { decision: Some(algorithm.peek(state, now, cost)), ..none },
        Operation::Check { cost } => {
            let decision = Some(algorithm.check(state, now, cost));
            Applied { decision, charged: algorithm.charged(state, now, cost), ..none }
        }
        Operation::Refuse => {
            algorithm.refresh(state, now);
            none
        }
        Operation::Force { cost } => Applied { unpaid: algorithm.force(state, now, cost), ..none },
        Operation::Refund { charged, amount } => {
            algorithm.refund(state, now, &charged, amount.min(charged.cost));
            none
        }
        Operation::Credit { cost } => {
            algorithm.credit(state, now, cost);
            none
        }
        Operation::Settle { charged, true_cost } => {
            Applied { unpaid: algorithm.settle(state, now, &charged, true_cost).overrun, ..none }
        }
        Operation::Renew { .. } => none,
    }
}

/// Applies a receipt from before another quota took over the key, under the quota that wrote the key now.
fn run_as_writer(
    own: &Bucket,
    writer: &Bucket,
    state: &mut BucketState,
    now: u64,
    operation: Operation,
) -> Option<Applied> {
    let (charged, amount) = match operation {
        Operation::Refund { charged, amount } => (charged, amount.min(charged.cost)),
        Operation::Settle { charged, true_cost } if true_cost > charged.cost => {
            let unpaid = writer.owe_for(own, state, now, true_cost - charged.cost);
            return Some(Applied { unpaid, ..Applied::default() });
        }
        Operation::Settle { charged, true_cost } => (charged, charged.cost - true_cost),
        // Only permits have leases to renew.
        Operation::Renew { .. } => return Some(Applied::default()),
        _ => return None,
    };
    let never_the_last = Charged { mark: u64::MAX, ..charged };
    writer.refund(state, now, &never_the_last, own.unrefilled(&charged, now).min(amount));
    Some(Applied::default())
}

fn to_nanoseconds(decision: &mut Decision) {
    decision.next_after *= 1_000;
    decision.reset_after *= 1_000;
    decision.verdict = match decision.verdict {
        ChargeVerdict::Allowed { delay } => ChargeVerdict::Allowed { delay: delay * 1_000 },
        ChargeVerdict::Refused { retry_after } => {
            ChargeVerdict::Refused { retry_after: retry_after.map(|after| after * 1_000) }
        }
        other => other,
    };
}
