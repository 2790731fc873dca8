//! The table of all states other than buckets: windows, counters, logs and leases.
//!
//! Their states do not fit in 16 bytes, so they are protected by about a thousand locks, in plain safe code. The table
//! is bounded like the table of buckets: a key is in one of 64 slots, and a state that has expired is a free slot.

pub(crate) mod caller_states;
mod walk;

use tollgate_core::{Algorithm, LogState};

use crate::clock::Clock;
use crate::memory::operation::StateOperation;
use crate::memory::options::WhenFull;
use crate::sync::{Mutex, lock};
use crate::table::full::TableFull;

const SHARDS: usize = 1024;
/// The number of slots in which a key can be. Their fingerprints fill four cache lines.
const SLOTS_PER_KEY: usize = 64;
/// Slots for each live key, as a fraction: a load of two thirds. A store filled with exactly the keys of its capacity
/// then finds no space for one in 50,000.
const SPARE: (usize, usize) = (3, 2);

/// A state in the table. It may use heap memory.
pub(crate) trait StoredState {
    /// Returns the bytes on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Returns the counted amount, to choose between states that expire together: blocked keys should stay blocked.
    fn counted(&self) -> u64 {
        0
    }

    /// Returns the eviction order of live states; the lowest is evicted first. `free_at` is when the state expires: the
    /// keys that are blocked longest stay blocked.
    fn rank(&self, free_at: u64) -> (u64, u64) {
        (free_at, self.counted())
    }

    /// Whether it may be evicted while it is live. Held permits may not.
    const EVICTABLE: bool = true;

    /// Whether a shard starts small, and doubles when a key finds no free slot in it.
    const GROWS: bool = false;

    /// Whether another quota could count its content although it has expired.
    const COUNTS_AFTER_EXPIRY: bool = false;
}

impl StoredState for tollgate_core::WindowState {
    fn counted(&self) -> u64 {
        self.used
    }
}
impl StoredState for tollgate_core::CounterState {
    fn counted(&self) -> u64 {
        self.previous.saturating_add(self.current)
    }
}
impl StoredState for LogState {
    fn heap_bytes(&self) -> usize {
        LogState::heap_bytes(self)
    }

    /// A log does not know its window: under a longer one its charges would count again.
    const COUNTS_AFTER_EXPIRY: bool = true;
}
impl StoredState for tollgate_core::Leases {
    fn heap_bytes(&self) -> usize {
        tollgate_core::Leases::heap_bytes(self)
    }

    const EVICTABLE: bool = false;
}

pub(crate) struct LockedTable<S> {
    shards: Box<[Mutex<TableShard<S>>]>,
    slots_per_shard: usize,
    heap_bytes_per_shard: usize,
    when_full: WhenFull,
}

/// How an operation accesses a state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateAccess {
    Read,
    /// It takes no more memory afterwards than before, so it needs no space: refunds always succeed.
    Shrink,
    Write,
}

/// Returns how an operation accesses a state.
pub(crate) fn access_of<O: StateOperation>(operation: &O) -> StateAccess {
    match (O::WRITES, operation.may_grow()) {
        (false, _) => StateAccess::Read,
        (true, false) => StateAccess::Shrink,
        (true, true) => StateAccess::Write,
    }
}

struct TableShard<S> {
    /// A fingerprint for each slot, so that searching a key reads two cache lines and not every slot; 0 in a slot never
    /// used. Allocated with the first key.
    fingerprints: Vec<u32>,
    slots: Vec<StateSlot<S>>,
    heap_bytes: usize,
    evictions: u64,
    /// The position where the search for memory to free continues.
    hand: usize,
}

#[derive(Default)]
struct StateSlot<S> {
    hash: u64,
    /// The time when the state expires; 0 in an empty slot.
    free_at: u64,
    state: S,
}

impl<S: Default + StoredState> LockedTable<S> {
    /// Creates a table for about `keys` live keys, whose states use at most `heap_bytes` on the heap.
    pub(crate) fn new(keys: usize, heap_bytes: usize, when_full: WhenFull) -> LockedTable<S> {
        let slots = keys.saturating_mul(SPARE.0).div_ceil(SPARE.1).max(SLOTS_PER_KEY);
        let shards = SHARDS.min(slots / SLOTS_PER_KEY);
        let empty = || TableShard { fingerprints: Vec::new(), slots: Vec::new(), heap_bytes: 0, evictions: 0, hand: 0 };
        LockedTable {
            shards: (0..shards).map(|_| Mutex::new(empty())).collect(),
            slots_per_shard: slots.div_ceil(shards),
            heap_bytes_per_shard: heap_bytes / shards,
            when_full,
        }
    }

