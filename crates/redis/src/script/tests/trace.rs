//! Random calls with their expected results.

use std::time::Duration;

use tollgate_core::{Charged, CompiledQuota, MAX_AMOUNT, MAX_SPAN_NS, Queue, Quota, Rate};
use tollgate_store::{ChargeMode, Limit};

use super::model::{Expected, Model};
use super::random::TraceRng;
use crate::call::{Call, LeaseRequest, LeaseSettlement, ScriptOp, SlotCharge, Target};
use crate::store::limit_of;

pub(super) struct Step {
    pub(super) call: Call,
    pub(super) now: u64,
    pub(super) expected: Vec<Expected>,
}

const FAMILIES: u64 = 5;

/// A sequence of calls under the quotas of one or several families.
pub(super) struct Trace {
    random: TraceRng,
    number: u64,
    now: u64,
    model: Model,
    /// The quotas of each family, which take over keys from each other.
    families: Vec<Vec<Limit>>,
    /// Whether the families share keys, one call after the other.
    shares_keys: bool,
    /// The usual length of a generation of leased tokens, if tokens are leased.
    generation_ms: Option<u64>,
    receipts: Vec<(Target, Charged)>,
}

impl Trace {
    pub(super) fn new(seed: u64) -> Trace {
        let mut random = TraceRng::new(seed);
        let now = match random.below(8) {
            0 => random.below(10_000_000),
            1 => 4_000_000_000_000_000 + random.below(1 << 40),
            _ => 1_787_500_000_000_000 + random.below(1 << 44),
        };
        let count = 1 + random.below(3);
        let families = (0..count)
            .map(|_| {
                let family = random.below(FAMILIES);
                let quotas = 1 + random.below(3);
                let scale = random.below(4);
                (0..quotas).map(|_| any_limit(&mut random, family, scale)).collect()
            })
            .collect();
        let shares_keys = random.one_in(8);
        let generation_ms = seed.is_multiple_of(4).then(|| 1 + random.magnitude(2_999));
        let model = Model::default();
        Trace { random, number: seed, now, model, families, shares_keys, generation_ms, receipts: Vec::new() }
    }

    pub(super) fn step(&mut self) -> Step {
        self.move_clock();
        let family = self.random.below(self.families.len() as u64) as usize;
        let ops = if self.random.one_in(4) { 1 + self.random.below(3) } else { 1 };
        let mut call = Call { ops: smallvec::SmallVec::new() };
        let mut expected = Vec::new();
        for _ in 0..ops {
            let op = self.op(family);
            let outcome = self.model.op(&op, self.now);
            self.keep_receipts(&op, &outcome);
            call.ops.push(op);
            expected.push(outcome);
        }
        self.model.end_call();
        Step { call, now: self.now, expected }
    }

    fn move_clock(&mut self) {
        let period = self.random.pick(&self.families).first().unwrap().quota().period_ns().div_ceil(1_000);
        let limit = self.random.pick(&self.families).first().unwrap().quota().amount();
        let family = self.random.below(self.families.len() as u64) as usize;
        let target = self.target(family);
        // To the tick at which capacity becomes free, and to the one before it.
        let (next_after, reset_after) = self.model.times_ahead(&target, self.now);
        let by = match self.random.below(14) {
            0..4 => 0,
            10 | 11 => next_after.saturating_sub(self.random.below(2)),
            12 => reset_after.saturating_sub(self.random.below(2)),
            13 => period / limit + self.random.below(2),
            4 => self.random.below(4),
            5 | 6 => self.random.below(2 * (period / limit).max(1)),
            7 | 8 => self.random.below(period),
            _ => self.random.below(3 * period),
        };
        // Well below the largest exact number.
        const LATEST: u64 = 4_200_000_000_000_000;
        // A log follows the clock back as a whole, which is impossible if less time has passed since 1970 than it
        // spans.
        let logs =
            self.families.iter().flatten().filter(|limit| matches!(limit.compiled(), CompiledQuota::SlidingLog(_)));
        let earliest = logs.map(|limit| limit.quota().period_ns() / 1_000).max().unwrap_or(0);
        self.now = match self.random.below(12) {
            0 if self.now.saturating_sub(by) < earliest => self.now,
            0 => self.now.saturating_sub(by),
            _ => (self.now + by.min(1 << 48)).min(LATEST),
        };
        // To the end of a generation of leased tokens, and to the ticks around it.
        if self.generation_ms.is_some()
            && self.random.one_in(4)
            && let Some((_, _, ends)) = self.model.leased(&target)
        {
            let end = *self.random.pick(&ends) + self.random.below(3);
            self.now = self.now.max(end - 1).min(LATEST);
        }
    }

