//! The keys of divided limits in this process: each with its state, and the time until which it was refilled.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tollgate_core::{Bucket, BucketState, RegionShare};
use tollgate_store::WhenFull;

use crate::call::{RefillSchedule, RefillSpan};

/// The number of parts with a lock each.
const SHARDS: usize = 64;

/// The number of entries of which one is replaced when a shard is full.
const CANDIDATES: usize = 8;

/// The name of a key.
pub(super) type KeyName = Arc<[u8]>;

/// The state of a key, brought up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefilledKey {
    pub(super) state: BucketState,
    /// The bucket that wrote the state: the whole rate of the limit, with the region's share of the burst.
    pub(super) bucket: Arc<Bucket>,
    /// When it was refilled last, in nanoseconds.
    refilled_ns: u64,
    /// What was refilled beyond the last whole nanosecond, in thousandths.
    thousandths: u64,
}

impl RefilledKey {
    /// Returns the state of a key that was never charged.
    pub(super) fn unused(bucket: &Arc<Bucket>, now_ns: u64) -> RefilledKey {
        RefilledKey { state: BucketState::default(), bucket: Arc::clone(bucket), refilled_ns: now_ns, thousandths: 0 }
    }

    /// Makes the state one that another bucket reads.
    pub(super) fn convert_to(&mut self, bucket: &Arc<Bucket>, now_ns: u64) {
        if !Arc::ptr_eq(&self.bucket, bucket) {
            self.state = bucket.convert(&self.bucket, self.state, now_ns);
            self.bucket = Arc::clone(bucket);
        }
    }

    /// Refills the key by a schedule, whose times begin at `base_ns`. Time that no span covers refills nothing.
    fn refill(&mut self, schedule: &RefillSchedule, base_ns: u64, now_ns: u64) {
        let of_span = |span: &RefillSpan| self.thousandths_of(span, base_ns, now_ns);
        let thousandths = schedule.spans.iter().map(of_span).fold(self.thousandths, u64::saturating_add);
        let used_ns = self.state.tat.saturating_sub(self.refilled_ns);
        let refilled_ns = thousandths / u64::from(RegionShare::WHOLE);
        let is_full = refilled_ns > used_ns || (refilled_ns == used_ns && self.state.part == 0);
        if is_full {
            self.state.part = 0;
        }
        self.state.tat = now_ns + used_ns.saturating_sub(refilled_ns);
        // A full bucket keeps nothing for later.
        self.thousandths = if is_full { 0 } else { thousandths % u64::from(RegionShare::WHOLE) };
        self.refilled_ns = now_ns;
    }

    /// Returns what a span refills between the last time and now.
    fn thousandths_of(&self, span: &RefillSpan, base_ns: u64, now_ns: u64) -> u64 {
        let time_ns = |us: i64| base_ns.saturating_add_signed(us.saturating_mul(1_000));
        let (from_ns, until_ns) = (time_ns(span.from_us).max(self.refilled_ns), time_ns(span.until_us).min(now_ns));
        until_ns.saturating_sub(from_ns).saturating_mul(u64::from(span.rate))
    }

    /// Returns when the key is as unused at the latest, if it is refilled at this rate at least.
    fn unused_at_ns(&self, least: u32) -> u64 {
        let used_ns = Bucket::full_at(self.state).saturating_sub(self.refilled_ns);
        let slowed_ns = u128::from(used_ns) * u128::from(RegionShare::WHOLE) / u128::from(least.max(1));
        self.refilled_ns.saturating_add(u64::try_from(slowed_ns).unwrap_or(u64::MAX))
    }
}

#[derive(Debug)]
struct Entry {
    name: KeyName,
    key: RefilledKey,
    unused_at_ns: u64,
}

/// One part of the table.
#[derive(Debug, Default)]
pub(super) struct KeyShard {
    places: HashMap<KeyName, u32, RandomState>,
    entries: Vec<Entry>,
    /// The entry at which the search for one to replace begins.
    hand: usize,
}

/// Why a key has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoEntry;

#[derive(Debug)]
pub(super) struct KeyTable {
    shards: Box<[Mutex<KeyShard>]>,
    hasher: RandomState,
    /// The most entries of a shard.
    shard_capacity: usize,
    when_full: WhenFull,
    evictions: AtomicU64,
    refusals: AtomicU64,
}

impl KeyTable {
    pub(super) fn new(capacity: usize, when_full: WhenFull) -> KeyTable {
        KeyTable {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            shard_capacity: capacity.div_ceil(SHARDS).max(1),
            when_full,
            evictions: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// Locks the shards of some keys.
    pub(super) fn lock<'n>(&self, names: impl Iterator<Item = &'n KeyName>) -> LockedKeys<'_> {
        let mut indexes: SmallVec<[usize; 4]> = names.map(|name| self.shard_of(name)).collect();
        // In this order by all threads, so that none waits for another for ever.
        indexes.sort_unstable();
        indexes.dedup();
        let shards = indexes.into_iter().map(|index| (index, lock(&self.shards[index]))).collect();
        LockedKeys { table: self, shards }
    }

