//! The table of buckets: bounded, without a sweeper, without a lock on a hit.
//!
//! A hash chooses a *home* line of four slots. A key lives in its home line, in
//! one of the next three, or in one of four lines elsewhere. An entry is a fingerprint and the time when its
//! bucket is full again (see [`Entry`]), so an entry whose time has passed is a
//! free slot, whoever's it was.
//!
//! # Why no race over-admits
//!
//! 1. *A hit is one 16-byte compare-and-swap* of fingerprint and time together:
//!    nobody charges a slot that meanwhile belongs to another key.
//! 2. *Only the holder of a home line's lock creates entries of that home*, and
//!    entries never move: a key has at most one.
//! 3. *A miss reads the clock again, after it has seen that the key is absent.*
//!    Whoever forgot the key did so at an earlier time, when it was full; at
//!    the later one it is full as well.
//! 4. *An old `now` on a hit only over-charges*, because a state is a time. The
//!    one exception, a state that seems to lie too far ahead, is judged again
//!    by a time read after the state.
//! 5. *A refusal writes nothing.*

pub(crate) mod cell;
mod common;
pub(crate) mod full;
#[cfg(all(test, loom))]
mod models;
// What is written down stands in memory that loom does not see.
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
use crate::limit::BucketRule;
use crate::memory::operation::Operation;
use crate::memory::options::WhenFull;
use crate::sync::{AtomicU8, Mutex, Ordering, lock};
use crate::table::cell::{Cell, Entry};
use crate::table::full::Full;
use crate::table::quotas::Quotas;
pub(crate) use common::{Found, Look};

#[cfg(not(loom))]
use crate::table::pages::Pages;
#[cfg(not(loom))]
use slot_hashes::SlotHashes;

const SLOTS: usize = if cfg!(loom) { 1 } else { 4 };
/// Lines in which a key can live: its home line and the next ones, which the
/// processor fetches along, then as many in a place of their own. (Eight in a
/// row would be full for one new key in 8,000 at 6 live slots in 10, because
/// full lines stand together; these are for one in 30,000.)
const LINES_PER_KEY: usize = if cfg!(loom) { 2 } else { 8 };
const LINES_IN_A_ROW: usize = if cfg!(loom) { 2 } else { 4 };
/// What a table that can be walked takes more for each slot.
pub(crate) const WALKING_BYTES: usize = size_of::<u64>();
const LOCKS: usize = if cfg!(loom) { 2 } else { 1024 };

/// Slots for each live key that the table is meant to hold, as a fraction: a load of 0.6.
const SLOTS_PER_KEY: (usize, usize) = (5, 3);

#[cfg_attr(not(loom), repr(C, align(64)))]
struct Line([Cell; SLOTS]);

pub(crate) struct Table {
    #[cfg(not(loom))]
    lines: Pages<Line>,
    #[cfg(loom)]
    lines: Vec<Line>,
    /// For each home line, how many lines further its keys have gone at most.
    /// Changes only under the home's lock, and only grows.
    #[cfg(not(loom))]
    reach: Pages<AtomicU8>,
    #[cfg(loom)]
    reach: Vec<AtomicU8>,
    locks: Box<[Mutex<()>]>,
    quotas: Arc<Quotas>,
    when_full: WhenFull,
    evictions: std::sync::atomic::AtomicU64,
    /// Only in a table that is to be written down.
    #[cfg(not(loom))]
    hashes: Option<SlotHashes>,
}

/// One key of the table under one of its quotas. Small enough for two registers.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) hash: u64,
    pub(crate) rule: &'a BucketRule,
}

impl Place<'_> {
    #[inline]
    fn fingerprint(self) -> u32 {
        self.hash as u32
    }

    /// Key and quota, as an entry of theirs shows them.
    #[inline(always)]
    fn owner(self) -> u64 {
        Entry::owner_of(self.fingerprint(), self.rule.tag)
    }

    #[inline]
    fn entry(self, state: BucketState) -> Entry {
        Entry::new(self.fingerprint(), self.rule.tag, state)
    }
}

