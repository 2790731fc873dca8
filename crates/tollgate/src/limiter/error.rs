use std::error::Error;

use thiserror::Error;
use tollgate_policy::{CompileError, PolicyErrors};
use tollgate_store::BuildError;

/// Why a limiter cannot be created, or does not accept a policy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// The policy has errors.
    #[error(transparent)]
    Policy(PolicyErrors),
    /// The policy file has errors or cannot be read.
    #[cfg(feature = "yaml")]
    #[error(transparent)]
    File(tollgate_policy::LoadError),
    /// The policy cannot be compiled.
    #[error(transparent)]
    Compile(CompileError),
    /// The store cannot be built.
    #[error(transparent)]
    Store(BuildError),
    /// The snapshot of the counters cannot be restored.
    #[error(transparent)]
    Snapshot(Box<dyn Error + Send + Sync>),
    /// The policy configures another store than the constructor provides.
    #[error(
        "the policy configures another store: use AsyncLimiter::connect for Redis, Limiter::new for memory, AsyncLimiter::with_store for a custom store"
    )]
    OtherStore,
    /// A rule is regional, and the region of this instance is not set.
    #[error(
        "the policy has regional rules, and the region of this instance is not set: set `self` under `regions`, or use CheckedPolicy::in_region"
    )]
    NoRegion,
    /// The policy hashes secret values with another key than the active policy.
    #[error("the policy hashes secret values with another key, which would reset their counters: restart to apply it")]
    OtherSecretKey,
    /// The shared store cannot be opened.
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Connect(crate::connect::ConnectError),
    /// The store does not accept one of the policy's quotas.
    #[error("{scope}: {error}")]
    Limit {
        /// The scope of the quota.
        scope: String,
        /// The error of the store.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
}
