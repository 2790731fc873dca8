//! The store of a region whose counters are in this process.
//!
//! Divided limits are counted in a table of their own ([`key_table`]), because their keys are refilled at rates that
//! change with the epochs. All others are those of a memory store. A request that is charged under both locks its divided
//! keys while the memory store decides, so that all charges are made or none.
//!
//! The region synchronises like one on servers ([`crate::regions`]). What its instances would store in the region is in
//! this process, and lost with it: after a start, the region enforces its reserve until it knows what was lent.

mod decide;
mod exchange;
mod key_table;
mod limit;
mod receipt;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_core::{Algorithm, Bucket, BucketState, Quota, Settlement};
use tollgate_store::{
    BoxFuture, Capacity, ChangeError, Charge, ChargeReceipt, Limit, LimitOptions, MemoryOptions, MemoryStore, Outcome,
    SharedOverrides, Stats, Store, StoreAdmin, StoredOverride,
};

use self::exchange::MemoryExchange;
use self::key_table::{KeyName, KeyTable, RefilledKey};
use self::limit::DividedLimit;
use self::receipt::DividedReceipt;
use crate::regions::{Exchange, RedisExchange, RegionSettings, RegionState, RegionStatus, RegionSync};
use crate::store::random::Random;
use crate::store::{OnStoreEvent, RegionalStore, StoreEvent, on_client_event, report_region_events};
use crate::wire::RedisClient;

/// Counters in this process, of a region that is one instance. Other regions may be in memory too, or on servers; they
/// exchange reports over one server, which is not asked on the way of a request.
pub struct RegionalMemoryStore {
    inner: Arc<Inner>,
    region_task: Option<JoinHandle<()>>,
}

struct Inner {
    /// The limits that are not divided, and the fallbacks of those that are.
    memory: MemoryStore,
    keys: KeyTable,
    regions: Arc<RegionState>,
    settings: RegionSettings,
    on_event: OnStoreEvent,
}

/// The time of the base of all schedules. It is not 0, so that a state before it can be told from an unused one.
const BASE_NS: u64 = 1 << 50;

/// The bytes of an entry with a key of usual length.
const ENTRY_BYTES: usize = 192;

