use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tollgate_core::{
    Algorithm, Bucket, CompiledQuota, Concurrency, CounterState, Family, Leases, LogState, Quota, WindowState,
};

use crate::clock::Clock;
use crate::limit::caller_quota::CallerQuota;
use crate::limit::family::{CARRIED, ScopeFamilies};
use crate::limit::{Limit, LimitError, LimitTable, TaggedBucket};
use crate::locked_table::caller_states::CallerState;
use crate::locked_table::{LockedTable, StateAccess, StoredState};
use crate::memory::operation::{CarryOverOp, ForceOp, StateOperation};
use crate::memory::options::{Capacity, MemoryOptions};
use crate::table::cell::BucketEntry;
use crate::table::full::TableFull;
use crate::table::quotas::{Quotas, TagUse};
use crate::table::{BucketKey, BucketTable, SNAPSHOT_BYTES_PER_SLOT};

/// The tables of a memory store, one for each family of states, created with the first limit of that family.
pub(crate) struct Tables {
    options: MemoryOptions,
    /// Whether snapshots are supported.
    has_snapshots: bool,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) families: ScopeFamilies,
    /// Locks that are held while the used amount of a key is moved from one family to another.
    moving: Box<[Mutex<()>]>,
    buckets: OnceLock<BucketTable>,
    windows: OnceLock<LockedTable<WindowState>>,
    counters: OnceLock<LockedTable<CounterState>>,
    logs: OnceLock<LockedTable<LogState>>,
    leases: OnceLock<LockedTable<Leases>>,
    callers: OnceLock<LockedTable<CallerState>>,
    /// Whether keys under callers' limits may be in the tables of the policy, because a version before the separate
    /// table wrote them in a snapshot.
    callers_in_policy_tables: AtomicBool,
}

/// Receives the entries of all tables, for a snapshot. All methods but `pause` may be called under a lock, and must be
/// fast.
pub(crate) trait EntryWriter {
    fn bucket(&mut self, hash: u64, entry: BucketEntry);
    fn window(&mut self, hash: u64, free_at: u64, state: &WindowState);
    fn counter(&mut self, hash: u64, free_at: u64, state: &CounterState);
    fn log(&mut self, hash: u64, free_at: u64, log: &LogState);
    fn leases(&mut self, hash: u64, free_at: u64, leases: &Leases);
    fn caller(&mut self, hash: u64, free_at: u64, state: &CallerState);
    /// Announces that all keys under callers' limits follow as separate entries.
    fn callers_are_separate(&mut self);
    /// Called outside of locks, for work that may take long.
    fn pause(&mut self) -> io::Result<()>;
}

/// Heap bytes for each key in the tables of logs and of leases if the capacity is given in entries: enough for a log of
/// 150 to 200 charges, or for 21 permits.
const HEAP_BYTES_PER_ENTRY: usize = 1024;

/// The number of keys that can be moved between families at the same time.
const MOVE_LOCKS: u64 = 64;

impl Tables {
    pub(crate) fn new(options: MemoryOptions, has_snapshots: bool) -> Tables {
        Tables {
            options,
            has_snapshots,
            quotas: Arc::default(),
            families: ScopeFamilies::default(),
            moving: (0..MOVE_LOCKS).map(|_| Mutex::default()).collect(),
            buckets: OnceLock::new(),
            windows: OnceLock::new(),
            counters: OnceLock::new(),
            logs: OnceLock::new(),
            leases: OnceLock::new(),
            callers: OnceLock::new(),
            callers_in_policy_tables: AtomicBool::new(false),
        }
    }

    /// Returns the table in which a quota of the policy is counted. A bucket gets a tag; if necessary, unused tags are
    /// reclaimed.
    pub(crate) fn limit_table(
        &self,
        compiled: &CompiledQuota,
        quota: &Quota,
        now: u64,
    ) -> Result<(LimitTable, Option<TagUse>), LimitError> {
        let CompiledQuota::Bucket(bucket) = compiled else { return Ok((LimitTable::Locked, None)) };
        let (tagged, tag_use) = self.tag_bucket(*bucket, quota, now)?;
        Ok((LimitTable::Bucket(tagged), Some(tag_use)))
    }

    /// Returns a bucket with its tag, allocated if it has none yet.
    pub(crate) fn tag_bucket(
        &self,
        bucket: Bucket,
        quota: &Quota,
        now: u64,
    ) -> Result<(TaggedBucket, TagUse), LimitError> {
        let (quota_tag, tag_use) = self.quotas.tag(bucket, quota, |reclaimable| {
            if let Some(buckets) = self.buckets.get() {
                buckets.unmark_live_tags(reclaimable, now);
            }
        })?;
        Ok((TaggedBucket { bucket, quota_tag }, tag_use))
    }

