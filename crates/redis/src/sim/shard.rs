//! A model of a server: it executes calls on states, by the functions of the core.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{Algorithm, Charged, CompiledQuota, Decision};
use tollgate_store::{Limit, shadow_groups};

use super::outstanding::OutstandingLeases;
use crate::call::{
    Answer, Call, LeaseAnswer, LeaseRequest, RefillSchedule, RefillSpan, ReportedState, ReportedStates, ScriptOp,
    ScriptReply, SlotCharge, TICK, Target,
};
use crate::script::KeyState;

#[derive(Clone, Debug, Default)]
pub(crate) struct Shard {
    keys: HashMap<Arc<[u8]>, KeyState>,
    /// When the keys that regions divide were refilled last.
    refilled: HashMap<Arc<[u8]>, RefillMark>,
    pub(super) leases: OutstandingLeases,
}

#[derive(Clone, Copy, Debug, Default)]
struct RefillMark {
    at: u64,
    /// What was refilled beyond the last whole microsecond.
    thousandths: u64,
}

/// The effect of an operation on a key, for the ledger.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Charged { key: Arc<[u8]>, charged: Charged, decision: Decision, until: u64 },
    Renewed { key: Arc<[u8]>, charged: Charged, held: bool, until: u64 },
    Freed { key: Arc<[u8]> },
    Forced { key: Arc<[u8]> },
}

macro_rules! on {
    ($limit:expr, $state:expr, $algorithm:ident, $inner:ident, $work:expr) => {
        match ($limit.compiled(), $state) {
            (CompiledQuota::Bucket($algorithm), KeyState::Bucket($inner)) => $work,
            (CompiledQuota::FixedWindow($algorithm), KeyState::Window($inner)) => $work,
            (CompiledQuota::SlidingCounter($algorithm), KeyState::Counter($inner)) => $work,
            (CompiledQuota::SlidingLog($algorithm), KeyState::Log($inner)) => $work,
            (CompiledQuota::Concurrency($algorithm), KeyState::Leases($inner)) => $work,
            _ => panic!("a key is used under one algorithm only"),
        }
    };
}

impl Shard {
    pub(crate) fn execute(&mut self, call: &Call, now: u64, effects: &mut Vec<Effect>) -> ScriptReply {
        ScriptReply { now, answers: call.ops.iter().map(|op| self.apply_to_effective(op, now, effects)).collect() }
    }

    /// Applies an operation to the effective states of its keys: those in which outstanding tokens count as used.
    fn apply_to_effective(&mut self, op: &ScriptOp, now: u64, effects: &mut Vec<Effect>) -> Answer {
        let targets: Vec<Target> = match op {
            ScriptOp::Decide { charges, .. } => charges.iter().map(|charge| charge.target.clone()).collect(),
            ScriptOp::Lease(request) => vec![request.target.clone()],
            ScriptOp::Force { target, .. }
            | ScriptOp::Refund { target, .. }
            | ScriptOp::Credit { target, .. }
            | ScriptOp::Settle { target, .. }
            | ScriptOp::Renew { target, .. } => vec![target.clone()],
            ScriptOp::Reset { .. } | ScriptOp::Refill { .. } => Vec::new(),
        };
        self.hold_outstanding(&targets, now);
        let answer = self.apply(op, now, effects);
        self.release_outstanding(&targets, now);
        answer
    }

    fn hold_outstanding(&mut self, targets: &[Target], now: u64) {
        for target in targets {
            if let Some(mut lease) = self.leases.take(&target.key) {
                on!(target.limit, self.state(target), rule, state, lease.hold(rule, state, now));
                self.leases.put(&target.key, lease);
            }
        }
    }

    fn release_outstanding(&mut self, targets: &[Target], now: u64) {
        for target in targets {
            if let Some(mut lease) = self.leases.take(&target.key) {
                on!(target.limit, self.state(target), rule, state, lease.release(rule, state, now));
                self.leases.put(&target.key, lease);
            }
        }
    }