    /// Returns the heap bytes at which the state of one key no longer grows.
    pub(crate) fn max_heap_bytes_of_key(&self) -> usize {
        self.heap_bytes_per_shard
    }

    /// Returns the number of keys whose table takes `bytes`.
    pub(crate) fn keys_in(bytes: usize) -> usize {
        bytes / (size_of::<StateSlot<S>>() + size_of::<u32>()) * SPARE.1 / SPARE.0
    }

    /// Applies an operation to the state of a key, present or not.
    ///
    /// The clock is read under the lock: a time read before could be older than the state.
    pub(crate) fn apply<A, O>(
        &self,
        hash: u64,
        algorithm: &A,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull>
    where
        A: Algorithm<State = S>,
        O: StateOperation,
    {
        self.visit(hash, clock, access_of(operation), |state, now| {
            let output = operation.run(algorithm, state, now);
            (output, algorithm.expires_at(state))
        })
    }

    /// Runs `change` on the state of a key, or on that of an unused key. It returns the time when the state expires.
    pub(crate) fn visit<R>(
        &self,
        hash: u64,
        clock: &impl Clock,
        access: StateAccess,
        change: impl FnOnce(&mut S, u64) -> (R, u64),
    ) -> Result<R, TableFull> {
        let mut shard = lock(self.shard_of(hash));
        let now = clock.now_ns();
        let found = shard.find(hash);
        let writes = access != StateAccess::Read;
        if access == StateAccess::Write && shard.heap_bytes >= self.heap_bytes_per_shard {
            self.free_heap(&mut shard, found, now)?;
        }
        let Some(index) = found else {
            let mut state = S::default();
            let (output, free_at) = change(&mut state, now);
            if writes && free_at > now {
                self.insert(&mut shard, StateSlot { hash, free_at, state }, now)?;
            }
            return Ok(output);
        };
        let is_over = S::COUNTS_AFTER_EXPIRY && shard.slots[index].free_at <= now;
        if !writes {
            let state = if is_over { &mut S::default() } else { &mut shard.slots[index].state };
            return Ok(change(state, now).0);
        }
        let before = shard.slots[index].state.heap_bytes();
        let slot = &mut shard.slots[index];
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

    /// Removes a live key, after reading its state.
    pub(crate) fn remove<R>(&self, hash: u64, clock: &impl Clock, read: impl FnOnce(&S, u64) -> R) -> Option<R> {
        let mut shard = lock(self.shard_of(hash));
        let now = clock.now_ns();
        let index = shard.find(hash).filter(|&index| shard.slots[index].free_at > now)?;
        let slot = std::mem::take(&mut shard.slots[index]);
        shard.fingerprints[index] = 0;
        shard.heap_bytes -= slot.state.heap_bytes();
        Some(read(&slot.state, now))
    }

    /// Returns the shard of a hash. The upper half of the hash chooses the shard, the lower half the slot.
    fn shard_of(&self, hash: u64) -> &Mutex<TableShard<S>> {
        &self.shards[(((hash >> 32) * self.shards.len() as u64) >> 32) as usize]
    }

    fn insert(&self, shard: &mut TableShard<S>, new: StateSlot<S>, now: u64) -> Result<(), TableFull> {
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
        let index = match (free, self.when_full) {
            (Some(index), _) => index,
            (None, WhenFull::EvictLeastUsed) if S::EVICTABLE => {
                shard.evictions += 1;
                let rank = |&index: &usize| shard.slots[index].state.rank(shard.slots[index].free_at);
                candidates.min_by_key(rank).unwrap_or(0)
            }
            (None, _) => return Err(TableFull),
        };
        shard.heap_bytes -= shard.slots[index].state.heap_bytes();
        shard.heap_bytes += new.state.heap_bytes();
        shard.fingerprints[index] = fingerprint(new.hash);
        shard.slots[index] = new;
        Ok(())
    }

    /// Frees heap memory until the shard is within its share again: of expired states, and of the state that expires
    /// soonest where evictions are allowed. The state at `keep` is not removed before it expires.
    fn free_heap(&self, shard: &mut TableShard<S>, keep: Option<usize>, now: u64) -> Result<(), TableFull> {
        let evicts = S::EVICTABLE && self.when_full == WhenFull::EvictLeastUsed;
        let len = shard.slots.len();
        if let Some(slot) = keep.map(|index| &mut shard.slots[index]).filter(|slot| slot.free_at <= now) {
            shard.heap_bytes -= slot.state.heap_bytes();
            slot.state = S::default();
        }
        for _ in 0..=len / SLOTS_PER_KEY {
            let reachable = (0..SLOTS_PER_KEY.min(len)).map(|step| (shard.hand + step) % len);
            let holding = reachable.filter(|&index| Some(index) != keep && shard.slots[index].state.heap_bytes() > 0);
            let victim = holding.min_by_key(|&index| shard.slots[index].free_at);
            shard.hand = (shard.hand + SLOTS_PER_KEY) % len.max(1);
            if let Some(index) = victim.filter(|&index| evicts || shard.slots[index].free_at <= now) {
                let slot = std::mem::take(&mut shard.slots[index]);
                shard.fingerprints[index] = 0;
                shard.evictions += u64::from(slot.free_at > now);
                shard.heap_bytes -= slot.state.heap_bytes();
            }
            if shard.heap_bytes < self.heap_bytes_per_shard {
                return Ok(());
            }
        }
        Err(TableFull)
    }

    /// Returns the number of evicted live entries.
    pub(crate) fn evictions(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).evictions).sum()
    }

