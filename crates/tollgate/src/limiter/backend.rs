//! The store of a limiter: the memory store, or any other [`Store`].

use tollgate_store::{ChangeError, Charge, MemoryStore, Outcome, SharedOverrides, Store, StoreAdmin};

/// The store of a limiter. The memory store is called directly, without a future.
#[allow(clippy::large_enum_variant, reason = "a limiter has one")]
pub(in crate::limiter) enum Backend {
    Memory(MemoryStore),
    Other(Box<dyn Store>),
}

impl Backend {
    /// Returns the store, for rare calls.
    pub(in crate::limiter) fn store(&self) -> &dyn Store {
        match self {
            Backend::Memory(store) => store,
            Backend::Other(store) => &**store,
        }
    }

    /// Makes charges, all or none.
    pub(in crate::limiter) async fn check_all(&self, charges: &[Charge<'_>]) -> Outcome {
        match self {
            Backend::Memory(store) => store.check_all_now(charges),
            Backend::Other(store) => store.check_all(charges).await,
        }
    }

    /// Returns the time of the store's clock, in nanoseconds since 1970.
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

    /// Returns the admin interface of the store.
    pub(in crate::limiter) fn admin(&self) -> Result<&dyn StoreAdmin, ChangeError> {
        self.store().admin().ok_or(ChangeError::Unsupported)
    }

    /// Passes to a shared store what all instances must have in common.
    pub(in crate::limiter) fn compare_fingerprint(&self, fingerprint: Option<&str>) {
        if let Some(admin) = self.store().admin() {
            admin.compare_fingerprint(fingerprint);
        }
    }
}
