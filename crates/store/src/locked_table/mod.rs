//! The table of everything that is no bucket: windows, counters, logs, leases.
//!
//! Their states do not fit 16 bytes, so they live behind locks, a thousand of
//! them, in plain safe code. Bounded like the table of buckets: a key lives in
//! one of 64 slots, and a state that equals none at all is a free slot.

pub(crate) mod caller_states;
mod walk;

use tollgate_core::{Algorithm, Log};

use crate::clock::Clock;
use crate::memory::operation::Operation;
use crate::memory::options::WhenFull;
use crate::sync::{Mutex, lock};
use crate::table::full::Full;

const SHARDS: usize = 1024;
/// Slots in which a key can live. Their marks fill four cache lines.
const SLOTS_PER_KEY: usize = 64;
/// Slots for each live key: a load of two thirds. A store filled with exactly
/// the keys it is built for then finds no room for one in 50,000.
const SPARE: (usize, usize) = (3, 2);

/// A state that may hold memory of its own.
pub(crate) trait Held {
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// What it counts, to choose between states that end together: who is
    /// blocked should stay so.
    fn counted(&self) -> u64 {
        0
    }

    /// The order in which live states make room, the least first. `free_at` is when it is as if untouched: who is
    /// blocked longest stays blocked.
    fn rank(&self, free_at: u64) -> (u64, u64) {
        (free_at, self.counted())
    }

    /// Whether it may be forgotten while it is live. Permits that are out may not.
    const EVICTABLE: bool = true;

    /// Whether a part of the table begins small, and doubles when a key finds no free slot in it.
    const GROWS: bool = false;

    /// Whether another quota could count what it holds although its time has passed.
    const OUTLIVES_ITS_TIME: bool = false;
}

impl Held for tollgate_core::WindowState {
    fn counted(&self) -> u64 {
        self.used
    }
}
impl Held for tollgate_core::CounterState {
    fn counted(&self) -> u64 {
        self.previous.saturating_add(self.current)
    }
}
impl Held for Log {
    fn heap_bytes(&self) -> usize {
        Log::heap_bytes(self)
    }

    /// A log does not know its window: under a longer one its charges would count again.
    const OUTLIVES_ITS_TIME: bool = true;
}
impl Held for tollgate_core::Leases {
    fn heap_bytes(&self) -> usize {
        tollgate_core::Leases::heap_bytes(self)
    }

    const EVICTABLE: bool = false;
}

pub(crate) struct LockedTable<S> {
    shards: Box<[Mutex<Shard<S>>]>,
    slots_per_shard: usize,
    heap_bytes_per_shard: usize,
    when_full: WhenFull,
}

/// What is done to a state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Look,
    /// It takes no more memory after than before, so it needs no room: what gives back always succeeds.
    Shrink,
    Change,
}

/// What an operation does to a state.
pub(crate) fn access_of<O: Operation>(operation: &O) -> Access {
    match (O::WRITES, operation.may_grow()) {
        (false, _) => Access::Look,
        (true, false) => Access::Shrink,
        (true, true) => Access::Change,
    }
}

struct Shard<S> {
    /// A mark for each slot, so that looking for a key touches two cache lines
    /// and not every slot; 0 in one never used. Allocated with the first key.
    marks: Vec<u32>,
    slots: Vec<Slot<S>>,
    heap_bytes: usize,
    evictions: u64,
    /// Where the search for memory to free goes on.
    hand: usize,
}

#[derive(Default)]
struct Slot<S> {
    hash: u64,
    /// From when on the state equals none at all; 0 in an empty slot.
    free_at: u64,
    state: S,
}

impl<S: Default + Held> LockedTable<S> {
    /// A table for about `keys` live keys, whose states hold at most `heap_bytes` beside it.
    pub(crate) fn new(keys: usize, heap_bytes: usize, when_full: WhenFull) -> LockedTable<S> {
        let slots = keys.saturating_mul(SPARE.0).div_ceil(SPARE.1).max(SLOTS_PER_KEY);
        let shards = SHARDS.min(slots / SLOTS_PER_KEY);
        let empty = || Shard { marks: Vec::new(), slots: Vec::new(), heap_bytes: 0, evictions: 0, hand: 0 };
        LockedTable {
            shards: (0..shards).map(|_| Mutex::new(empty())).collect(),
            slots_per_shard: slots.div_ceil(shards),
            heap_bytes_per_shard: heap_bytes / shards,
            when_full,
        }
    }

    /// From so many bytes on, the state of one key takes no more.
    pub(crate) fn heap_bytes_of_one(&self) -> usize {
        self.heap_bytes_per_shard
    }

    /// The number of keys whose table takes `bytes`.
    pub(crate) fn keys_in(bytes: usize) -> usize {
        bytes / (size_of::<Slot<S>>() + size_of::<u32>()) * SPARE.1 / SPARE.0
    }

