use std::error::Error;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::policy::model::{RedisSettings, StoreSettings};
use tollgate::redis::{RedisLimit, RedisReceipt, StoreEvent};
use tollgate::{
    Board, ChangeError, ChargeReceipt, CheckedPolicy, Clock, ConnectError, KeyedCharge, Limit, LimitOptions,
    LimiterError, MemoryStore, Notice, Outcome, Quota, RedisStore, Settled, Store, memory_store,
};

use crate::snapshot::{self, Opened, SnapshotError};

/// The store behind every front end, as the policy chose it when the service started.
#[allow(clippy::large_enum_variant, reason = "a service has one")]
pub(crate) enum ServiceStore {
    /// In this process. Its clock is chosen when the service starts; a call
    /// through a pointer is nothing beside reading a request.
    Memory(MemoryStore),
    /// Shared with other instances.
    Redis(RedisStore),
}

/// A limit of one of them.
#[derive(Clone, Debug)]
pub(crate) enum ServiceLimit {
    Memory(Limit),
    Redis(RedisLimit),
}

/// A receipt of one of them.
#[derive(Debug)]
pub(crate) enum ServiceReceipt {
    Memory(ChargeReceipt),
    Redis(RedisReceipt),
}

/// Who hears when servers fail and when they are back.
pub(crate) type OnChange = Box<dyn Fn(StoreEvent) + Send + Sync>;

impl ServiceStore {
    /// The store that a policy describes, and the file that it is kept in. A shared one must be opened within a
    /// runtime.
    pub(crate) fn open(
        policy: &CheckedPolicy,
        clock: &Arc<dyn Clock>,
        on_change: OnChange,
    ) -> Result<(ServiceStore, Option<Opened>), LimiterError> {
        match &policy.store {
            StoreSettings::Memory(settings) => {
                let Some(kept) = &settings.snapshot else {
                    return Ok((ServiceStore::Memory(memory_store(settings, Arc::clone(clock))?), None));
                };
                let (store, opened) = snapshot::open(settings, kept, clock).map_err(unopened)?;
                Ok((ServiceStore::Memory(store), Some(opened)))
            }
            StoreSettings::Redis(settings) => {
                let store = shared(settings, on_change).map_err(LimiterError::Connect)?;
                Ok((ServiceStore::Redis(store), None))
            }
        }
    }
}

fn unopened(error: SnapshotError) -> LimiterError {
    match error {
        SnapshotError::Build(error) => LimiterError::Store(error),
        error => LimiterError::Snapshot(Box::new(error)),
    }
}

fn shared(settings: &RedisSettings, on_change: OnChange) -> Result<RedisStore, ConnectError> {
    tollgate::redis_store(settings, on_change)
}

/// A limit comes back to the store that made it: there is one store in a service, and it stays.
const OF_ANOTHER_STORE: &str = "a limit or receipt of another store";

