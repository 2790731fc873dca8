//! Decisions from what the script saw.
//!
//! The script says how many passed and what their keys looked like before. By
//! the functions of the core, each request's answers follow from that.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{
    Algorithm, BucketState, Charged, CompiledQuota, CounterState, Decision, Leases, Log, Tick, Verdict, WindowState,
};
use tollgate_store::shadow_groups;

use super::decode::ProtocolError;
use crate::call::{SlotCharge, View};

/// What became of one request of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Whether the whole passed.
    pub(crate) passed: bool,
    /// The answer to each charge, in nanoseconds. Where the whole is refused,
    /// an allowed one was not made, and says what remains.
    pub(crate) decisions: SmallVec<[Decision; 4]>,
    /// For each charge that was made what its receipt needs, in microseconds as the server counts.
    pub(crate) charged: SmallVec<[Option<Charged>; 4]>,
}

/// What became of all requests of a line. Requests that are refused have one answer, because nothing changes after
/// the first refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayedBatch {
    passed: u32,
    charges: usize,
    /// A row for each request that passed, and one for all that are refused.
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

    /// How many requests passed. These are the first.
    pub(crate) fn passed(&self) -> u32 {
        self.passed
    }

    /// The answer to each charge of a request, in nanoseconds. Where the whole is refused, an allowed one was not made,
    /// and says what remains.
    pub(crate) fn decisions(&self, request: u32) -> &[Decision] {
        &self.decisions[self.row(request)]
    }

    /// For each charge of a request that was made what its receipt needs, in microseconds as the server counts.
    pub(crate) fn charged(&self, request: u32) -> &[Option<Charged>] {
        &self.charged[self.row(request)]
    }

    fn row(&self, request: u32) -> Range<usize> {
        let begin = request.min(self.passed) as usize * self.charges;
        begin..begin + self.charges
    }

    /// The answers to so many requests, one by one.
    #[cfg(test)]
    pub(crate) fn requests(&self, times: u32) -> Vec<Replayed> {
        let request = |at: u32| Replayed {
            passed: at < self.passed,
            decisions: self.decisions(at).into(),
            charged: self.charged(at).into(),
        };
        (0..times).map(request).collect()
    }
}

/// Works out the answers to `times` requests of these charges, of which the
/// script let `passed` pass at `now`, when their keys looked like `views`.
pub(crate) fn replay(
    charges: &[SlotCharge],
    times: u32,
    now: u64,
    passed: u32,
    views: &[View],
) -> Result<ReplayedBatch, ProtocolError> {
    if let ([charge], [view]) = (charges, views)
        && charge.is_made()
    {
        return replay_alone(charge, times, now, passed, view);
    }
    let mut line = Replay::new(charges, now, views)?;
    let mut answers = ReplayedBatch::with_capacity(passed, times, charges.len());
    for _ in 0..passed {
        let row = line.request();
        if !row.passed {
            return Err(PASSED_IN_VAIN);
        }
        answers.push_row(row);
    }
    if passed < times {
        let refused = line.request();
        if refused.passed {
            return Err(REFUSED_IN_VAIN);
        }
        answers.push_row(refused);
    }
    answers.decisions.iter_mut().for_each(in_nanoseconds);
    Ok(answers)
}

const PASSED_IN_VAIN: ProtocolError = ProtocolError("a request passed that could not");
const REFUSED_IN_VAIN: ProtocolError = ProtocolError("a request was refused that could pass");

/// The same for a single charge, which most requests are: no other charge is in its way.
fn replay_alone(
    charge: &SlotCharge,
    times: u32,
    now: u64,
    passed: u32,
    view: &View,
) -> Result<ReplayedBatch, ProtocolError> {
    let cost = charge.cost;
    match (charge.target.limit.compiled(), KeyState::of(view)) {
        (CompiledQuota::Bucket(rule), KeyState::Bucket(state)) => repeat(rule, state, times, now, passed, cost),
        (CompiledQuota::FixedWindow(rule), KeyState::Window(state)) => repeat(rule, state, times, now, passed, cost),
        (CompiledQuota::SlidingCounter(rule), KeyState::Counter(state)) => {
            repeat(rule, state, times, now, passed, cost)
        }
        (CompiledQuota::SlidingLog(rule), KeyState::Log(state)) => repeat(rule, state, times, now, passed, cost),
        (CompiledQuota::Concurrency(rule), KeyState::Leases(state)) => repeat(rule, state, times, now, passed, cost),
        _ => Err(ProtocolError("a view is of another algorithm")),
    }
}