    /// Creates the table that a limit needs, so that no check has to.
    pub(crate) fn prepare(&self, limit: &Limit) {
        match (&limit.0.table, &limit.0.compiled) {
            (LimitTable::Caller(_), _) => _ = self.callers(),
            (_, CompiledQuota::Bucket(_)) => _ = self.buckets(),
            (_, CompiledQuota::FixedWindow(_)) => _ = self.windows(),
            (_, CompiledQuota::SlidingCounter(_)) => _ = self.counters(),
            (_, CompiledQuota::SlidingLog(_)) => _ = self.logs(),
            (_, CompiledQuota::Concurrency(_)) => _ = self.leases(),
        }
    }

    /// Returns an error if the state of one key could become larger under this quota than the store allows.
    pub(crate) fn too_large(&self, compiled: &CompiledQuota) -> Option<LimitError> {
        let (needs, holds) = match compiled {
            CompiledQuota::SlidingLog(log) => (log.max_heap_bytes(), self.logs().max_heap_bytes_of_key()),
            CompiledQuota::Concurrency(permits) => (permits.max_heap_bytes(), self.leases().max_heap_bytes_of_key()),
            CompiledQuota::Bucket(_) | CompiledQuota::FixedWindow(_) | CompiledQuota::SlidingCounter(_) => return None,
        };
        let holds = holds as u64;
        (needs >= holds).then_some(LimitError::TooLarge { needs, holds })
    }

    #[inline]
    pub(crate) fn buckets(&self) -> &BucketTable {
        self.buckets.get_or_init(|| {
            let more = if self.has_snapshots { SNAPSHOT_BYTES_PER_SLOT } else { 0 };
            let keys = match self.options.capacity {
                Capacity::Entries(keys) => keys,
                Capacity::Bytes(bytes) => BucketTable::keys_in(bytes / 2 - bytes / 16, more),
            };
            let table = BucketTable::new(keys, Arc::clone(&self.quotas), self.options.when_full);
            #[cfg(not(loom))]
            if self.has_snapshots {
                return table.with_snapshots();
            }
            table
        })
    }

    /// Returns the table of buckets, if it exists yet.
    #[inline]
    pub(crate) fn buckets_if_created(&self) -> Option<&BucketTable> {
        self.buckets.get()
    }

    pub(crate) fn windows(&self) -> &LockedTable<WindowState> {
        self.windows.get_or_init(|| self.locked())
    }

    pub(crate) fn counters(&self) -> &LockedTable<CounterState> {
        self.counters.get_or_init(|| self.locked())
    }

    pub(crate) fn logs(&self) -> &LockedTable<LogState> {
        self.logs.get_or_init(|| self.locked())
    }

    pub(crate) fn leases(&self) -> &LockedTable<Leases> {
        self.leases.get_or_init(|| self.locked())
    }

    /// Returns the table of the keys under callers' limits. It holds half as many keys as the others, because an entry
    /// is four times as large as a bucket's.
    pub(crate) fn callers(&self) -> &LockedTable<CallerState> {
        self.callers.get_or_init(|| {
            let keys = match self.options.capacity {
                Capacity::Entries(keys) => keys.div_ceil(2),
                Capacity::Bytes(bytes) => LockedTable::<CallerState>::keys_in(bytes / 16),
            };
            // Their states use no heap. The limit must exceed what they use.
            LockedTable::new(keys, usize::MAX, self.options.when_full)
        })
    }

    fn locked<S: Default + StoredState>(&self) -> LockedTable<S> {
        let (keys, heap_bytes) = match self.options.capacity {
            Capacity::Entries(keys) => (keys, keys.saturating_mul(HEAP_BYTES_PER_ENTRY)),
            // An eighth for each of the four tables, of which the heap gets half.
            Capacity::Bytes(bytes) => (LockedTable::<S>::keys_in(bytes / 16), bytes / 16),
        };
        LockedTable::new(keys, heap_bytes, self.options.when_full)
    }

    /// Applies an operation to the state of a key, present or not, in the family of its limit. If the key has no state
    /// there, what other families have counted is moved there first, if the operation
    /// [carries it over](StateOperation::carries_over); one that does not write only takes it into account.
    pub(crate) fn apply<O: StateOperation>(
        &self,
        limit: &Limit,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        let others = limit.other_families();
        if others == 0 || !operation.carries_over() || self.used(limit.0.compiled.family(), hash, clock).is_some() {
            return self.apply_here(limit, hash, clock, operation);
        }
        self.apply_moved(limit, others, hash, clock, operation)
    }