impl Table {
    /// A table for about `keys` live keys.
    pub(crate) fn new(keys: usize, quotas: Arc<Quotas>, when_full: WhenFull) -> Table {
        let slots = keys.saturating_mul(SLOTS_PER_KEY.0).div_ceil(SLOTS_PER_KEY.1);
        let lines = slots.div_ceil(SLOTS).max(1);
        Table {
            lines: Table::empty_lines(lines),
            reach: Table::no_reach(lines),
            locks: (0..LOCKS.min(lines)).map(|_| Mutex::new(())).collect(),
            quotas,
            when_full,
            evictions: std::sync::atomic::AtomicU64::new(0),
            #[cfg(not(loom))]
            hashes: None,
        }
    }

    /// The number of keys whose table takes `bytes`, if each slot takes `more` beside itself.
    pub(crate) fn keys_in(bytes: usize, more: usize) -> usize {
        let lines = bytes.saturating_sub(LOCKS * size_of::<Mutex<()>>()) / (size_of::<Line>() + more * SLOTS + 1);
        lines * SLOTS * SLOTS_PER_KEY.1 / SLOTS_PER_KEY.0
    }

    #[cfg(not(loom))]
    #[allow(unsafe_code)]
    fn empty_lines(lines: usize) -> Pages<Line> {
        // SAFETY: a cell of zeros is an empty slot.
        unsafe { Pages::zeroed(lines) }
    }

    #[cfg(not(loom))]
    #[allow(unsafe_code)]
    fn no_reach(lines: usize) -> Pages<AtomicU8> {
        // SAFETY: an atomic of zeros is a zero.
        unsafe { Pages::zeroed(lines) }
    }

    #[cfg(loom)]
    fn empty_lines(lines: usize) -> Vec<Line> {
        (0..lines).map(|_| Line(std::array::from_fn(|_| Cell::new()))).collect()
    }

    #[cfg(loom)]
    fn no_reach(lines: usize) -> Vec<AtomicU8> {
        (0..lines).map(|_| AtomicU8::new(0)).collect()
    }

