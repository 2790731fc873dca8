use std::error::Error;

use thiserror::Error;
use tollgate_policy::{CompileError, PolicyErrors};
use tollgate_store::BuildError;

/// Why a limiter cannot be made, or cannot take a policy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// The policy has errors.
    #[error(transparent)]
    Policy(PolicyErrors),
    /// The policy's file has errors, or cannot be read.
    #[cfg(feature = "yaml")]
    #[error(transparent)]
    File(tollgate_policy::LoadError),
    /// The policy cannot be compiled.
    #[error(transparent)]
    Compile(CompileError),
    /// The store cannot be built.
    #[error(transparent)]
    Store(BuildError),
    /// The counters of the past cannot be restored.
    #[error(transparent)]
    Snapshot(Box<dyn Error + Send + Sync>),
    /// The policy wants a store that must be given: see [`AsyncLimiter::with_store`](crate::AsyncLimiter::with_store).
    #[error(
        "the policy keeps its counters elsewhere: AsyncLimiter::connect is for Redis, Limiter::new for memory, and AsyncLimiter::with_store for any store"
    )]
    OtherStore,
    /// The policy hashes secret values under another key than the one in force.
    #[error("it hashes secret values under another key, so that their counts would start anew: start again to use it")]
    OtherSecretKey,
    /// The policy's shared store cannot be had.
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Connect(crate::connect::ConnectError),
    /// The store does not take one of the policy's quotas.
    #[error("{scope}: {error}")]
    Limit {
        /// The scope of the quota.
        scope: String,
        /// What the store says.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
}
