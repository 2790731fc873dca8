//! Sixteen bytes that change together.
//!
//! A slot of the table must not change its key and its time one after the
//! other: a thread that read the one would charge the other. On x86-64 this is
//! `cmpxchg16b`, which every processor since 2006 has; elsewhere
//! `portable-atomic` picks the best there is. Under loom a mutex stands in, so
//! that the protocol above it is what gets checked.

use crate::table::entry::Entry;

pub(crate) use implementation::Cell;

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod implementation {
    #![allow(unsafe_code)]

    use super::Entry;
    use std::arch::asm;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A slot. All zero bytes are a valid, empty one.
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

        /// Both words as they stood together.
        ///
        /// The meta word is read before and after the time. It names the key, so
        /// a slot that was given to another key in between is noticed. (If it
        /// went to another key *and back* between the loads, the pair may mix
        /// two times: a compare-and-swap on it fails, a refusal by it is one
        /// that might have passed.)
        #[inline]
        pub(crate) fn load(&self) -> Entry {
            loop {
                let meta = self.meta.load(Ordering::Acquire);
                let tat = self.tat.load(Ordering::Acquire);
                if self.meta.load(Ordering::Acquire) == meta {
                    return Entry { tat, meta };
                }
            }
        }

        #[inline]
        pub(crate) fn swap_if(&self, old: Entry, new: Entry) -> bool {
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
    use super::Entry;
    use portable_atomic::{AtomicU128, Ordering};

    /// A slot. All zero bytes are a valid, empty one.
    #[repr(transparent)]
    pub(crate) struct Cell(AtomicU128);

    fn join(entry: Entry) -> u128 {
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
        pub(crate) fn load(&self) -> Entry {
            let word = self.0.load(Ordering::Acquire);
            Entry { tat: word as u64, meta: (word >> 64) as u64 }
        }

        #[inline]
        pub(crate) fn swap_if(&self, old: Entry, new: Entry) -> bool {
            self.0.compare_exchange(join(old), join(new), Ordering::AcqRel, Ordering::Acquire).is_ok()
        }
    }
}

#[cfg(loom)]
mod implementation {
    use super::Entry;
    use crate::sync::{Mutex, lock};

    pub(crate) struct Cell(Mutex<Entry>);

    impl Cell {
        pub(crate) fn new() -> Cell {
            Cell(Mutex::new(Entry::default()))
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

        pub(crate) fn load(&self) -> Entry {
            *lock(&self.0)
        }

        pub(crate) fn swap_if(&self, old: Entry, new: Entry) -> bool {
            let mut entry = lock(&self.0);
            let equal = *entry == old;
            if equal {
                *entry = new;
            }
            equal
        }
    }
}
