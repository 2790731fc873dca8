//! A call as the script's argument.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::smallvec;
use tollgate_core::{Charged, CompiledQuota, Family, Span};
use tollgate_store::{Limit, Mode};

use super::prefix::{digits, prefix};
use crate::call::{Call, Line, SlotCharge, Target};
use crate::wire::{Args, Keys};

/// What a call is on the wire: keys and arguments of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) keys: Keys,
    pub(crate) args: Args,
}

const DECIDE: u8 = 1;
const FORCE: u8 = 2;
const GIVE_BACK: u8 = 3;
const SETTLE_ABOVE: u8 = 4;
const RENEW: u8 = 5;
const RESET: u8 = 6;
const CREDIT: u8 = 7;

/// Stands for the families of a plain call, which the script has a short way for.
const PLAIN: u8 = 33;

/// Beside the families: that there are lines which do not decide.
const ORDERS: u8 = 64;

/// The largest whole number that a double is exact up to. What is larger is
/// beyond every limit, and stays so as this.
const LARGEST: u64 = 1 << 53;

/// Most calls are no longer than this.
const USUAL_LENGTH: usize = 192;

/// Few keys are found faster by looking at each.
const FEW_KEYS: usize = 16;

/// Writes a call. With `now`, in microseconds, it goes by that instead of by
/// the server's clock, and keys are kept long after their time: for tests.
pub(crate) fn encode(call: &Call, now: Option<u64>) -> Encoded {
    let mut writer = Writer { bytes: Vec::with_capacity(USUAL_LENGTH), ..Writer::default() };
    match now {
        Some(now) => writer.number(now),
        None => writer.bytes.extend_from_slice(&(-1.0_f64).to_le_bytes()),
    }
    let families = writer.bytes.len();
    writer.bytes.push(0);
    call.lines.iter().for_each(|line| writer.line(line));
    writer.bytes[families] = if is_plain(call) { PLAIN } else { writer.families };
    Encoded { keys: writer.keys, args: smallvec![writer.bytes] }
}

/// Writes an expiry into a call: the server does nothing after it, in microseconds of its own clock.
pub(crate) fn stamp(argument: &mut [u8], expiry: u64) {
    if let Some(now) = argument.first_chunk_mut::<8>() {
        *now = (expiry.min(LARGEST) as f64).to_le_bytes();
        // The sign of a double is its last bit.
        now[7] |= 0x80;
    }
}

/// Whether it is one line of buckets that must all pass, each on a key of its own.
fn is_plain(call: &Call) -> bool {
    let [Line::Decide { charges, .. }] = call.lines.as_slice() else {
        return false;
    };
    charges.iter().enumerate().all(|(at, charge)| {
        let is_same = |other: &SlotCharge| other.target.key == charge.target.key;
        let is_bucket = charge.target.limit.compiled().family() == Family::Bucket;
        is_bucket && charge.mode == Mode::Enforce && charge.cost > 0 && !charges[..at].iter().any(is_same)
    })
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    keys: Keys,
    /// Where each key is, once there are many.
    places: HashMap<Arc<[u8]>, u32>,
    families: u8,
}

impl Writer {
    fn line(&mut self, line: &Line) {
        match line {
            Line::Decide { times, charges } => self.decide(*times, charges),
            Line::Force { target, cost } => self.order(FORCE, target, *cost),
            Line::GiveBack { target, charged, amount } => self.give_back(target, charged, *amount),
            Line::Credit { target, cost } => self.order(CREDIT, target, *cost),
            Line::Settle { target, charged, true_cost } => match true_cost.checked_sub(charged.cost) {
                Some(more) if more > 0 => self.order(SETTLE_ABOVE, target, more),
                _ => self.give_back(target, charged, charged.cost - true_cost),
            },
            // Only permits have leases to renew.
            Line::Renew { target, charged } if target.limit.compiled().family() == Family::Concurrency => {
                self.order(RENEW, target, 0);
                self.number(charged.mark);
            }
            Line::Renew { .. } => {}
            Line::Reset { target } => {
                self.bytes.push(RESET);
                self.key(target);
            }
        }
    }

