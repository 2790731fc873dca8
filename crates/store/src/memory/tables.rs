use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tollgate_core::{
    Algorithm, Bucket, CompiledQuota, Concurrency, CounterState, Family, Leases, Log, Quota, WindowState,
};

use crate::clock::Clock;
use crate::limit::caller_rule::CallerRule;
use crate::limit::family::{CARRIED, ScopeFamilies};
use crate::limit::{BucketRule, Limit, LimitError, Rule};
use crate::locked_table::caller_states::CallerState;
use crate::locked_table::{Access, Held, LockedTable};
use crate::memory::operation::{Carry, Force, Operation};
use crate::memory::options::{Capacity, MemoryOptions};
use crate::table::cell::Entry;
use crate::table::full::Full;
use crate::table::quotas::{Quotas, TagUse};
use crate::table::{Place, Table, WALKING_BYTES};

/// A table for each kind of state, made when the first limit of that kind is.
pub(crate) struct Tables {
    options: MemoryOptions,
    /// Whether what they hold can be written down.
    can_be_walked: bool,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) families: ScopeFamilies,
    /// Held while what a key has used is moved from one family to another.
    moving: Box<[Mutex<()>]>,
    buckets: OnceLock<Table>,
    windows: OnceLock<LockedTable<WindowState>>,
    counters: OnceLock<LockedTable<CounterState>>,
    logs: OnceLock<LockedTable<Log>>,
    leases: OnceLock<LockedTable<Leases>>,
    callers: OnceLock<LockedTable<CallerState>>,
    /// Whether keys of callers may stand among those of the policy, because a program from before there were two
    /// tables has written them down.
    callers_among_others: AtomicBool,
}

/// Takes what a walk of the tables shows, for a snapshot. All but `pause` may be called under a lock, and must be quick.
pub(crate) trait SnapshotWriter {
    fn bucket(&mut self, hash: u64, entry: Entry);
    fn window(&mut self, hash: u64, free_at: u64, state: &WindowState);
    fn counter(&mut self, hash: u64, free_at: u64, state: &CounterState);
    fn log(&mut self, hash: u64, free_at: u64, log: &Log);
    fn leases(&mut self, hash: u64, free_at: u64, leases: &Leases);
    fn caller(&mut self, hash: u64, free_at: u64, state: &CallerState);
    /// From here on every key of a caller is shown as one.
    fn callers_apart(&mut self);
    /// Time to do what may take long.
    fn pause(&mut self) -> io::Result<()>;
}

/// Heap bytes for each entry of a log or of leases where the capacity is given
/// in entries: a log of 150 to 200 charges, or 21 permits, for every key.
const HEAP_BYTES_PER_ENTRY: usize = 1024;

/// How many keys can be moved from one family to another at the same time.
const MOVES_AT_ONCE: u64 = 64;

impl Tables {
    pub(crate) fn new(options: MemoryOptions, can_be_walked: bool) -> Tables {
        Tables {
            options,
            can_be_walked,
            quotas: Arc::default(),
            families: ScopeFamilies::default(),
            moving: (0..MOVES_AT_ONCE).map(|_| Mutex::default()).collect(),
            buckets: OnceLock::new(),
            windows: OnceLock::new(),
            counters: OnceLock::new(),
            logs: OnceLock::new(),
            leases: OnceLock::new(),
            callers: OnceLock::new(),
            callers_among_others: AtomicBool::new(false),
        }
    }

    /// How a quota of the policy is counted. A bucket gets a tag, for which others that nothing uses are given up.
    pub(crate) fn rule(
        &self,
        compiled: &CompiledQuota,
        quota: &Quota,
        now: u64,
    ) -> Result<(Rule, Option<TagUse>), LimitError> {
        let CompiledQuota::Bucket(bucket) = compiled else { return Ok((Rule::Locked, None)) };
        let (rule, tag_use) = self.tagged(*bucket, quota, now)?;
        Ok((Rule::Bucket(rule), Some(tag_use)))
    }

    /// A bucket with its tag.
    pub(crate) fn tagged(&self, bucket: Bucket, quota: &Quota, now: u64) -> Result<(BucketRule, TagUse), LimitError> {
        let (tag, tag_use) = self.quotas.tag(bucket, quota, |unused| {
            if let Some(buckets) = self.buckets.get() {
                buckets.leave_unused(unused, now);
            }
        })?;
        Ok((BucketRule { bucket, tag }, tag_use))
    }

