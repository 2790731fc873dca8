//! Counters that many threads increment and that are summed on read.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// How many threads can have their own slot at once.
const SLOTS: usize = u128::BITS as usize;

/// The slot of threads beyond the last: they share.
const SHARED: usize = SLOTS;

/// No slot was assigned yet.
const UNKNOWN: usize = usize::MAX;

/// Two cache lines of counters, which processors may fetch together. They are left unused after each copy, so that no two
/// copies share a line.
const PADDING: usize = 16;

/// Counters with a copy for every thread, so that an addition needs no synchronization between processors, which would
/// cost more than the rest of counting. When a thread ends, the next one continues with its copy. Threads beyond the
/// last slot share one copy under a lock.
#[derive(Debug)]
pub(crate) struct ShardedCounters {
    count: usize,
    /// By slot. Allocated when a thread first counts: most slots are never used.
    own: [OnceLock<ThreadCounters>; SLOTS],
    shared: OnceLock<ThreadCounters>,
    sharing: Mutex<()>,
}

type ThreadCounters = Box<[AtomicU64]>;

/// The copy of the current thread. It is not `Send`: another thread would be a second writer.
pub(crate) struct OwnCounters<'a> {
    counters: &'a [AtomicU64],
    _guard: Option<MutexGuard<'a, ()>>,
}

impl ShardedCounters {
    /// Creates `count` counters, all zero.
    pub(crate) fn new(count: usize) -> ShardedCounters {
        let own = [const { OnceLock::new() }; SLOTS];
        ShardedCounters { count, own, shared: OnceLock::new(), sharing: Mutex::new(()) }
    }

    /// Returns the copy of this thread.
    #[inline(always)]
    pub(crate) fn own(&self) -> OwnCounters<'_> {
        match self.own.get(SLOT.get()).and_then(OnceLock::get) {
            Some(counters) => OwnCounters { counters, _guard: None },
            None => self.first_or_shared(),
        }
    }

    #[cold]
    #[inline(never)]
    fn first_or_shared(&self) -> OwnCounters<'_> {
        let new = || (0..self.count + PADDING).map(|_| AtomicU64::new(0)).collect();
        match self.own.get(own_slot()) {
            Some(own) => OwnCounters { counters: own.get_or_init(new), _guard: None },
            None => {
                let guard = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
                OwnCounters { counters: self.shared.get_or_init(new), _guard: Some(guard) }
            }
        }
    }

    /// Returns the sum of every counter over all threads.
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

/// Adds to a counter of the thread's own copy. Relaxed: nothing depends on its order.
#[inline(always)]
pub(crate) fn add(own: &[AtomicU64], at: usize, amount: u64) {
    if let Some(counter) = own.get(at) {
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

thread_local! {
    /// Separate from the claim, because a thread-local without a destructor is read in one step.
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    static CLAIM: SlotClaim = SlotClaim(TAKEN.take().unwrap_or(SHARED));
}

/// Returns the slot of this thread: no other live thread has the same, unless it is beyond the last one. Writes of the
/// previous owner are visible.
#[inline]
pub(crate) fn own_slot() -> usize {
    match SLOT.get() {
        UNKNOWN => claim(),
        slot => slot,
    }
}

#[cold]
fn claim() -> usize {
    // A thread that is ending gets no slot.
    let slot = CLAIM.try_with(|claim| claim.0).unwrap_or(SHARED);
    SLOT.set(slot);
    slot
}

/// A thread's claim on its slot. It ends with the thread.
struct SlotClaim(usize);

impl Drop for SlotClaim {
    fn drop(&mut self) {
        // First: another thread may take the slot as soon as it is released.
        SLOT.set(SHARED);
        TAKEN.release(self.0);
    }
}

/// The slots of this process.
static TAKEN: TakenSlots = TakenSlots(Mutex::new(0));

/// The taken slots. The lock also orders the writes of successive owners of a slot.
struct TakenSlots(Mutex<u128>);

impl TakenSlots {
    /// Takes the lowest free slot, so that few are used.
    fn take(&self) -> Option<usize> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = taken.trailing_ones();
        *taken |= 1_u128.checked_shl(slot)?;
        Some(slot as usize)
    }

    fn release(&self, slot: usize) {
        let bit = u32::try_from(slot).ok().and_then(|slot| 1_u128.checked_shl(slot));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) &= !bit.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread::{JoinHandle, spawn};

    use super::*;

    /// Adds 100 times on a new thread, concurrently with the other threads at the barrier.
    fn counting(counters: &Arc<ShardedCounters>, barrier: &Arc<Barrier>) -> JoinHandle<usize> {
        let (counters, barrier) = (Arc::clone(counters), Arc::clone(barrier));
        spawn(move || {
            barrier.wait();
            (0..100).for_each(|_| add(&counters.own(), 19, 2));
            // No thread releases its slot before all have one.
            barrier.wait();
            own_slot()
        })
    }

    #[test]
    fn no_count_is_lost_with_more_threads_than_slots_or_ended_threads() {
        const THREADS: usize = SLOTS + 8;
        let counters = Arc::new(ShardedCounters::new(20));
        for round in 1..=5 {
            let barrier = Arc::new(Barrier::new(THREADS));
            let threads: Vec<_> = (0..THREADS).map(|_| counting(&counters, &barrier)).collect();
            let slots: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(slots.iter().filter(|slot| **slot == SHARED).count() >= 8);
            let all = 200 * THREADS as u64 * round;
            let sums = counters.sums();
            assert_eq!((sums[19], sums[18], sums[0]), (all, 0, 0));
        }
        // One after the other: each finds a slot, because the one before released its own.
        let single = Arc::new(Barrier::new(1));
        let slots: Vec<usize> = (0..2 * SLOTS).map(|_| counting(&counters, &single).join().unwrap()).collect();
        assert!(slots.iter().all(|slot| *slot < SLOTS), "{slots:?}");
        assert_eq!(counters.sums()[19], 200 * (5 * THREADS + 2 * SLOTS) as u64);
    }

    #[test]
    fn memory_is_allocated_only_for_threads_that_count() {
        let counters = ShardedCounters::new(20);
        assert_eq!(counters.sums()[3], 0);
        let copies = || counters.own.iter().chain([&counters.shared]).filter(|copy| copy.get().is_some()).count();
        assert_eq!(copies(), 0);
        add(&counters.own(), 3, 1);
        assert_eq!(copies(), 1);
        assert_eq!(counters.sums()[3], 1);
    }

    #[test]
    fn slot_has_one_owner_until_it_is_released() {
        let slots = TakenSlots(Mutex::new(0));
        assert!((0..SLOTS).all(|slot| slots.take() == Some(slot)));
        assert_eq!(slots.take(), None);
        slots.release(SHARED);
        assert_eq!(slots.take(), None);
        slots.release(7);
        slots.release(40);
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(7), Some(40), None));
    }

    #[test]
    fn thread_keeps_its_slot() {
        let slot = own_slot();
        assert_eq!(own_slot(), slot);
        let other = spawn(own_slot).join().unwrap();
        assert!(other != slot || slot == SHARED);
    }
}
