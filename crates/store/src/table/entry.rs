use tollgate_core::BucketState;

/// A quota's number in its store.
pub(crate) type Tag = u16;

pub(crate) const TAG_BITS: u32 = 12;
const PART_BITS: u32 = 20;

/// One key's bucket in 16 bytes: `tat` in one word; fingerprint (32 bits), tag
/// (12) and fraction (20) in the other. All zero is an empty slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) tat: u64,
    pub(crate) meta: u64,
}

impl Entry {
    #[inline]
    pub(crate) fn new(fingerprint: u32, tag: Tag, state: BucketState) -> Entry {
        let meta = Entry::owner_of(fingerprint, tag) << PART_BITS | u64::from(state.part);
        Entry { tat: state.tat, meta }
    }

    /// The same owner's entry with another state.
    #[inline(always)]
    pub(crate) fn with(self, state: BucketState) -> Entry {
        Entry { tat: state.tat, meta: self.owner() << PART_BITS | u64::from(state.part) }
    }

    /// Fingerprint and tag.
    #[inline(always)]
    pub(crate) fn owner(self) -> u64 {
        self.meta >> PART_BITS
    }

    #[inline(always)]
    pub(crate) fn owner_of(fingerprint: u32, tag: Tag) -> u64 {
        u64::from(fingerprint) << TAG_BITS | u64::from(tag)
    }

    #[inline]
    pub(crate) fn fingerprint_of(meta: u64) -> u32 {
        (meta >> 32) as u32
    }

    #[inline]
    pub(crate) fn tag(self) -> Tag {
        (self.meta >> PART_BITS) as Tag & ((1 << TAG_BITS) - 1)
    }

    #[inline]
    pub(crate) fn state(self) -> BucketState {
        BucketState { tat: self.tat, part: self.meta as u32 & ((1 << PART_BITS) - 1) }
    }

    /// Whether it equals no entry at all.
    #[inline]
    pub(crate) fn is_full_again(self, now: u64) -> bool {
        self.tat < now || (self.tat == now && self.state().part == 0)
    }
}
