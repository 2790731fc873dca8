use std::error::Error;
use std::fmt;

use tokio::runtime::Handle;
use tollgate_store::{
    BoxFuture, ChangeError, Charge, Limit, LimitOptions, Outcome, Quota, Receipt, Settled, SharedOverrides, Store,
    StoreAdmin, StoredOverride,
};

use crate::agreement::Agreement;
use crate::overrides::OverrideSync;
use crate::store::{SharedStore, StoreEvent, StoreSettings, StoreStats};
use crate::transport::redis::RedisTransport;
use crate::wire::RedisOptions;

/// Counters on Redis, Valkey or a cluster of them, shared by every instance
/// that has the same servers and the same prefix.
///
/// It connects in the background and never waits for that: while no server
/// answers, each limit does what its [`OnFailure`](tollgate_store::OnFailure)
/// says.
pub struct RedisStore {
    shared: SharedStore<RedisTransport>,
    overrides: OverrideSync,
    agreement: Agreement,
    nodes: Vec<String>,
}

impl RedisStore {
    /// Begins to connect. It must be called within a tokio runtime, which
    /// carries all connections. `on_change` hears what an operator should
    /// know: rare, and never once for each request.
    pub fn connect(
        options: &RedisOptions,
        settings: StoreSettings,
        on_change: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<RedisStore, Box<dyn Error + Send + Sync>> {
        if settings.prefix.contains(['{', '}']) {
            return Err("a brace in the prefix of the keys: it would put all of them into one slot".into());
        }
        let transport = RedisTransport::start(options)?;
        let shared = SharedStore::new(transport, settings, Handle::current(), Box::new(on_change))?;
        shared.tell_beginning();
        let overrides = OverrideSync::start(shared.clone());
        let agreement = Agreement::start(shared.clone());
        Ok(RedisStore { shared, overrides, agreement, nodes: options.nodes.clone() })
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        StoreStats { secret_key_differs: self.secret_key_differs(), ..self.shared.stats() }
    }

    /// Whether other instances hash secret values under another key, so that clients are counted apart.
    #[must_use]
    pub fn secret_key_differs(&self) -> bool {
        self.agreement.differs()
    }

    /// Whether every server can be reached at present.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.transport().is_ready()
    }
}

impl Store for RedisStore {
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.shared.limit(scope, quota, options)
    }

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.shared.caller_limit(scope, quota, options)
    }

    fn decide<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        self.shared.decide(charges)
    }

    fn give_back(&self, receipt: Receipt) {
        self.shared.give_back(receipt);
    }

    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        self.shared.credit(limit, key, cost);
    }

    fn settle(&self, receipt: Receipt, true_cost: u64) -> BoxFuture<'_, Settled> {
        self.shared.settle(receipt, true_cost)
    }

    fn renew(&self, receipt: &Receipt) -> bool {
        self.shared.renew(receipt)
    }

    fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    fn admin(&self) -> Option<&dyn StoreAdmin> {
        Some(self)
    }
}

impl StoreAdmin for RedisStore {
    fn reset<'a>(&'a self, keys: &'a [(&'a Limit, &'a [u8])]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            let reset = self.shared.reset_here(keys).await?;
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

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
