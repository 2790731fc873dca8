use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings};
use tollgate_store::{Charge, Limit, LimitOptions, Quota, Source, Store};
use tollgate_testbed::RedisServer;

/// Callers that each send the next request as soon as they have the decision.
pub(crate) struct Callers {
    pub(crate) store: Arc<RedisStore>,
    /// Each decision charges one key under all of these.
    limits: Arc<[Limit]>,
    keys: Arc<[String]>,
    count: usize,
}

impl Callers {
    pub(crate) async fn connect(
        server: &RedisServer,
        settings: RedisStoreSettings,
        scopes: &[&str],
        quota: Quota,
        keys: usize,
        count: usize,
    ) -> Callers {
        let store = Arc::new(connect(&server.address().to_string(), settings).await);
        let limit = |scope: &&str| store.limit(scope, quota, LimitOptions::default()).unwrap();
        let limits = scopes.iter().map(limit).collect();
        Callers { store, limits, keys: (0..keys).map(key).collect(), count }
    }

    /// Returns the decisions per second. All of them must come from the server, and pass.
    pub(crate) async fn per_second(&self, span: Duration) -> f64 {
        let begun = Instant::now();
        let callers: Vec<_> = (0..self.count).map(|caller| tokio::spawn(self.ask(caller, begun, span))).collect();
        let mut decisions = 0;
        for caller in callers {
            decisions += caller.await.unwrap();
        }
        decisions as f64 / begun.elapsed().as_secs_f64()
    }

    fn ask(&self, caller: usize, begun: Instant, span: Duration) -> impl Future<Output = u64> + Send + use<> {
        let (store, limits, keys) = (Arc::clone(&self.store), Arc::clone(&self.limits), Arc::clone(&self.keys));
        let step = self.count;
        async move {
            let mut at = caller % keys.len();
            let mut decisions = 0;
            while begun.elapsed() < span {
                let charges: Vec<_> = limits.iter().map(|limit| charge(limit, &keys[at])).collect();
                let outcome = store.check_all(&charges).await;
                assert!(outcome.passed && outcome.source == Source::Exact, "{outcome:?}");
                decisions += 1;
                at = (at + step) % keys.len();
            }
            decisions
        }
    }
}

pub(crate) fn charge<'a>(limit: &'a Limit, key: &'a str) -> Charge<'a> {
    Charge::new(limit, key.as_bytes(), 1)
}

pub(crate) fn key(number: usize) -> String {
    format!("user-{number:07}")
}

/// Returns a connected store.
pub(crate) async fn connect(address: &str, settings: RedisStoreSettings) -> RedisStore {
    let store = RedisStore::connect(&RedisOptions::standalone(address), settings, |_| {}).unwrap();
    for _ in 0..1_000 {
        if store.is_ready() {
            return store;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no connection to {address}");
}
