//! Computes decisions from the reply of the script.
//!
//! The reply has the number of requests that passed and the states of their keys before. The decisions of each request
//! are computed from these by the functions of the core.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{
    Algorithm, BucketState, ChargeVerdict, Charged, CompiledQuota, CounterState, Decision, Leases, LogState, Tick,
    WindowState,
};
use tollgate_store::shadow_groups;

use super::decode::ScriptReplyError;
use crate::call::{ReportedState, SlotCharge};

/// The result of one request of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Whether the request passed.
    pub(crate) passed: bool,
    /// The decision of each charge, in nanoseconds. If the request is refused, an allowed charge was not made, and its
    /// decision has what remains without it.
    pub(crate) decisions: SmallVec<[Decision; 4]>,
    /// For each charge that was made, the data of its receipt, in the server's microseconds.
    pub(crate) charged: SmallVec<[Option<Charged>; 4]>,
}

/// The results of all requests of an operation. Refused requests share one result, because nothing changes after the
/// first refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayedBatch {
    passed: u32,
    charges: usize,
    /// A row for each request that passed, and one for all refused requests.
    decisions: SmallVec<[Decision; 1]>,
    charged: SmallVec<[Option<Charged>; 1]>,
}

impl ReplayedBatch {
    fn with_capacity(passed: u32, times: u32, charges: usize) -> ReplayedBatch {
        let cells = charges * (passed as usize + usize::from(passed < times));
        let (decisions, charged) = (SmallVec::with_capacity(cells), SmallVec::with_capacity(cells));
        ReplayedBatch { passed, charges, decisions, charged }
    }

    #[inline]
    fn push(&mut self, decision: Decision, charged: Option<Charged>) {
        self.decisions.push(decision);
        self.charged.push(charged);
    }

    fn push_row(&mut self, row: Replayed) {
        self.decisions.extend(row.decisions);
        self.charged.extend(row.charged);
    }

    /// Returns the number of requests that passed. These are the first ones.
    pub(crate) fn passed_count(&self) -> u32 {
        self.passed
    }

    /// Returns the decision of each charge of a request, in nanoseconds. If the request is refused, an allowed charge
    /// was not made, and its decision has what remains without it.
    pub(crate) fn decisions(&self, request: u32) -> &[Decision] {
        &self.decisions[self.row(request)]
    }

    /// Returns, for each charge of a request that was made, the data of its receipt, in the server's microseconds.
    pub(crate) fn charged(&self, request: u32) -> &[Option<Charged>] {
        &self.charged[self.row(request)]
    }

    fn row(&self, request: u32) -> Range<usize> {
        let begin = request.min(self.passed) as usize * self.charges;
        begin..begin + self.charges
    }

    /// Returns the results of `times` requests, one by one.
    #[cfg(test)]
    pub(crate) fn requests(&self, times: u32) -> Vec<Replayed> {
        let request = |index: u32| Replayed {
            passed: index < self.passed,
            decisions: self.decisions(index).into(),
            charged: self.charged(index).into(),
        };
        (0..times).map(request).collect()
    }
}

/// Computes the results of `times` requests of these charges, of which the script let `passed` pass at `now`;
/// `states_before` are the states of their keys before.
pub(crate) fn replay(
    charges: &[SlotCharge],
    times: u32,
    now: u64,
    passed: u32,
    states_before: &[ReportedState],
) -> Result<ReplayedBatch, ScriptReplyError> {
    if let ([charge], [reported]) = (charges, states_before)
        && charge.is_enforced()
    {
        return replay_single(charge, times, now, passed, reported);
    }
    let mut replay = Replay::new(charges, now, states_before)?;
    let mut answers = ReplayedBatch::with_capacity(passed, times, charges.len());
    for _ in 0..passed {
        let row = replay.request();
        if !row.passed {
            return Err(UNEXPECTED_PASS);
        }
        answers.push_row(row);
    }
    if passed < times {
        let refused = replay.request();
        if refused.passed {
            return Err(UNEXPECTED_REFUSAL);
        }
        answers.push_row(refused);
    }
    answers.decisions.iter_mut().for_each(to_nanoseconds);
    Ok(answers)
}

