use std::ops::Range;

use smallvec::SmallVec;

use crate::limit::Limit;

/// A cost to be charged to one key under one limit, together with other charges or alone.
///
/// The [`Store`](crate::Store) interface takes the key as bytes. A memory store hashes the key when a charge is
/// [prepared](crate::MemoryStore::charge), so that keys need not be stored as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a, K = &'a [u8]> {
    /// The limit to charge.
    pub limit: &'a Limit,
    /// The key whose counter is charged.
    pub key: K,
    /// The cost to charge.
    pub cost: u64,
    /// The effect of this charge on the other charges of the request.
    pub mode: ChargeMode,
    /// Whether a receipt is wanted.
    pub receipt: bool,
}

/// A key of one limit, hashed by the memory store that made the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub(crate) u64);

/// The effect of a charge on the other charges of the same request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChargeMode {
    /// Charged if all enforced charges pass. If it is refused, all charges are refused.
    #[default]
    Enforce,
    /// Never charged, but refuses all charges if its cost does not fit.
    Guard,
    /// Charged if the others pass and its cost fits. It never refuses the others.
    Shadow,
    /// Like [`Shadow`](ChargeMode::Shadow), and in one group with the shadow charge before it in the list. The two must be
    /// to different counters. A group is charged as a whole or not at all. The limits of one shadow rule are a group.
    ShadowJoined,
    /// Never charged, and never refuses the others: only its decision is reported, such as that of a shadow rule that
    /// must not charge.
    Peek,
}

impl ChargeMode {
    /// Returns whether a charge of this mode can refuse the whole request.
    #[must_use]
    pub const fn can_refuse(self) -> bool {
        matches!(self, ChargeMode::Enforce | ChargeMode::Guard)
    }

    /// Returns whether a charge of this mode is charged if its cost fits, and never refuses the whole request.
    #[must_use]
    pub const fn is_shadow(self) -> bool {
        matches!(self, ChargeMode::Shadow | ChargeMode::ShadowJoined)
    }
}

/// Returns the groups of shadow charges to be made, as ranges of indexes. Each charge is given by its cost and mode.
pub fn shadow_groups(charges: impl Iterator<Item = (u64, ChargeMode)>) -> SmallVec<[Range<usize>; 2]> {
    let mut groups: SmallVec<[Range<usize>; 2]> = SmallVec::new();
    for (index, (_, mode)) in charges.enumerate().filter(|(_, (cost, _))| *cost > 0) {
        match (mode, groups.last_mut()) {
            (ChargeMode::ShadowJoined, Some(group)) if group.end == index => group.end += 1,
            (ChargeMode::Shadow | ChargeMode::ShadowJoined, _) => groups.push(index..index + 1),
            _ => {}
        }
    }
    groups
}

impl<'a> Charge<'a> {
    /// Creates an enforced charge without a receipt.
    #[must_use]
    pub fn new(limit: &'a Limit, key: &'a [u8], cost: u64) -> Charge<'a> {
        Charge { limit, key, cost, mode: ChargeMode::Enforce, receipt: false }
    }
}

impl<K> Charge<'_, K> {
    /// Returns the same charge with another mode.
    #[must_use]
    pub fn with_mode(self, mode: ChargeMode) -> Self {
        Charge { mode, ..self }
    }

    /// Returns whether the charge can refuse the whole request.
    pub(crate) fn can_refuse(&self) -> bool {
        self.mode.can_refuse()
    }

    /// Returns whether the charge has a cost that is charged if the whole request passes, and undone if not.
    pub(crate) fn is_enforced_cost(&self) -> bool {
        self.cost > 0 && self.mode == ChargeMode::Enforce
    }
}
