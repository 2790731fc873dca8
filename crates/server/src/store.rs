//! The store behind every front end, as the policy chose it when the service started.

use std::sync::Arc;

use tollgate::policy::model::StoreSettings;
use tollgate::redis::StoreEvent;
use tollgate::{AsyncLimiter, CheckedPolicy, Clock, Limiter, LimiterError, memory_store, redis_store};

use crate::snapshot::{self, Opened, SnapshotError};

/// A limiter over the store that a policy describes.
pub(crate) struct OpenStore {
    pub(crate) limiter: AsyncLimiter,
    /// The file that a store in memory is kept in.
    pub(crate) opened: Option<Opened>,
}

/// Called when servers fail and when they are back.
pub(crate) type OnChange = Box<dyn Fn(StoreEvent) + Send + Sync>;

/// Opens the store that a policy describes. A shared one must be opened within a runtime.
pub(crate) fn open(
    policy: &CheckedPolicy,
    clock: &Arc<dyn Clock>,
    on_change: OnChange,
) -> Result<OpenStore, LimiterError> {
    match &policy.store {
        StoreSettings::Memory(settings) => {
            let clock = Arc::clone(clock);
            let (store, opened) = match &settings.snapshot {
                None => (memory_store(settings, clock)?, None),
                Some(kept) => {
                    let (store, opened) = snapshot::open(settings, kept, &clock).map_err(unopened)?;
                    (store, Some(opened))
                }
            };
            let limiter = Limiter::with_memory(policy, store)?.into();
            Ok(OpenStore { limiter, opened })
        }
        StoreSettings::Redis(settings) => {
            let store = redis_store(settings, on_change).map_err(LimiterError::Connect)?;
            Ok(OpenStore { limiter: AsyncLimiter::with_store(policy, store)?, opened: None })
        }
    }
}

fn unopened(error: SnapshotError) -> LimiterError {
    match error {
        SnapshotError::Build(error) => LimiterError::Store(error),
        error => LimiterError::Snapshot(Box::new(error)),
    }
}
