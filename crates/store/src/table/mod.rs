//! The table of buckets: bounded, without a background sweeper, lock-free on a hit.
//!
//! A hash chooses a *home* line of four slots. A key is in its home line, in one of the next three, or in one of four
//! lines elsewhere. An entry is a fingerprint and the TAT of its bucket, the time when the bucket is full again (see
//! [`BucketEntry`]). After that time the entry has expired: its slot is free, for any key.
//!
//! # Why no race over-admits
//!
//! 1. *A hit is one 16-byte compare-and-swap* of fingerprint and time together: no thread charges a slot that meanwhile
//!    belongs to another key.
//! 2. *Only the holder of a home line's lock creates entries of that home*, and entries never move: a key has at most
//!    one.
//! 3. *A miss reads the clock again, after it has seen that the key is absent.* The thread that removed the key's entry
//!    read an earlier time, at which the entry had already expired. So it has expired at the later time too, and the
//!    key starts unused.
//! 4. *A stale `now` on a hit only over-charges*, because the state is a time (the TAT): the backlog `TAT − now` seems
//!    larger than it is. The one exception is a TAT that seems to lie too far ahead: it would be clamped. So such a
//!    state is decided again, with a time read after the state.
//! 5. *A refusal writes nothing.*

pub(crate) mod cell;
pub(crate) mod full;
mod hit;
#[cfg(all(test, loom))]
mod models;
// Snapshots use memory that loom does not know.
#[cfg(not(loom))]
mod pages;
pub(crate) mod quotas;
#[cfg(not(loom))]
mod slot_hashes;
#[cfg(not(loom))]
mod walk;

use std::sync::Arc;

use tollgate_core::{Bucket, BucketState};

use crate::clock::{Clock, read_after_loads};
use crate::limit::TaggedBucket;
use crate::memory::operation::StateOperation;
use crate::memory::options::WhenFull;
use crate::sync::{AtomicU8, Mutex, Ordering, lock};
use crate::table::cell::{BucketEntry, Cell};
use crate::table::full::TableFull;
use crate::table::quotas::Quotas;
pub(crate) use hit::{HitResult, PendingCharge};

#[cfg(not(loom))]
use crate::table::pages::Pages;
#[cfg(not(loom))]
use slot_hashes::SlotHashes;

const SLOTS: usize = if cfg!(loom) { 1 } else { 4 };
/// The number of lines in which a key can be: its home line and the next ones, which the processor prefetches, then as
/// many elsewhere. (At a load of 0.6, all eight lines are full for one new key in 30,000. With eight consecutive lines
/// it would be one in 8,000, because full lines cluster.)
const LINES_PER_KEY: usize = if cfg!(loom) { 2 } else { 8 };
const LINES_IN_A_ROW: usize = if cfg!(loom) { 2 } else { 4 };
/// The additional bytes for each slot of a table that supports snapshots.
pub(crate) const SNAPSHOT_BYTES_PER_SLOT: usize = size_of::<u64>();
const LOCKS: usize = if cfg!(loom) { 2 } else { 1024 };

/// Slots for each live key of the capacity, as a fraction: a load of 0.6.
const SLOTS_PER_KEY: (usize, usize) = (5, 3);

#[cfg_attr(not(loom), repr(C, align(64)))]
struct SlotLine([Cell; SLOTS]);

pub(crate) struct BucketTable {
    #[cfg(not(loom))]
    lines: Pages<SlotLine>,
    #[cfg(loom)]
    lines: Vec<SlotLine>,
    /// For each home line, the largest probe distance of its keys, in lines. It changes only under the home's lock, and
    /// only grows.
    #[cfg(not(loom))]
    max_probe_distances: Pages<AtomicU8>,
    #[cfg(loom)]
    max_probe_distances: Vec<AtomicU8>,
    locks: Box<[Mutex<()>]>,
    quotas: Arc<Quotas>,
    when_full: WhenFull,
    evictions: std::sync::atomic::AtomicU64,
    /// Only in a table that supports snapshots.
    #[cfg(not(loom))]
    hashes: Option<SlotHashes>,
}

/// The key of a bucket: the hash of a client's key, and the quota under which it is counted. It fits in two registers.
#[derive(Clone, Copy)]
pub(crate) struct BucketKey<'a> {
    pub(crate) hash: u64,
    pub(crate) quota: &'a TaggedBucket,
}

