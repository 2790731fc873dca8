use std::error::Error;
use std::fmt;

use tokio::runtime::Handle;
use tollgate_store::{Board, ChangeError, KeyedCharge, LimitOptions, Notice, Outcome, Quota, Settled, Store};

use crate::agreement::Agreement;
use crate::board::SharedBoard;
use crate::carrier::Carrier;
use crate::store::{RedisLimit, RedisReceipt, SharedStore, StoreEvent, StoreSettings, StoreStats};
use crate::wire::RedisOptions;

/// Counters on Redis, Valkey or a cluster of them, shared by every instance
/// that has the same servers and the same prefix.
///
/// It connects in the background and never waits for that: while no server
/// answers, each limit does what its [`OnFailure`](tollgate_store::OnFailure)
/// says.
pub struct RedisStore {
    shared: SharedStore<Carrier>,
    board: SharedBoard,
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
        let carrier = Carrier::start(options)?;
        let shared = SharedStore::new(carrier, settings, Handle::current(), Box::new(on_change))?;
        shared.tell_beginning();
        let board = SharedBoard::start(shared.clone());
        let agreement = Agreement::start(shared.clone());
        Ok(RedisStore { shared, board, agreement, nodes: options.nodes.clone() })
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
    type Limit = RedisLimit;
    type Receipt = RedisReceipt;

    fn limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<RedisLimit, Box<dyn Error + Send + Sync>> {
        self.shared.limit(scope, quota, options)
    }

    async fn decide(&self, charges: &[KeyedCharge<'_, RedisLimit>]) -> Outcome<RedisReceipt> {
        self.shared.decide(charges).await
    }

    fn give_back(&self, receipt: RedisReceipt) {
        self.shared.give_back(receipt);
    }

    fn credit(&self, limit: &RedisLimit, key: &[u8], cost: u64) {
        self.shared.credit(limit, key, cost);
    }

    async fn settle(&self, receipt: RedisReceipt, true_cost: u64) -> Settled {
        self.shared.settle(receipt, true_cost).await
    }

    fn renew(&self, receipt: &RedisReceipt) -> bool {
        self.shared.renew(receipt)
    }

    fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    async fn reset(&self, keys: &[(&RedisLimit, &[u8])]) -> Result<(), ChangeError> {
        let reset = self.shared.reset_here(keys).await?;
        self.board.tell(&reset).await
    }

    fn agree_on(&self, fingerprint: Option<&str>) {
        self.agreement.set(fingerprint);
    }

    fn board(&self) -> Option<&Board> {
        Some(self.board.known())
    }

    async fn post(&self, notice: Notice) -> Result<(), ChangeError> {
        self.board.post(&notice).await
    }

    async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        self.board.remove(name).await
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