const UNEXPECTED_PASS: ScriptReplyError = ScriptReplyError("a request passed that could not");
const UNEXPECTED_REFUSAL: ScriptReplyError = ScriptReplyError("a request was refused that could pass");

/// The same for a single charge, as in most requests.
fn replay_single(
    charge: &SlotCharge,
    times: u32,
    now: u64,
    passed: u32,
    reported: &ReportedState,
) -> Result<ReplayedBatch, ScriptReplyError> {
    let cost = charge.cost;
    match (charge.target.limit.compiled(), KeyState::of(reported)) {
        (CompiledQuota::Bucket(rule), KeyState::Bucket(state)) => repeat(rule, state, times, now, passed, cost),
        (CompiledQuota::FixedWindow(rule), KeyState::Window(state)) => repeat(rule, state, times, now, passed, cost),
        (CompiledQuota::SlidingCounter(rule), KeyState::Counter(state)) => {
            repeat(rule, state, times, now, passed, cost)
        }
        (CompiledQuota::SlidingLog(rule), KeyState::Log(state)) => repeat(rule, state, times, now, passed, cost),
        (CompiledQuota::Concurrency(rule), KeyState::Leases(state)) => repeat(rule, state, times, now, passed, cost),
        _ => Err(ScriptReplyError("a state is of another algorithm")),
    }
}

fn repeat<A: Algorithm>(
    algorithm: &A,
    mut state: A::State,
    times: u32,
    now: u64,
    passed: u32,
    cost: u64,
) -> Result<ReplayedBatch, ScriptReplyError> {
    let mut apply = |mode: ReplayMode| run(algorithm, &mut state, now, cost, mode);
    let mut answers = ReplayedBatch::with_capacity(passed, times, 1);
    for _ in 0..passed {
        let (mut decision, receipt) = apply(ReplayMode::Check);
        if !decision.is_allowed() {
            return Err(UNEXPECTED_PASS);
        }
        to_nanoseconds(&mut decision);
        answers.push(decision, Some(receipt));
    }
    if passed < times {
        let (mut decision, _) = apply(ReplayMode::Peek);
        if decision.is_allowed() {
            return Err(UNEXPECTED_REFUSAL);
        }
        to_nanoseconds(&mut decision);
        answers.push(decision, None);
    }
    Ok(answers)
}

/// Computes the decisions of a request that passed here, after `before` others of its operation, and is not charged
/// after all because another slot refused it: the state without it.
pub(crate) fn replay_uncharged(
    charges: &[SlotCharge],
    now: u64,
    states_before: &[ReportedState],
    before: u32,
) -> Result<SmallVec<[Decision; 4]>, ScriptReplyError> {
    let mut replay = Replay::new(charges, now, states_before)?;
    for _ in 0..before {
        replay.request();
    }
    let mut decisions: SmallVec<[Decision; 4]> = (0..charges.len()).map(|index| replay.peek(index)).collect();
    decisions.iter_mut().for_each(to_nanoseconds);
    Ok(decisions)
}

/// Converts a decision from the server's microseconds to nanoseconds. The only place of this conversion.
pub(super) fn to_nanoseconds(decision: &mut Decision) {
    let scaled = |ticks: u64| ticks.saturating_mul(Tick::Microsecond.ns());
    decision.next_after = scaled(decision.next_after);
    decision.reset_after = scaled(decision.reset_after);
    match &mut decision.verdict {
        ChargeVerdict::Allowed { delay } => *delay = scaled(*delay),
        ChargeVerdict::Refused { retry_after: Some(retry_after) } => *retry_after = scaled(*retry_after),
        ChargeVerdict::Refused { retry_after: None } | ChargeVerdict::Unavailable | ChargeVerdict::Impossible => {}
    }
}