impl BucketKey<'_> {
    #[inline]
    fn fingerprint(self) -> u32 {
        self.hash as u32
    }

    /// Returns fingerprint and quota tag, as [`BucketEntry::owner`] returns them for the entry of this key.
    #[inline(always)]
    fn owner(self) -> u64 {
        BucketEntry::owner_of(self.fingerprint(), self.quota.quota_tag)
    }

    #[inline]
    fn entry(self, state: BucketState) -> BucketEntry {
        BucketEntry::new(self.fingerprint(), self.quota.quota_tag, state)
    }
}

impl BucketTable {
    /// Creates a table for about `keys` live keys.
    pub(crate) fn new(keys: usize, quotas: Arc<Quotas>, when_full: WhenFull) -> BucketTable {
        let slots = keys.saturating_mul(SLOTS_PER_KEY.0).div_ceil(SLOTS_PER_KEY.1);
        let lines = slots.div_ceil(SLOTS).max(1);
        BucketTable {
            lines: BucketTable::empty_lines(lines),
            max_probe_distances: BucketTable::zero_distances(lines),
            locks: (0..LOCKS.min(lines)).map(|_| Mutex::new(())).collect(),
            quotas,
            when_full,
            evictions: std::sync::atomic::AtomicU64::new(0),
            #[cfg(not(loom))]
            hashes: None,
        }
    }

    /// Returns the number of keys whose table takes `bytes`, if each slot takes `extra` additional bytes.
    pub(crate) fn keys_in(bytes: usize, extra: usize) -> usize {
        let lines = bytes.saturating_sub(LOCKS * size_of::<Mutex<()>>()) / (size_of::<SlotLine>() + extra * SLOTS + 1);
        lines * SLOTS * SLOTS_PER_KEY.1 / SLOTS_PER_KEY.0
    }

    #[cfg(not(loom))]
    #[allow(unsafe_code)]
    fn empty_lines(lines: usize) -> Pages<SlotLine> {
        // SAFETY: a cell of zeros is an empty slot.
        unsafe { Pages::zeroed(lines) }
    }

    #[cfg(not(loom))]
    #[allow(unsafe_code)]
    fn zero_distances(lines: usize) -> Pages<AtomicU8> {
        // SAFETY: an atomic of zeros is a zero.
        unsafe { Pages::zeroed(lines) }
    }

    #[cfg(loom)]
    fn empty_lines(lines: usize) -> Vec<SlotLine> {
        (0..lines).map(|_| SlotLine(std::array::from_fn(|_| Cell::new()))).collect()
    }

    #[cfg(loom)]
    fn zero_distances(lines: usize) -> Vec<AtomicU8> {
        (0..lines).map(|_| AtomicU8::new(0)).collect()
    }

