//! The charges of a request that live in one slot.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_store::{Charge, Mode};

use crate::call::{SlotCharge, Target};
use crate::store::key_names::KeyName;
use crate::store::limit::SharedLimit;
use crate::transport::Slot;

pub(in crate::store) type Charges<'a> = [Charge<'a>];

/// What is asked of one slot.
#[derive(Debug)]
pub(in crate::store) struct SlotRequest {
    pub(in crate::store) slot: Slot,
    pub(in crate::store) charges: Arc<[SlotCharge]>,
    /// The key as it was given, for each charge.
    pub(in crate::store) keys: SmallVec<[Box<[u8]>; 4]>,
}

impl SlotRequest {
    pub(super) fn new(slot: Slot, charges: &Charges<'_>) -> SlotRequest {
        let charge = |(at, asked): (usize, &Charge<'_>)| {
            let key = KeyName::new(&SharedLimit::of(asked.limit).prefix_and_scope, asked.key).bytes;
            SlotCharge { target: Target { key, limit: asked.limit.clone() }, cost: asked.cost, mode: mode(at, asked) }
        };
        let keys = charges.iter().map(|asked| asked.key.into()).collect();
        SlotRequest { slot, charges: charges.iter().enumerate().map(charge).collect(), keys }
    }

    /// The same for another call: no two calls share their charges.
    pub(super) fn again(&self) -> SlotRequest {
        SlotRequest { slot: self.slot, charges: Arc::from(&*self.charges), keys: self.keys.clone() }
    }

    /// Whether other charges ask the same.
    pub(super) fn is_alike(&self, slot: Slot, charges: &Charges<'_>) -> bool {
        self.slot == slot
            && self.charges.len() == charges.len()
            && charges.iter().enumerate().all(|(at, asked)| {
                let known = &self.charges[at];
                *asked.limit == known.target.limit
                    && asked.cost == known.cost
                    && mode(at, asked) == known.mode
                    && *asked.key == *self.keys[at]
            })
    }
}

/// A hash that is the same for charges alike.
pub(super) fn hash(charges: &Charges<'_>, hasher: &impl BuildHasher) -> u64 {
    let mut hasher = hasher.build_hasher();
    for asked in charges {
        asked.limit.hash(&mut hasher);
        hasher.write_u64(asked.cost);
        hasher.write(asked.key);
    }
    hasher.finish()
}

/// What a charge is among those of its slot: the first of them joins no other.
fn mode(at: usize, asked: &Charge<'_>) -> Mode {
    if at == 0 && asked.mode == Mode::ShadowJoined { Mode::Shadow } else { asked.mode }
}

/// The charges of a request that live in one of several slots.
pub(in crate::store) struct SlotPart<'a> {
    pub(in crate::store) slot: Slot,
    /// Where they stand in the request.
    pub(in crate::store) positions: Positions,
    pub(in crate::store) charges: SmallVec<[Charge<'a>; 4]>,
}

pub(in crate::store) type Positions = SmallVec<[usize; 2]>;

impl<'a> SlotPart<'a> {
    /// Divides charges, in the order in which their slots come up.
    pub(in crate::store) fn divide(charges: &Charges<'a>, slot_of: impl Fn(&Charge<'_>) -> Slot) -> Vec<SlotPart<'a>> {
        let mut parts: Vec<SlotPart<'a>> = Vec::new();
        for (position, &asked) in charges.iter().enumerate() {
            let slot = slot_of(&asked);
            let at = parts.iter().position(|part| part.slot == slot).unwrap_or(parts.len());
            if at == parts.len() {
                parts.push(SlotPart { slot, positions: SmallVec::new(), charges: SmallVec::new() });
            }
            let part = &mut parts[at];
            // Without a key, the limits of a rule may live in different slots.
            let follows = part.positions.last().is_some_and(|last| last + 1 == position);
            let mode = if asked.mode == Mode::ShadowJoined && !follows { Mode::Shadow } else { asked.mode };
            part.positions.push(position);
            part.charges.push(Charge { mode, ..asked });
        }
        parts
    }
}