pub(super) struct Replay<'a> {
    charges: &'a [SlotCharge],
    now: u64,
    /// The state of each charge's key before the operation, as read by its own quota.
    states_before: SmallVec<[KeyState; 4]>,
    /// For each charge, the first charge on the same key.
    first_on_key: SmallVec<[usize; 4]>,
    /// The state written to a key and the charge that wrote it, stored at the first charge on the key.
    written: SmallVec<[Option<(usize, KeyState)>; 4]>,
}

/// A state of any algorithm.
#[derive(Clone, Debug)]
pub(crate) enum KeyState {
    Bucket(BucketState),
    Window(WindowState),
    Counter(CounterState),
    Log(LogState),
    Leases(Leases),
}

impl KeyState {
    /// Returns the state of an unused key.
    pub(crate) fn new(algorithm: &CompiledQuota) -> KeyState {
        match algorithm {
            CompiledQuota::Bucket(_) => KeyState::Bucket(BucketState::default()),
            CompiledQuota::FixedWindow(_) => KeyState::Window(WindowState::default()),
            CompiledQuota::SlidingCounter(_) => KeyState::Counter(CounterState::default()),
            CompiledQuota::SlidingLog(_) => KeyState::Log(LogState::default()),
            CompiledQuota::Concurrency(_) => KeyState::Leases(Leases::default()),
        }
    }

    pub(super) fn of(reported: &ReportedState) -> KeyState {
        match reported {
            ReportedState::Bucket(state) => KeyState::Bucket(*state),
            ReportedState::Window(state) => KeyState::Window(*state),
            ReportedState::Counter(state) => KeyState::Counter(*state),
            ReportedState::Log { used, newest, debt, front } => {
                // Of the entries behind the front, only their sum and their end matter.
                let in_front: u64 = front.iter().map(|(_, cost)| cost).sum();
                let behind = (*newest, used.saturating_sub(in_front));
                KeyState::Log(LogState::of(front.iter().copied().chain([behind])).with_debt(*debt))
            }
            ReportedState::Leases { used, until, last_id } => {
                KeyState::Leases(Leases::aggregate(*used, *until, *last_id))
            }
        }
    }
}

