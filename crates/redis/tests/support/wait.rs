use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_redis::RedisStore;
use tollgate_store::Limit;
use tollgate_store::Source;

use super::check::{MAX_LATENCY, peek};

const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);
/// The number of consecutive exact decisions that show recovery; a single one may be a probe of the circuit breaker.
const IN_A_ROW: u32 = 10;

/// Waits until a condition holds. Returns how long that took.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
        sleep(PAUSE).await;
    }
    begun.elapsed()
}

/// Waits until checks are decided by the shared counters again. Returns how long it took until the first of these
/// decisions. Charges nothing.
pub(crate) async fn until_exact(store: &RedisStore, limit: &Limit, key: &str) -> Duration {
    let begun = Instant::now();
    let (mut first, mut in_a_row) = (None, 0);
    while in_a_row < IN_A_ROW {
        let peeked = peek(store, limit, key).await;
        assert!(peeked.took < MAX_LATENCY, "a decision took {:?}", peeked.took);
        if peeked.source == Source::Exact {
            first.get_or_insert(begun.elapsed());
            in_a_row += 1;
        } else {
            (first, in_a_row) = (None, 0);
        }
        assert!(begun.elapsed() < TIMEOUT, "the store did not recover: {:?}", store.stats());
        sleep(PAUSE).await;
    }
    first.unwrap_or_default()
}
