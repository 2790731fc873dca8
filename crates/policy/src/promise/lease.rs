//! What leases of tokens can withhold, and what they can add when the store loses its state.

use tollgate_core::{NotLeased, Quota, TokenLease};

/// The bounds of leases of a quota's tokens. The most that the quota admits is that of exact decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBound {
    /// The most tokens of a key that are leased and not yet spent, over all instances. Another instance refuses requests
    /// that only these would admit, also for longer than [`longest_refusal_ns`](super::LimitPromise::longest_refusal_ns).
    /// If the server loses its state, in a failover or by eviction, or if its clock steps forward, as many can be
    /// admitted in addition to what exact decisions admit then.
    pub most: u64,
    /// The time after which the tokens of an instance that fails count as spent. A bucket refills them from then on; a
    /// window counts them until it ends.
    pub expires_ns: u64,
}

impl LeaseBound {
    /// Returns the bounds for a quota whose tokens are leased in generations of this length.
    pub(super) fn of(quota: &Quota, generation_ns: u64) -> Result<LeaseBound, NotLeased> {
        let TokenLease { max_outstanding, .. } = TokenLease::of(quota)?;
        // A lease is counted until the end of the generation after its own.
        Ok(LeaseBound { most: max_outstanding, expires_ns: generation_ns.saturating_mul(2) })
    }
}