    /// Returns the number of live keys: exact for a small table, else estimated from a sample of the shards.
    pub(crate) fn live_keys(&self, now: u64) -> usize {
        const SMALL_SLOTS: usize = 1 << 16;
        const SAMPLE: usize = 16;
        let is_small = self.shards.len() * self.slots_per_shard <= SMALL_SLOTS;
        let stride = if is_small { 1 } else { self.shards.len().div_ceil(SAMPLE) };
        let sampled = self.shards.iter().step_by(stride);
        let count = sampled.len();
        let live: usize = sampled.map(|shard| lock(shard).slots.iter().filter(|slot| slot.free_at > now).count()).sum();
        live * self.shards.len() / count
    }

    /// Returns the bytes that the table takes now.
    pub(crate) fn bytes(&self) -> usize {
        let slot_bytes = size_of::<StateSlot<S>>() + size_of::<u32>();
        let shard_bytes = |shard: &TableShard<S>| shard.slots.capacity() * slot_bytes + shard.heap_bytes;
        self.shards.iter().map(|shard| size_of::<Mutex<TableShard<S>>>() + shard_bytes(&lock(shard))).sum()
    }
}

impl<S: Default + StoredState> TableShard<S> {
    /// Replaces all slots by `slots` empty ones.
    fn resize(&mut self, slots: usize) {
        self.slots = Vec::with_capacity(slots);
        self.slots.resize_with(slots, StateSlot::default);
        self.fingerprints = vec![0; slots];
    }

    /// Grows to at least twice as many slots, up to `max_slots`, and moves every live state to its new slot.
    ///
    /// Keys from a snapshot arrive in the order of their hashes, and are denser in one place than anywhere else: then
    /// twice as many slots may not be enough.
    fn grow(&mut self, max_slots: usize, now: u64) {
        let mut slots = self.slots.len();
        let mut without = Vec::new();
        loop {
            slots = slots.saturating_mul(2).min(max_slots);
            let known = std::mem::take(&mut self.slots).into_iter().chain(without);
            let live: Vec<StateSlot<S>> = known.filter(|slot| slot.free_at > now).collect();
            self.resize(slots);
            self.heap_bytes = 0;
            without = live.into_iter().filter_map(|slot| self.place(slot, now)).collect();
            if without.is_empty() || slots == max_slots {
                self.evictions += without.len() as u64;
                return;
            }
        }
    }

    /// Stores a state in a free slot of its key, or returns it if there is none.
    fn place(&mut self, slot: StateSlot<S>, now: u64) -> Option<StateSlot<S>> {
        let Some(index) = self.find_free(slot.hash, now) else { return Some(slot) };
        self.heap_bytes += slot.state.heap_bytes();
        self.fingerprints[index] = fingerprint(slot.hash);
        self.slots[index] = slot;
        None
    }

    fn find_free(&self, hash: u64, now: u64) -> Option<usize> {
        self.candidates(hash).find(|&index| self.slots[index].free_at <= now)
    }
}

impl<S> TableShard<S> {
    /// Finds the slot of a key. It may have expired: then the state counts for nothing, but the key must not get a
    /// second slot, in case the clock goes back.
    fn find(&self, hash: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        // Most keys are in the first of their slots, which needs no read of the fingerprints.
        let first = self.first(hash);
        if self.slots[first].hash == hash && self.slots[first].free_at > 0 {
            return Some(first);
        }
        let fingerprint = fingerprint(hash);
        self.candidates(hash).find(|&index| self.fingerprints[index] == fingerprint && self.slots[index].hash == hash)
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

/// Returns bits of the hash that neither the shard nor the slot depends on alone; never 0.
fn fingerprint(hash: u64) -> u32 {
    (hash >> 16) as u32 | 1
}