    /// Makes the table that a limit needs, so that no check has to.
    pub(crate) fn prepare(&self, limit: &Limit) {
        match (&limit.0.rule, &limit.0.compiled) {
            (Rule::Caller(_), _) => _ = self.callers(),
            (_, CompiledQuota::Bucket(_)) => _ = self.buckets(),
            (_, CompiledQuota::FixedWindow(_)) => _ = self.windows(),
            (_, CompiledQuota::SlidingCounter(_)) => _ = self.counters(),
            (_, CompiledQuota::SlidingLog(_)) => _ = self.logs(),
            (_, CompiledQuota::Concurrency(_)) => _ = self.leases(),
        }
    }

    /// Why one key's state could become larger than the store lets it, under this quota.
    pub(crate) fn too_large(&self, compiled: &CompiledQuota) -> Option<LimitError> {
        let (needs, holds) = match compiled {
            CompiledQuota::SlidingLog(log) => (log.most_heap_bytes(), self.logs().heap_bytes_of_one()),
            CompiledQuota::Concurrency(permits) => (permits.most_heap_bytes(), self.leases().heap_bytes_of_one()),
            CompiledQuota::Bucket(_) | CompiledQuota::FixedWindow(_) | CompiledQuota::SlidingCounter(_) => return None,
        };
        let holds = holds as u64;
        (needs >= holds).then_some(LimitError::TooLarge { needs, holds })
    }

    #[inline]
    pub(crate) fn buckets(&self) -> &Table {
        self.buckets.get_or_init(|| {
            let more = if self.can_be_walked { WALKING_BYTES } else { 0 };
            let keys = match self.options.capacity {
                Capacity::Entries(keys) => keys,
                Capacity::Bytes(bytes) => Table::keys_in(bytes / 2 - bytes / 16, more),
            };
            let table = Table::new(keys, Arc::clone(&self.quotas), self.options.when_full);
            #[cfg(not(loom))]
            if self.can_be_walked {
                return table.that_can_be_walked();
            }
            table
        })
    }

    /// The table of buckets, if there is one yet.
    #[inline]
    pub(crate) fn known_buckets(&self) -> Option<&Table> {
        self.buckets.get()
    }

    pub(crate) fn windows(&self) -> &LockedTable<WindowState> {
        self.windows.get_or_init(|| self.locked())
    }

    pub(crate) fn counters(&self) -> &LockedTable<CounterState> {
        self.counters.get_or_init(|| self.locked())
    }

    pub(crate) fn logs(&self) -> &LockedTable<Log> {
        self.logs.get_or_init(|| self.locked())
    }

    pub(crate) fn leases(&self) -> &LockedTable<Leases> {
        self.leases.get_or_init(|| self.locked())
    }

    /// Half as many keys as the policy has room for, because an entry takes four times as much as a bucket's.
    pub(crate) fn callers(&self) -> &LockedTable<CallerState> {
        self.callers.get_or_init(|| {
            let keys = match self.options.capacity {
                Capacity::Entries(keys) => keys.div_ceil(2),
                Capacity::Bytes(bytes) => LockedTable::<CallerState>::keys_in(bytes / 16),
            };
            // Their states hold nothing on the heap, of which there must be room for more than they hold.
            LockedTable::new(keys, usize::MAX, self.options.when_full)
        })
    }

    fn locked<S: Default + Held>(&self) -> LockedTable<S> {
        let (keys, heap_bytes) = match self.options.capacity {
            Capacity::Entries(keys) => (keys, keys.saturating_mul(HEAP_BYTES_PER_ENTRY)),
            // An eighth for each of the four, of which states on the heap get half.
            Capacity::Bytes(bytes) => (LockedTable::<S>::keys_in(bytes / 16), bytes / 16),
        };
        LockedTable::new(keys, heap_bytes, self.options.when_full)
    }

    /// Any operation on a key's state, present or not, under whichever family it was counted last.
    pub(crate) fn apply<O: Operation>(
        &self,
        limit: &Limit,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        let others = limit.other_families();
        if others == 0 || !operation.carries() || self.used(limit.0.compiled.family(), hash, clock).is_some() {
            return self.apply_here(limit, hash, clock, operation);
        }
        self.apply_moved(limit, others, hash, clock, operation)
    }