/// How to apply a charge to a state.
#[derive(Clone, Copy)]
pub(super) enum ReplayMode {
    Peek,
    Check,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        charges: &'a [SlotCharge],
        now: u64,
        states_before: &[ReportedState],
    ) -> Result<Replay<'a>, ScriptReplyError> {
        if charges.len() != states_before.len() {
            return Err(ScriptReplyError("a state is missing"));
        }
        let first_with_key = |index: usize| {
            let key = &charges[index].target.key;
            charges[..index].iter().position(|other| other.target.key == *key).unwrap_or(index)
        };
        Ok(Replay {
            charges,
            now,
            states_before: states_before.iter().map(KeyState::of).collect(),
            first_on_key: (0..charges.len()).map(first_with_key).collect(),
            written: (0..charges.len()).map(|_| None).collect(),
        })
    }

    pub(super) fn request(&mut self) -> Replayed {
        let mut decisions: SmallVec<[Decision; 4]> = (0..self.charges.len()).map(|index| self.peek(index)).collect();
        let mut charged: SmallVec<[Option<Charged>; 4]> = smallvec![None; self.charges.len()];
        let charges = self.charges;
        if charges.iter().zip(&decisions).any(|(charge, peeked)| charge.binds() && !peeked.is_allowed()) {
            return Replayed { passed: false, decisions, charged };
        }
        let before = (decisions.clone(), self.written.clone());
        for index in (0..charges.len()).filter(|index| charges[*index].is_enforced()) {
            let (decision, receipt) = self.check(index);
            decisions[index] = decision;
            if !decision.is_allowed() {
                // It is refused only because of another charge of the same request. All other charges were allowed.
                let peeks = before.0.into_iter().enumerate();
                decisions = peeks.map(|(other, peeked)| if other == index { decision } else { peeked }).collect();
                self.written = before.1;
                return Replayed { passed: false, decisions, charged: smallvec![None; charges.len()] };
            }
            charged[index] = Some(receipt);
        }
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            let fits = group.clone().all(|index| self.peek(index).is_allowed());
            for index in group {
                decisions[index] = self.peek(index);
                if !fits && decisions[index].is_allowed() {
                    continue;
                }
                let (decision, receipt) = self.check(index);
                decisions[index] = decision;
                charged[index] = decision.is_allowed().then_some(receipt);
            }
        }
        Replayed { passed: true, decisions, charged }
    }

    /// Returns the verdict of a charge, with what remains without it.
    fn peek(&self, index: usize) -> Decision {
        let mut state = self.state(index);
        self.apply(index, &mut state, ReplayMode::Peek).0
    }

    fn check(&mut self, index: usize) -> (Decision, Charged) {
        let mut state = self.state(index);
        let answer = self.apply(index, &mut state, ReplayMode::Check);
        self.written[self.first_on_key[index]] = Some((index, state));
        answer
    }

    fn apply(&self, index: usize, state: &mut KeyState, mode: ReplayMode) -> (Decision, Charged) {
        let charge = &self.charges[index];
        apply_to(charge.target.limit.compiled(), state, self.now, charge.cost, mode)
    }

    /// Returns the state of a charge's key as read by its own quota.
    pub(super) fn state(&self, index: usize) -> KeyState {
        let Some((by, state)) = &self.written[self.first_on_key[index]] else {
            return self.states_before[index].clone();
        };
        let (own, writer) = (self.charges[index].target.limit.compiled(), self.charges[*by].target.limit.compiled());
        match (own, writer, state) {
            (CompiledQuota::Bucket(own), CompiledQuota::Bucket(writer), KeyState::Bucket(state)) if own != writer => {
                KeyState::Bucket(own.convert(writer, *state, self.now))
            }
            _ => state.clone(),
        }
    }
}

pub(super) fn apply_to(
    algorithm: &CompiledQuota,
    state: &mut KeyState,
    now: u64,
    cost: u64,
    mode: ReplayMode,
) -> (Decision, Charged) {
    match (algorithm, state) {
        (CompiledQuota::Bucket(bucket), KeyState::Bucket(state)) => run(bucket, state, now, cost, mode),
        (CompiledQuota::FixedWindow(window), KeyState::Window(state)) => run(window, state, now, cost, mode),
        (CompiledQuota::SlidingCounter(counter), KeyState::Counter(state)) => run(counter, state, now, cost, mode),
        (CompiledQuota::SlidingLog(log), KeyState::Log(state)) => run(log, state, now, cost, mode),
        (CompiledQuota::Concurrency(permits), KeyState::Leases(state)) => run(permits, state, now, cost, mode),
        // A key belongs to one family within a call.
        (algorithm, state) => {
            *state = KeyState::new(algorithm);
            apply_to(algorithm, state, now, cost, mode)
        }
    }
}

fn run<A: Algorithm>(
    algorithm: &A,
    state: &mut A::State,
    now: u64,
    cost: u64,
    mode: ReplayMode,
) -> (Decision, Charged) {
    match mode {
        ReplayMode::Peek => {
            let answer = algorithm.peek(state, now, cost);
            let remains = if answer.is_allowed() { algorithm.peek(state, now, 0) } else { answer };
            (Decision { verdict: answer.verdict, ..remains }, Charged::default())
        }
        ReplayMode::Check => {
            let decision = algorithm.check(state, now, cost);
            (decision, algorithm.charged(state, now, cost))
        }
    }
}