impl RegionalMemoryStore {
    /// Creates a store, and starts to synchronise with other regions. Must be called within a Tokio runtime. `memory`
    /// counts under the limits that no regions divide; `options` bounds the table for those that they do. `on_event` is
    /// called with the events that an operator should know of.
    pub fn connect(
        memory: MemoryStore,
        options: MemoryOptions,
        settings: RegionSettings,
        seed: u64,
        on_event: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<RegionalMemoryStore, Box<dyn Error + Send + Sync>> {
        let on_event: Arc<OnStoreEvent> = Arc::new(Box::new(on_event));
        let global = Arc::new(RedisClient::start_with(&settings.global, &on_client_event(&on_event))?);
        let exchange = Arc::new(RedisExchange::new(Arc::clone(&global), global));
        let state = RegionState::new(&settings.region, crate::regions::RegionFaultPoints::default());
        Ok(RegionalMemoryStore::over(
            exchange,
            state,
            memory,
            options,
            settings,
            seed,
            Box::new(move |event| on_event(event)),
        ))
    }

    fn over(
        global: Arc<dyn Exchange>,
        state: RegionState,
        memory: MemoryStore,
        options: MemoryOptions,
        settings: RegionSettings,
        seed: u64,
        on_event: OnStoreEvent,
    ) -> RegionalMemoryStore {
        let exchange: Arc<dyn Exchange> = Arc::new(MemoryExchange::new(global));
        let regions = Arc::new(state);
        let capacity = match options.capacity {
            Capacity::Entries(entries) => entries,
            Capacity::Bytes(bytes) => bytes / ENTRY_BYTES,
        };
        let keys = KeyTable::new(capacity, options.when_full);
        let instance = format!("{:016x}", Random::new(seed).next());
        let sync = RegionSync::new(&regions, Arc::clone(&exchange), settings.clone(), String::new(), instance, true);
        let inner = Arc::new(Inner { memory, keys, regions, settings, on_event });
        tokio::spawn(report_region_events(Arc::downgrade(&inner), exchange));
        RegionalMemoryStore { inner, region_task: Some(tokio::spawn(sync.run())) }
    }

    /// Creates a store over another exchange, with an injected fault if given.
    #[cfg(test)]
    pub(crate) fn for_test(
        exchange: Arc<dyn Exchange>,
        settings: RegionSettings,
        seed: u64,
        fault: Option<crate::sim::InjectedFault>,
    ) -> RegionalMemoryStore {
        let state = RegionState::new(&settings.region, crate::regions::RegionFaultPoints { fault });
        let options = MemoryOptions { capacity: Capacity::Entries(64 * 1_024), ..MemoryOptions::default() };
        let clock = tollgate_store::ManualClock::at(BASE_NS);
        let memory = MemoryStore::with(options, clock).unwrap();
        RegionalMemoryStore::over(exchange, state, memory, options, settings, seed, Box::new(|_| {}))
    }

    /// Returns the rate at which a key is refilled now, in thousandths.
    #[cfg(test)]
    pub(crate) fn refill_rate(&self, limit: &Limit, key: &[u8]) -> u32 {
        let now = Instant::now();
        let Some(divided) = DividedLimit::of(limit) else { return 0 };
        let schedule = self.inner.regions.schedule(&divided.report_name(&divided.key_name(key)), now);
        schedule.rate_at(now)
    }

    /// Returns the store of the limits that no regions divide.
    #[must_use]
    pub fn memory(&self) -> &MemoryStore {
        &self.inner.memory
    }

    /// Returns the state of the synchronisation with other regions.
    #[must_use]
    pub fn region_status(&self) -> RegionStatus {
        self.inner.regions.status()
    }

    /// Returns the statistics of both tables.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (keys, evictions, refused) = self.inner.keys.counts();
        let stats = self.inner.memory.stats();
        Stats {
            live_keys: stats.live_keys + keys,
            bytes: stats.bytes + keys * ENTRY_BYTES,
            evictions: stats.evictions + evictions,
            refused_full: stats.refused_full + refused,
            ..stats
        }
    }
}

impl Inner {
    /// Returns a time in nanoseconds.
    fn time_ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.regions.base());
        BASE_NS.saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Changes the state of a key, refilled until now. A key without an entry is as unused: then nothing happens, unless
    /// it is to be created.
    fn update<R>(
        &self,
        limit: &Limit,
        name: &KeyName,
        creates: bool,
        change: impl FnOnce(&Bucket, &mut BucketState, u64) -> R,
    ) -> Option<R> {
        let (divided, now) = (DividedLimit::of(limit)?, Instant::now());
        let bucket = divided.present_bucket(self.regions.share(now));
        let now_ns = self.time_ns(now);
        let schedule = self.regions.schedule(&divided.report_name(name), now);
        let mut locked = self.keys.lock(std::iter::once(name));
        let known = locked.read(name, &schedule, BASE_NS, now_ns);
        let mut key = known.or_else(|| creates.then(|| RefilledKey::unused(&bucket, now_ns)))?;
        key.convert_to(&bucket, now_ns);
        let result = change(&bucket, &mut key.state, now_ns);
        locked.write(name, key, schedule.least).ok().map(|()| result)
    }
}

impl RegionalStore for Inner {
    fn regions(&self) -> Option<(&RegionState, &RegionSettings)> {
        Some((&self.regions, &self.settings))
    }

    fn report(&self, event: StoreEvent) {
        (self.on_event)(event);
    }
}

impl Drop for RegionalMemoryStore {
    fn drop(&mut self) {
        if let Some(task) = &self.region_task {
            task.abort();
        }
    }
}

