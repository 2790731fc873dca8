use std::ops::Range;

use smallvec::SmallVec;

use crate::limit::Limit;

/// One cost to one key under one limit, to be made together with others or alone.
///
/// The interface of all stores takes the key as bytes. A memory store hashes the key when a charge is
/// [prepared](crate::MemoryStore::charge), so that a key needs no bytes of its own.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a, K = &'a [u8]> {
    /// Under which limit.
    pub limit: &'a Limit,
    /// Whose counter.
    pub key: K,
    /// How much.
    pub cost: u64,
    /// What it is to the others.
    pub mode: Mode,
    /// Whether a receipt is wanted.
    pub receipt: bool,
}

/// A key of one limit, hashed by the memory store that made the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub(crate) u64);

/// What a charge is to the others that are made with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is made if all are, and all are refused if it is.
    #[default]
    Enforce,
    /// There must be room for it, or all are refused; but it is not made.
    Guard,
    /// It is made if the others are and there is room for it; it never refuses the others.
    Shadow,
    /// As [`Shadow`](Mode::Shadow), together with the shadow charge right before it, which is on another key: all of
    /// such a group are made, or none. Several limits of one rule are a group.
    ShadowJoined,
    /// It is neither made nor refuses the others: only what the answer would be.
    Watch,
}

impl Mode {
    /// Whether such a charge can refuse the whole.
    #[must_use]
    pub const fn binds(self) -> bool {
        matches!(self, Mode::Enforce | Mode::Guard)
    }

    /// Whether such a charge is made if there is room for it, and never refuses the whole.
    #[must_use]
    pub const fn is_shadow(self) -> bool {
        matches!(self, Mode::Shadow | Mode::ShadowJoined)
    }
}

/// The positions of the shadow charges that are to be made, by group, of charges given as cost and mode.
pub fn shadow_groups(charges: impl Iterator<Item = (u64, Mode)>) -> SmallVec<[Range<usize>; 2]> {
    let mut groups: SmallVec<[Range<usize>; 2]> = SmallVec::new();
    for (at, (_, mode)) in charges.enumerate().filter(|(_, (cost, _))| *cost > 0) {
        match (mode, groups.last_mut()) {
            (Mode::ShadowJoined, Some(group)) if group.end == at => group.end += 1,
            (Mode::Shadow | Mode::ShadowJoined, _) => groups.push(at..at + 1),
            _ => {}
        }
    }
    groups
}

impl<'a> Charge<'a> {
    /// A charge that is enforced, without a receipt.
    #[must_use]
    pub fn new(limit: &'a Limit, key: &'a [u8], cost: u64) -> Charge<'a> {
        Charge { limit, key, cost, mode: Mode::Enforce, receipt: false }
    }
}

impl<K> Charge<'_, K> {
    /// The same charge with another part among those that are made with it.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Charge { mode, ..self }
    }

    /// Whether it can refuse the whole.
    pub(crate) fn binds(&self) -> bool {
        self.mode.binds()
    }

    /// Whether it is made where the whole passes, and undone where it does not.
    pub(crate) fn is_made(&self) -> bool {
        self.cost > 0 && self.mode == Mode::Enforce
    }
}
