//! The reference model of a store: the pure functions of the core over plain maps.
//!
//! The model never drops a key and knows no capacity, no hash and no thread. A store with ample capacity must agree
//! with it in every field of every decision.
// Every test file is a separate crate and uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod pair;

use std::collections::HashMap;

use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, BucketState, Charged, Concurrency, CounterState, Decision, FixedWindow, Leases,
    LogState, Quota, SlidingCounter, SlidingLog, Tick, WindowState,
};

/// A scope and a key in it.
pub(crate) type Who = (usize, u64);

#[derive(Debug, Default)]
pub(crate) struct Model {
    buckets: HashMap<Who, Written>,
    windows: HashMap<Who, WindowState>,
    counters: HashMap<Who, CounterState>,
    logs: HashMap<Who, LogState>,
    /// The time when a log expires, by the quota that wrote it.
    log_ends: HashMap<Who, u64>,
    leases: HashMap<Who, Leases>,
}

/// A bucket's state and the quota that wrote it: another quota must convert it.
#[derive(Clone, Copy, Debug)]
struct Written {
    by: Bucket,
    state: BucketState,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Look {
        cost: u64,
    },
    Check {
        cost: u64,
    },
    /// A charge of a joint check that is refused.
    Refuse {
        cost: u64,
    },
    Reserve {
        cost: u64,
        patience: u64,
    },
    GiveBack {
        charged: Charged,
    },
    Settle {
        charged: Charged,
        true_cost: u64,
    },
    Force {
        cost: u64,
    },
    Reset,
    Renew {
        charged: Charged,
    },
}

/// The results of an operation; each operation sets some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) decision: Option<Decision>,
    /// For a charge that was allowed.
    pub(crate) charged: Option<Charged>,
    /// The amount that settling or forcing could not charge.
    pub(crate) unpaid: u64,
    pub(crate) renewed: bool,
}

impl Model {
    pub(crate) fn apply(&mut self, quota: &Quota, who: Who, now: u64, operation: Operation) -> Answer {
        let tick = Tick::Nanosecond;
        // A cost of 0 reads what remains, and carries nothing over to another quota.
        let operation = match operation {
            Operation::Check { cost: 0 } | Operation::Reserve { cost: 0, .. } => Operation::Look { cost: 0 },
            other => other,
        };
        match quota.kind() {
            // Only permits have leases to renew.
            kind if kind != AlgorithmKind::Concurrency && matches!(operation, Operation::Renew { .. }) => {
                Answer::default()
            }
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
                self.apply_to_bucket(&Bucket::new(quota, tick).unwrap(), who, now, operation)
            }
            AlgorithmKind::FixedWindow => {
                apply_to(&mut self.windows, &FixedWindow::new(quota, tick).unwrap(), who, now, operation)
            }
            AlgorithmKind::SlidingWindowCounter => {
                apply_to(&mut self.counters, &SlidingCounter::new(quota, tick).unwrap(), who, now, operation)
            }
            AlgorithmKind::SlidingWindowLog => {
                let log = SlidingLog::new(quota, tick).unwrap();
                let is_look = matches!(operation, Operation::Look { .. });
                // Under a longer window, expired charges do not count again.
                if self.log_ends.get(&who).is_some_and(|end| *end <= now) {
                    if is_look {
                        return run(&log, &mut LogState::default(), now, operation);
                    }
                    self.logs.remove(&who);
                }
                let answer = apply_to(&mut self.logs, &log, who, now, operation);
                if let Some(state) = self.logs.get(&who).filter(|_| !is_look) {
                    self.log_ends.insert(who, log.expires_at(state));
                }
                answer
            }
            AlgorithmKind::Concurrency => {
                let permits = Concurrency::new(quota, tick).unwrap();
                if let Operation::Renew { charged } = operation {
                    let renewed = self.leases.get_mut(&who).is_some_and(|state| permits.renew(state, now, &charged));
                    return Answer { renewed, ..Answer::default() };
                }
                apply_to(&mut self.leases, &permits, who, now, operation)
            }
        }
    }

    pub(crate) fn look(&self, quota: &Quota, who: Who, now: u64, cost: u64) -> Decision {
        // A peek changes nothing, so it runs on a copy of the one state that it reads.
        let mut copy = Model::default();
        copy.buckets.extend(self.buckets.get(&who).map(|written| (who, *written)));
        copy.windows.extend(self.windows.get(&who).map(|state| (who, *state)));
        copy.counters.extend(self.counters.get(&who).map(|state| (who, *state)));
        copy.logs.extend(self.logs.get(&who).map(|state| (who, state.clone())));
        copy.log_ends.extend(self.log_ends.get(&who).map(|end| (who, *end)));
        copy.leases.extend(self.leases.get(&who).map(|state| (who, state.clone())));
        copy.apply(quota, who, now, Operation::Look { cost }).decision.unwrap()
    }

    fn apply_to_bucket(&mut self, own: &Bucket, who: Who, now: u64, operation: Operation) -> Answer {
        let Some(written) = self.buckets.get_mut(&who) else {
            let mut state = BucketState::default();
            let answer = run(own, &mut state, now, operation);
            // A key that equals an unused one needs no entry.
            if (state.tat, state.part) > (now, 0) {
                self.buckets.insert(who, Written { by: *own, state });
            }
            return answer;
        };
        if written.by == *own {
            return run(own, &mut written.state, now, operation);
        }
        if let Some(answer) = run_under_writer_quota(own, &written.by, &mut written.state, now, operation) {
            return answer;
        }
        let mut state = own.convert(&written.by, written.state, now);
        let answer = run(own, &mut state, now, operation);
        if !matches!(operation, Operation::Look { .. }) {
            *written = Written { by: *own, state };
        }
        answer
    }
}