impl ServiceLimit {
    fn of_memory(&self) -> &Limit {
        match self {
            ServiceLimit::Memory(limit) => limit,
            ServiceLimit::Redis(_) => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    fn of_redis(&self) -> &RedisLimit {
        match self {
            ServiceLimit::Redis(limit) => limit,
            ServiceLimit::Memory(_) => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }
}

impl Store for ServiceStore {
    type Limit = ServiceLimit;
    type Receipt = ServiceReceipt;

    fn answers_at_once(&self) -> bool {
        matches!(self, ServiceStore::Memory(_))
    }

    fn limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<ServiceLimit, Box<dyn Error + Send + Sync>> {
        Ok(match self {
            ServiceStore::Memory(store) => ServiceLimit::Memory(Store::limit(store, scope, quota, options)?),
            ServiceStore::Redis(store) => ServiceLimit::Redis(store.limit(scope, quota, options)?),
        })
    }

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<ServiceLimit, Box<dyn Error + Send + Sync>> {
        Ok(match self {
            ServiceStore::Memory(store) => ServiceLimit::Memory(Store::caller_limit(store, scope, quota, options)?),
            ServiceStore::Redis(store) => ServiceLimit::Redis(store.caller_limit(scope, quota, options)?),
        })
    }

    async fn decide(&self, charges: &[KeyedCharge<'_, ServiceLimit>]) -> Outcome<ServiceReceipt> {
        match self {
            ServiceStore::Memory(store) => store.decide_as(charges, ServiceLimit::of_memory, ServiceReceipt::Memory),
            ServiceStore::Redis(store) => {
                let charges = charged(charges, ServiceLimit::of_redis);
                // On the heap: it is large, and those who ask in memory would carry it about.
                received(Box::pin(store.decide(&charges)).await, ServiceReceipt::Redis)
            }
        }
    }

    fn give_back(&self, receipt: ServiceReceipt) {
        match (self, receipt) {
            (ServiceStore::Memory(store), ServiceReceipt::Memory(receipt)) => store.give_back(receipt),
            (ServiceStore::Redis(store), ServiceReceipt::Redis(receipt)) => store.give_back(receipt),
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    fn credit(&self, limit: &ServiceLimit, key: &[u8], cost: u64) {
        match (self, limit) {
            (ServiceStore::Memory(store), ServiceLimit::Memory(limit)) => Store::credit(store, limit, key, cost),
            (ServiceStore::Redis(store), ServiceLimit::Redis(limit)) => store.credit(limit, key, cost),
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    async fn settle(&self, receipt: ServiceReceipt, true_cost: u64) -> Settled {
        match (self, receipt) {
            (ServiceStore::Memory(store), ServiceReceipt::Memory(receipt)) => {
                Store::settle(store, receipt, true_cost).await
            }
            (ServiceStore::Redis(store), ServiceReceipt::Redis(receipt)) => {
                Box::pin(store.settle(receipt, true_cost)).await
            }
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    fn renew(&self, receipt: &ServiceReceipt) -> bool {
        match (self, receipt) {
            (ServiceStore::Memory(store), ServiceReceipt::Memory(receipt)) => Store::renew(store, receipt),
            (ServiceStore::Redis(store), ServiceReceipt::Redis(receipt)) => store.renew(receipt),
            _ => unreachable!("{OF_ANOTHER_STORE}"),
        }
    }

    fn now_ns(&self) -> u64 {
        match self {
            ServiceStore::Memory(store) => Store::now_ns(store),
            ServiceStore::Redis(store) => store.now_ns(),
        }
    }

    async fn reset(&self, keys: &[(&ServiceLimit, &[u8])]) -> Result<(), ChangeError> {
        match self {
            ServiceStore::Memory(store) => Store::reset(store, &named(keys, ServiceLimit::of_memory)).await,
            ServiceStore::Redis(store) => store.reset(&named(keys, ServiceLimit::of_redis)).await,
        }
    }

    fn agree_on(&self, fingerprint: Option<&str>) {
        match self {
            ServiceStore::Memory(store) => store.agree_on(fingerprint),
            ServiceStore::Redis(store) => store.agree_on(fingerprint),
        }
    }

    fn board(&self) -> Option<&Board> {
        match self {
            ServiceStore::Memory(store) => store.board(),
            ServiceStore::Redis(store) => store.board(),
        }
    }

    async fn post(&self, notice: Notice) -> Result<(), ChangeError> {
        match self {
            ServiceStore::Memory(store) => store.post(notice).await,
            ServiceStore::Redis(store) => store.post(notice).await,
        }
    }

    async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        match self {
            ServiceStore::Memory(store) => store.remove(name).await,
            ServiceStore::Redis(store) => store.remove(name).await,
        }
    }
}

fn named<'a, L>(
    keys: &[(&'a ServiceLimit, &'a [u8])],
    own: impl Fn(&'a ServiceLimit) -> &'a L,
) -> Vec<(&'a L, &'a [u8])> {
    keys.iter().map(|(limit, key)| (own(limit), *key)).collect()
}

fn charged<'a, L>(
    charges: &[KeyedCharge<'a, ServiceLimit>],
    own: impl Fn(&'a ServiceLimit) -> &'a L,
) -> SmallVec<[KeyedCharge<'a, L>; 4]> {
    charges
        .iter()
        .map(|asked| KeyedCharge {
            limit: own(asked.limit),
            key: asked.key,
            cost: asked.cost,
            mode: asked.mode,
            receipt: asked.receipt,
        })
        .collect()
}

fn received<R>(outcome: Outcome<R>, receipt: impl Fn(R) -> ServiceReceipt) -> Outcome<ServiceReceipt> {
    Outcome {
        passed: outcome.passed,
        decisions: outcome.decisions,
        receipts: outcome.receipts.into_iter().map(|(at, made)| (at, receipt(made))).collect(),
        source: outcome.source,
        asked: outcome.asked,
    }
}
