use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::{Mutex, lock};
use crate::table::pages::Pages;

const LOCKS: usize = 1024;

/// The whole hash of the key in each slot.
///
/// An entry contains half of it, and its position implies a part of the rest: enough to find a key in this table, but
/// not to move it to another. So a table that supports snapshots stores the hash beside its slots. A hash is written
/// only when another key takes a slot, under a lock, because slot and hash are two words: they are changed and
/// read together under that lock. A charge to a known key needs neither.
pub(super) struct SlotHashes {
    hashes: Pages<AtomicU64>,
    locks: Box<[Mutex<()>]>,
}

impl SlotHashes {
    #[allow(unsafe_code)]
    pub(super) fn new(slots: usize) -> SlotHashes {
        // SAFETY: an atomic of zeros is a zero.
        let hashes = unsafe { Pages::zeroed(slots) };
        SlotHashes { hashes, locks: (0..LOCKS.min(slots.max(1))).map(|_| Mutex::new(())).collect() }
    }

    /// Stores the hash of a slot's new key if `claim`, called under the lock, returns true: the key has taken the slot.
    pub(super) fn store_if(&self, slot: usize, hash: u64, claim: impl FnOnce() -> bool) -> bool {
        let _guard = lock(self.lock_of(slot));
        let is_claimed = claim();
        if is_claimed {
            self.hashes[slot].store(hash, Ordering::Relaxed);
        }
        is_claimed
    }

    /// Returns the hash of the key in a slot, and the result of `read`, which runs while the slot cannot change its
    /// key.
    pub(super) fn read_with<R>(&self, slot: usize, read: impl FnOnce() -> R) -> (u64, R) {
        let _guard = lock(self.lock_of(slot));
        (self.hashes[slot].load(Ordering::Relaxed), read())
    }

    pub(super) fn bytes(&self) -> usize {
        self.hashes.len() * size_of::<AtomicU64>() + self.locks.len() * size_of::<Mutex<()>>()
    }

    fn lock_of(&self, slot: usize) -> &Mutex<()> {
        &self.locks[slot % self.locks.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_and_hash_are_changed_and_read_under_one_lock() {
        let hashes = SlotHashes::new(8);
        let is_locked = || hashes.lock_of(3).try_lock().is_err();
        assert!(hashes.store_if(3, 7, is_locked));
        assert_eq!(hashes.read_with(3, is_locked), (7, true));
        assert!(!is_locked());
    }

    #[test]
    fn failed_claim_keeps_the_hash_of_the_slot() {
        let hashes = SlotHashes::new(8);
        assert!(hashes.store_if(3, 7, || true));
        assert!(!hashes.store_if(3, 9, || false));
        assert_eq!(hashes.read_with(3, || ()).0, 7);
    }
}
