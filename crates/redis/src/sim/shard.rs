//! One server, as a model: it carries out calls on whole states, by the functions of the core.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Algorithm, Charged, CompiledQuota, Decision};
use tollgate_store::{Limit, shadow_groups};

use crate::call::{Answer, Call, Line, Reply, SlotCharge, TICK, Target, View, Views};
use crate::script::KeyState;

#[derive(Clone, Debug, Default)]
pub(crate) struct Shard {
    keys: HashMap<Arc<[u8]>, KeyState>,
}

/// What a call did to a key, for whoever keeps the books.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Charged { key: Arc<[u8]>, charged: Charged, decision: Decision, until: u64 },
    Renewed { key: Arc<[u8]>, charged: Charged, held: bool, until: u64 },
    Loosened { key: Arc<[u8]> },
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
    pub(crate) fn execute(&mut self, call: &Call, now: u64, deeds: &mut Vec<Deed>) -> Reply {
        Reply { now, answers: call.lines.iter().map(|line| self.carry_out(line, now, deeds)).collect() }
    }

    /// What would be said of a charge, and what remains without it.
    pub(super) fn stands(&mut self, target: &Target, cost: u64, now: u64) -> Decision {
        let answer = self.look(target, now, cost);
        let remains = if answer.is_allowed() { self.look(target, now, 0) } else { answer };
        Decision { verdict: answer.verdict, ..remains }
    }

    fn carry_out(&mut self, line: &Line, now: u64, deeds: &mut Vec<Deed>) -> Answer {
        match line {
            Line::Decide { times, charges } => self.decide(*times, charges, now, deeds),
            Line::Force { target, cost } => {
                deeds.push(Deed::Forced { key: target.key.clone() });
                let unpaid =
                    on!(target.limit, self.state(target), algorithm, state, algorithm.force(state, now, *cost));
                Answer::Forced { unpaid }
            }
            Line::GiveBack { target, charged, amount } => {
                on!(target.limit, self.state(target), rule, state, rule.give_back(state, now, charged, *amount));
                deeds.push(Deed::Loosened { key: target.key.clone() });
                Answer::GivenBack
            }
            Line::Credit { target, cost } => {
                deeds.push(Deed::Loosened { key: target.key.clone() });
                let state = self.state(target);
                on!(target.limit, state, rule, state, rule.credit(state, now, *cost));
                Answer::Credited
            }
            Line::Settle { target, charged, true_cost } => {
                deeds.push(Deed::Loosened { key: target.key.clone() });
                let state = self.state(target);
                let settled = on!(target.limit, state, rule, state, rule.settle(state, now, charged, *true_cost));
                Answer::Settled { overrun: settled.overrun }
            }
            Line::Renew { target, charged } => {
                let held = match (target.limit.compiled(), self.state(target)) {
                    (CompiledQuota::Concurrency(permits), KeyState::Leases(leases)) => {
                        permits.renew(leases, now, charged)
                    }
                    _ => false,
                };
                let (key, until) = (target.key.clone(), now + ticks(&target.limit));
                deeds.push(Deed::Renewed { key, charged: *charged, held, until });
                Answer::Renewed { held }
            }
            Line::Reset { target } => {
                deeds.push(Deed::Loosened { key: target.key.clone() });
                self.keys.remove(&target.key);
                Answer::Reset
            }
        }
    }

    fn decide(&mut self, times: u32, charges: &[SlotCharge], now: u64, deeds: &mut Vec<Deed>) -> Answer {
        let views: Views = charges.iter().map(|charge| self.view(&charge.target, now)).collect();
        let mut passed = 0;
        while passed < times && self.pass_one(charges, now, deeds) {
            passed += 1;
        }
        Answer::Decided { passed, views }
    }

    fn pass_one(&mut self, charges: &[SlotCharge], now: u64, deeds: &mut Vec<Deed>) -> bool {
        let fits = |shard: &mut Shard, charge: &SlotCharge| shard.look(&charge.target, now, charge.cost).is_allowed();
        if !charges.iter().all(|charge| !charge.binds() || fits(self, charge)) {
            return false;
        }
        let before: Vec<(Arc<[u8]>, KeyState)> =
            charges.iter().map(|charge| (charge.target.key.clone(), self.state(&charge.target).clone())).collect();
        let mut made = Vec::new();
        for charge in charges.iter().filter(|charge| charge.is_made()) {
            let (decision, charged) = self.check(charge, now);
            if !decision.is_allowed() {
                self.keys.extend(before);
                return false;
            }
            made.push(deed(charge, charged, decision, now));
        }
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            if !charges[group.clone()].iter().all(|charge| fits(self, charge)) {
                continue;
            }
            for charge in &charges[group] {
                let (decision, charged) = self.check(charge, now);
                if decision.is_allowed() {
                    made.push(deed(charge, charged, decision, now));
                }
            }
        }
        deeds.extend(made);
        true
    }

    fn check(&mut self, charge: &SlotCharge, now: u64) -> (Decision, Charged) {
        on!(charge.target.limit, self.state(&charge.target), rule, state, {
            let decision = rule.check(state, now, charge.cost);
            (decision, rule.charged(state, now, charge.cost))
        })
    }

    fn look(&mut self, target: &Target, now: u64, cost: u64) -> Decision {
        on!(target.limit, self.state(target), rule, state, rule.look(state, now, cost))
    }

    fn view(&mut self, target: &Target, now: u64) -> View {
        let limit = target.limit.clone();
        match (limit.compiled(), self.state(target)) {
            (_, KeyState::Bucket(state)) => View::Bucket(*state),
            (_, KeyState::Window(state)) => View::Window(*state),
            (_, KeyState::Counter(state)) => View::Counter(*state),
            (CompiledQuota::SlidingLog(rule), KeyState::Log(log)) => {
                // Giving nothing back forgets what has left, and pays what is owed.
                let mut log = log.clone();
                rule.give_back(&mut log, now, &Charged::default(), 0);
                let in_force: Vec<_> = log.entries().collect();
                View::Log {
                    used: in_force.iter().map(|(_, cost)| cost).sum(),
                    newest: in_force.last().map_or(0, |(at, _)| *at),
                    debt: log.debt(),
                    front: in_force.into_iter().collect(),
                }
            }
            (CompiledQuota::Concurrency(permits), KeyState::Leases(leases)) => {
                let untouched_at = permits.untouched_at(leases);
                View::Leases {
                    used: limit.quota().amount() - permits.look(leases, now, 0).remaining,
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

fn deed(charge: &SlotCharge, charged: Charged, decision: Decision, now: u64) -> Deed {
    let until = now + ticks(&charge.target.limit);
    Deed::Charged { key: charge.target.key.clone(), charged, decision, until }
}

pub(super) fn ticks(limit: &Limit) -> u64 {
    limit.quota().period_ns().div_ceil(TICK.ns())
}
