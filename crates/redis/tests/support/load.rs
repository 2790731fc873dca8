use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_redis::RedisStore;
use tollgate_store::Limit;
use tollgate_store::Source;

use super::check::{Checked, check};
use super::patience::until;
use super::tally::Tally;

const PAUSE: Duration = Duration::from_millis(1);
/// A test that forgets to end it is not kept up for ever.
const AT_MOST: Duration = Duration::from_secs(60);

/// Tasks that check all the time, each after a short pause.
pub(crate) struct Load {
    tasks: JoinSet<Vec<Checked>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    exactly_admitted: AtomicU64,
    fallen_back: AtomicU64,
}

impl Load {
    /// Each task checks the keys in turn.
    pub(crate) fn start(store: &Arc<RedisStore>, limit: &Limit, keys: &[&str], tasks: usize) -> Load {
        let shared = Arc::new(Shared::default());
        let keys: Arc<[String]> = keys.iter().map(|&key| key.to_owned()).collect();
        let mut running = JoinSet::new();
        for first in 0..tasks {
            let (store, limit) = (Arc::clone(store), limit.clone());
            let (shared, keys) = (Arc::clone(&shared), Arc::clone(&keys));
            running.spawn(async move {
                let begun = Instant::now();
                let mut checks = Vec::new();
                for key in keys.iter().cycle().skip(first % keys.len()) {
                    if shared.is_over.load(Ordering::Relaxed) || begun.elapsed() > AT_MOST {
                        break;
                    }
                    let checked = check(&store, &limit, key).await;
                    shared.count(&checked);
                    checks.push(checked);
                    sleep(PAUSE).await;
                }
                checks
            });
        }
        Load { tasks: running, shared }
    }

    /// Waits until so many more were admitted by the counters themselves.
    pub(crate) async fn until_admitted(&self, more: u64) -> Duration {
        let read = || self.shared.exactly_admitted.load(Ordering::Relaxed);
        let enough = read() + more;
        until("checks are admitted", || read() >= enough).await
    }

    /// Waits until so many more were not answered by the counters.
    pub(crate) async fn until_fallen_back(&self, more: u64) -> Duration {
        let read = || self.shared.fallen_back.load(Ordering::Relaxed);
        let enough = read() + more;
        until("checks fall back", || read() >= enough).await
    }

    /// Ends it, and says what became of all checks.
    pub(crate) async fn end(self) -> Tally {
        self.shared.is_over.store(true, Ordering::Relaxed);
        Tally(self.tasks.join_all().await.into_iter().flatten().collect())
    }
}

impl Shared {
    fn count(&self, checked: &Checked) {
        if checked.source == Source::Fallback {
            self.fallen_back.fetch_add(1, Ordering::Relaxed);
        } else if checked.passed {
            self.exactly_admitted.fetch_add(1, Ordering::Relaxed);
        }
    }
}
