//! Counters that many threads add to and that are summed now and then.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// So many threads can have a slot of their own at once.
const SLOTS: usize = u128::BITS as usize;

/// What stands for a slot where all are taken: such threads share.
const SHARED: usize = SLOTS;

/// This thread has not asked yet.
const UNKNOWN: usize = usize::MAX;

/// So many counters fill two cache lines, which processors may fetch together. They are left empty behind each copy,
/// so that no two copies share one.
const EMPTY: usize = 16;

/// Some counters, of which every thread has a copy to which no other thread adds: so an addition needs no agreement with
/// other processors, which takes longer than all the rest of counting. When a thread ends, the next one goes on with
/// its copy. Threads beyond the last slot share one copy, and take turns.
#[derive(Debug)]
pub(crate) struct ShardedCounters {
    count: usize,
    /// By slot. Made when a thread first counts: most slots never have one.
    own: [OnceLock<Copy>; SLOTS],
    shared: OnceLock<Copy>,
    sharing: Mutex<()>,
}

type Copy = Box<[AtomicU64]>;

/// The copy of the thread that asked for it. It cannot be sent to another thread, which would be a second one to add.
pub(crate) struct OwnCounters<'a> {
    counters: &'a [AtomicU64],
    _turn: Option<MutexGuard<'a, ()>>,
}

impl ShardedCounters {
    /// So many counters, all at zero.
    pub(crate) fn new(count: usize) -> ShardedCounters {
        let own = [const { OnceLock::new() }; SLOTS];
        ShardedCounters { count, own, shared: OnceLock::new(), sharing: Mutex::new(()) }
    }

    /// The copy of this thread, to add to and let go of at once.
    #[inline(always)]
    pub(crate) fn own(&self) -> OwnCounters<'_> {
        match self.own.get(SLOT.get()).and_then(OnceLock::get) {
            Some(counters) => OwnCounters { counters, _turn: None },
            None => self.first_or_shared(),
        }
    }

    #[cold]
    #[inline(never)]
    fn first_or_shared(&self) -> OwnCounters<'_> {
        let new = || (0..self.count + EMPTY).map(|_| AtomicU64::new(0)).collect();
        match self.own.get(own_slot()) {
            Some(own) => OwnCounters { counters: own.get_or_init(new), _turn: None },
            None => {
                let turn = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
                OwnCounters { counters: self.shared.get_or_init(new), _turn: Some(turn) }
            }
        }
    }

    /// Every counter, with what all threads have added to it.
    pub(crate) fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0_u64; self.count];
        for copy in self.own.iter().chain([&self.shared]).filter_map(OnceLock::get) {
            for (sum, counter) in sums.iter_mut().zip(copy) {
                *sum = sum.wrapping_add(counter.load(Relaxed));
            }
        }
        sums
    }
}

impl Deref for OwnCounters<'_> {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        self.counters
    }
}

/// Adds to the counter at a position of a thread's own copy. Nothing else depends on it, so its order among other writes
/// does not matter.
#[inline(always)]
pub(crate) fn add(own: &[AtomicU64], at: usize, amount: u64) {
    if let Some(counter) = own.get(at) {
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

thread_local! {
    /// Apart from the claim, because what has nothing to do at the end is read in one step.
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    static CLAIM: Claim = Claim(TAKEN.take().unwrap_or(SHARED));
}

/// The slot of this thread: no other thread that is alive has the same number,
/// unless it is beyond the last one. What its owner wrote is seen by the next one.
#[inline]
pub(crate) fn own_slot() -> usize {
    match SLOT.get() {
        UNKNOWN => claim(),
        slot => slot,
    }
}

#[cold]
fn claim() -> usize {
    // While the thread ends there is no slot for it any more.
    let slot = CLAIM.try_with(|claim| claim.0).unwrap_or(SHARED);
    SLOT.set(slot);
    slot
}

/// A thread's hold on its slot. It ends with the thread.
struct Claim(usize);

impl Drop for Claim {
    fn drop(&mut self) {
        // First: others may have the slot as soon as it is given back.
        SLOT.set(SHARED);
        TAKEN.give_back(self.0);
    }
}

/// The slots of this process.
static TAKEN: TakenSlots = TakenSlots(Mutex::new(0));

/// Which slots are taken. Its lock also hands over what was written under a
/// slot: who takes it comes after who gave it back.
struct TakenSlots(Mutex<u128>);

impl TakenSlots {
    /// The lowest that is free, so that few are ever used.
    fn take(&self) -> Option<usize> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = taken.trailing_ones();
        *taken |= 1_u128.checked_shl(slot)?;
        Some(slot as usize)
    }

    fn give_back(&self, slot: usize) {
        let bit = u32::try_from(slot).ok().and_then(|slot| 1_u128.checked_shl(slot));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) &= !bit.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread::{JoinHandle, spawn};

    use super::*;

    /// Adds 100 times on a new thread, while all others that wait at the barrier do.
    fn counting(counters: &Arc<ShardedCounters>, barrier: &Arc<Barrier>) -> JoinHandle<usize> {
        let (counters, barrier) = (Arc::clone(counters), Arc::clone(barrier));
        spawn(move || {
            barrier.wait();
            (0..100).for_each(|_| add(&counters.own(), 19, 2));
            // Nobody gives its slot back before all have one.
            barrier.wait();
            own_slot()
        })
    }

    #[test]
    fn nothing_is_lost_when_there_are_more_threads_than_slots_and_threads_end() {
        const AT_ONCE: usize = SLOTS + 8;
        let counters = Arc::new(ShardedCounters::new(20));
        for round in 1..=5 {
            let barrier = Arc::new(Barrier::new(AT_ONCE));
            let threads: Vec<_> = (0..AT_ONCE).map(|_| counting(&counters, &barrier)).collect();
            let slots: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(slots.iter().filter(|slot| **slot == SHARED).count() >= 8);
            let all = 200 * AT_ONCE as u64 * round;
            let sums = counters.sums();
            assert_eq!((sums[19], sums[18], sums[0]), (all, 0, 0));
        }
        // One after the other: all of them find a slot, because each gives its own back.
        let alone = Arc::new(Barrier::new(1));
        let slots: Vec<usize> = (0..2 * SLOTS).map(|_| counting(&counters, &alone).join().unwrap()).collect();
        assert!(slots.iter().all(|slot| *slot < SLOTS), "{slots:?}");
        assert_eq!(counters.sums()[19], 200 * (5 * AT_ONCE + 2 * SLOTS) as u64);
    }

    #[test]
    fn only_threads_that_count_take_memory() {
        let counters = ShardedCounters::new(20);
        assert_eq!(counters.sums()[3], 0);
        let copies = || counters.own.iter().chain([&counters.shared]).filter(|copy| copy.get().is_some()).count();
        assert_eq!(copies(), 0);
        add(&counters.own(), 3, 1);
        assert_eq!(copies(), 1);
        assert_eq!(counters.sums()[3], 1);
    }

    #[test]
    fn a_slot_has_one_owner_until_it_is_given_back() {
        let slots = TakenSlots(Mutex::new(0));
        assert!((0..SLOTS).all(|slot| slots.take() == Some(slot)));
        assert_eq!(slots.take(), None);
        slots.give_back(SHARED);
        assert_eq!(slots.take(), None);
        slots.give_back(7);
        slots.give_back(40);
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(7), Some(40), None));
    }

    #[test]
    fn a_thread_keeps_its_slot() {
        let slot = own_slot();
        assert_eq!(own_slot(), slot);
        let other = spawn(own_slot).join().unwrap();
        assert!(other != slot || slot == SHARED);
    }
}