    fn op(&mut self, family: usize) -> ScriptOp {
        if let Some(generation_ms) = self.generation_ms.filter(|_| self.random.one_in(3)) {
            return self.lease(family, generation_ms);
        }
        match self.random.below(26) {
            0..=11 => self.decide(family),
            20 | 21 => {
                let target = self.target(family);
                let cost = self.cost(&target);
                ScriptOp::Credit { target, cost }
            }
            12 | 13 => {
                let target = self.target(family);
                let cost = self.cost(&target);
                ScriptOp::Force { target, cost }
            }
            14 | 15 => match self.receipt() {
                Some((target, charged)) => {
                    let amount = if self.random.one_in(3) { self.random.below(charged.cost + 2) } else { charged.cost };
                    ScriptOp::Refund { target, charged, amount }
                }
                None => self.decide(family),
            },
            16 | 17 | 22..=25 => match self.receipt() {
                Some((target, charged)) => {
                    let more = self.cost(&target);
                    let true_cost = match self.random.below(3) {
                        0 => self.random.below(charged.cost + 1),
                        1 => charged.cost.saturating_add(more),
                        _ => more,
                    };
                    ScriptOp::Settle { target, charged, true_cost }
                }
                None => self.decide(family),
            },
            18 => match self.receipts.last().cloned().filter(|(target, _)| self.may_use(target, family)) {
                Some((target, charged)) => ScriptOp::Renew { target, charged },
                None => self.decide(family),
            },
            _ if self.random.one_in(3) => ScriptOp::Reset { target: self.target(family) },
            _ => self.decide(family),
        }
    }

    fn decide(&mut self, family: usize) -> ScriptOp {
        let charges = match self.random.below(4) {
            0 => 2 + self.random.below(3),
            _ => 1,
        };
        let enforce = [ChargeMode::Enforce; 3].into_iter();
        let modes: Vec<ChargeMode> = enforce
            .chain([ChargeMode::Guard, ChargeMode::Shadow, ChargeMode::ShadowJoined, ChargeMode::Peek])
            .collect();
        let charges = (0..charges)
            .map(|_| {
                let other = self.random.below(self.families.len() as u64) as usize;
                let target = self.target(if self.shares_keys { family } else { other });
                let cost = self.cost(&target);
                SlotCharge { target, cost, mode: *self.random.pick(&modes) }
            })
            .collect();
        let times = match self.random.below(8) {
            0 => 1 + self.random.below(100) as u32,
            1 => 2 + self.random.below(4) as u32,
            _ => 1,
        };
        ScriptOp::Decide { times, charges }
    }

    fn lease(&mut self, family: usize, usual_ms: u64) -> ScriptOp {
        let target = self.target(family);
        if let CompiledQuota::Concurrency(_) = target.limit.compiled() {
            return self.decide(family);
        }
        let wanted = if self.random.one_in(4) { 0 } else { self.cost(&target) };
        let max_outstanding = match self.random.below(4) {
            0 => self.random.below(8),
            1 => target.limit.quota().amount() / 2,
            _ => *self.random.pick(&[MAX_AMOUNT, u64::MAX]),
        };
        let generation_ms = if self.random.one_in(6) { 1 + self.random.magnitude(2_999) } else { usual_ms };
        let count = self.random.below(3);
        let settlements = (0..count).map(|_| self.settlement(&target, generation_ms)).collect();
        ScriptOp::Lease(Box::new(LeaseRequest { target, wanted, max_outstanding, generation_ms, settlements }))
    }

    /// Draws a settlement: mostly of a stored generation, and of no more tokens than are leased.
    fn settlement(&mut self, target: &Target, generation_ms: u64) -> LeaseSettlement {
        let (tokens, generation, _) =
            self.model.leased(target).unwrap_or((1, self.now / (generation_ms * 1_000), [0, 0]));
        let generation = (generation + 2).saturating_sub(*self.random.pick(&[0, 1, 2, 2, 2, 2, 3, 3, 4]));
        let mut amount = || match self.random.below(6) {
            0 => 0,
            1 => tokens,
            2 => *self.random.pick(&[tokens.saturating_add(1), MAX_AMOUNT, u64::MAX]),
            _ => self.random.below(tokens.max(1)),
        };
        LeaseSettlement { generation, spent: amount(), returned: amount() }
    }

    fn target(&mut self, family: usize) -> Target {
        let key = self.random.below(2);
        // Families with different indexes may be of the same kind; they still have separate keys.
        let index = if self.shares_keys { 0 } else { family };
        let key = format!("trace {} {index} {key}", self.number).into_bytes().into();
        Target { key, limit: self.random.pick(&self.families[family]).clone() }
    }

    /// Draws a cost: mostly small, often at the edge of what remains.
    fn cost(&mut self, target: &Target) -> u64 {
        let remaining = self.model.remaining(target, self.now);
        match self.random.below(16) {
            0..6 => 1,
            6..9 => self.random.below(5),
            9 | 10 => remaining,
            11 => remaining + 1,
            12 => remaining.saturating_sub(self.random.below(3)),
            13 => self.random.magnitude(remaining.max(1)),
            14 => self.random.magnitude(target.limit.quota().amount() + 2),
            _ => *self.random.pick(&[MAX_AMOUNT, u64::MAX, (1 << 53) + 1]),
        }
    }

