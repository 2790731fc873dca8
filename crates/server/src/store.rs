//! The store of all front ends, as configured by the policy at startup.

use std::sync::Arc;

use tollgate::clock::Clock;
use tollgate::policy::CheckedPolicy;
use tollgate::policy::model::StoreSettings;
use tollgate::redis::StoreEvent;
use tollgate::redis::redis_store;
use tollgate::store::memory_store;
use tollgate::{AsyncLimiter, Limiter, LimiterError};

use crate::snapshot::{self, OpenedSnapshot, SnapshotError};

/// A limiter with the store that a policy configures.
pub(crate) struct OpenStore {
    pub(crate) limiter: AsyncLimiter,
    /// The snapshot file of a memory store.
    pub(crate) opened: Option<OpenedSnapshot>,
}

/// Called when servers of a shared store fail and recover.
pub(crate) type StoreEventCallback = Box<dyn Fn(StoreEvent) + Send + Sync>;

/// Opens the store that a policy configures. A shared store must be opened within a Tokio runtime.
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
            let limiter = Limiter::with_memory(policy, store)?.into();
            Ok(OpenStore { limiter, opened })
        }
        StoreSettings::Redis(settings) => {
            let store = redis_store(settings, policy.regions.as_ref(), on_event).map_err(LimiterError::Connect)?;
            Ok(OpenStore { limiter: AsyncLimiter::with_store(policy, store)?, opened: None })
        }
    }
}

fn open_error(error: SnapshotError) -> LimiterError {
    match error {
        SnapshotError::Build(error) => LimiterError::Store(error),
        error => LimiterError::Snapshot(Box::new(error)),
    }
}