    fn lease(&mut self, request: &LeaseRequest, now: u64) -> Answer {
        let target = &request.target;
        let mut lease = self.leases.take_or_new(&target.key);
        let (granted, generation, expires_in_us) =
            on!(target.limit, self.state(target), rule, state, lease.settle_and_grant(rule, state, request, now));
        let answer = LeaseAnswer {
            granted,
            generation,
            expires_in_us,
            outstanding: lease.outstanding(),
            state: self.reported_state(target, now),
        };
        self.leases.put(&target.key, lease);
        Answer::Leased(Box::new(answer))
    }

    /// Returns the verdict of a charge, with what remains without it.
    pub(super) fn peek(&mut self, target: &Target, cost: u64, now: u64) -> Decision {
        self.hold_outstanding(std::slice::from_ref(target), now);
        let answer = self.peek_cost(target, now, cost);
        let remaining = if answer.is_allowed() { self.peek_cost(target, now, 0) } else { answer };
        self.release_outstanding(std::slice::from_ref(target), now);
        Decision { verdict: answer.verdict, ..remaining }
    }

    fn apply(&mut self, op: &ScriptOp, now: u64, effects: &mut Vec<Effect>) -> Answer {
        match op {
            ScriptOp::Decide { times, charges } => self.decide(*times, charges, now, effects),
            ScriptOp::Force { target, cost } => {
                effects.push(Effect::Forced { key: target.key.clone() });
                let unpaid =
                    on!(target.limit, self.state(target), algorithm, state, algorithm.force(state, now, *cost));
                Answer::Forced { unpaid }
            }
            ScriptOp::Refund { target, charged, amount } => {
                on!(target.limit, self.state(target), rule, state, rule.refund(state, now, charged, *amount));
                effects.push(Effect::Freed { key: target.key.clone() });
                Answer::Refunded
            }
            ScriptOp::Credit { target, cost } => {
                effects.push(Effect::Freed { key: target.key.clone() });
                let state = self.state(target);
                on!(target.limit, state, rule, state, rule.credit(state, now, *cost));
                Answer::Credited
            }
            ScriptOp::Settle { target, charged, true_cost } => {
                effects.push(Effect::Freed { key: target.key.clone() });
                let state = self.state(target);
                let settled = on!(target.limit, state, rule, state, rule.settle(state, now, charged, *true_cost));
                Answer::Settled { overrun: settled.overrun }
            }
            ScriptOp::Renew { target, charged } => {
                let held = match (target.limit.compiled(), self.state(target)) {
                    (CompiledQuota::Concurrency(permits), KeyState::Leases(leases)) => {
                        permits.renew(leases, now, charged)
                    }
                    _ => false,
                };
                let (key, until) = (target.key.clone(), now + ticks(&target.limit));
                effects.push(Effect::Renewed { key, charged: *charged, held, until });
                Answer::Renewed { held }
            }
            ScriptOp::Reset { target } => {
                effects.push(Effect::Freed { key: target.key.clone() });
                self.keys.remove(&target.key);
                Answer::Reset
            }
            ScriptOp::Refill { target, schedule } => {
                self.refill(target, schedule, now);
                Answer::Refilled
            }
            ScriptOp::Lease(request) => {
                // Returned tokens free capacity.
                effects.push(Effect::Freed { key: request.target.key.clone() });
                self.lease(request, now)
            }
        }
    }

    /// Refills a key by a schedule, since it was refilled last.
    fn refill(&mut self, target: &Target, schedule: &RefillSchedule, now: u64) {
        let since_base = Instant::now().saturating_duration_since(schedule.base).as_micros() as i64;
        let ahead = now as i64 - since_base;
        let mark = self.refilled.get(&target.key).copied().unwrap_or(RefillMark { at: now, thousandths: 0 });
        let overlap =
            |span: &RefillSpan| (span.until_us + ahead).min(now as i64) - (span.from_us + ahead).max(mark.at as i64);
        let added: u64 = schedule.spans.iter().map(|span| overlap(span).max(0) as u64 * u64::from(span.rate)).sum();
        let thousandths = mark.thousandths + added;
        if let KeyState::Bucket(state) = self.state(target) {
            let used = state.tat.saturating_sub(mark.at);
            let more = thousandths / 1_000;
            state.tat = now + used.saturating_sub(more);
            if more > used {
                state.part = 0;
            }
        }
        self.refilled.insert(target.key.clone(), RefillMark { at: now, thousandths: thousandths % 1_000 });
    }