    fn receipt(&mut self) -> Option<(Target, Charged)> {
        if self.receipts.is_empty() || self.shares_keys {
            return None;
        }
        let at = self.random.below(self.receipts.len() as u64) as usize;
        let (target, charged) = self.receipts.swap_remove(at);
        // Sometimes a receipt that its own quota never wrote.
        if self.random.one_in(12)
            && let Some((mark, part)) = self.model.mark(&target)
        {
            return Some((target, Charged { mark, part, ..charged }));
        }
        if self.random.one_in(12) {
            let shift = self.random.below(5);
            return Some((
                target,
                Charged { at: charged.at.saturating_sub(shift), mark: charged.mark + shift, ..charged },
            ));
        }
        Some((target, charged))
    }

    fn may_use(&self, target: &Target, family: usize) -> bool {
        !self.shares_keys || self.families[family].contains(&target.limit)
    }

    fn keep_receipts(&mut self, op: &ScriptOp, outcome: &Expected) {
        if let (ScriptOp::Decide { charges, .. }, Expected::Requests(answers)) = (op, outcome) {
            for answer in answers {
                let made = charges.iter().zip(&answer.charged);
                self.receipts.extend(made.filter_map(|(charge, charged)| Some((charge.target.clone(), (*charged)?))));
            }
            let excess = self.receipts.len().saturating_sub(40);
            self.receipts.drain(..excess);
        }
    }
}

/// Draws a quota of a family. Quotas of one scale are similar, so that one can take over from another.
fn any_limit(random: &mut TraceRng, family: u64, scale: u64) -> Limit {
    loop {
        let rate = any_rate(random, scale);
        let quota = match family {
            0 => any_bucket(random, rate),
            1 => Quota::fixed_window(rate).ok(),
            2 => Quota::sliding_window_counter(rate).ok(),
            3 => any_log(random, rate),
            _ => {
                let lease_ns = 1 + random.magnitude(rate.period_ns() * 2);
                let permits = if random.one_in(8) { random.magnitude(MAX_AMOUNT) } else { 1 + random.below(12) };
                Quota::concurrency(permits, Some(Duration::from_nanos(lease_ns))).ok()
            }
        };
        let quota = quota.and_then(|quota| match random.below(4) {
            _ if quota.max_debt() == 0 => Some(quota),
            0 => quota.with_max_debt(0).ok(),
            1 => quota.with_max_debt(random.below(4 * quota.amount().min(100))).ok(),
            2 => quota.with_max_debt(random.magnitude(MAX_AMOUNT)).ok(),
            _ => Some(quota),
        });
        if let Some(limit) = quota.and_then(|quota| limit_of(quota).ok()) {
            return limit;
        }
    }
}

fn any_rate(random: &mut TraceRng, scale: u64) -> Rate {
    const DAY_MS: u64 = 86_400_000;
    loop {
        let (count, ms) = match scale {
            // A few in a short period.
            0 => (1 + random.below(12), 1 + random.below(3)),
            // Common rates.
            1 => {
                (*random.pick(&[1, 5, 7, 60, 100, 200, 999, 1_000]), *random.pick(&[1_000, 60_000, 3_600_000, DAY_MS]))
            }
            // As fast as possible, also with recurring fractions.
            2 => (1 + random.magnitude(MAX_AMOUNT), *random.pick(&[1, 7, 1_000, 60_000, DAY_MS])),
            // Any rate.
            _ => (1 + random.magnitude(MAX_AMOUNT), 1 + random.magnitude(MAX_SPAN_NS / 1_000_000)),
        };
        if let Ok(rate) = Rate::new(count, Duration::from_millis(ms)) {
            return rate;
        }
    }
}

fn any_bucket(random: &mut TraceRng, rate: Rate) -> Option<Quota> {
    let burst = match random.below(4) {
        0 => 1 + random.magnitude(MAX_AMOUNT),
        1 => rate.count(),
        _ => 1 + random.below(8),
    };
    let wait_ns = random.magnitude(rate.period_ns() * 2);
    if random.one_in(4) {
        let max_wait = random.one_in(2).then(|| Duration::from_nanos(wait_ns));
        return Quota::leaky_queue(rate, Queue { size: burst, max_wait }).ok();
    }
    let quota = Quota::token_bucket(rate.with_burst(burst).ok()?).ok()?;
    if random.one_in(4) { quota.with_reservations(Duration::from_nanos(wait_ns)).ok() } else { Some(quota) }
}

fn any_log(random: &mut TraceRng, rate: Rate) -> Option<Quota> {
    let count = match random.below(4) {
        0 => 1 + random.magnitude(Quota::MAX_LOG - 1),
        _ => 1 + random.below(12),
    };
    Quota::sliding_window_log(Rate::new(count, rate.period()).ok()?).ok()
}