fn repeat<A: Algorithm>(
    algorithm: &A,
    mut state: A::State,
    times: u32,
    now: u64,
    passed: u32,
    cost: u64,
) -> Result<ReplayedBatch, ProtocolError> {
    let mut act = |act: Act| run(algorithm, &mut state, now, cost, act);
    let mut answers = ReplayedBatch::with_capacity(passed, times, 1);
    for _ in 0..passed {
        let (mut decision, note) = act(Act::Check);
        if !decision.is_allowed() {
            return Err(PASSED_IN_VAIN);
        }
        in_nanoseconds(&mut decision);
        answers.push(decision, Some(note));
    }
    if passed < times {
        let (mut decision, _) = act(Act::Look);
        if decision.is_allowed() {
            return Err(REFUSED_IN_VAIN);
        }
        in_nanoseconds(&mut decision);
        answers.push(decision, None);
    }
    Ok(answers)
}

/// What is said of a request that passed here, after `before` others of its
/// line, and is not made after all because another slot refused it: how things stand without it.
pub(crate) fn replay_unmade(
    charges: &[SlotCharge],
    now: u64,
    views: &[View],
    before: u32,
) -> Result<SmallVec<[Decision; 4]>, ProtocolError> {
    let mut line = Replay::new(charges, now, views)?;
    for _ in 0..before {
        line.request();
    }
    let mut decisions: SmallVec<[Decision; 4]> = (0..charges.len()).map(|at| line.look(at)).collect();
    decisions.iter_mut().for_each(in_nanoseconds);
    Ok(decisions)
}

/// The one place where the server's microseconds become the store's nanoseconds.
pub(super) fn in_nanoseconds(decision: &mut Decision) {
    let scaled = |ticks: u64| ticks.saturating_mul(Tick::Microsecond.ns());
    decision.next_after = scaled(decision.next_after);
    decision.reset_after = scaled(decision.reset_after);
    match &mut decision.verdict {
        Verdict::Allowed { delay } => *delay = scaled(*delay),
        Verdict::Refused { retry_after: Some(retry_after) } => *retry_after = scaled(*retry_after),
        Verdict::Refused { retry_after: None } | Verdict::NoRoom | Verdict::Impossible => {}
    }
}

pub(super) struct Replay<'a> {
    charges: &'a [SlotCharge],
    now: u64,
    /// What each charge's key looked like before the line, to its own quota.
    views: SmallVec<[KeyState; 4]>,
    /// For each charge the first one on the same key.
    homes: SmallVec<[usize; 4]>,
    /// What was written to a key, and by which charge, at the key's first charge.
    written: SmallVec<[Option<(usize, KeyState)>; 4]>,
}

/// A state of any algorithm.
#[derive(Clone, Debug)]
pub(crate) enum KeyState {
    Bucket(BucketState),
    Window(WindowState),
    Counter(CounterState),
    Log(Log),
    Leases(Leases),
}

impl KeyState {
    /// That of a key never seen.
    pub(crate) fn new(algorithm: &CompiledQuota) -> KeyState {
        match algorithm {
            CompiledQuota::Bucket(_) => KeyState::Bucket(BucketState::default()),
            CompiledQuota::FixedWindow(_) => KeyState::Window(WindowState::default()),
            CompiledQuota::SlidingCounter(_) => KeyState::Counter(CounterState::default()),
            CompiledQuota::SlidingLog(_) => KeyState::Log(Log::default()),
            CompiledQuota::Concurrency(_) => KeyState::Leases(Leases::default()),
        }
    }

    fn of(view: &View) -> KeyState {
        match view {
            View::Bucket(state) => KeyState::Bucket(*state),
            View::Window(state) => KeyState::Window(*state),
            View::Counter(state) => KeyState::Counter(*state),
            View::Log { used, newest, debt, front } => {
                // What lies behind the front matters only by its sum and its end.
                let in_front: u64 = front.iter().map(|(_, cost)| cost).sum();
                let behind = (*newest, used.saturating_sub(in_front));
                KeyState::Log(Log::of(front.iter().copied().chain([behind])).owing(*debt))
            }
            View::Leases { used, until, last_id } => KeyState::Leases(Leases::summed(*used, *until, *last_id)),
        }
    }
}

/// What to do to a state.
#[derive(Clone, Copy)]
pub(super) enum Act {
    Look,
    Check,
}

