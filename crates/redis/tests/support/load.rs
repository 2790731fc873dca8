use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_redis::RedisStore;
use tollgate_store::Limit;
use tollgate_store::Source;

use super::check::{Checked, check};
use super::tally::Tally;
use super::wait::until;

const PAUSE: Duration = Duration::from_millis(1);
/// The maximum duration of the load, for a test that does not end it.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// Tasks that check continuously, with a short pause after each check.
pub(crate) struct Load {
    tasks: JoinSet<Vec<Checked>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_stopped: AtomicBool,
    exactly_admitted: AtomicU64,
    fallen_back: AtomicU64,
}

impl Load {
    /// Starts the tasks. Each checks the keys in turn.
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
                    if shared.is_stopped.load(Ordering::Relaxed) || begun.elapsed() > MAX_DURATION {
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

    /// Waits until `more` checks were admitted by the shared counters.
    pub(crate) async fn until_admitted(&self, more: u64) -> Duration {
        let read = || self.shared.exactly_admitted.load(Ordering::Relaxed);
        let enough = read() + more;
        until("checks are admitted", || read() >= enough).await
    }

    /// Waits until `more` checks were decided by the fallback.
    pub(crate) async fn until_fallen_back(&self, more: u64) -> Duration {
        let read = || self.shared.fallen_back.load(Ordering::Relaxed);
        let enough = read() + more;
        until("checks fall back", || read() >= enough).await
    }

    /// Ends the load, and returns the outcomes of all checks.
    pub(crate) async fn end(self) -> Tally {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
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
