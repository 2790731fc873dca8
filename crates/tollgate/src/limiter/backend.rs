//! Where the counters of a limiter are: in this process, or behind any other [`Store`].

use tollgate_store::{ChangeError, Charge, MemoryStore, Outcome, SharedOverrides, Store, StoreAdmin};

/// The store behind a limiter. One in this process is called directly, and answers at once.
#[allow(clippy::large_enum_variant, reason = "a limiter has one")]
pub(in crate::limiter) enum Backend {
    Memory(MemoryStore),
    Other(Box<dyn Store>),
}

impl Backend {
    /// The store, for calls that are rare.
    pub(in crate::limiter) fn store(&self) -> &dyn Store {
        match self {
            Backend::Memory(store) => store,
            Backend::Other(store) => &**store,
        }
    }

    /// Makes charges, all or none.
    pub(in crate::limiter) async fn decide(&self, charges: &[Charge<'_>]) -> Outcome {
        match self {
            Backend::Memory(store) => store.decide_now(charges),
            Backend::Other(store) => store.decide(charges).await,
        }
    }

    /// The time by which the store decides, in nanoseconds since 1970.
    #[inline]
    pub(in crate::limiter) fn now_ns(&self) -> u64 {
        match self {
            Backend::Memory(store) => Store::now_ns(store),
            Backend::Other(store) => store.now_ns(),
        }
    }

    #[inline]
    pub(in crate::limiter) fn overrides(&self) -> Option<&SharedOverrides> {
        match self {
            Backend::Memory(store) => Some(StoreAdmin::overrides(store)),
            Backend::Other(store) => store.admin().map(StoreAdmin::overrides),
        }
    }

    /// What the store offers to operators.
    pub(in crate::limiter) fn admin(&self) -> Result<&dyn StoreAdmin, ChangeError> {
        self.store().admin().ok_or(ChangeError::NotOffered)
    }

    /// Tells a shared store what all instances must have in common.
    pub(in crate::limiter) fn agree_on(&self, fingerprint: Option<&str>) {
        if let Some(admin) = self.store().admin() {
            admin.agree_on(fingerprint);
        }
    }
}