impl<'a> Replay<'a> {
    pub(super) fn new(charges: &'a [SlotCharge], now: u64, views: &[View]) -> Result<Replay<'a>, ProtocolError> {
        if charges.len() != views.len() {
            return Err(ProtocolError("a view is missing"));
        }
        let first_with_key = |at: usize| {
            let key = &charges[at].target.key;
            charges[..at].iter().position(|other| other.target.key == *key).unwrap_or(at)
        };
        Ok(Replay {
            charges,
            now,
            views: views.iter().map(KeyState::of).collect(),
            homes: (0..charges.len()).map(first_with_key).collect(),
            written: (0..charges.len()).map(|_| None).collect(),
        })
    }

    pub(super) fn request(&mut self) -> Replayed {
        let mut decisions: SmallVec<[Decision; 4]> = (0..self.charges.len()).map(|at| self.look(at)).collect();
        let mut charged: SmallVec<[Option<Charged>; 4]> = smallvec![None; self.charges.len()];
        let charges = self.charges;
        if charges.iter().zip(&decisions).any(|(charge, look)| charge.binds() && !look.is_allowed()) {
            return Replayed { passed: false, decisions, charged };
        }
        let before = (decisions.clone(), self.written.clone());
        for at in (0..charges.len()).filter(|at| charges[*at].is_made()) {
            let (decision, note) = self.check(at);
            decisions[at] = decision;
            if !decision.is_allowed() {
                // Only what the request itself charged stood in the way. All others were allowed.
                let looks = before.0.into_iter().enumerate();
                decisions = looks.map(|(other, look)| if other == at { decision } else { look }).collect();
                self.written = before.1;
                return Replayed { passed: false, decisions, charged: smallvec![None; charges.len()] };
            }
            charged[at] = Some(note);
        }
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            let fits = group.clone().all(|at| self.look(at).is_allowed());
            for at in group {
                decisions[at] = self.look(at);
                if !fits && decisions[at].is_allowed() {
                    continue;
                }
                let (decision, note) = self.check(at);
                decisions[at] = decision;
                charged[at] = decision.is_allowed().then_some(note);
            }
        }
        Replayed { passed: true, decisions, charged }
    }

    /// What the answer would be, and what remains without it.
    fn look(&self, at: usize) -> Decision {
        let mut state = self.state(at);
        self.act(at, &mut state, Act::Look).0
    }

    fn check(&mut self, at: usize) -> (Decision, Charged) {
        let mut state = self.state(at);
        let answer = self.act(at, &mut state, Act::Check);
        self.written[self.homes[at]] = Some((at, state));
        answer
    }

    fn act(&self, at: usize, state: &mut KeyState, act: Act) -> (Decision, Charged) {
        let charge = &self.charges[at];
        act_on(charge.target.limit.compiled(), state, self.now, charge.cost, act)
    }

    /// The state of a charge's key as its own quota reads it.
    pub(super) fn state(&self, at: usize) -> KeyState {
        let Some((by, state)) = &self.written[self.homes[at]] else {
            return self.views[at].clone();
        };
        let (own, writer) = (self.charges[at].target.limit.compiled(), self.charges[*by].target.limit.compiled());
        match (own, writer, state) {
            (CompiledQuota::Bucket(own), CompiledQuota::Bucket(writer), KeyState::Bucket(state)) if own != writer => {
                KeyState::Bucket(own.adopt(writer, *state, self.now))
            }
            _ => state.clone(),
        }
    }
}

pub(super) fn act_on(
    algorithm: &CompiledQuota,
    state: &mut KeyState,
    now: u64,
    cost: u64,
    act: Act,
) -> (Decision, Charged) {
    match (algorithm, state) {
        (CompiledQuota::Bucket(bucket), KeyState::Bucket(state)) => run(bucket, state, now, cost, act),
        (CompiledQuota::FixedWindow(window), KeyState::Window(state)) => run(window, state, now, cost, act),
        (CompiledQuota::SlidingCounter(counter), KeyState::Counter(state)) => run(counter, state, now, cost, act),
        (CompiledQuota::SlidingLog(log), KeyState::Log(state)) => run(log, state, now, cost, act),
        (CompiledQuota::Concurrency(permits), KeyState::Leases(state)) => run(permits, state, now, cost, act),
        // A key belongs to one family within a call.
        (algorithm, state) => {
            *state = KeyState::new(algorithm);
            act_on(algorithm, state, now, cost, act)
        }
    }
}

fn run<A: Algorithm>(algorithm: &A, state: &mut A::State, now: u64, cost: u64, act: Act) -> (Decision, Charged) {
    match act {
        Act::Look => {
            let answer = algorithm.look(state, now, cost);
            let remains = if answer.is_allowed() { algorithm.look(state, now, 0) } else { answer };
            (Decision { verdict: answer.verdict, ..remains }, Charged::default())
        }
        Act::Check => {
            let decision = algorithm.check(state, now, cost);
            (decision, algorithm.charged(state, now, cost))
        }
    }
}
