//! The charges of a request that live in one slot.

use std::hash::{BuildHasher, Hash, Hasher};

use smallvec::SmallVec;
use tollgate_store::{Charge, Mode};

use crate::call::{SlotCharge, Target};
use crate::store::key_names::{KeyName, tag};
use crate::store::limit::SharedLimit;
use crate::transport::{Slot, Transport};

pub(in crate::store) type Charges<'a> = [Charge<'a>];

/// Which charges of a request live in one slot.
#[derive(Debug)]
pub(in crate::store) struct SlotPart {
    pub(in crate::store) slot: Slot,
    /// Where they stand in the request.
    pub(in crate::store) positions: SmallVec<[usize; 2]>,
}

/// The parts of a request, in the order in which the slots come up.
#[derive(Debug)]
pub(in crate::store) enum SlotParts {
    /// Most requests live in one slot.
    One(SlotPart),
    Several(Vec<SlotPart>),
}

impl SlotParts {
    pub(in crate::store) fn of(transport: &dyn Transport, charges: &Charges<'_>) -> SlotParts {
        let has_one_slot = transport.has_one_slot();
        let slot_of = |asked: &Charge<'_>| match has_one_slot {
            true => Slot(0),
            false => transport.slot(&tag(&SharedLimit::of(asked.limit).prefix_and_scope, asked.key)),
        };
        let slot = charges.first().map_or(Slot(0), slot_of);
        if charges.iter().skip(1).all(|asked| slot_of(asked) == slot) {
            return SlotParts::One(SlotPart { slot, positions: (0..charges.len()).collect() });
        }
        let mut parts: Vec<SlotPart> = Vec::new();
        for (position, asked) in charges.iter().enumerate() {
            let slot = slot_of(asked);
            match parts.iter_mut().find(|part| part.slot == slot) {
                Some(part) => part.positions.push(position),
                None => parts.push(SlotPart { slot, positions: SmallVec::from_slice(&[position]) }),
            }
        }
        SlotParts::Several(parts)
    }

    pub(in crate::store) fn as_slice(&self) -> &[SlotPart] {
        match self {
            SlotParts::One(part) => std::slice::from_ref(part),
            SlotParts::Several(parts) => parts,
        }
    }
}

impl SlotPart {
    /// Each of its charges, with its mode among the charges of this slot.
    fn charges<'a>(&'a self, charges: &'a Charges<'a>) -> impl ExactSizeIterator<Item = (&'a Charge<'a>, Mode)> {
        self.positions.iter().enumerate().map(move |(at, &position)| {
            let asked = &charges[position];
            // Without a key, the limits of a rule may live in different slots.
            let follows = at > 0 && self.positions[at - 1] + 1 == position;
            let mode = if asked.mode == Mode::ShadowJoined && !follows { Mode::Shadow } else { asked.mode };
            (asked, mode)
        })
    }

    /// A hash that is the same for parts alike.
    pub(super) fn hash(&self, charges: &Charges<'_>, hasher: &impl BuildHasher) -> u64 {
        let mut hasher = hasher.build_hasher();
        for (asked, _) in self.charges(charges) {
            asked.limit.hash(&mut hasher);
            hasher.write_u64(asked.cost);
            hasher.write(asked.key);
        }
        hasher.finish()
    }

    /// Whether a request asks the same.
    pub(super) fn is_alike(&self, charges: &Charges<'_>, request: &SlotRequest) -> bool {
        self.slot == request.slot
            && self.positions.len() == request.charges.len()
            && self.charges(charges).enumerate().all(|(at, (asked, mode))| {
                let known = &request.charges[at];
                *asked.limit == known.target.limit
                    && asked.cost == known.cost
                    && mode == known.mode
                    && *asked.key == *request.keys[at]
            })
    }

    pub(super) fn to_request(&self, charges: &Charges<'_>) -> SlotRequest {
        let mut request = SlotRequest { slot: self.slot, charges: SmallVec::new(), keys: SmallVec::new() };
        for (asked, mode) in self.charges(charges) {
            let key = KeyName::new(&SharedLimit::of(asked.limit).prefix_and_scope, asked.key).bytes;
            let target = Target { key, limit: asked.limit.clone() };
            request.charges.push(SlotCharge { target, cost: asked.cost, mode });
            request.keys.push(asked.key.into());
        }
        request
    }
}

/// What is asked of one slot. Requests alike share it.
#[derive(Debug)]
pub(in crate::store) struct SlotRequest {
    pub(in crate::store) slot: Slot,
    pub(in crate::store) charges: SmallVec<[SlotCharge; 4]>,
    /// The key as it was given, for each charge.
    pub(in crate::store) keys: SmallVec<[Box<[u8]>; 4]>,
}
