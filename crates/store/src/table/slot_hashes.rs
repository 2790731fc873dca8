use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::{Mutex, lock};
use crate::table::pages::Pages;

const LOCKS: usize = 1024;

/// The whole hash of the key in each slot.
///
/// An entry holds half of it, and where it lies says a part of the rest: enough
/// to find a key again in this table, but not to move it to another. So a table
/// that is to be written down notes it beside its slots. Only whoever gives a
/// slot to another key writes here, under a lock, because slot and note are two
/// words: they are changed and read together by those who hold it. A charge to
/// a known key needs neither.
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

    /// Notes the key of a slot if it could be given to it.
    pub(super) fn note_if(&self, slot: usize, hash: u64, give: impl FnOnce() -> bool) -> bool {
        let _guard = lock(self.lock_of(slot));
        let is_given = give();
        if is_given {
            self.hashes[slot].store(hash, Ordering::Relaxed);
        }
        is_given
    }

    /// Whose slot it is, with what `read` sees while it belongs to nobody else.
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
    fn slot_and_note_are_changed_and_read_under_one_lock() {
        let hashes = SlotHashes::new(8);
        let is_locked = || hashes.lock_of(3).try_lock().is_err();
        assert!(hashes.note_if(3, 7, is_locked));
        assert_eq!(hashes.read_with(3, is_locked), (7, true));
        assert!(!is_locked());
    }

    #[test]
    fn who_does_not_get_the_slot_leaves_the_note() {
        let hashes = SlotHashes::new(8);
        assert!(hashes.note_if(3, 7, || true));
        assert!(!hashes.note_if(3, 9, || false));
        assert_eq!(hashes.read_with(3, || ()).0, 7);
    }
}
