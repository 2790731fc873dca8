//! Encodes a call as the argument of the script.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::smallvec;
use tollgate_core::{Charged, CompiledQuota, Family, TickSpan};
use tollgate_store::{ChargeMode, Limit};

use super::prefix::{digits, push_prefix};
use crate::call::{Call, LeaseRequest, RefillSchedule, ScriptOp, SlotCharge, Target};
use crate::wire::{Args, ScriptKeys};

/// An encoded call: keys and arguments of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) keys: ScriptKeys,
    pub(crate) args: Args,
}

const DECIDE: u8 = 1;
const FORCE: u8 = 2;
const REFUND: u8 = 3;
const SETTLE_ABOVE: u8 = 4;
const RENEW: u8 = 5;
const RESET: u8 = 6;
const CREDIT: u8 = 7;
const LEASE: u8 = 8;
const REFILL: u8 = 9;

/// The code of a plain call instead of its families. The script has a fast path for these.
const PLAIN: u8 = 33;

/// A flag beside the families: there are operations other than decide.
const OTHER_OPS: u8 = 64;

/// A flag beside the families: there are refills, and so the header has the bounds of the server's clock.
const REFILLS: u8 = 128;

/// The position of these bounds in the argument.
const AHEAD: std::ops::Range<usize> = 9..25;

/// The largest integer up to which doubles are exact. Larger values exceed every limit, and so does this one.
const MAX_EXACT: u64 = 1 << 53;

/// The initial capacity in bytes. Most calls are no longer than this.
const USUAL_LENGTH: usize = 192;

/// Up to this number of keys a linear search is faster than a map.
const FEW_KEYS: usize = 16;

/// Encodes a call. With `now`, in microseconds, the script uses that time instead of the server's clock, and keys
/// expire much later than they would: for tests.
pub(crate) fn encode(call: &Call, now: Option<u64>) -> Encoded {
    let mut writer = Writer { bytes: Vec::with_capacity(USUAL_LENGTH), ..Writer::default() };
    match now {
        Some(now) => writer.number(now),
        None => writer.bytes.extend_from_slice(&(-1.0_f64).to_le_bytes()),
    }
    let families = writer.bytes.len();
    writer.bytes.push(0);
    if call.schedule_base().is_some() {
        writer.families |= REFILLS;
        writer.bytes.extend_from_slice(&[0; AHEAD.end - AHEAD.start]);
    }
    call.ops.iter().for_each(|op| writer.op(op));
    writer.bytes[families] = if is_plain(call) { PLAIN } else { writer.families };
    Encoded { keys: writer.keys, args: smallvec![writer.bytes] }
}

/// Writes an expiry into an encoded call, in microseconds of the server's clock. After it, the script does nothing.
pub(crate) fn stamp(argument: &mut [u8], expiry: u64) {
    if let Some(now) = argument.first_chunk_mut::<8>() {
        *now = (expiry.min(MAX_EXACT) as f64).to_le_bytes();
        // Sets the sign bit of the double.
        now[7] |= 0x80;
    }
}

/// Writes into an encoded call with refills by how many microseconds the server's clock is ahead of their schedules, at
/// least and at most.
pub(crate) fn stamp_ahead(argument: &mut [u8], (least, most): (i64, i64)) {
    if let Some(ahead) = argument.get_mut(AHEAD) {
        let bounds = [(least as f64).to_le_bytes(), (most as f64).to_le_bytes()];
        ahead.copy_from_slice(bounds.as_flattened());
    }
}

/// Returns whether a call is one decision on buckets that must all pass, each on a separate key.
fn is_plain(call: &Call) -> bool {
    let [ScriptOp::Decide { charges, .. }] = call.ops.as_slice() else {
        return false;
    };
    charges.iter().enumerate().all(|(index, charge)| {
        let is_same = |other: &SlotCharge| other.target.key == charge.target.key;
        let is_bucket = charge.target.limit.compiled().family() == Family::Bucket;
        is_bucket && charge.mode == ChargeMode::Enforce && charge.cost > 0 && !charges[..index].iter().any(is_same)
    })
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    keys: ScriptKeys,
    /// The index of each key, once there are many.
    indexes: HashMap<Arc<[u8]>, u32>,
    families: u8,
}