    fn decide(&mut self, times: u32, charges: &[SlotCharge]) {
        let shares_a_key = charges.len() > 1
            && charges.iter().enumerate().any(|(at, charge)| {
                let same = |other: &SlotCharge| other.is_made() && other.target.key == charge.target.key;
                charge.is_made() && charges[..at].iter().any(same)
            });
        // Somebody who only watches is told when there would be room.
        let is_deep = charges.iter().any(|charge| charge.mode == Mode::Watch && charge.cost > 0);
        self.bytes.push(DECIDE);
        self.bytes.extend_from_slice(&times.to_le_bytes());
        self.bytes.extend_from_slice(&(charges.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&[u8::from(shares_a_key), u8::from(is_deep)]);
        charges.iter().for_each(|charge| self.charge(charge, charges));
    }

    fn charge(&mut self, charge: &SlotCharge, all: &[SlotCharge]) {
        let limit = &charge.target.limit;
        self.family(limit);
        self.bytes.push(match charge.mode {
            // A cost of 0 is a look, whatever it is to the others.
            _ if charge.cost == 0 => 3,
            Mode::Enforce => 0,
            Mode::Guard => 1,
            Mode::Shadow => 2,
            Mode::Watch => 3,
            Mode::ShadowJoined => 4,
        });
        self.key(&charge.target);
        if let CompiledQuota::Bucket(bucket) = limit.compiled() {
            let shape = bucket.shape();
            let never = Span { ticks: LARGEST, part: 0 };
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
        self.common(limit, charge.cost);
        if limit.compiled().family() == Family::SlidingLog {
            self.reach(charge, all);
        }
    }

    /// How far into a log the answers to a line may look: the largest and the
    /// smallest limit, and the dearest possible charge, of all those on the key; and whether this is the only one.
    fn reach(&mut self, charge: &SlotCharge, all: &[SlotCharge]) {
        let same = || all.iter().filter(|other| other.target.key == charge.target.key);
        let limits = || same().map(|other| other.target.limit.quota().amount());
        let possible = same().filter(|other| other.cost <= other.target.limit.quota().amount());
        self.number(limits().max().unwrap_or(0));
        self.number(limits().min().unwrap_or(0));
        self.number(possible.map(|other| other.cost).max().unwrap_or(0).max(1));
        self.bytes.push(u8::from(same().count() == 1));
    }

    fn order(&mut self, kind: u8, target: &Target, cost: u64) {
        self.families |= ORDERS;
        self.bytes.push(kind);
        self.family(&target.limit);
        self.key(target);
        if target.limit.compiled().family() == Family::Bucket {
            self.prefix(&target.limit);
            self.number(cost);
            self.number(target.limit.quota().max_debt());
        } else {
            self.common(&target.limit, cost);
        }
    }

    fn give_back(&mut self, target: &Target, charged: &Charged, amount: u64) {
        self.order(GIVE_BACK, target, amount.min(charged.cost));
        if target.limit.compiled().family() == Family::Bucket {
            self.number(charged.at);
            self.number(charged.mark);
            self.number(u64::from(charged.part));
            self.number(charged.cost);
        } else {
            self.number(charged.mark);
        }
    }

    fn common(&mut self, limit: &Limit, cost: u64) {
        self.prefix(limit);
        let period_ns = limit.quota().period_ns();
        // A window is whole in microseconds; a lease may not be, and is rounded up.
        self.number(period_ns.div_ceil(1_000));
        self.number(limit.quota().amount());
        self.number(limit.quota().max_debt());
        self.number(cost);
        let digits = digits(limit);
        self.bytes.extend_from_slice(&digits.code.to_le_bytes());
        self.bytes.push(digits.width);
    }

    fn prefix(&mut self, limit: &Limit) {
        let prefix = prefix(limit);
        self.bytes.push(prefix.len() as u8);
        self.bytes.extend_from_slice(&prefix);
    }

    fn family(&mut self, limit: &Limit) {
        let family = limit.compiled().family() as u8;
        self.families |= family;
        self.bytes.push(family);
    }

    /// Keys are numbered from 1, as the script counts.
    fn key(&mut self, target: &Target) {
        let place = self.place(&target.key);
        self.bytes.extend_from_slice(&place.to_le_bytes());
    }

    fn place(&mut self, key: &Arc<[u8]>) -> u32 {
        let found = if self.keys.len() <= FEW_KEYS {
            self.keys.iter().position(|known| known == key).map(|at| at as u32 + 1)
        } else {
            self.places.get(key).copied()
        };
        found.unwrap_or_else(|| {
            self.keys.push(Arc::clone(key));
            let place = self.keys.len() as u32;
            if self.keys.len() == FEW_KEYS + 1 {
                self.places.extend(self.keys.iter().cloned().zip(1..));
            } else if self.keys.len() > FEW_KEYS {
                self.places.insert(Arc::clone(key), place);
            }
            place
        })
    }

    fn number(&mut self, value: u64) {
        self.bytes.extend_from_slice(&(value.min(LARGEST) as f64).to_le_bytes());
    }
}
