//! How a policy takes the place of another.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tollgate::policy::model::StoreSettings;
use tollgate::policy::promise::{Promise, promises};
use tollgate::policy::published::Published;
use tollgate::policy::{CounterChange, counter_changes};
use tollgate::{AlgorithmKind, AsyncLimiter, CheckedPolicy, LimiterError};

use super::Engine;
use crate::metrics::Metrics;
use crate::metrics::public_names::PublicNames;
use crate::snapshot;

/// What follows from the policy beside the limiter itself, and is replaced with it.
pub(super) struct InForce {
    pub(super) published: Published,
    pub(super) promises: Vec<Promise>,
    store: StoreSettings,
    pub(super) public_names: PublicNames,
    pub(super) fingerprint: String,
}

/// Why a policy does not take the place of another.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It keeps its counters somewhere else, and they cannot move.
    #[error("it keeps its counters in another kind of store, and they cannot move: start again to use it")]
    OtherStore,
    /// It writes its counters to another file, which may be another process's.
    #[error("it writes its counters to another file: start again to use it")]
    OtherSnapshot,
    /// It cannot be put in force.
    #[error("{0}")]
    Limiter(#[source] LimiterError),
}

/// What a policy that has taken the place of another leaves as it was, and what it starts anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    /// Whether it describes the store in another way, which holds from the next start.
    pub store_stays: bool,
    /// The counts that do not go on.
    pub counter_changes: Vec<CounterChange>,
}

impl Engine {
    /// Replaces the policy between two requests. Counters stay: a rule of the
    /// same name goes on where it was. Where it fails, nothing has changed.
    pub fn reload(&self, policy: &CheckedPolicy) -> Result<Reload, ReloadError> {
        let replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = self.replace(policy);
        self.metrics.reloads.count(replaced.is_ok(), self.now_ns());
        drop(replacing);
        replaced
    }

    /// Counts a reload that failed because there was no policy to be had.
    pub fn count_unread_policy(&self) {
        self.metrics.reloads.count(false, self.now_ns());
    }

    fn replace(&self, policy: &CheckedPolicy) -> Result<Reload, ReloadError> {
        let before = self.in_force.load();
        if std::mem::discriminant(&before.store) != std::mem::discriminant(&policy.store) {
            return Err(ReloadError::OtherStore);
        }
        if !snapshot::same_file(&before.store, &policy.store) {
            return Err(ReloadError::OtherSnapshot);
        }
        let before_policy = self.limiter.policy();
        self.limiter.set_policy(policy).map_err(ReloadError::Limiter)?;
        let counter_changes = counter_changes(&before_policy, &self.limiter.policy());
        let mut in_force = InForce::new(policy, &self.limiter, &self.metrics);
        // The store is the one that it was made as, whatever later policies say; only how often it is
        // written down may change.
        let (store, every_ns) = snapshot::with_every_of(&before.store, &policy.store);
        if let (Some(keeper), Some(every_ns)) = (&self.snapshots, every_ns) {
            keeper.set_every(every_ns);
        }
        let store_stays = in_force.store != store;
        in_force.store = store;
        self.in_force.store(Arc::new(in_force));
        self.has_permits.store(has_permits(&self.limiter), Relaxed);
        Ok(Reload { store_stays, counter_changes })
    }
}

impl InForce {
    pub(super) fn new(policy: &CheckedPolicy, limiter: &AsyncLimiter, metrics: &Metrics) -> InForce {
        metrics.rules.prepare_for(&limiter.policy());
        InForce {
            published: Published::of(policy),
            promises: promises(policy),
            store: policy.store.clone(),
            public_names: PublicNames::of(policy),
            fingerprint: policy.fingerprint(),
        }
    }
}

pub(super) fn has_permits(limiter: &AsyncLimiter) -> bool {
    limiter.policy().quotas().iter().any(|planned| planned.quota.kind() == AlgorithmKind::Concurrency)
}
