use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_redis::RedisStore;
use tollgate_store::Limit;
use tollgate_store::Source;

use super::check::{PROMPTLY, look};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);
/// One answer may be a trial; so many in a row are the service.
const IN_A_ROW: u32 = 10;

/// Waits until something holds, and says how long that took.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        sleep(PAUSE).await;
    }
    begun.elapsed()
}

/// Waits until the counters themselves answer again, and says how long it took until the first of these answers.
/// It charges nothing.
pub(crate) async fn until_exact(store: &RedisStore, limit: &Limit, key: &str) -> Duration {
    let begun = Instant::now();
    let (mut first, mut in_a_row) = (None, 0);
    while in_a_row < IN_A_ROW {
        let looked = look(store, limit, key).await;
        assert!(looked.took < PROMPTLY, "an answer after {:?}", looked.took);
        if looked.source == Source::Exact {
            first.get_or_insert(begun.elapsed());
            in_a_row += 1;
        } else {
            (first, in_a_row) = (None, 0);
        }
        assert!(begun.elapsed() < PATIENCE, "the service did not return: {:?}", store.stats());
        sleep(PAUSE).await;
    }
    first.unwrap_or_default()
}