    /// Applies an operation to a key that has no state in its limit's family, and may have one in another.
    #[cold]
    fn apply_moved<O: StateOperation>(
        &self,
        limit: &Limit,
        others: u8,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        // Every operation on a key that has no state here takes this lock, so it is moved once.
        let lock = &self.moving[(hash % MOVE_LOCKS) as usize];
        let _moving = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let others = || CARRIED.into_iter().filter(move |family| others & *family as u8 != 0);
        let is_here = self.used(limit.0.compiled.family(), hash, clock).is_some();
        let used = if is_here { 0 } else { others().filter_map(|family| self.used(family, hash, clock)).sum() };
        if is_here {
            return self.apply_here(limit, hash, clock, operation);
        }
        if !O::WRITES {
            return Ok(run_with_used(limit, used, clock.now_ns(), operation));
        }
        // In this order nothing is lost if there is no space for it here.
        if used > 0 {
            self.apply_here(limit, hash, clock, &CarryOverOp { used })?;
        }
        let taken: u64 = others().filter_map(|family| self.remove(family, hash, clock)).sum();
        if taken > used {
            // A request under the previous limit has charged the key meanwhile.
            self.apply_here(limit, hash, clock, &ForceOp { cost: taken - used })?;
        }
        self.apply_here(limit, hash, clock, operation)
    }

    /// Returns the used amount of a live key in the table of one family; `None` if it is not there.
    fn used(&self, family: Family, hash: u64, clock: &impl Clock) -> Option<u64> {
        match family {
            Family::Bucket => self.buckets.get()?.used(hash, clock),
            Family::FixedWindow => self.windows.get()?.read(hash, clock, WindowState::used_at),
            Family::SlidingCounter => self.counters.get()?.read(hash, clock, CounterState::used_at),
            Family::SlidingLog => self.logs.get()?.read(hash, clock, |log, _| log.used()),
            Family::Concurrency => None,
        }
    }

    /// Removes a live key from the table of one family. Returns its used amount.
    fn remove(&self, family: Family, hash: u64, clock: &impl Clock) -> Option<u64> {
        match family {
            Family::Bucket => self.buckets.get()?.remove(hash, clock),
            Family::FixedWindow => self.windows.get()?.remove(hash, clock, WindowState::used_at),
            Family::SlidingCounter => self.counters.get()?.remove(hash, clock, CounterState::used_at),
            Family::SlidingLog => self.logs.get()?.remove(hash, clock, |log, _| log.used()),
            Family::Concurrency => None,
        }
    }

    /// Records the families whose states were restored, and not written by a limit of this process.
    pub(crate) fn note_restored(&self) {
        let restored = [
            (Family::Bucket, self.buckets.get().is_some()),
            (Family::FixedWindow, self.windows.get().is_some()),
            (Family::SlidingCounter, self.counters.get().is_some()),
            (Family::SlidingLog, self.logs.get().is_some()),
        ];
        for (family, _) in restored.into_iter().filter(|(_, exists)| *exists) {
            self.families.note_restored(family);
        }
    }

    fn apply_here<O: StateOperation>(
        &self,
        limit: &Limit,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        match (&limit.0.table, &limit.0.compiled) {
            (LimitTable::Bucket(quota), _) => self.buckets().apply(BucketKey { hash, quota }, clock, operation),
            (LimitTable::Caller(quota), _) => self.apply_for_caller(limit, quota, hash, clock, operation),
            (_, CompiledQuota::FixedWindow(window)) => self.windows().apply(hash, window, clock, operation),
            (_, CompiledQuota::SlidingCounter(counter)) => self.counters().apply(hash, counter, clock, operation),
            (_, CompiledQuota::SlidingLog(log)) => self.logs().apply(hash, log, clock, operation),
            (_, CompiledQuota::Concurrency(permits)) => self.leases().apply(hash, permits, clock, operation),
            (LimitTable::Locked | LimitTable::Custom(_), CompiledQuota::Bucket(_)) => {
                unreachable!("a memory store allocates a tag for every bucket of a policy")
            }
        }
    }

    fn apply_for_caller<O: StateOperation>(
        &self,
        limit: &Limit,
        quota: &CallerQuota,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        if self.callers_in_policy_tables.load(Ordering::Relaxed) && operation.carries_over() {
            return self.apply_for_caller_anywhere(limit, quota, hash, clock, operation);
        }
        self.callers().apply_for_caller(hash, quota, clock, operation)
    }

