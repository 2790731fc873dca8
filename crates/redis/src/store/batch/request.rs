//! The charges of a request to one slot.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_store::{Charge, ChargeMode};

use crate::call::{SlotCharge, Target};
use crate::store::key_names::RedisKeyName;
use crate::store::limit::RedisLimitData;
use crate::transport::Slot;

pub(in crate::store) type Charges<'a> = [Charge<'a>];

/// The part of a request for one slot.
#[derive(Debug)]
pub(in crate::store) struct SlotRequest {
    pub(in crate::store) slot: Slot,
    pub(in crate::store) charges: Arc<[SlotCharge]>,
    /// The key of each charge, as supplied by the caller.
    pub(in crate::store) keys: SmallVec<[Box<[u8]>; 4]>,
}

impl SlotRequest {
    pub(super) fn new(slot: Slot, charges: &Charges<'_>) -> SlotRequest {
        let slot_charge = |(index, charge): (usize, &Charge<'_>)| {
            let key = RedisKeyName::new(&RedisLimitData::of(charge.limit).prefix_and_scope, charge.key).bytes;
            SlotCharge {
                target: Target { key, limit: charge.limit.clone() },
                cost: charge.cost,
                mode: mode(index, charge),
            }
        };
        let keys = charges.iter().map(|charge| charge.key.into()).collect();
        SlotRequest { slot, charges: charges.iter().enumerate().map(slot_charge).collect(), keys }
    }

    /// Copies the request for another batch. A batch shares the `Arc` of its charges only with its own call, so calls
    /// in flight on several threads do not contend for one reference count.
    pub(super) fn for_another_call(&self) -> SlotRequest {
        SlotRequest { slot: self.slot, charges: Arc::from(&*self.charges), keys: self.keys.clone() }
    }

    /// Returns whether these charges to this slot are an equal request.
    pub(super) fn is_same(&self, slot: Slot, charges: &Charges<'_>) -> bool {
        self.slot == slot
            && self.charges.len() == charges.len()
            && charges.iter().enumerate().all(|(index, charge)| {
                let known = &self.charges[index];
                *charge.limit == known.target.limit
                    && charge.cost == known.cost
                    && mode(index, charge) == known.mode
                    && *charge.key == *self.keys[index]
            })
    }
}

/// Returns a hash that is the same for equal charges.
pub(super) fn hash(charges: &Charges<'_>, hasher: &impl BuildHasher) -> u64 {
    let mut hasher = hasher.build_hasher();
    for charge in charges {
        charge.limit.hash(&mut hasher);
        hasher.write_u64(charge.cost);
        hasher.write(charge.key);
    }
    hasher.finish()
}

/// Returns the mode of a charge within its slot. The first charge cannot join the group of a charge before it.
fn mode(index: usize, charge: &Charge<'_>) -> ChargeMode {
    if index == 0 && charge.mode == ChargeMode::ShadowJoined { ChargeMode::Shadow } else { charge.mode }
}

/// The charges of a request in one of several slots.
pub(in crate::store) struct SlotPart<'a> {
    pub(in crate::store) slot: Slot,
    /// Their positions in the request.
    pub(in crate::store) positions: Positions,
    pub(in crate::store) charges: SmallVec<[Charge<'a>; 4]>,
}

pub(in crate::store) type Positions = SmallVec<[usize; 2]>;

impl<'a> SlotPart<'a> {
    /// Splits charges by slot, in the order in which the slots first occur.
    pub(in crate::store) fn split(charges: &Charges<'a>, slot_of: impl Fn(&Charge<'_>) -> Slot) -> Vec<SlotPart<'a>> {
        let mut parts: Vec<SlotPart<'a>> = Vec::new();
        for (position, &charge) in charges.iter().enumerate() {
            let slot = slot_of(&charge);
            let index = parts.iter().position(|part| part.slot == slot).unwrap_or(parts.len());
            if index == parts.len() {
                parts.push(SlotPart { slot, positions: SmallVec::new(), charges: SmallVec::new() });
            }
            let part = &mut parts[index];
            // A joined charge whose predecessor is in another slot starts a group of its own: the limits of a rule
            // without a key may be in different slots.
            let follows_predecessor = part.positions.last().is_some_and(|last| last + 1 == position);
            let mode = if charge.mode == ChargeMode::ShadowJoined && !follows_predecessor {
                ChargeMode::Shadow
            } else {
                charge.mode
            };
            part.positions.push(position);
            part.charges.push(Charge { mode, ..charge });
        }
        parts
    }
}
