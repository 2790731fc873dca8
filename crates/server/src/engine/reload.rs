//! Replacing the policy of a running engine.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tollgate::policy::CheckedPolicy;
use tollgate::policy::model::{Regions, StoreSettings};
use tollgate::policy::promise::{Promise, promises};
use tollgate::policy::published::Published;
use tollgate::policy::{CounterChange, counter_changes};
use tollgate::{AlgorithmKind, AsyncLimiter, LimiterError};

use super::Engine;
use crate::metrics::ServiceMetrics;
use crate::metrics::public_names::PublicNames;
use crate::snapshot;

/// Data derived from the policy, replaced together with it.
pub(super) struct PolicyData {
    pub(super) published: Published,
    pub(super) promises: Vec<Promise>,
    store: StoreSettings,
    /// The regions of a shared store.
    regions: Option<Regions>,
    pub(super) public_names: PublicNames,
    pub(super) fingerprint: String,
}

/// Why a policy was not activated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The kind of store differs, and counters cannot move between stores.
    #[error("it configures another kind of store, and counters cannot move: restart to use it")]
    OtherStore,
    /// The snapshot file differs; the other file may belong to another process.
    #[error("it configures another snapshot file: restart to use it")]
    OtherSnapshot,
    /// The limiter rejects the policy.
    #[error("{0}")]
    Limiter(#[source] LimiterError),
}

/// The effect of a reload on the store and the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    /// Whether the store settings differ; the new ones apply after a restart.
    pub store_stays: bool,
    /// Whether the regions of a shared store differ; the new ones apply after a restart.
    pub regions_stay: bool,
    /// The counters that start anew.
    pub counter_changes: Vec<CounterChange>,
}

impl Engine {
    /// Replaces the policy between two requests. Counters of rules with the same name continue. On an error nothing
    /// has changed.
    pub fn reload(&self, policy: &CheckedPolicy) -> Result<Reload, ReloadError> {
        let replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = self.replace(policy);
        self.metrics.reloads.count(replaced.is_ok(), self.now_ns());
        drop(replacing);
        replaced
    }

    /// Counts a reload that failed because the policy could not be loaded.
    pub fn count_failed_reload(&self) {
        self.metrics.reloads.count(false, self.now_ns());
    }

    fn replace(&self, policy: &CheckedPolicy) -> Result<Reload, ReloadError> {
        let before = self.active.load();
        if std::mem::discriminant(&before.store) != std::mem::discriminant(&policy.store) {
            return Err(ReloadError::OtherStore);
        }
        if !snapshot::same_file(&before.store, &policy.store) {
            return Err(ReloadError::OtherSnapshot);
        }
        let before_policy = self.limiter.policy();
        self.limiter.set_policy(policy).map_err(ReloadError::Limiter)?;
        let counter_changes = counter_changes(&before_policy, &self.limiter.policy());
        let mut active = PolicyData::new(policy, &self.limiter, &self.metrics);
        // The store keeps its settings from startup; only the snapshot interval may change.
        let (store, every_ns) = snapshot::with_every_of(&before.store, &policy.store);
        if let (Some(writer), Some(every_ns)) = (&self.snapshots, every_ns) {
            writer.set_every(every_ns);
        }
        let store_stays = active.store != store;
        active.store = store;
        // So do its regions. The shares of a store in memory follow from the policy.
        let is_shared = matches!(before.store, StoreSettings::Redis(_));
        let regions_stay = is_shared && active.regions != before.regions;
        active.regions.clone_from(&before.regions);
        self.active.store(Arc::new(active));
        self.has_permits.store(has_permits(&self.limiter), Relaxed);
        Ok(Reload { store_stays, regions_stay, counter_changes })
    }
}

impl PolicyData {
    pub(super) fn new(policy: &CheckedPolicy, limiter: &AsyncLimiter, metrics: &ServiceMetrics) -> PolicyData {
        metrics.rules.prepare_for(&limiter.policy());
        PolicyData {
            published: Published::of(policy),
            promises: promises(policy),
            store: policy.store.clone(),
            regions: policy.regions.clone(),
            public_names: PublicNames::of(policy),
            fingerprint: policy.fingerprint(),
        }
    }
}

impl Engine {
    /// Returns the number of keys for which the memory store has entries; `None` for a shared store.
    pub(crate) fn memory_entries(&self) -> Option<u64> {
        match &self.active.load().store {
            StoreSettings::Memory(memory) => Some(memory.entries),
            StoreSettings::Redis(_) => None,
        }
    }
}

pub(super) fn has_permits(limiter: &AsyncLimiter) -> bool {
    limiter.policy().quotas().iter().any(|planned| planned.quota.kind() == AlgorithmKind::Concurrency)
}