    /// Applies an operation to the state of a key, present or not, exactly once.
    pub(crate) fn apply<O: StateOperation>(
        &self,
        key: BucketKey<'_>,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        while let Some(cell) = self.find(key.hash) {
            if let Some(output) = self.apply_to(cell, key, clock, operation) {
                return Ok(output);
            }
        }
        if !O::CREATES {
            // Nothing will be stored, so it does not matter whether another thread creates the key now.
            let now = read_after_loads(clock);
            return Ok(operation.run(&key.quota.bucket, &mut BucketState::default(), now));
        }
        self.apply_absent(key, clock, operation)
    }

    /// Applies an operation to a slot. `None` if another key has taken the slot, or if it changed before the swap.
    fn apply_to<O: StateOperation>(
        &self,
        cell: &Cell,
        key: BucketKey<'_>,
        clock: &impl Clock,
        operation: &O,
    ) -> Option<O::Output> {
        let entry = cell.load();
        if BucketEntry::fingerprint_of(entry.meta) != key.fingerprint() {
            return None;
        }
        let now = read_after_loads(clock);
        let (output, new) = if entry.quota_tag() == key.quota.quota_tag {
            let mut state = entry.state();
            let output = operation.run(&key.quota.bucket, &mut state, now);
            (output, entry.with(state))
        } else {
            self.run_on_other_quota(cell, key, entry, now, operation)?
        };
        (new == entry || cell.swap_if(entry, new)).then_some(output)
    }

    /// Runs an operation on a state that another quota wrote: the writer quota. `now` was read after the entry. `None`
    /// if the slot has changed since.
    #[cold]
    fn run_on_other_quota<O: StateOperation>(
        &self,
        cell: &Cell,
        key: BucketKey<'_>,
        entry: BucketEntry,
        now: u64,
        operation: &O,
    ) -> Option<(O::Output, BucketEntry)> {
        self.with_writer_quota(cell, entry, |writer_quota| {
            let mut state = entry.state();
            // `None`: the operation runs on the state converted to its own quota.
            if let Some(output) = operation.run_under_writer_quota(&key.quota.bucket, writer_quota, &mut state, now) {
                return (output, entry.with(state));
            }
            let mut state = key.quota.bucket.convert(writer_quota, state, now);
            let output = operation.run(&key.quota.bucket, &mut state, now);
            (output, if O::WRITES { key.entry(state) } else { entry })
        })
    }

    /// Calls `run` with the quota that wrote an entry; `None` if the slot has changed since. (A tag may be
    /// given to another quota, but not while a slot contains it.)
    fn with_writer_quota<R>(&self, cell: &Cell, entry: BucketEntry, run: impl FnOnce(&Bucket) -> R) -> Option<R> {
        self.quotas.with(entry.quota_tag(), |quota| (cell.load() == entry).then_some(quota?).map(run))
    }

    #[inline(never)]
    fn apply_absent<O: StateOperation>(
        &self,
        key: BucketKey<'_>,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        let home = self.home(key.hash);
        let _guard = lock(&self.locks[home % self.locks.len()]);
        loop {
            if let Some(cell) = self.find(key.hash) {
                match self.apply_to(cell, key, clock, operation) {
                    Some(output) => return Ok(output),
                    None => continue,
                }
            }
            // No other thread can create this key now, and the time is read after the key was seen absent.
            let now = read_after_loads(clock);
            let mut state = BucketState::default();
            let output = operation.run(&key.quota.bucket, &mut state, now);
            let entry = key.entry(state);
            if entry.is_expired(now) {
                return Ok(output);
            }
            if self.insert(key, entry, now)? {
                return Ok(output);
            }
        }
    }

    /// Returns the used tokens of a live key, under the quota that wrote it.
    pub(crate) fn used(&self, hash: u64, clock: &impl Clock) -> Option<u64> {
        loop {
            let cell = self.find(hash)?;
            let entry = cell.load();
            if let Some(used) = self.used_in_entry(cell, entry, hash, read_after_loads(clock)) {
                return used;
            }
        }
    }

    /// Removes the entry of a key, even if it has expired: a thread that read the clock earlier would still find it
    /// live. Returns the used tokens, if the entry was live.
    pub(crate) fn remove(&self, hash: u64, clock: &impl Clock) -> Option<u64> {
        loop {
            let cell = self.find(hash)?;
            let entry = cell.load();
            if BucketEntry::fingerprint_of(entry.meta) != hash as u32 {
                // Another key has taken the slot since it was found.
                continue;
            }
            let used = self.used_in_entry(cell, entry, hash, read_after_loads(clock));
            if let Some(used) = used
                && cell.swap_if(entry, BucketEntry::default())
            {
                return used;
            }
        }
    }

    /// Returns the used tokens in an entry of a key, if it is live; `None` if the slot has changed since.
    fn used_in_entry(&self, cell: &Cell, entry: BucketEntry, hash: u64, now: u64) -> Option<Option<u64>> {
        if BucketEntry::fingerprint_of(entry.meta) != hash as u32 || entry.is_expired(now) {
            return Some(None);
        }
        self.with_writer_quota(cell, entry, |quota| quota.used_tokens(entry.state(), now)).map(Some)
    }

    /// Unmarks the tags that a live entry contains. `reclaimable` has a mark for each tag; on entry only tags that no
    /// limit uses may be marked. Entries with a marked tag that have expired at `now` are removed from the table.
    pub(crate) fn unmark_live_tags(&self, reclaimable: &mut [bool], now: u64) {
        for cell in self.lines.iter().flat_map(|line| &line.0) {
            loop {
                let entry = cell.load();
                let Some(is_reclaimable) =
                    reclaimable.get_mut(usize::from(entry.quota_tag())).filter(|is_marked| **is_marked)
                else {
                    break;
                };
                if !entry.is_expired(now) {
                    *is_reclaimable = false;
                    break;
                }
                // A thread that finds the entry removed reads a later time than `now`, at which it has expired as well.
                if cell.swap_if(entry, BucketEntry::default()) {
                    break;
                }
            }
        }
    }

    /// Writes a new entry into the nearest free slot. Returns `false` if another thread took that slot first.
    fn insert(&self, key: BucketKey<'_>, new: BucketEntry, now: u64) -> Result<bool, TableFull> {
        // The live entry whose bucket is full again soonest.
        let mut fullest: Option<(usize, &Cell, BucketEntry)> = None;
        for distance in 0..LINES_PER_KEY {
            let line = self.line(key.hash, distance);
            for cell in slots_of(key.hash, line) {
                let old = cell.load();
                if old.is_expired(now) {
                    return Ok(self.claim(key, distance, cell, old, new));
                }
                if fullest.is_none_or(|(_, _, entry)| old.tat < entry.tat) {
                    fullest = Some((distance, cell, old));
                }
            }
        }
        match (self.when_full, fullest) {
            (WhenFull::EvictLeastUsed, Some((distance, cell, old))) => {
                let is_claimed = self.claim(key, distance, cell, old, new);
                if is_claimed {
                    self.evictions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                Ok(is_claimed)
            }
            _ => Err(TableFull),
        }
    }

    /// Replaces the entry of a free or evicted slot by that of a new key. Returns `false` if another thread changed the
    /// slot first.
    fn claim(&self, key: BucketKey<'_>, distance: usize, cell: &Cell, old: BucketEntry, new: BucketEntry) -> bool {
        let home = self.home(key.hash);
        // Stored before the entry is written, so that every search for the key probes far enough. If the swap fails,
        // searches probe further than necessary, which is harmless.
        if usize::from(self.max_probe_distances[home].load(Ordering::Relaxed)) < distance {
            self.max_probe_distances[home].store(distance as u8, Ordering::Release);
        }
        #[cfg(not(loom))]
        if let Some(hashes) = &self.hashes {
            return hashes.store_if(self.slot_of(cell), key.hash, || cell.swap_if(old, new));
        }
        cell.swap_if(old, new)
    }

    fn find(&self, hash: u64) -> Option<&Cell> {
        let max_distance = usize::from(self.max_probe_distances[self.home(hash)].load(Ordering::Acquire));
        (0..=max_distance).find_map(|distance| find_in(self.line(hash, distance), hash))
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        // The upper half of the hash, scaled to the number of lines; the lower half is the fingerprint.
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    /// Returns the line at a distance from home, in the order in which a key is searched and placed.
    fn line(&self, hash: u64, distance: usize) -> &SlotLine {
        let start = if distance < LINES_IN_A_ROW {
            self.home(hash)
        } else {
            // Spread by all bits of the hash, so that keys of one home diverge here.
            const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio
            self.home(hash.wrapping_mul(SPREAD))
        };
        &self.lines[(start + distance % LINES_IN_A_ROW) % self.lines.len()]
    }

    /// Returns whether the table is so large that a line of it is probably not in the cache of a core.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        const LARGE_BYTES: usize = 4 << 20;
        self.lines.len() > LARGE_BYTES / size_of::<SlotLine>()
    }

    /// Prefetches a key's home line into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let line: *const SlotLine = &raw const self.lines[self.home(hash)];
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        // SAFETY: a prefetch reads nothing; the address is that of a line.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    /// Returns the number of evicted live entries.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the number of live keys: exact for a small table, else estimated from a sample of evenly spaced lines.
    pub(crate) fn live_keys(&self, now: u64) -> usize {
        const SAMPLE: usize = 1 << 15;
        let stride = self.lines.len().div_ceil(SAMPLE);
        let sampled = self.lines.iter().step_by(stride);
        let live = sampled.flat_map(|line| &line.0).filter(|cell| !cell.load().is_expired(now)).count();
        live * self.lines.len() / self.lines.len().div_ceil(stride)
    }

    /// Returns the largest number of bytes that the table can take.
    pub(crate) fn bytes(&self) -> usize {
        let plain = self.lines.len() * (size_of::<SlotLine>() + 1) + self.locks.len() * size_of::<Mutex<()>>();
        #[cfg(not(loom))]
        let plain = plain + self.hashes.as_ref().map_or(0, SlotHashes::bytes);
        plain
    }
}

/// Returns the slots of a line in a key's order. A new key takes the first free slot in this order, so that most keys
/// are found in the first one.
#[inline(always)]
fn slots_of(hash: u64, line: &SlotLine) -> impl Iterator<Item = &Cell> {
    let first = hash as usize;
    (0..SLOTS).map(move |step| &line.0[first.wrapping_add(step) % SLOTS])
}

fn find_in(line: &SlotLine, hash: u64) -> Option<&Cell> {
    slots_of(hash, line).find(|cell| BucketEntry::fingerprint_of(cell.meta()) == hash as u32)
}
