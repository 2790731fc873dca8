//! What operators do beside decisions: overrides and resets, on all instances.

use std::sync::Arc;

use tollgate_store::{BoxFuture, ChangeError, Limit, SharedOverrides, StoreAdmin, StoredOverride};

use crate::agreement::Agreement;
use crate::overrides::OverrideSync;
use crate::store::Inner;
use crate::wire::Client;

pub(crate) struct Admin {
    store: Arc<Inner>,
    pub(crate) client: Arc<Client>,
    overrides: OverrideSync,
    pub(crate) agreement: Agreement,
}

impl Admin {
    /// Begins to read what other instances say. It must be called within a runtime.
    pub(crate) fn start(store: &Arc<Inner>, client: Arc<Client>) -> Admin {
        let overrides = OverrideSync::start(Arc::clone(store), Arc::clone(&client));
        let agreement = Agreement::start(Arc::clone(store), Arc::clone(&client));
        Admin { store: Arc::clone(store), client, overrides, agreement }
    }
}

impl StoreAdmin for Admin {
    fn reset<'a>(&'a self, keys: &'a [(&'a Limit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            let reset = self.store.reset_here(keys).await?;
            self.overrides.tell(&reset).await
        })
    }

    fn agree_on(&self, fingerprint: Option<&str>) {
        self.agreement.set(fingerprint);
    }

    fn overrides(&self) -> &SharedOverrides {
        self.overrides.known()
    }

    fn set_override(&self, stored: StoredOverride) -> BoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move { self.overrides.set(&stored).await })
    }

    fn remove_override<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(self.overrides.remove(name))
    }
}
