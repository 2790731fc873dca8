//! A slot of 16 bytes that changes atomically.
//!
//! A slot must not change its key and its time separately: a thread that read the one would charge the other. On x86-64
//! this is `cmpxchg16b`, which every processor since 2006 has; elsewhere `portable-atomic` chooses the best
//! implementation. Under loom a mutex replaces it, so that loom checks the protocol above it.

use tollgate_core::BucketState;

pub(crate) use implementation::Cell;

/// The number of a bucket quota in its store, which every entry contains. (It is unrelated to the hash tags of Redis
/// keys.)
pub(crate) type QuotaTag = u16;

pub(crate) const TAG_BITS: u32 = 12;
const PART_BITS: u32 = 20;

/// The bucket of one key in 16 bytes: `tat` in one word; fingerprint (32 bits), quota tag (12) and fraction of a tick
/// (20) in the other. All zeros are an empty slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketEntry {
    pub(crate) tat: u64,
    pub(crate) meta: u64,
}

impl BucketEntry {
    #[inline]
    pub(crate) fn new(fingerprint: u32, tag: QuotaTag, state: BucketState) -> BucketEntry {
        let meta = BucketEntry::owner_of(fingerprint, tag) << PART_BITS | u64::from(state.part);
        BucketEntry { tat: state.tat, meta }
    }

    /// Returns an entry of the same owner with another state.
    #[inline(always)]
    pub(crate) fn with(self, state: BucketState) -> BucketEntry {
        BucketEntry { tat: state.tat, meta: self.owner() << PART_BITS | u64::from(state.part) }
    }

    /// Returns the owner of the entry: the fingerprint of its key and the tag of its quota, packed.
    #[inline(always)]
    pub(crate) fn owner(self) -> u64 {
        self.meta >> PART_BITS
    }

    #[inline(always)]
    pub(crate) fn owner_of(fingerprint: u32, tag: QuotaTag) -> u64 {
        u64::from(fingerprint) << TAG_BITS | u64::from(tag)
    }

    #[inline]
    pub(crate) fn fingerprint_of(meta: u64) -> u32 {
        (meta >> 32) as u32
    }

    #[inline]
    pub(crate) fn quota_tag(self) -> QuotaTag {
        (self.meta >> PART_BITS) as QuotaTag & ((1 << TAG_BITS) - 1)
    }

    #[inline]
    pub(crate) fn state(self) -> BucketState {
        BucketState { tat: self.tat, part: self.meta as u32 & ((1 << PART_BITS) - 1) }
    }

    /// Returns whether the TAT has passed. The bucket is then full again, with nothing used, so the slot is free.
    #[inline]
    pub(crate) fn is_expired(self, now: u64) -> bool {
        self.tat < now || (self.tat == now && self.state().part == 0)
    }
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod implementation {
    #![allow(unsafe_code)]

    use super::BucketEntry;
    use std::arch::asm;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A slot. All zero bytes are a valid, empty slot.
    #[repr(C, align(16))]
    pub(crate) struct Cell {
        tat: AtomicU64,
        meta: AtomicU64,
    }

    impl Cell {
        pub(crate) fn is_supported() -> bool {
            std::arch::is_x86_feature_detected!("cmpxchg16b")
        }

        #[inline]
        pub(crate) fn meta(&self) -> u64 {
            self.meta.load(Ordering::Acquire)
        }

        #[inline]
        pub(crate) fn tat(&self) -> u64 {
            self.tat.load(Ordering::Acquire)
        }

        /// Loads both words consistently.
        ///
        /// The meta word is read before and after the time. It identifies the key, so a slot that was given to another
        /// key in between is noticed. (If it was given to another key *and back* between the loads, the pair may mix
        /// two times: a compare-and-swap on it fails, and a refusal based on it is one that might have passed.)
        #[inline]
        pub(crate) fn load(&self) -> BucketEntry {
            loop {
                let meta = self.meta.load(Ordering::Acquire);
                let tat = self.tat.load(Ordering::Acquire);
                if self.meta.load(Ordering::Acquire) == meta {
                    return BucketEntry { tat, meta };
                }
            }
        }

        #[inline]
        pub(crate) fn swap_if(&self, old: BucketEntry, new: BucketEntry) -> bool {
            let swapped: u8;
            // SAFETY: `self` is 16 bytes, aligned to 16, and lives as long as the
            // borrow; the table is only built where the instruction exists. rbx is
            // the compiler's own, so the low word of the new value is swapped into it
            // and back. The other operands are in registers named here: one that the
            // compiler chooses may be rbx. The locked instruction is a full barrier.
            unsafe {
                asm!(
                    "xchg rsi, rbx",
                    "lock cmpxchg16b [rdi]",
                    "sete r8b",
                    "mov rbx, rsi",
                    in("rdi") std::ptr::from_ref(self),
                    inout("rsi") new.tat => _,
                    out("r8b") swapped,
                    in("rcx") new.meta,
                    inout("rax") old.tat => _,
                    inout("rdx") old.meta => _,
                    options(nostack),
                );
            }
            swapped != 0
        }
    }
}

#[cfg(all(not(target_arch = "x86_64"), not(loom)))]
mod implementation {
    use super::BucketEntry;
    use portable_atomic::{AtomicU128, Ordering};

    /// A slot. All zero bytes are a valid, empty slot.
    #[repr(transparent)]
    pub(crate) struct Cell(AtomicU128);

    fn join(entry: BucketEntry) -> u128 {
        u128::from(entry.meta) << 64 | u128::from(entry.tat)
    }

    impl Cell {
        pub(crate) fn is_supported() -> bool {
            true
        }

        #[inline]
        pub(crate) fn meta(&self) -> u64 {
            self.load().meta
        }

        #[inline]
        pub(crate) fn tat(&self) -> u64 {
            self.load().tat
        }

        #[inline]
        pub(crate) fn load(&self) -> BucketEntry {
            let word = self.0.load(Ordering::Acquire);
            BucketEntry { tat: word as u64, meta: (word >> 64) as u64 }
        }

        #[inline]
        pub(crate) fn swap_if(&self, old: BucketEntry, new: BucketEntry) -> bool {
            self.0.compare_exchange(join(old), join(new), Ordering::AcqRel, Ordering::Acquire).is_ok()
        }
    }
}

#[cfg(loom)]
mod implementation {
    use super::BucketEntry;
    use crate::sync::{Mutex, lock};

    pub(crate) struct Cell(Mutex<BucketEntry>);

    impl Cell {
        pub(crate) fn new() -> Cell {
            Cell(Mutex::new(BucketEntry::default()))
        }

        pub(crate) fn is_supported() -> bool {
            true
        }

        pub(crate) fn meta(&self) -> u64 {
            self.load().meta
        }

        pub(crate) fn tat(&self) -> u64 {
            self.load().tat
        }

        pub(crate) fn load(&self) -> BucketEntry {
            *lock(&self.0)
        }

        pub(crate) fn swap_if(&self, old: BucketEntry, new: BucketEntry) -> bool {
            let mut entry = lock(&self.0);
            let equal = *entry == old;
            if equal {
                *entry = new;
            }
            equal
        }
    }
}