impl Writer {
    fn op(&mut self, op: &ScriptOp) {
        match op {
            ScriptOp::Decide { times, charges } => self.decide(*times, charges),
            ScriptOp::Force { target, cost } => self.other_op(FORCE, target, *cost),
            ScriptOp::Refund { target, charged, amount } => self.refund(target, charged, *amount),
            ScriptOp::Credit { target, cost } => self.other_op(CREDIT, target, *cost),
            ScriptOp::Settle { target, charged, true_cost } => match true_cost.checked_sub(charged.cost) {
                Some(more) if more > 0 => self.other_op(SETTLE_ABOVE, target, more),
                _ => self.refund(target, charged, charged.cost - true_cost),
            },
            // Only permits have leases to renew.
            ScriptOp::Renew { target, charged } if target.limit.compiled().family() == Family::Concurrency => {
                self.other_op(RENEW, target, 0);
                self.number(charged.mark);
            }
            ScriptOp::Renew { .. } => {}
            ScriptOp::Reset { target } => {
                self.bytes.push(RESET);
                self.key(target);
            }
            // Permits are not leased ahead.
            ScriptOp::Lease(request) if request.target.limit.compiled().family() == Family::Concurrency => {}
            ScriptOp::Lease(request) => self.lease(request),
            ScriptOp::Refill { target, schedule } => self.refill(target, schedule),
        }
    }

    fn refill(&mut self, target: &Target, schedule: &RefillSchedule) {
        self.bytes.push(REFILL);
        self.key(target);
        self.bytes.extend_from_slice(&(schedule.least as u16).to_le_bytes());
        self.bytes.push(schedule.spans.len() as u8);
        for span in &schedule.spans {
            self.bytes.extend_from_slice(&(span.from_us as f64).to_le_bytes());
            self.bytes.extend_from_slice(&(span.until_us as f64).to_le_bytes());
            self.bytes.extend_from_slice(&(span.rate as u16).to_le_bytes());
        }
    }

    /// Writes the key like a charge of 1, because the reply has its state like that of a decision.
    #[inline(never)]
    fn lease(&mut self, request: &LeaseRequest) {
        let charge = SlotCharge { target: request.target.clone(), cost: 1, mode: ChargeMode::Peek };
        self.bytes.push(LEASE);
        self.charge(&charge, std::slice::from_ref(&charge));
        self.number(request.wanted);
        self.number(request.max_outstanding);
        self.number(request.generation_ms.max(1));
        self.number(request.settlements.len() as u64);
        for settlement in &request.settlements {
            self.number(settlement.generation);
            self.number(settlement.spent);
            self.number(settlement.returned);
        }
    }