    fn shard_of(&self, name: &KeyName) -> usize {
        self.hasher.hash_one(name) as usize % SHARDS
    }

    /// Returns the number of entries, of those that were evicted while their keys were in use, and of writes that found
    /// no entry.
    pub(super) fn counts(&self) -> (usize, u64, u64) {
        let entries = self.shards.iter().map(|shard| lock(shard).entries.len()).sum();
        (entries, self.evictions.load(Ordering::Relaxed), self.refusals.load(Ordering::Relaxed))
    }

    /// Removes a key.
    pub(super) fn remove(&self, name: &KeyName) {
        let mut shard = lock(&self.shards[self.shard_of(name)]);
        let Some(place) = shard.places.remove(name) else { return };
        shard.entries.swap_remove(place as usize);
        if let Some(moved) = shard.entries.get(place as usize).map(|entry| Arc::clone(&entry.name)) {
            shard.places.insert(moved, place);
        }
    }
}

/// Some keys, which no other thread reads or writes meanwhile.
pub(super) struct LockedKeys<'t> {
    table: &'t KeyTable,
    shards: SmallVec<[(usize, MutexGuard<'t, KeyShard>); 2]>,
}

impl LockedKeys<'_> {
    /// Returns the state of a key, refilled until now; `None` if it has no entry.
    pub(super) fn read(
        &self,
        name: &KeyName,
        schedule: &RefillSchedule,
        base_ns: u64,
        now_ns: u64,
    ) -> Option<RefilledKey> {
        let shard = &self.shards[self.position(name)].1;
        let entry = &shard.entries[*shard.places.get(name)? as usize];
        let mut key = entry.key.clone();
        key.refill(schedule, base_ns, now_ns);
        Some(key)
    }

    /// Writes the state of a key, which is refilled at the rate `least` at least. A new key may replace another one.
    pub(super) fn write(&mut self, name: &KeyName, key: RefilledKey, least: u32) -> Result<(), NoEntry> {
        let (capacity, when_full) = (self.table.shard_capacity, self.table.when_full);
        let now_ns = key.refilled_ns;
        let entry = Entry { name: Arc::clone(name), unused_at_ns: key.unused_at_ns(least), key };
        let position = self.position(name);
        let shard = &mut *self.shards[position].1;
        let place = match shard.places.get(name) {
            Some(place) => *place as usize,
            None if shard.entries.len() < capacity => {
                shard.places.insert(Arc::clone(name), shard.entries.len() as u32);
                shard.entries.push(entry);
                return Ok(());
            }
            None => {
                let Ok((place, is_live)) = shard.replaceable(now_ns, when_full) else {
                    self.table.refusals.fetch_add(1, Ordering::Relaxed);
                    return Err(NoEntry);
                };
                self.table.evictions.fetch_add(u64::from(is_live), Ordering::Relaxed);
                let former = Arc::clone(&shard.entries[place].name);
                shard.places.remove(&former);
                shard.places.insert(Arc::clone(name), place as u32);
                place
            }
        };
        shard.entries[place] = entry;
        Ok(())
    }

    fn position(&self, name: &KeyName) -> usize {
        let index = self.table.shard_of(name);
        self.shards.iter().position(|(locked, _)| *locked == index).unwrap_or_default()
    }
}

