use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::admitted::Admitted;
use crate::instance::Instance;
use crate::limits::{Key, hot};
use crate::support::ChildProcess;

const TICK: Duration = Duration::from_millis(10);
const STOPPED: u64 = u64::MAX;

/// The most requests in flight, so that a slow machine does not collect them.
const MAX_IN_FLIGHT: usize = 2_000;

/// Requests of one instance for hot keys, as many a second for each key as is set at present.
pub(crate) struct Load {
    shared: Arc<SharedLoad>,
    task: JoinHandle<Admitted>,
}

#[derive(Default)]
struct SharedLoad {
    per_second: AtomicU64,
    admitted: AtomicU64,
}

impl Load {
    /// Starts with no requests.
    pub(crate) fn start(instance: Instance, keys: u32, sends_at_once: bool) -> Load {
        let shared = Arc::new(SharedLoad::default());
        let task = tokio::spawn(run(instance, keys, Arc::clone(&shared), sends_at_once));
        Load { shared, task }
    }

    /// Sets the number of requests a second, for each key.
    pub(crate) fn set(&self, per_second: u64) {
        self.shared.per_second.store(per_second, Ordering::Relaxed);
    }

    /// Returns the number of requests that were admitted until now.
    pub(crate) fn admitted(&self) -> u64 {
        self.shared.admitted.load(Ordering::Relaxed)
    }

    pub(crate) async fn end(self) -> Admitted {
        self.set(STOPPED);
        self.task.await.unwrap()
    }
}

async fn run(instance: Instance, keys: u32, shared: Arc<SharedLoad>, sends_at_once: bool) -> Admitted {
    let mut ticking = interval(TICK);
    ticking.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut log, mut tasks, mut due_millionths) = (Admitted::default(), JoinSet::new(), 0);
    let mut last = Instant::now();
    loop {
        ticking.tick().await;
        let per_second = shared.per_second.load(Ordering::Relaxed);
        if per_second == STOPPED {
            break;
        }
        let elapsed = last.elapsed();
        last += elapsed;
        due_millionths += per_second * elapsed.as_micros() as u64;
        let count = due_millionths / 1_000_000;
        due_millionths %= 1_000_000;
        for number in (0..count).flat_map(|_| 0..keys) {
            if tasks.len() < MAX_IN_FLIGHT {
                let (instance, shared) = (instance.clone(), Arc::clone(&shared));
                tasks.spawn(async move {
                    let admission = instance.request(hot(number), 1).await?;
                    shared.admitted.fetch_add(1, Ordering::Relaxed);
                    if sends_at_once {
                        ChildProcess::send(&admission.message(number));
                    }
                    Some((hot(number), admission))
                });
            }
        }
        while let Some(ended) = tasks.try_join_next() {
            ended.unwrap().into_iter().for_each(|(key, admission)| log.add(key, admission));
        }
    }
    for (key, admission) in tasks.join_all().await.into_iter().flatten() {
        log.add(key, admission);
    }
    log
}

/// Makes one request for each of many keys, through all instances in turn.
pub(crate) async fn request_once(instances: &[Instance], keys: impl Iterator<Item = Key>, cost: u64) -> Admitted {
    const AT_ONCE: usize = 64;
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let (mut log, mut tasks) = (Admitted::default(), JoinSet::new());
    for (key, instance) in keys.zip(instances.iter().cycle()) {
        let (permit, instance) = (Arc::clone(&permits).acquire_owned().await.unwrap(), instance.clone());
        tasks.spawn(async move {
            let admission = instance.request(key, cost).await;
            drop(permit);
            Some((key, admission?))
        });
        while let Some(ended) = tasks.try_join_next() {
            ended.unwrap().into_iter().for_each(|(key, admission)| log.add(key, admission));
        }
    }
    for (key, admission) in tasks.join_all().await.into_iter().flatten() {
        log.add(key, admission);
    }
    log
}
