use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::thread_slot::{SLOTS, own_slot, slot_if_known};

/// Counters that many threads add to and somebody sums now and then.
///
/// Every thread has a copy of all counters, to which nobody else adds: so an
/// addition needs no agreement with other processors, which takes longer than
/// all the rest of counting. When a thread ends, the next one goes on with its
/// copy. Threads beyond the last slot share one copy, and do agree.
#[derive(Debug)]
pub(crate) struct ShardedCounters {
    count: usize,
    /// By slot. Made when a thread first counts: most slots never have one.
    own: [OnceLock<Copy>; SLOTS],
    shared: OnceLock<Copy>,
}

type Copy = Box<[AtomicU64]>;

/// The copy that the thread that asked for it adds to, and how.
pub(crate) enum Mine<'a> {
    Own(&'a [AtomicU64], Alone),
    Shared(&'a [AtomicU64], AmongOthers),
}

/// How to add to a copy.
pub(crate) trait Adding: Clone {
    fn add(&self, counter: &AtomicU64, amount: u64);
}

/// Nobody else adds. It cannot be sent to another thread, where that would not be true.
#[derive(Clone)]
pub(crate) struct Alone(PhantomData<*const ()>);

/// Others may be adding.
#[derive(Clone)]
pub(crate) struct AmongOthers;

/// So many counters fill two cache lines, which processors may fetch together. They are left empty behind each copy,
/// so that no two copies share one.
const EMPTY: usize = 16;

impl ShardedCounters {
    /// So many counters, all at zero.
    pub(crate) fn new(count: usize) -> ShardedCounters {
        ShardedCounters { count, own: [const { OnceLock::new() }; SLOTS], shared: OnceLock::new() }
    }

    #[inline]
    pub(crate) fn add(&self, at: usize, amount: u64) {
        match self.own() {
            Some((counters, adding)) => adding.add(&counters[at], amount),
            None => match self.mine() {
                Mine::Own(counters, adding) => adding.add(&counters[at], amount),
                Mine::Shared(counters, adding) => adding.add(&counters[at], amount),
            },
        }
    }

    /// For a thread that has several counters to add to: its own copy, if it has counted before.
    #[inline]
    pub(crate) fn own(&self) -> Option<(&[AtomicU64], Alone)> {
        let copy = self.own.get(slot_if_known())?.get()?;
        Some((copy, Alone(PhantomData)))
    }

    /// The same for all others.
    #[cold]
    pub(crate) fn mine(&self) -> Mine<'_> {
        let new = || (0..self.count + EMPTY).map(|_| AtomicU64::new(0)).collect();
        match self.own.get(own_slot()) {
            Some(own) => Mine::Own(own.get_or_init(new), Alone(PhantomData)),
            None => Mine::Shared(self.shared.get_or_init(new), AmongOthers),
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

/// Nothing else depends on a counter, so its order among other writes does not matter.
impl Adding for Alone {
    #[inline]
    fn add(&self, counter: &AtomicU64, amount: u64) {
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

impl Adding for AmongOthers {
    #[inline]
    fn add(&self, counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread::{JoinHandle, spawn};

    use super::*;
    use crate::metrics::thread_slot::SHARED;

    /// Adds 100 times on a new thread, while all others that wait at the barrier do.
    fn counting(counters: &Arc<ShardedCounters>, barrier: &Arc<Barrier>) -> JoinHandle<usize> {
        let (counters, barrier) = (Arc::clone(counters), Arc::clone(barrier));
        spawn(move || {
            barrier.wait();
            (0..100).for_each(|_| counters.add(19, 2));
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
        counters.add(3, 1);
        assert_eq!(copies(), 1);
        assert_eq!(counters.sums()[3], 1);
    }
}