    /// Like `apply_for_caller`, if the key may be in the tables of the policy. It is read there, and stays until it
    /// expires: callers' limits change nothing in those tables.
    #[cold]
    fn apply_for_caller_anywhere<O: StateOperation>(
        &self,
        limit: &Limit,
        quota: &CallerQuota,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, TableFull> {
        let callers = self.callers();
        let lock = &self.moving[(hash % MOVE_LOCKS) as usize];
        let _moving = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.read(hash, clock, |_, _| ()).is_none() {
            let families = [Family::Bucket, Family::FixedWindow].into_iter();
            let used: u64 = families.filter_map(|family| self.used(family, hash, clock)).sum();
            if used > 0 && !O::WRITES {
                return Ok(run_with_used(limit, used, clock.now_ns(), operation));
            }
            if used > 0 {
                callers.apply_for_caller(hash, quota, clock, &CarryOverOp { used })?;
            }
        }
        callers.apply_for_caller(hash, quota, clock, operation)
    }

    /// Records that keys under callers' limits may be in the tables of the policy.
    pub(crate) fn note_callers_in_policy_tables(&self) {
        self.callers_in_policy_tables.store(true, Ordering::Relaxed);
    }

    /// Extends a lease. Returns `false` if it was lost.
    pub(crate) fn renew(
        &self,
        permits: &Concurrency,
        hash: u64,
        clock: &impl Clock,
        charged: &tollgate_core::Charged,
    ) -> bool {
        let renewed = self.leases().visit(hash, clock, StateAccess::Shrink, |leases, now| {
            let renewed = permits.renew(leases, now, charged);
            (renewed, permits.expires_at(leases))
        });
        renewed.unwrap_or(false)
    }

    /// Passes all live entries to a writer.
    #[cfg(not(loom))]
    pub(crate) fn walk(&self, now: u64, writer: &mut impl EntryWriter) -> io::Result<()> {
        if let Some(buckets) = self.buckets.get() {
            buckets.walk(now, |hash, entry| {
                writer.bucket(hash, entry);
                writer.pause()
            })?;
        }
        if let Some(windows) = self.windows.get() {
            windows.walk(now, writer, EntryWriter::window, EntryWriter::pause)?;
        }
        if let Some(counters) = self.counters.get() {
            counters.walk(now, writer, EntryWriter::counter, EntryWriter::pause)?;
        }
        if let Some(logs) = self.logs.get() {
            logs.walk(now, writer, EntryWriter::log, EntryWriter::pause)?;
        }
        if let Some(leases) = self.leases.get() {
            leases.walk(now, writer, EntryWriter::leases, EntryWriter::pause)?;
        }
        if let Some(callers) = self.callers.get() {
            if !self.callers_in_policy_tables.load(Ordering::Relaxed) {
                writer.callers_are_separate();
            }
            callers.walk(now, writer, EntryWriter::caller, EntryWriter::pause)?;
        }
        Ok(())
    }

    pub(crate) fn has_snapshots(&self) -> bool {
        self.has_snapshots
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.buckets.get().map_or(0, BucketTable::evictions)
            + self.windows.get().map_or(0, LockedTable::evictions)
            + self.counters.get().map_or(0, LockedTable::evictions)
            + self.logs.get().map_or(0, LockedTable::evictions)
            + self.leases.get().map_or(0, LockedTable::evictions)
    }

    /// The evictions in the table of the keys under callers' limits.
    pub(crate) fn caller_evictions(&self) -> u64 {
        self.callers.get().map_or(0, LockedTable::evictions)
    }

    pub(crate) fn live_keys(&self, now: u64) -> usize {
        self.buckets.get().map_or(0, |table| table.live_keys(now))
            + self.windows.get().map_or(0, |table| table.live_keys(now))
            + self.counters.get().map_or(0, |table| table.live_keys(now))
            + self.logs.get().map_or(0, |table| table.live_keys(now))
            + self.leases.get().map_or(0, |table| table.live_keys(now))
            + self.callers.get().map_or(0, |table| table.live_keys(now))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.get().map_or(0, BucketTable::bytes)
            + self.windows.get().map_or(0, LockedTable::bytes)
            + self.counters.get().map_or(0, LockedTable::bytes)
            + self.logs.get().map_or(0, LockedTable::bytes)
            + self.leases.get().map_or(0, LockedTable::bytes)
            + self.callers.get().map_or(0, LockedTable::bytes)
    }
}

/// Runs a read-only operation on the state that the limit's family would have for a used amount.
fn run_with_used<O: StateOperation>(limit: &Limit, used: u64, now: u64, operation: &O) -> O::Output {
    fn run<A: Algorithm, O: StateOperation>(algorithm: &A, used: u64, now: u64, operation: &O) -> O::Output {
        operation.run(algorithm, &mut algorithm.state_with_used(used, now), now)
    }
    match &limit.0.compiled {
        CompiledQuota::Bucket(bucket) => run(bucket, used, now, operation),
        CompiledQuota::FixedWindow(window) => run(window, used, now, operation),
        CompiledQuota::SlidingCounter(counter) => run(counter, used, now, operation),
        CompiledQuota::SlidingLog(log) => run(log, used, now, operation),
        CompiledQuota::Concurrency(permits) => run(permits, used, now, operation),
    }
}