    /// Any operation on a key's state, present or not.
    ///
    /// The clock is read under the lock: a time from before could be older than the state.
    pub(crate) fn apply<A, O>(
        &self,
        hash: u64,
        algorithm: &A,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full>
    where
        A: Algorithm<State = S>,
        O: Operation,
    {
        self.visit(hash, clock, access_of(operation), |state, now| {
            let output = operation.run(algorithm, state, now);
            (output, algorithm.untouched_at(state))
        })
    }

    /// Runs `change` on the state of a key, or on that of a key never seen. It returns from when on the state may be
    /// forgotten.
    pub(crate) fn visit<R>(
        &self,
        hash: u64,
        clock: &impl Clock,
        access: Access,
        change: impl FnOnce(&mut S, u64) -> (R, u64),
    ) -> Result<R, Full> {
        let mut shard = lock(self.shard_of(hash));
        let now = clock.now_ns();
        let found = shard.find(hash);
        let writes = access != Access::Look;
        if access == Access::Change && shard.heap_bytes >= self.heap_bytes_per_shard {
            self.make_room(&mut shard, found, now)?;
        }
        let Some(at) = found else {
            let mut state = S::default();
            let (output, free_at) = change(&mut state, now);
            if writes && free_at > now {
                self.settle_down(&mut shard, Slot { hash, free_at, state }, now)?;
            }
            return Ok(output);
        };
        let is_over = S::OUTLIVES_ITS_TIME && shard.slots[at].free_at <= now;
        if !writes {
            let state = if is_over { &mut S::default() } else { &mut shard.slots[at].state };
            return Ok(change(state, now).0);
        }
        let before = shard.slots[at].state.heap_bytes();
        let slot = &mut shard.slots[at];
        if is_over {
            slot.state = S::default();
        }
        let (output, free_at) = change(&mut slot.state, now);
        slot.free_at = free_at;
        let after = slot.state.heap_bytes();
        shard.heap_bytes = shard.heap_bytes - before + after;
        Ok(output)
    }

    /// Reads the state of a live key.
    pub(crate) fn read<R>(&self, hash: u64, clock: &impl Clock, read: impl FnOnce(&S, u64) -> R) -> Option<R> {
        let shard = lock(self.shard_of(hash));
        let now = clock.now_ns();
        let slot = &shard.slots[shard.find(hash)?];
        (slot.free_at > now).then(|| read(&slot.state, now))
    }

    /// Forgets a live key, once its state was read.
    pub(crate) fn forget<R>(&self, hash: u64, clock: &impl Clock, read: impl FnOnce(&S, u64) -> R) -> Option<R> {
        let mut shard = lock(self.shard_of(hash));
        let now = clock.now_ns();
        let at = shard.find(hash).filter(|&at| shard.slots[at].free_at > now)?;
        let slot = std::mem::take(&mut shard.slots[at]);
        shard.marks[at] = 0;
        shard.heap_bytes -= slot.state.heap_bytes();
        Some(read(&slot.state, now))
    }

    /// Both halves of the hash choose: the upper the shard, the lower the slot.
    fn shard_of(&self, hash: u64) -> &Mutex<Shard<S>> {
        &self.shards[(((hash >> 32) * self.shards.len() as u64) >> 32) as usize]
    }

    fn settle_down(&self, shard: &mut Shard<S>, new: Slot<S>, now: u64) -> Result<(), Full> {
        if shard.slots.is_empty() {
            let slots = if S::GROWS { SLOTS_PER_KEY.min(self.slots_per_shard) } else { self.slots_per_shard };
            shard.resize(slots);
        }
        let mut free = shard.find_free(new.hash, now);
        while S::GROWS && free.is_none() && shard.slots.len() < self.slots_per_shard {
            shard.grow(self.slots_per_shard, now);
            free = shard.find_free(new.hash, now);
        }
        let candidates = shard.candidates(new.hash);
        let at = match (free, self.when_full) {
            (Some(at), _) => at,
            (None, WhenFull::EvictFullest) if S::EVICTABLE => {
                shard.evictions += 1;
                let rank = |&at: &usize| shard.slots[at].state.rank(shard.slots[at].free_at);
                candidates.min_by_key(rank).unwrap_or(0)
            }
            (None, _) => return Err(Full),
        };
        shard.heap_bytes -= shard.slots[at].state.heap_bytes();
        shard.heap_bytes += new.state.heap_bytes();
        shard.marks[at] = mark(new.hash);
        shard.slots[at] = new;
        Ok(())
    }

    /// Frees memory that states hold until the shard is within its share again:
    /// of those whose time has passed, and of the one that would be forgotten
    /// soonest where that is allowed. That in `keep` is not forgotten before its time.
    fn make_room(&self, shard: &mut Shard<S>, keep: Option<usize>, now: u64) -> Result<(), Full> {
        let evicts = S::EVICTABLE && self.when_full == WhenFull::EvictFullest;
        let len = shard.slots.len();
        if let Some(slot) = keep.map(|at| &mut shard.slots[at]).filter(|slot| slot.free_at <= now) {
            shard.heap_bytes -= slot.state.heap_bytes();
            slot.state = S::default();
        }
        for _ in 0..=len / SLOTS_PER_KEY {
            let reachable = (0..SLOTS_PER_KEY.min(len)).map(|step| (shard.hand + step) % len);
            let holding = reachable.filter(|&at| Some(at) != keep && shard.slots[at].state.heap_bytes() > 0);
            let victim = holding.min_by_key(|&at| shard.slots[at].free_at);
            shard.hand = (shard.hand + SLOTS_PER_KEY) % len.max(1);
            if let Some(at) = victim.filter(|&at| evicts || shard.slots[at].free_at <= now) {
                let slot = std::mem::take(&mut shard.slots[at]);
                shard.marks[at] = 0;
                shard.evictions += u64::from(slot.free_at > now);
                shard.heap_bytes -= slot.state.heap_bytes();
            }
            if shard.heap_bytes < self.heap_bytes_per_shard {
                return Ok(());
            }
        }
        Err(Full)
    }

    /// How many live entries had to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).evictions).sum()
    }

