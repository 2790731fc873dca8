use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{ChargeVerdict, Decision};
use tollgate_redis::RedisStore;
use tollgate_store::{Charge, Limit, Source, Store};

/// The maximum duration of a check, whatever happens to the servers.
pub(crate) const MAX_LATENCY: Duration = Duration::from_secs(1);

/// The outcome of a check, and its duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    pub(crate) passed: bool,
    pub(crate) source: Source,
    pub(crate) decision: Decision,
    pub(crate) started_at: Instant,
    pub(crate) took: Duration,
}

impl Checked {
    /// Returns whether the check was refused by a limit that is closed on failure.
    pub(crate) fn is_closed(&self) -> bool {
        !self.passed && self.decision.verdict == ChargeVerdict::Unavailable
    }
}

/// Charges one unit.
pub(crate) async fn check(store: &RedisStore, limit: &Limit, key: &str) -> Checked {
    charge(store, limit, key, 1).await
}

/// Reads the state of a key without a charge, from the server or the fallback.
pub(crate) async fn peek(store: &RedisStore, limit: &Limit, key: &str) -> Checked {
    charge(store, limit, key, 0).await
}

async fn charge(store: &RedisStore, limit: &Limit, key: &str, cost: u64) -> Checked {
    let started_at = Instant::now();
    let charge = Charge::new(limit, key.as_bytes(), cost);
    let outcome = store.check_all(&[charge]).await;
    let took = started_at.elapsed();
    Checked { passed: outcome.passed, source: outcome.source, decision: outcome.decisions[0], started_at, took }
}

/// Returns the usage of a key as counted by the server.
pub(crate) async fn used(store: &RedisStore, limit: &Limit, key: &str) -> u64 {
    // A busy machine may miss a deadline now and then.
    for _ in 0..5_000 {
        let peeked = peek(store, limit, key).await;
        if peeked.source == Source::Exact {
            return peeked.decision.limit - peeked.decision.remaining;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("no exact decision within ten seconds: {:?}", store.stats());
}