    fn decide(&mut self, times: u32, charges: &[SlotCharge], now: u64, effects: &mut Vec<Effect>) -> Answer {
        let states_before: ReportedStates =
            charges.iter().map(|charge| self.reported_state(&charge.target, now)).collect();
        let mut passed = 0;
        while passed < times && self.pass_one(charges, now, effects) {
            passed += 1;
        }
        Answer::Decided { passed, states_before }
    }

    fn pass_one(&mut self, charges: &[SlotCharge], now: u64, effects: &mut Vec<Effect>) -> bool {
        let fits =
            |shard: &mut Shard, charge: &SlotCharge| shard.peek_cost(&charge.target, now, charge.cost).is_allowed();
        if !charges.iter().all(|charge| !charge.binds() || fits(self, charge)) {
            return false;
        }
        let before: Vec<(Arc<[u8]>, KeyState)> =
            charges.iter().map(|charge| (charge.target.key.clone(), self.state(&charge.target).clone())).collect();
        let mut made = Vec::new();
        for charge in charges.iter().filter(|charge| charge.is_enforced()) {
            let (decision, charged) = self.check(charge, now);
            if !decision.is_allowed() {
                self.keys.extend(before);
                return false;
            }
            made.push(charge_effect(charge, charged, decision, now));
        }
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            if !charges[group.clone()].iter().all(|charge| fits(self, charge)) {
                continue;
            }
            for charge in &charges[group] {
                let (decision, charged) = self.check(charge, now);
                if decision.is_allowed() {
                    made.push(charge_effect(charge, charged, decision, now));
                }
            }
        }
        effects.extend(made);
        true
    }

    fn check(&mut self, charge: &SlotCharge, now: u64) -> (Decision, Charged) {
        on!(charge.target.limit, self.state(&charge.target), rule, state, {
            let decision = rule.check(state, now, charge.cost);
            (decision, rule.charged(state, now, charge.cost))
        })
    }

    fn peek_cost(&mut self, target: &Target, now: u64, cost: u64) -> Decision {
        on!(target.limit, self.state(target), rule, state, rule.peek(state, now, cost))
    }

    fn reported_state(&mut self, target: &Target, now: u64) -> ReportedState {
        let limit = target.limit.clone();
        match (limit.compiled(), self.state(target)) {
            (_, KeyState::Bucket(state)) => ReportedState::Bucket(*state),
            (_, KeyState::Window(state)) => ReportedState::Window(*state),
            (_, KeyState::Counter(state)) => ReportedState::Counter(*state),
            (CompiledQuota::SlidingLog(rule), KeyState::Log(log)) => {
                // Refunding nothing removes expired entries, and pays the debt.
                let mut log = log.clone();
                rule.refund(&mut log, now, &Charged::default(), 0);
                let in_force: Vec<_> = log.entries().collect();
                ReportedState::Log {
                    used: in_force.iter().map(|(_, cost)| cost).sum(),
                    newest: in_force.last().map_or(0, |(at, _)| *at),
                    debt: log.debt(),
                    front: in_force.into_iter().collect(),
                }
            }
            (CompiledQuota::Concurrency(permits), KeyState::Leases(leases)) => {
                let untouched_at = permits.expires_at(leases);
                ReportedState::Leases {
                    used: limit.quota().amount() - permits.peek(leases, now, 0).remaining,
                    until: if untouched_at > now { untouched_at } else { 0 },
                    last_id: permits.charged(leases, now, 0).mark,
                }
            }
            _ => panic!("a key is used under one algorithm only"),
        }
    }

    fn state(&mut self, target: &Target) -> &mut KeyState {
        self.keys.entry(target.key.clone()).or_insert_with(|| KeyState::new(target.limit.compiled()))
    }
}

fn charge_effect(charge: &SlotCharge, charged: Charged, decision: Decision, now: u64) -> Effect {
    let until = now + ticks(&charge.target.limit);
    Effect::Charged { key: charge.target.key.clone(), charged, decision, until }
}

pub(super) fn ticks(limit: &Limit) -> u64 {
    limit.quota().period_ns().div_ceil(TICK.ns())
}