    /// About how many keys are live: from some of the shards.
    pub(crate) fn live_keys(&self, now: u64) -> usize {
        const SAMPLE: usize = 16;
        let sampled = self.shards.iter().step_by(self.shards.len().div_ceil(SAMPLE));
        let count = sampled.len();
        let live: usize = sampled.map(|shard| lock(shard).slots.iter().filter(|slot| slot.free_at > now).count()).sum();
        live * self.shards.len() / count
    }

    /// Bytes taken now.
    pub(crate) fn bytes(&self) -> usize {
        let slot_bytes = size_of::<Slot<S>>() + size_of::<u32>();
        let shard_bytes = |shard: &Shard<S>| shard.slots.capacity() * slot_bytes + shard.heap_bytes;
        self.shards.iter().map(|shard| size_of::<Mutex<Shard<S>>>() + shard_bytes(&lock(shard))).sum()
    }
}

impl<S: Default + Held> Shard<S> {
    /// Makes so many empty slots.
    fn resize(&mut self, slots: usize) {
        self.slots = Vec::with_capacity(slots);
        self.slots.resize_with(slots, Slot::default);
        self.marks = vec![0; slots];
    }

    /// Makes at least twice as many slots, `most` at most, and puts every live state into the one that it has there.
    ///
    /// Keys that come from a snapshot come in the order of their hashes, and stand closer together in one place than
    /// anywhere else: then twice as many may not be enough.
    fn grow(&mut self, most: usize, now: u64) {
        let mut slots = self.slots.len();
        let mut without = Vec::new();
        loop {
            slots = slots.saturating_mul(2).min(most);
            let known = std::mem::take(&mut self.slots).into_iter().chain(without);
            let live: Vec<Slot<S>> = known.filter(|slot| slot.free_at > now).collect();
            self.resize(slots);
            self.heap_bytes = 0;
            without = live.into_iter().filter_map(|slot| self.place(slot, now)).collect();
            if without.is_empty() || slots == most {
                self.evictions += without.len() as u64;
                return;
            }
        }
    }

    /// Puts a state into a free slot of its key, or gives it back.
    fn place(&mut self, slot: Slot<S>, now: u64) -> Option<Slot<S>> {
        let Some(at) = self.find_free(slot.hash, now) else { return Some(slot) };
        self.heap_bytes += slot.state.heap_bytes();
        self.marks[at] = mark(slot.hash);
        self.slots[at] = slot;
        None
    }

    fn find_free(&self, hash: u64, now: u64) -> Option<usize> {
        self.candidates(hash).find(|&at| self.slots[at].free_at <= now)
    }
}

impl<S> Shard<S> {
    /// The slot of a key. Its time may have passed: then the state counts for
    /// nothing, but it must not get a second slot, lest the clock go back.
    fn find(&self, hash: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        // Most keys live in the first of their slots: seen there without a look at the marks.
        let first = self.first(hash);
        if self.slots[first].hash == hash && self.slots[first].free_at > 0 {
            return Some(first);
        }
        let mark = mark(hash);
        self.candidates(hash).find(|&at| self.marks[at] == mark && self.slots[at].hash == hash)
    }

    fn candidates(&self, hash: u64) -> impl Iterator<Item = usize> + Clone + use<S> {
        let (len, first) = (self.slots.len(), self.first(hash));
        // Both are below `len`, so no division is needed to stay within it.
        (0..SLOTS_PER_KEY.min(len)).map(move |step| if first + step < len { first + step } else { first + step - len })
    }

    fn first(&self, hash: u64) -> usize {
        ((u64::from(hash as u32) * self.slots.len() as u64) >> 32) as usize
    }
}

/// Bits of the hash that neither the shard nor the slot depends on alone; never 0.
fn mark(hash: u64) -> u32 {
    (hash >> 16) as u32 | 1
}