    /// Applies an operation to a key that has no state in its limit's family, and may have one in another.
    #[cold]
    fn apply_moved<O: Operation>(
        &self,
        limit: &Limit,
        others: u8,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        // Every operation on a key that has no state here comes through this lock, so it is moved once.
        let lock = &self.moving[(hash % MOVES_AT_ONCE) as usize];
        let _moving = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let others = || CARRIED.into_iter().filter(move |family| others & *family as u8 != 0);
        let is_here = self.used(limit.0.compiled.family(), hash, clock).is_some();
        let used = if is_here { 0 } else { others().filter_map(|family| self.used(family, hash, clock)).sum() };
        if is_here {
            return self.apply_here(limit, hash, clock, operation);
        }
        if !O::WRITES {
            return Ok(run_on_carried(limit, used, clock.now_ns(), operation));
        }
        // In this order nothing is lost where there is no room for it here.
        if used > 0 {
            self.apply_here(limit, hash, clock, &Carry { used })?;
        }
        let taken: u64 = others().filter_map(|family| self.forget(family, hash, clock)).sum();
        if taken > used {
            // A request under the limit before has charged it meanwhile.
            self.apply_here(limit, hash, clock, &Force { cost: taken - used })?;
        }
        self.apply_here(limit, hash, clock, operation)
    }

    /// What a live key has used by the table of one family; `None` if it is not there.
    fn used(&self, family: Family, hash: u64, clock: &impl Clock) -> Option<u64> {
        match family {
            Family::Bucket => self.buckets.get()?.used(hash, clock),
            Family::FixedWindow => self.windows.get()?.read(hash, clock, WindowState::used_at),
            Family::SlidingCounter => self.counters.get()?.read(hash, clock, CounterState::used_at),
            Family::SlidingLog => self.logs.get()?.read(hash, clock, |log, _| log.used()),
            Family::Concurrency => None,
        }
    }

    /// Takes a live key out of the table of one family. Returns what it had used.
    fn forget(&self, family: Family, hash: u64, clock: &impl Clock) -> Option<u64> {
        match family {
            Family::Bucket => self.buckets.get()?.forget(hash, clock),
            Family::FixedWindow => self.windows.get()?.forget(hash, clock, WindowState::used_at),
            Family::SlidingCounter => self.counters.get()?.forget(hash, clock, CounterState::used_at),
            Family::SlidingLog => self.logs.get()?.forget(hash, clock, |log, _| log.used()),
            Family::Concurrency => None,
        }
    }

    /// Notes which families have states that no limit of this process has written.
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

    fn apply_here<O: Operation>(
        &self,
        limit: &Limit,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        match (&limit.0.rule, &limit.0.compiled) {
            (Rule::Bucket(rule), _) => self.buckets().apply(Place { hash, rule }, clock, operation),
            (Rule::Caller(rule), _) => self.apply_for_caller(limit, rule, hash, clock, operation),
            (_, CompiledQuota::FixedWindow(window)) => self.windows().apply(hash, window, clock, operation),
            (_, CompiledQuota::SlidingCounter(counter)) => self.counters().apply(hash, counter, clock, operation),
            (_, CompiledQuota::SlidingLog(log)) => self.logs().apply(hash, log, clock, operation),
            (_, CompiledQuota::Concurrency(permits)) => self.leases().apply(hash, permits, clock, operation),
            (Rule::Locked | Rule::Elsewhere(_), CompiledQuota::Bucket(_)) => {
                unreachable!("a memory store gives every bucket of a policy a tag")
            }
        }
    }

    fn apply_for_caller<O: Operation>(
        &self,
        limit: &Limit,
        rule: &CallerRule,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        if self.callers_among_others.load(Ordering::Relaxed) && operation.carries() {
            return self.apply_for_caller_anywhere(limit, rule, hash, clock, operation);
        }
        self.callers().apply_for_caller(hash, rule, clock, operation)
    }