    /// Any operation on a key's state, present or not, exactly once.
    pub(crate) fn apply<O: Operation>(
        &self,
        place: Place<'_>,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        while let Some(cell) = self.find(place.hash) {
            if let Some(output) = self.apply_to(cell, place, clock, operation) {
                return Ok(output);
            }
        }
        if !O::CREATES {
            // Nothing will be stored, so it does not matter who else creates the key now.
            let now = read_after_loads(clock);
            return Ok(operation.run(&place.rule.bucket, &mut BucketState::default(), now));
        }
        self.apply_absent(place, clock, operation)
    }

    /// `None` if the slot was given to another key, or changed before this was done.
    fn apply_to<O: Operation>(
        &self,
        cell: &Cell,
        place: Place<'_>,
        clock: &impl Clock,
        operation: &O,
    ) -> Option<O::Output> {
        let entry = cell.load();
        if Entry::fingerprint_of(entry.meta) != place.fingerprint() {
            return None;
        }
        let now = read_after_loads(clock);
        let (output, new) = if entry.tag() == place.rule.tag {
            let mut state = entry.state();
            let output = operation.run(&place.rule.bucket, &mut state, now);
            (output, entry.with(state))
        } else {
            self.run_on_foreign(cell, place, entry, now, operation)?
        };
        (new == entry || cell.swap_if(entry, new)).then_some(output)
    }

    /// Runs an operation on a state that another quota wrote. `now` was read
    /// after the entry. `None` if the slot has changed since.
    #[cold]
    fn run_on_foreign<O: Operation>(
        &self,
        cell: &Cell,
        place: Place<'_>,
        entry: Entry,
        now: u64,
        operation: &O,
    ) -> Option<(O::Output, Entry)> {
        self.with_writer(cell, entry, |writer| {
            let mut state = entry.state();
            if let Some(output) = operation.run_as_writer(&place.rule.bucket, writer, &mut state, now) {
                return (output, entry.with(state));
            }
            let mut state = place.rule.bucket.adopt(writer, state, now);
            let output = operation.run(&place.rule.bucket, &mut state, now);
            (output, if O::WRITES { place.entry(state) } else { entry })
        })
    }

    /// Shows the quota that wrote an entry; `None` if the slot has changed
    /// since. As long as the slot carries the tag, the tag is that quota's.
    fn with_writer<R>(&self, cell: &Cell, entry: Entry, look: impl FnOnce(&Bucket) -> R) -> Option<R> {
        self.quotas.with(entry.tag(), |writer| (cell.load() == entry).then_some(writer?).map(look))
    }

    #[inline(never)]
    fn apply_absent<O: Operation>(
        &self,
        place: Place<'_>,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        let home = self.home(place.hash);
        let _guard = lock(&self.locks[home % self.locks.len()]);
        loop {
            if let Some(cell) = self.find(place.hash) {
                match self.apply_to(cell, place, clock, operation) {
                    Some(output) => return Ok(output),
                    None => continue,
                }
            }
            // Nobody else can create this key now, and the time is read after it was seen absent.
            let now = read_after_loads(clock);
            let mut state = BucketState::default();
            let output = operation.run(&place.rule.bucket, &mut state, now);
            let entry = place.entry(state);
            if entry.is_full_again(now) {
                return Ok(output);
            }
            if self.settle_down(place, entry, now)? {
                return Ok(output);
            }
        }
    }

    /// How many tokens a live key has used, whichever quota wrote it.
    pub(crate) fn used(&self, hash: u64, clock: &impl Clock) -> Option<u64> {
        loop {
            let cell = self.find(hash)?;
            let entry = cell.load();
            if let Some(used) = self.used_of(cell, entry, hash, read_after_loads(clock)) {
                return used;
            }
        }
    }

    /// Takes a key out of the table, live or not: a slot that still bears its
    /// fingerprint would answer for it. Returns how many tokens it had used, if it was live.
    pub(crate) fn forget(&self, hash: u64, clock: &impl Clock) -> Option<u64> {
        loop {
            let cell = self.find(hash)?;
            let entry = cell.load();
            let used = self.used_of(cell, entry, hash, read_after_loads(clock));
            if let Some(used) = used
                && cell.swap_if(entry, Entry::default())
            {
                return used;
            }
        }
    }

    /// What an entry says of a key, if it is live; `None` if the slot has changed since.
    fn used_of(&self, cell: &Cell, entry: Entry, hash: u64, now: u64) -> Option<Option<u64>> {
        if Entry::fingerprint_of(entry.meta) != hash as u32 || entry.is_full_again(now) {
            return Some(None);
        }
        self.with_writer(cell, entry, |writer| writer.used_tokens(entry.state(), now)).map(Some)
    }

    /// Leaves those of the tags that no entry carries. None of them may be in
    /// use. Entries of theirs that are full again at `now` are removed.
    pub(crate) fn leave_unused(&self, tags: &mut [bool], now: u64) {
        for cell in self.lines.iter().flat_map(|line| &line.0) {
            loop {
                let entry = cell.load();
                let Some(is_unused) = tags.get_mut(usize::from(entry.tag())).filter(|is_unused| **is_unused) else {
                    break;
                };
                if !entry.is_full_again(now) {
                    *is_unused = false;
                    break;
                }
                // A thread that finds it gone reads a later time than `now`, at which it is full as well.
                if cell.swap_if(entry, Entry::default()) {
                    break;
                }
            }
        }
    }

    /// Puts a new entry into the nearest free slot. `false` if somebody else took that slot first.
    fn settle_down(&self, place: Place<'_>, new: Entry, now: u64) -> Result<bool, Full> {
        let mut fullest: Option<(usize, &Cell, Entry)> = None;
        for distance in 0..LINES_PER_KEY {
            let line = self.line(place.hash, distance);
            for cell in slots_of(place.hash, line) {
                let old = cell.load();
                if old.is_full_again(now) {
                    return Ok(self.claim(place, distance, cell, old, new));
                }
                if fullest.is_none_or(|(_, _, entry)| old.tat < entry.tat) {
                    fullest = Some((distance, cell, old));
                }
            }
        }
        match (self.when_full, fullest) {
            (WhenFull::EvictFullest, Some((distance, cell, old))) => {
                let is_ours = self.claim(place, distance, cell, old, new);
                if is_ours {
                    self.evictions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                Ok(is_ours)
            }
            _ => Err(Full),
        }
    }

    fn claim(&self, place: Place<'_>, distance: usize, cell: &Cell, old: Entry, new: Entry) -> bool {
        let home = self.home(place.hash);
        // Known before it is there: whoever looks for the key must look far enough.
        // Looking further for nothing is harmless.
        if usize::from(self.reach[home].load(Ordering::Relaxed)) < distance {
            self.reach[home].store(distance as u8, Ordering::Release);
        }
        #[cfg(not(loom))]
        if let Some(hashes) = &self.hashes {
            return hashes.note_if(self.slot_of(cell), place.hash, || cell.swap_if(old, new));
        }
        cell.swap_if(old, new)
    }

    fn find(&self, hash: u64) -> Option<&Cell> {
        let reach = usize::from(self.reach[self.home(hash)].load(Ordering::Acquire));
        (0..=reach).find_map(|distance| find_in(self.line(hash, distance), hash))
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        // The upper half of the hash, scaled to the number of lines; the lower half is the fingerprint.
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    /// The line at a distance from home, in the order in which a key looks for room.
    fn line(&self, hash: u64, distance: usize) -> &Line {
        let start = if distance < LINES_IN_A_ROW {
            self.home(hash)
        } else {
            // Spread by all bits of the hash, so that keys of one home part here.
            const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio
            self.home(hash.wrapping_mul(SPREAD))
        };
        &self.lines[(start + distance % LINES_IN_A_ROW) % self.lines.len()]
    }

    /// Whether it is so large that a line of it is probably not in the cache of a core.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        const LARGE_BYTES: usize = 4 << 20;
        self.lines.len() > LARGE_BYTES / size_of::<Line>()
    }

    /// Starts fetching a key's home line into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let line: *const Line = &raw const self.lines[self.home(hash)];
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        // SAFETY: a prefetch reads nothing; the address is that of a line.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    /// How many live entries had to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// About how many keys are live: exact for a small table, else from evenly spread lines.
    pub(crate) fn live_keys(&self, now: u64) -> usize {
        const SAMPLE: usize = 1 << 15;
        let stride = self.lines.len().div_ceil(SAMPLE);
        let sampled = self.lines.iter().step_by(stride);
        let live = sampled.flat_map(|line| &line.0).filter(|cell| !cell.load().is_full_again(now)).count();
        live * self.lines.len() / self.lines.len().div_ceil(stride)
    }

    /// Bytes that the table may come to take.
    pub(crate) fn bytes(&self) -> usize {
        let plain = self.lines.len() * (size_of::<Line>() + 1) + self.locks.len() * size_of::<Mutex<()>>();
        #[cfg(not(loom))]
        let plain = plain + self.hashes.as_ref().map_or(0, SlotHashes::bytes);
        plain
    }
}

/// The slots of a line in a key's order. A new key takes the first free one in
/// it, so that most are found at the first look.
#[inline(always)]
fn slots_of(hash: u64, line: &Line) -> impl Iterator<Item = &Cell> {
    let first = hash as usize;
    (0..SLOTS).map(move |step| &line.0[first.wrapping_add(step) % SLOTS])
}

fn find_in(line: &Line, hash: u64) -> Option<&Cell> {
    slots_of(hash, line).find(|cell| Entry::fingerprint_of(cell.meta()) == hash as u32)
}