impl Store for RegionalMemoryStore {
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        if options.regional { self.divide(scope, quota, options) } else { Ok(self.inner.memory.limit(scope, quota)?) }
    }

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        Store::caller_limit(&self.inner.memory, scope, quota, options)
    }

    fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.inner.decide(charges) })
    }

    fn refund(&self, receipt: ChargeReceipt) {
        if DividedLimit::of(receipt.limit()).is_none() {
            return self.inner.memory.refund(receipt);
        }
        let Some((limit, charged, DividedReceipt { name, fallback, is_decided })) = receipt.into_parts() else {
            return;
        };
        self.inner.update(&limit, &name, false, |bucket, state, now| {
            if is_decided {
                bucket.refund(state, now, &charged, charged.cost);
            } else {
                bucket.credit(state, now, charged.cost);
            }
        });
        if let Some(receipt) = fallback {
            self.inner.memory.refund(receipt);
        }
    }

    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        let Some(divided) = DividedLimit::of(limit) else { return Store::credit(&self.inner.memory, limit, key, cost) };
        self.inner.update(limit, &divided.key_name(key), false, |bucket, state, now| bucket.credit(state, now, cost));
        if let Some(fallback) = &divided.fallback {
            Store::credit(&self.inner.memory, fallback, key, cost);
        }
    }

    fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> BoxFuture<'_, Settlement> {
        if DividedLimit::of(receipt.limit()).is_none() {
            return Store::settle(&self.inner.memory, receipt, true_cost);
        }
        let settled = self.settle_divided(receipt, true_cost);
        Box::pin(async move { settled })
    }

    /// Permits cannot be divided.
    fn renew(&self, receipt: &ChargeReceipt) -> bool {
        DividedLimit::of(receipt.limit()).is_none() && self.inner.memory.renew(receipt)
    }

    fn now_ns(&self) -> u64 {
        Store::now_ns(&self.inner.memory)
    }

    fn admin(&self) -> Option<&dyn StoreAdmin> {
        Some(self)
    }
}

impl RegionalMemoryStore {
    fn settle_divided(&self, receipt: ChargeReceipt, true_cost: u64) -> Settlement {
        let Some((limit, charged, DividedReceipt { name, fallback, is_decided })) = receipt.into_parts() else {
            return Settlement { overrun: 0 };
        };
        let of_share = self.inner.update(&limit, &name, true, |bucket, state, now| {
            if is_decided {
                return bucket.settle(state, now, &charged, true_cost);
            }
            match true_cost.checked_sub(charged.cost) {
                Some(more) => Settlement { overrun: bucket.owe(state, now, more) },
                None => {
                    bucket.credit(state, now, charged.cost - true_cost);
                    Settlement { overrun: 0 }
                }
            }
        });
        match fallback {
            Some(receipt) => self.inner.memory.settle(receipt, true_cost),
            None => of_share.unwrap_or(Settlement { overrun: 0 }),
        }
    }
}

impl StoreAdmin for RegionalMemoryStore {
    fn reset<'a>(&'a self, keys: &'a [(&'a Limit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            for (limit, key) in keys {
                match DividedLimit::of(limit) {
                    None => self.inner.memory.reset(limit, *key),
                    Some(divided) => {
                        self.inner.keys.remove(&divided.key_name(key));
                        if let Some(fallback) = &divided.fallback {
                            self.inner.memory.reset(fallback, *key);
                        }
                    }
                }
            }
            Ok(())
        })
    }

    fn overrides(&self) -> &SharedOverrides {
        StoreAdmin::overrides(&self.inner.memory)
    }

    fn set_override(&self, stored: StoredOverride) -> BoxFuture<'_, Result<(), ChangeError>> {
        self.inner.memory.set_override(stored)
    }

    fn remove_override<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>> {
        self.inner.memory.remove_override(name)
    }
}

impl fmt::Debug for RegionalMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionalMemoryStore").field("region", &self.inner.settings.region).finish_non_exhaustive()
    }
}
