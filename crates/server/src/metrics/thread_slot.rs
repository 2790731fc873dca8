use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// So many threads can have a slot of their own at once.
pub(crate) const SLOTS: usize = u64::BITS as usize;

/// What stands for a slot where all are taken: such threads share.
pub(crate) const SHARED: usize = SLOTS;

/// This thread has not asked yet.
const UNKNOWN: usize = usize::MAX;

/// The slots of this process.
static REGISTER: Register = Register::new();

thread_local! {
    /// Apart from the claim, because what has nothing to do at the end is read in one step.
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    static CLAIM: Claim = Claim(REGISTER.take().unwrap_or(SHARED));
}

/// The slot of this thread: no other thread that is alive has the same number,
/// unless it is [`SHARED`]. What its owner wrote is seen by the next one.
#[inline]
pub(crate) fn own_slot() -> usize {
    match slot_if_known() {
        UNKNOWN => claim(),
        slot => slot,
    }
}

/// The same, and a number beyond all slots where the thread has not asked for one yet.
#[inline]
pub(crate) fn slot_if_known() -> usize {
    SLOT.try_with(Cell::get).unwrap_or(UNKNOWN)
}

#[cold]
fn claim() -> usize {
    // Whoever asks while the thread ends comes too late for a slot.
    let slot = CLAIM.try_with(|claim| claim.0).unwrap_or(SHARED);
    let _ = SLOT.try_with(|own| own.set(slot));
    slot
}

/// A thread's hold on its slot. It ends with the thread.
struct Claim(usize);

impl Drop for Claim {
    fn drop(&mut self) {
        // First: others may have the slot as soon as it is given back.
        let _ = SLOT.try_with(|own| own.set(SHARED));
        REGISTER.give_back(self.0);
    }
}

/// Which slots are taken. Its lock also hands over what was written under a
/// slot: who takes it comes after who gave it back.
struct Register(Mutex<u64>);

impl Register {
    const fn new() -> Register {
        Register(Mutex::new(0))
    }

    /// The lowest that is free, so that few are ever used.
    fn take(&self) -> Option<usize> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = taken.trailing_ones();
        *taken |= 1_u64.checked_shl(slot)?;
        Some(slot as usize)
    }

    fn give_back(&self, slot: usize) {
        let bit = u32::try_from(slot).ok().and_then(|slot| 1_u64.checked_shl(slot));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) &= !bit.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_owner_until_it_is_given_back() {
        let register = Register::new();
        assert!((0..SLOTS).all(|slot| register.take() == Some(slot)));
        assert_eq!(register.take(), None);
        register.give_back(SHARED);
        assert_eq!(register.take(), None);
        register.give_back(7);
        register.give_back(40);
        assert_eq!((register.take(), register.take(), register.take()), (Some(7), Some(40), None));
    }

    #[test]
    fn a_thread_keeps_its_slot() {
        let slot = own_slot();
        assert_eq!(own_slot(), slot);
        let other = std::thread::spawn(own_slot).join().unwrap();
        assert!(other != slot || slot == SHARED);
    }
}
