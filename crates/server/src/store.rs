//! The store of all front ends, as configured by the policy at startup.

use std::sync::Arc;

use tollgate::clock::Clock;
use tollgate::policy::CheckedPolicy;
use tollgate::policy::model::StoreSettings;
use tollgate::redis::{RedisStore, RegionStatus, RegionalMemoryStore, StoreEvent, redis_store, regional_memory_store};
use tollgate::store::{Stats, memory_store};
use tollgate::{AsyncLimiter, Limiter, LimiterError, MemoryStore};

use crate::snapshot::{self, OpenedSnapshot, SnapshotError};

/// A limiter with the store that a policy configures.
pub(crate) struct OpenStore {
    pub(crate) limiter: AsyncLimiter,
    /// The snapshot file of a memory store.
    pub(crate) opened: Option<OpenedSnapshot>,
}

/// Called when servers of a shared store fail and recover.
pub(crate) type StoreEventCallback = Box<dyn Fn(StoreEvent) + Send + Sync>;

/// Opens the store that a policy configures. A shared store, and one with regions, must be opened within a Tokio runtime.
pub(crate) fn open(
    policy: &CheckedPolicy,
    clock: &Arc<dyn Clock>,
    on_event: StoreEventCallback,
) -> Result<OpenStore, LimiterError> {
    match &policy.store {
        StoreSettings::Memory(settings) => {
            let clock = Arc::clone(clock);
            let (store, opened) = match &settings.snapshot {
                None => (memory_store(settings, clock)?, None),
                Some(snapshot_settings) => {
                    let (store, opened) = snapshot::open(settings, snapshot_settings, &clock).map_err(open_error)?;
                    (store, Some(opened))
                }
            };
            let limiter = match policy.regions.as_ref().filter(|regions| regions.own.is_some()) {
                None => Limiter::with_memory(policy, store)?.into(),
                Some(regions) => {
                    let store = regional_memory_store(store, settings, regions, on_event);
                    AsyncLimiter::with_store(policy, store.map_err(LimiterError::Connect)?)?
                }
            };
            Ok(OpenStore { limiter, opened })
        }
        StoreSettings::Redis(settings) => {
            let store = redis_store(settings, policy.regions.as_ref(), on_event).map_err(LimiterError::Connect)?;
            Ok(OpenStore { limiter: AsyncLimiter::with_store(policy, store)?, opened: None })
        }
    }
}

/// Returns the memory store, if counters are in this process. Limits that regions divide are counted beside it.
pub(crate) fn memory_of(limiter: &AsyncLimiter) -> Option<&MemoryStore> {
    limiter.memory_store().or_else(|| limiter.store_as().map(RegionalMemoryStore::memory))
}

/// Returns the statistics of all counters in this process.
pub(crate) fn memory_stats(limiter: &AsyncLimiter) -> Option<Stats> {
    let of_region = || limiter.store_as().map(RegionalMemoryStore::stats);
    limiter.memory_store().map(MemoryStore::stats).or_else(of_region)
}

/// Returns the state of the synchronisation with other regions; `None` without regions.
pub(crate) fn region_status(limiter: &AsyncLimiter) -> Option<RegionStatus> {
    let of_memory = || limiter.store_as().map(RegionalMemoryStore::region_status);
    limiter.store_as().and_then(RedisStore::region_status).or_else(of_memory)
}

fn open_error(error: SnapshotError) -> LimiterError {
    match error {
        SnapshotError::Build(error) => LimiterError::Store(error),
        error => LimiterError::Snapshot(Box::new(error)),
    }
}