fn apply_to<A: Algorithm>(
    states: &mut HashMap<Who, A::State>,
    algorithm: &A,
    who: Who,
    now: u64,
    operation: Operation,
) -> Answer {
    if let Some(state) = states.get_mut(&who) {
        return run(algorithm, state, now, operation);
    }
    let mut state = A::State::default();
    let answer = run(algorithm, &mut state, now, operation);
    if algorithm.expires_at(&state) > now {
        states.insert(who, state);
    }
    answer
}

fn run<A: Algorithm>(algorithm: &A, state: &mut A::State, now: u64, operation: Operation) -> Answer {
    let none = Answer::default();
    match operation {
        Operation::Look { cost } => Answer { decision: Some(algorithm.peek(state, now, cost)), ..none },
        Operation::Refuse { cost } => {
            algorithm.refresh(state, now);
            let peeked = algorithm.peek(state, now, cost);
            let remains = if peeked.is_allowed() { algorithm.peek(state, now, 0) } else { peeked };
            Answer { decision: Some(Decision { verdict: peeked.verdict, ..remains }), ..none }
        }
        Operation::Check { cost } => {
            let decision = algorithm.check(state, now, cost);
            noted(decision, algorithm.charged(state, now, cost))
        }
        Operation::Reserve { cost, patience } => {
            let decision = algorithm.check_within(state, now, cost, patience);
            noted(decision, algorithm.charged(state, now, cost))
        }
        Operation::GiveBack { charged } => {
            algorithm.refund(state, now, &charged, charged.cost);
            none
        }
        Operation::Settle { charged, true_cost } => {
            Answer { unpaid: algorithm.settle(state, now, &charged, true_cost).overrun, ..none }
        }
        Operation::Force { cost } => Answer { unpaid: algorithm.force(state, now, cost), ..none },
        Operation::Reset => {
            algorithm.reset(state);
            none
        }
        Operation::Renew { .. } => none,
    }
}

fn noted(decision: Decision, charged: Charged) -> Answer {
    let is_charge = decision.is_allowed() && charged.cost > 0;
    Answer { decision: Some(decision), charged: is_charge.then_some(charged), ..Answer::default() }
}

/// A receipt from before another quota took over the key: it is worth the tokens that time has not refilled, refunded
/// under the quota that owns the key now.
fn run_under_writer_quota(
    own: &Bucket,
    writer: &Bucket,
    state: &mut BucketState,
    now: u64,
    operation: Operation,
) -> Option<Answer> {
    let (charged, true_cost) = match operation {
        Operation::GiveBack { charged } => (charged, 0),
        Operation::Settle { charged, true_cost } => (charged, true_cost),
        _ => return None,
    };
    if true_cost > charged.cost {
        let unpaid = writer.owe_for(own, state, now, true_cost - charged.cost);
        return Some(Answer { unpaid, ..Answer::default() });
    }
    let never_the_last = Charged { mark: u64::MAX, ..charged };
    let worth = own.unrefilled(&charged, now).min(charged.cost - true_cost);
    writer.refund(state, now, &never_the_last, worth);
    Some(Answer::default())
}
