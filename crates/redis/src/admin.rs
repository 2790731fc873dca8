//! The admin operations of the store, which take effect on all instances: overrides, resets, and the comparison of
//! secret keys.

use std::sync::Arc;

use tollgate_store::{BoxFuture, ChangeError, Limit, SharedOverrides, StoreAdmin, StoredOverride};

use crate::fingerprint::FingerprintCheck;
use crate::overrides::OverrideSync;
use crate::store::Inner;
use crate::wire::RedisClient;

/// Implements the admin operations on Redis.
pub(crate) struct RedisAdmin {
    store: Arc<Inner>,
    pub(crate) client: Arc<RedisClient>,
    overrides: OverrideSync,
    pub(crate) fingerprint_check: FingerprintCheck,
}

impl RedisAdmin {
    /// Starts the background tasks that read the changes of other instances. Must be called within a Tokio runtime.
    pub(crate) fn start(store: &Arc<Inner>, client: Arc<RedisClient>) -> RedisAdmin {
        let overrides = OverrideSync::start(Arc::clone(store), Arc::clone(&client));
        let fingerprint_check = FingerprintCheck::start(Arc::clone(store), Arc::clone(&client));
        RedisAdmin { store: Arc::clone(store), client, overrides, fingerprint_check }
    }
}

impl StoreAdmin for RedisAdmin {
    fn reset<'a>(&'a self, keys: &'a [(&'a Limit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            let reset = self.store.reset_keys(keys).await?;
            self.overrides.announce_resets(&reset).await
        })
    }

    fn compare_fingerprint(&self, fingerprint: Option<&str>) {
        self.fingerprint_check.set(fingerprint);
    }

    fn overrides(&self) -> &SharedOverrides {
        self.overrides.local_copy()
    }

    fn set_override(&self, stored: StoredOverride) -> BoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move { self.overrides.set(&stored).await })
    }

    fn remove_override<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(self.overrides.remove(name))
    }
}