impl KeyShard {
    /// Chooses the entry among the next few that is as unused soonest. Returns its place, and whether it is still in use.
    fn replaceable(&mut self, now_ns: u64, when_full: WhenFull) -> Result<(usize, bool), NoEntry> {
        let count = self.entries.len();
        let places = (self.hand..self.hand + CANDIDATES.min(count)).map(|place| place % count);
        let place = places.min_by_key(|place| self.entries[*place].unused_at_ns).ok_or(NoEntry)?;
        self.hand = (self.hand + CANDIDATES) % count;
        let is_live = self.entries[place].unused_at_ns > now_ns;
        if is_live && when_full == WhenFull::RefuseNew { Err(NoEntry) } else { Ok((place, is_live)) }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smallvec::smallvec;
    use tokio::time::Instant;
    use tollgate_core::{Algorithm, Quota, Tick};

    use super::*;

    const BASE_NS: u64 = 1 << 50;

    fn bucket(rate: &str) -> Arc<Bucket> {
        Arc::new(Bucket::new(&Quota::token_bucket(rate.parse().unwrap()).unwrap(), Tick::Nanosecond).unwrap())
    }

    fn name(text: impl AsRef<str>) -> KeyName {
        text.as_ref().as_bytes().into()
    }

    fn schedule(spans: &[(i64, i64, u32)]) -> RefillSchedule {
        let span = |&(from_us, until_us, rate)| RefillSpan { from_us, until_us, rate };
        RefillSchedule { base: Instant::now(), spans: spans.iter().map(span).collect(), least: 1 }
    }

    /// A key that has used so many of 10 tokens.
    fn used(tokens: u64) -> RefilledKey {
        let bucket = bucket("10/s burst 10");
        let mut key = RefilledKey::unused(&bucket, BASE_NS);
        bucket.force(&mut key.state, BASE_NS, tokens);
        key
    }

    proptest! {
        /// What is missing is what was used, minus the time that spans cover times their rates, exactly: at any times of
        /// reading.
        #[test]
        fn spans_refill_by_their_rates_exactly(
            lengths in prop::collection::vec((0_i64..400_000, 0_i64..400_000, 1_u32..=1_000), 0..5),
            pauses in prop::collection::vec(0_u64..300_000_000, 1..8),
            tokens in 1_u64..=10,
        ) {
            let mut spans = Vec::new();
            let mut end_us = 0;
            for (gap, length, rate) in lengths {
                spans.push((end_us + gap, end_us + gap + length, rate));
                end_us += gap + length;
            }
            let (mut key, schedule, mut now_ns) = (used(tokens), schedule(&spans), BASE_NS);
            let (mut missing, mut last_ns) = (i128::from(tokens) * 100_000_000_000, 0_i128);
            for pause in pauses {
                now_ns += pause;
                key.refill(&schedule, BASE_NS, now_ns);
                let until_ns = i128::from(now_ns - BASE_NS);
                for (from_us, until_us, rate) in &spans {
                    let (from, until) = (i128::from(*from_us) * 1_000, i128::from(*until_us) * 1_000);
                    missing -= (until.min(until_ns) - from.max(last_ns)).max(0) * i128::from(*rate);
                }
                (missing, last_ns) = (missing.max(0), until_ns);
                let stored = i128::from(key.state.tat - now_ns) * 1_000 - i128::from(key.thousandths);
                prop_assert_eq!(stored, missing);
            }
        }
    }

    #[test]
    fn key_is_unused_when_it_is_full_at_the_least_rate() {
        assert_eq!(used(2).unused_at_ns(1_000) - BASE_NS, 200_000_000);
        assert_eq!(used(2).unused_at_ns(50) - BASE_NS, 4_000_000_000);
        assert_eq!(used(0).unused_at_ns(50), BASE_NS);
    }

    fn write(table: &KeyTable, key: &str, state: RefilledKey) -> Result<(), NoEntry> {
        let name = name(key);
        table.lock(std::iter::once(&name)).write(&name, state, 1_000)
    }

    fn has(table: &KeyTable, key: &str) -> bool {
        let name = name(key);
        table.lock(std::iter::once(&name)).read(&name, &schedule(&[]), BASE_NS, BASE_NS).is_some()
    }

    #[test]
    fn full_table_evicts_the_key_that_is_unused_soonest_of_the_next_few() {
        let table = KeyTable::new(8 * SHARDS, WhenFull::EvictLeastUsed);
        for number in 0..10_000 {
            write(&table, &format!("key-{number}"), used(1 + number % 9)).unwrap();
        }
        let (entries, evictions, refusals) = table.counts();
        assert_eq!((entries, evictions, refusals), (8 * SHARDS, 10_000 - 8 * SHARDS as u64, 0));
        // Of the heavily used keys only those remain that no heavier one displaced.
        let heavy = (0..10_000).filter(|number| number % 9 == 8 && has(&table, &format!("key-{number}"))).count();
        assert!(heavy > 7 * SHARDS, "{heavy} of {entries}");
    }

    #[test]
    fn full_table_refuses_new_keys_while_all_others_are_in_use() {
        let table = KeyTable::new(SHARDS, WhenFull::RefuseNew);
        let refused = (0..1_000).filter(|number| write(&table, &format!("key-{number}"), used(1)).is_err()).count();
        assert_eq!(table.counts(), (SHARDS, 0, refused as u64));
        assert_eq!(refused, 1_000 - SHARDS);
        // Later all are full again, and can be replaced.
        let later = RefilledKey { refilled_ns: BASE_NS + 100_000_000, ..used(1) };
        assert_eq!(write(&table, "new", later), Ok(()));
        assert_eq!(table.counts().1, 0);
    }

    #[test]
    fn removed_key_leaves_the_others_in_place() {
        let table = KeyTable::new(1_000 * SHARDS, WhenFull::RefuseNew);
        let names: Vec<String> = (0..1_000).map(|number| format!("key-{number}")).collect();
        for name in &names {
            write(&table, name, used(1)).unwrap();
        }
        for removed in names.iter().step_by(2) {
            table.remove(&name(removed));
        }
        for (index, name) in names.iter().enumerate() {
            assert_eq!(has(&table, name), index % 2 == 1, "{name}");
        }
        assert_eq!(table.counts().0, 500);
    }

    #[test]
    fn schedule_without_spans_refills_nothing() {
        let mut key = used(3);
        let empty = RefillSchedule { spans: smallvec![], ..schedule(&[]) };
        key.refill(&empty, BASE_NS, BASE_NS + 1_000_000_000_000);
        assert_eq!(key.state.tat - key.refilled_ns, 300_000_000);
    }
}
