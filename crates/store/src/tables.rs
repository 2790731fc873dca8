use std::io;
use std::sync::{Arc, OnceLock};

use tollgate_core::{Algorithm, Concurrency, CounterState, Leases, Log, WindowState};

use crate::clock::Clock;
use crate::entry::Entry;
use crate::full::Full;
use crate::limit::{Limit, LimitError, Quotas, Rule};
use crate::locked_table::{Access, Held, LockedTable};
use crate::operation::Operation;
use crate::options::{Capacity, MemoryOptions};
use crate::table::{Place, Table};

/// A table for each kind of state, made when the first limit of that kind is.
pub(crate) struct Tables {
    options: MemoryOptions,
    /// Whether what they hold can be written down.
    can_be_walked: bool,
    pub(crate) quotas: Arc<Quotas>,
    buckets: OnceLock<Table>,
    windows: OnceLock<LockedTable<WindowState>>,
    counters: OnceLock<LockedTable<CounterState>>,
    logs: OnceLock<LockedTable<Log>>,
    leases: OnceLock<LockedTable<Leases>>,
}

/// Writes down what a walk shows. All but `pause` may be called under a lock, and must be quick.
pub(crate) trait Scribe {
    fn bucket(&mut self, hash: u64, entry: Entry);
    fn window(&mut self, hash: u64, free_at: u64, state: &WindowState);
    fn counter(&mut self, hash: u64, free_at: u64, state: &CounterState);
    fn log(&mut self, hash: u64, free_at: u64, log: &Log);
    fn leases(&mut self, hash: u64, free_at: u64, leases: &Leases);
    /// Time to do what may take long.
    fn pause(&mut self) -> io::Result<()>;
}

/// Heap bytes for each entry of a log or of leases where the capacity is given
/// in entries: a log of 150 to 200 charges, or 21 permits, for every key.
const HEAP_BYTES_PER_ENTRY: usize = 1024;

impl Tables {
    pub(crate) fn new(options: MemoryOptions, can_be_walked: bool) -> Tables {
        Tables {
            options,
            can_be_walked,
            quotas: Arc::default(),
            buckets: OnceLock::new(),
            windows: OnceLock::new(),
            counters: OnceLock::new(),
            logs: OnceLock::new(),
            leases: OnceLock::new(),
        }
    }

    /// Makes the table that a rule needs, so that no check has to.
    pub(crate) fn prepare(&self, rule: &Rule) {
        match rule {
            Rule::Bucket(_) => _ = self.buckets(),
            Rule::FixedWindow(_) => _ = self.windows(),
            Rule::SlidingCounter(_) => _ = self.counters(),
            Rule::SlidingLog(_) => _ = self.logs(),
            Rule::Concurrency(_) => _ = self.leases(),
        }
    }

    /// Why one key's state could become larger than the store lets it, under this rule.
    pub(crate) fn too_large(&self, rule: &Rule) -> Option<LimitError> {
        let (needs, holds) = match rule {
            Rule::SlidingLog(log) => (log.most_heap_bytes(), self.logs().heap_bytes_of_one()),
            Rule::Concurrency(permits) => (permits.most_heap_bytes(), self.leases().heap_bytes_of_one()),
            Rule::Bucket(_) | Rule::FixedWindow(_) | Rule::SlidingCounter(_) => return None,
        };
        let holds = holds as u64;
        (needs >= holds).then_some(LimitError::TooLarge { needs, holds })
    }

    #[inline]
    pub(crate) fn buckets(&self) -> &Table {
        self.buckets.get_or_init(|| {
            let more = if self.can_be_walked { Table::WALKING_BYTES } else { 0 };
            let keys = match self.options.capacity {
                Capacity::Entries(keys) => keys,
                Capacity::Bytes(bytes) => Table::keys_in(bytes / 2, more),
            };
            let table = Table::new(keys, Arc::clone(&self.quotas), self.options.when_full);
            if self.can_be_walked { table.that_can_be_walked() } else { table }
        })
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

    fn locked<S: Default + Held>(&self) -> LockedTable<S> {
        let (keys, heap_bytes) = match self.options.capacity {
            Capacity::Entries(keys) => (keys, keys.saturating_mul(HEAP_BYTES_PER_ENTRY)),
            // An eighth for each of the four, of which states on the heap get half.
            Capacity::Bytes(bytes) => (LockedTable::<S>::keys_in(bytes / 16), bytes / 16),
        };
        LockedTable::new(keys, heap_bytes, self.options.when_full)
    }

    pub(crate) fn apply<O: Operation>(
        &self,
        limit: &Limit,
        hash: u64,
        clock: &impl Clock,
        operation: &O,
    ) -> Result<O::Output, Full> {
        match &limit.0.rule {
            Rule::Bucket(rule) => self.buckets().apply(Place { hash, rule }, clock, operation),
            Rule::FixedWindow(window) => self.windows().apply(hash, window, clock, operation),
            Rule::SlidingCounter(counter) => self.counters().apply(hash, counter, clock, operation),
            Rule::SlidingLog(log) => self.logs().apply(hash, log, clock, operation),
            Rule::Concurrency(permits) => self.leases().apply(hash, permits, clock, operation),
        }
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
    pub(crate) fn walk(&self, now: u64, scribe: &mut impl Scribe) -> io::Result<()> {
        if let Some(buckets) = self.buckets.get() {
            buckets.walk(now, |hash, entry| {
                scribe.bucket(hash, entry);
                scribe.pause()
            })?;
        }
        if let Some(windows) = self.windows.get() {
            windows.walk(now, scribe, Scribe::window, Scribe::pause)?;
        }
        if let Some(counters) = self.counters.get() {
            counters.walk(now, scribe, Scribe::counter, Scribe::pause)?;
        }
        if let Some(logs) = self.logs.get() {
            logs.walk(now, scribe, Scribe::log, Scribe::pause)?;
        }
        if let Some(leases) = self.leases.get() {
            leases.walk(now, scribe, Scribe::leases, Scribe::pause)?;
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

    pub(crate) fn live_keys(&self, now: u64) -> usize {
        self.buckets.get().map_or(0, |table| table.live_keys(now))
            + self.windows.get().map_or(0, |table| table.live_keys(now))
            + self.counters.get().map_or(0, |table| table.live_keys(now))
            + self.logs.get().map_or(0, |table| table.live_keys(now))
            + self.leases.get().map_or(0, |table| table.live_keys(now))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.get().map_or(0, Table::bytes)
            + self.windows.get().map_or(0, LockedTable::bytes)
            + self.counters.get().map_or(0, LockedTable::bytes)
            + self.logs.get().map_or(0, LockedTable::bytes)
            + self.leases.get().map_or(0, LockedTable::bytes)
    }
}
