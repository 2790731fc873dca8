use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{Decision, Verdict};
use tollgate_redis::RedisStore;
use tollgate_store::{Charge, Limit, Source, Store};

/// Whatever happens to the servers, a check has its answer by then.
pub(crate) const PROMPTLY: Duration = Duration::from_secs(1);

/// What a check said, and how long it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    pub(crate) passed: bool,
    pub(crate) source: Source,
    pub(crate) decision: Decision,
    pub(crate) asked_at: Instant,
    pub(crate) took: Duration,
}

impl Checked {
    /// Whether the answer is what a limit does that is closed when the store fails.
    pub(crate) fn is_closed(&self) -> bool {
        !self.passed && self.decision.verdict == Verdict::NoRoom
    }
}

/// Charges one.
pub(crate) async fn check(store: &RedisStore, limit: &Limit, key: &str) -> Checked {
    charge(store, limit, key, 1).await
}

/// Asks how a key stands, whoever answers.
pub(crate) async fn look(store: &RedisStore, limit: &Limit, key: &str) -> Checked {
    charge(store, limit, key, 0).await
}

async fn charge(store: &RedisStore, limit: &Limit, key: &str, cost: u64) -> Checked {
    let asked_at = Instant::now();
    let charge = Charge::new(limit, key.as_bytes(), cost);
    let outcome = store.decide(&[charge]).await;
    let took = asked_at.elapsed();
    Checked { passed: outcome.passed, source: outcome.source, decision: outcome.decisions[0], asked_at, took }
}

/// How much of a key's limit is used by the server's own account.
pub(crate) async fn used(store: &RedisStore, limit: &Limit, key: &str) -> u64 {
    // A busy machine may miss a deadline now and then.
    for _ in 0..5_000 {
        let looked = look(store, limit, key).await;
        if looked.source == Source::Exact {
            return looked.decision.limit - looked.decision.remaining;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("no exact answer within ten seconds: {:?}", store.stats());
}