    fn decide(&mut self, times: u32, charges: &[SlotCharge]) {
        let shares_a_key = charges.len() > 1
            && charges.iter().enumerate().any(|(index, charge)| {
                let same = |other: &SlotCharge| other.is_enforced() && other.target.key == charge.target.key;
                charge.is_enforced() && charges[..index].iter().any(same)
            });
        // A charge that is only watched reports when there would be capacity.
        let is_deep = charges.iter().any(|charge| charge.mode == ChargeMode::Peek && charge.cost > 0);
        self.bytes.push(DECIDE);
        self.bytes.extend_from_slice(&times.to_le_bytes());
        self.bytes.extend_from_slice(&(charges.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&[u8::from(shares_a_key), u8::from(is_deep)]);
        charges.iter().for_each(|charge| self.charge(charge, charges));
    }

    // Inlined into decisions although a lease calls it too: that saves 200 instructions a charge.
    #[inline(always)]
    fn charge(&mut self, charge: &SlotCharge, all: &[SlotCharge]) {
        let limit = &charge.target.limit;
        self.family(limit);
        self.bytes.push(match charge.mode {
            // A cost of 0 only reads the state, whatever its mode.
            _ if charge.cost == 0 => 3,
            ChargeMode::Enforce => 0,
            ChargeMode::Guard => 1,
            ChargeMode::Shadow => 2,
            ChargeMode::Peek => 3,
            ChargeMode::ShadowJoined => 4,
        });
        self.key(&charge.target);
        if let CompiledQuota::Bucket(bucket) = limit.compiled() {
            let shape = bucket.shape();
            let never = TickSpan { ticks: MAX_EXACT, part: 0 };
            let (price, bound) = (bucket.span_of(charge.cost).unwrap_or(never), shape.bound());
            self.prefix(limit);
            self.number(price.ticks);
            self.number(bound.ticks);
            self.number(shape.max_debt);
            self.bytes.push(u8::from(shape.denominator > 1));
            if shape.denominator > 1 {
                for part in [price.part, bound.part, shape.denominator] {
                    self.bytes.extend_from_slice(&part.to_le_bytes()[..3]);
                }
            }
            return;
        }
        self.window_fields(limit, charge.cost);
        if limit.compiled().family() == Family::SlidingLog {
            self.log_depth(charge, all);
        }
    }

    /// Writes how many entries of a log the decisions may depend on: the largest and the smallest limit, and the
    /// largest possible cost, of all charges on the key; and whether this is the only one.
    fn log_depth(&mut self, charge: &SlotCharge, all: &[SlotCharge]) {
        let same = || all.iter().filter(|other| other.target.key == charge.target.key);
        let limits = || same().map(|other| other.target.limit.quota().amount());
        let possible = same().filter(|other| other.cost <= other.target.limit.quota().amount());
        self.number(limits().max().unwrap_or(0));
        self.number(limits().min().unwrap_or(0));
        self.number(possible.map(|other| other.cost).max().unwrap_or(0).max(1));
        self.bytes.push(u8::from(same().count() == 1));
    }

    fn other_op(&mut self, kind: u8, target: &Target, cost: u64) {
        self.families |= OTHER_OPS;
        self.bytes.push(kind);
        self.family(&target.limit);
        self.key(target);
        if target.limit.compiled().family() == Family::Bucket {
            self.prefix(&target.limit);
            self.number(cost);
            self.number(target.limit.quota().max_debt());
        } else {
            self.window_fields(&target.limit, cost);
        }
    }

    fn refund(&mut self, target: &Target, charged: &Charged, amount: u64) {
        self.other_op(REFUND, target, amount.min(charged.cost));
        if target.limit.compiled().family() == Family::Bucket {
            self.number(charged.at);
            self.number(charged.mark);
            self.number(u64::from(charged.part));
            self.number(charged.cost);
        } else {
            self.number(charged.mark);
        }
    }

    fn window_fields(&mut self, limit: &Limit, cost: u64) {
        self.prefix(limit);
        let period_ns = limit.quota().period_ns();
        // A window has whole microseconds; a lease may not, and is rounded up.
        self.number(period_ns.div_ceil(1_000));
        self.number(limit.quota().amount());
        self.number(limit.quota().max_debt());
        self.number(cost);
        let digits = digits(limit);
        self.bytes.extend_from_slice(&digits.code.to_le_bytes());
        self.bytes.push(digits.width);
    }

    fn prefix(&mut self, limit: &Limit) {
        let length = self.bytes.len();
        self.bytes.push(0);
        push_prefix(&mut self.bytes, limit);
        self.bytes[length] = (self.bytes.len() - length - 1) as u8;
    }

    fn family(&mut self, limit: &Limit) {
        let family = limit.compiled().family() as u8;
        self.families |= family;
        self.bytes.push(family);
    }

    /// Writes the index of a key, starting at 1 as in Lua.
    fn key(&mut self, target: &Target) {
        let index = self.index(&target.key);
        self.bytes.extend_from_slice(&index.to_le_bytes());
    }

    fn index(&mut self, key: &Arc<[u8]>) -> u32 {
        let found = if self.keys.len() <= FEW_KEYS {
            self.keys.iter().position(|known| known == key).map(|index| index as u32 + 1)
        } else {
            self.indexes.get(key).copied()
        };
        found.unwrap_or_else(|| {
            self.keys.push(Arc::clone(key));
            let index = self.keys.len() as u32;
            if self.keys.len() == FEW_KEYS + 1 {
                self.indexes.extend(self.keys.iter().cloned().zip(1..));
            } else if self.keys.len() > FEW_KEYS {
                self.indexes.insert(Arc::clone(key), index);
            }
            index
        })
    }

    fn number(&mut self, value: u64) {
        self.bytes.extend_from_slice(&(value.min(MAX_EXACT) as f64).to_le_bytes());
    }
}
