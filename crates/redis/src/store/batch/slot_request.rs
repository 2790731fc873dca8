//! The charges of a request that live in one slot.

use std::hash::{BuildHasher, Hasher};

use smallvec::SmallVec;
use tollgate_store::{KeyedCharge, Mode};

use crate::call::{SlotCharge, Target};
use crate::store::key_names::{KeyName, tag};
use crate::store::limit::RedisLimit;
use crate::transport::{Slot, Transport};

pub(in crate::store) type Charges<'a> = [KeyedCharge<'a, RedisLimit>];

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
    pub(in crate::store) fn of<T: Transport>(transport: &T, charges: &Charges<'_>) -> SlotParts {
        let has_one_slot = transport.has_one_slot();
        let slot_of = |asked: &KeyedCharge<'_, RedisLimit>| match has_one_slot {
            true => Slot(0),
            false => transport.slot(&tag(&asked.limit.0.prefix_and_scope, asked.key)),
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
    fn charges<'a>(
        &'a self,
        charges: &'a Charges<'a>,
    ) -> impl ExactSizeIterator<Item = (&'a KeyedCharge<'a, RedisLimit>, Mode)> {
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
            hasher.write_u64(asked.limit.id());
            hasher.write_u64(asked.cost);
            hasher.write(asked.key);
        }
        hasher.finish()
    }

    /// Whether a request asks the same.
    pub(super) fn is_alike(&self, charges: &Charges<'_>, request: &SlotRequest) -> bool {
        let known = request.charges.iter().zip(&request.origins);
        let is_same = |((asked, mode), (charge, origin)): ((&KeyedCharge<'_, RedisLimit>, Mode), _)| {
            let (charge, origin): (&SlotCharge, &Origin) = (charge, origin);
            asked.limit.id() == origin.limit.id()
                && asked.cost == charge.cost
                && mode == charge.mode
                && *asked.key == *origin.key
        };
        self.slot == request.slot
            && self.positions.len() == request.charges.len()
            && self.charges(charges).zip(known).all(is_same)
    }

    pub(super) fn to_request(&self, charges: &Charges<'_>) -> SlotRequest {
        let mut request = SlotRequest { slot: self.slot, charges: SmallVec::new(), origins: SmallVec::new() };
        for (asked, mode) in self.charges(charges) {
            let key = KeyName::new(&asked.limit.0.prefix_and_scope, asked.key).bytes;
            let target = Target { key, terms: asked.limit.0.terms.clone() };
            request.charges.push(SlotCharge { target, cost: asked.cost, mode });
            request.origins.push(Origin { limit: asked.limit.clone(), key: asked.key.into() });
        }
        request
    }
}

/// What is asked of one slot. Requests alike share it.
#[derive(Debug)]
pub(in crate::store) struct SlotRequest {
    pub(in crate::store) slot: Slot,
    pub(in crate::store) charges: SmallVec<[SlotCharge; 4]>,
    /// Under which limit, and the key as it was given, for each charge.
    pub(in crate::store) origins: SmallVec<[Origin; 4]>,
}

#[derive(Clone, Debug)]
pub(in crate::store) struct Origin {
    pub(in crate::store) limit: RedisLimit,
    pub(in crate::store) key: Box<[u8]>,
}