    /// The same where the key may stand among those of the policy. It is read there and stays until its time: a
    /// caller changes nothing in those tables.
    #[cold]
    fn apply_for_caller_anywhere<O: Operation>(
        &self,
        limit: &Limit,
        rule: &CallerRule,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        let callers = self.callers();
        let lock = &self.moving[(hash % MOVES_AT_ONCE) as usize];
        let _moving = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.read(hash, clock, |_, _| ()).is_none() {
            let families = [Family::Bucket, Family::FixedWindow].into_iter();
            let used: u64 = families.filter_map(|family| self.used(family, hash, clock)).sum();
            if used > 0 && !O::WRITES {
                return Ok(run_on_carried(limit, used, clock.now_ns(), operation));
            }
            if used > 0 {
                callers.apply_for_caller(hash, rule, clock, &Carry { used })?;
            }
        }
        callers.apply_for_caller(hash, rule, clock, operation)
    }

    /// Notes that keys of callers may stand among those of the policy.
    pub(crate) fn note_callers_among_others(&self) {
        self.callers_among_others.store(true, Ordering::Relaxed);
    }

    /// Extends a lease; `false` if it was lost.
    pub(crate) fn renew(
        &self,
        permits: &Concurrency,
        hash: u64,
        clock: &impl Clock,
        charged: &tollgate_core::Charged,
    ) -> bool {
        let renewed = self.leases().visit(hash, clock, Access::Shrink, |leases, now| {
            let renewed = permits.renew(leases, now, charged);
            (renewed, permits.untouched_at(leases))
        });
        renewed.unwrap_or(false)
    }

    /// Shows everything that lives to whoever writes it down.
    #[cfg(not(loom))]
    pub(crate) fn walk(&self, now: u64, writer: &mut impl SnapshotWriter) -> io::Result<()> {
        if let Some(buckets) = self.buckets.get() {
            buckets.walk(now, |hash, entry| {
                writer.bucket(hash, entry);
                writer.pause()
            })?;
        }
        if let Some(windows) = self.windows.get() {
            windows.walk(now, writer, SnapshotWriter::window, SnapshotWriter::pause)?;
        }
        if let Some(counters) = self.counters.get() {
            counters.walk(now, writer, SnapshotWriter::counter, SnapshotWriter::pause)?;
        }
        if let Some(logs) = self.logs.get() {
            logs.walk(now, writer, SnapshotWriter::log, SnapshotWriter::pause)?;
        }
        if let Some(leases) = self.leases.get() {
            leases.walk(now, writer, SnapshotWriter::leases, SnapshotWriter::pause)?;
        }
        if let Some(callers) = self.callers.get() {
            if !self.callers_among_others.load(Ordering::Relaxed) {
                writer.callers_apart();
            }
            callers.walk(now, writer, SnapshotWriter::caller, SnapshotWriter::pause)?;
        }
        Ok(())
    }

    pub(crate) fn can_be_walked(&self) -> bool {
        self.can_be_walked
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.buckets.get().map_or(0, Table::evictions)
            + self.windows.get().map_or(0, LockedTable::evictions)
            + self.counters.get().map_or(0, LockedTable::evictions)
            + self.logs.get().map_or(0, LockedTable::evictions)
            + self.leases.get().map_or(0, LockedTable::evictions)
    }

    /// The same among the keys of callers.
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
        self.buckets.get().map_or(0, Table::bytes)
            + self.windows.get().map_or(0, LockedTable::bytes)
            + self.counters.get().map_or(0, LockedTable::bytes)
            + self.logs.get().map_or(0, LockedTable::bytes)
            + self.leases.get().map_or(0, LockedTable::bytes)
            + self.callers.get().map_or(0, LockedTable::bytes)
    }
}

/// Runs an operation that writes nothing on what the limit's family would make of a count.
fn run_on_carried<O: Operation>(limit: &Limit, used: u64, now: u64, operation: &O) -> O::Output {
    fn run<A: Algorithm, O: Operation>(algorithm: &A, used: u64, now: u64, operation: &O) -> O::Output {
        operation.run(algorithm, &mut algorithm.carried(used, now), now)
    }
    match &limit.0.compiled {
        CompiledQuota::Bucket(bucket) => run(bucket, used, now, operation),
        CompiledQuota::FixedWindow(window) => run(window, used, now, operation),
        CompiledQuota::SlidingCounter(counter) => run(counter, used, now, operation),
        CompiledQuota::SlidingLog(log) => run(log, used, now, operation),
        CompiledQuota::Concurrency(permits) => run(permits, used, now, operation),
    }
}
