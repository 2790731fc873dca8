//! The breakers of all shards, and the probes that close them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Inner;
use super::breaker::{Breaker, BreakerSettings, BreakerState, Change, Ticket};
use super::failure::Failure;
use super::planted::Planted;
use super::stats::StoreEvent;
use crate::call::Call;
use crate::transport::{Cause, Done, ShardId, Slot, Transport};

pub(super) struct Breakers {
    by_shard: Mutex<BTreeMap<ShardId, Breaker>>,
    settings: BreakerSettings,
    seed: u64,
}

/// A call under way, as its shard's breaker sees it: it counts once, whoever notices first how it ended.
#[derive(Debug)]
pub(super) struct Watch {
    slot: Slot,
    shard: ShardId,
    ticket: Ticket,
    pub(super) deadline: Instant,
    is_counted: AtomicBool,
}

impl Breakers {
    pub(super) fn new(settings: BreakerSettings, seed: u64) -> Breakers {
        Breakers { by_shard: Mutex::default(), settings, seed }
    }

    /// Whether a shard would not be asked.
    pub(super) fn is_open(&self, shard: ShardId) -> bool {
        self.by_shard().get(&shard).is_some_and(|breaker| breaker.state() == BreakerState::Open)
    }

    pub(super) fn states(&self) -> Vec<(u32, BreakerState)> {
        self.by_shard().iter().map(|(shard, breaker)| (shard.0, breaker.state())).collect()
    }

    fn with<R>(&self, shard: ShardId, now: Instant, work: impl FnOnce(&mut Breaker) -> R) -> R {
        let mut by_shard = self.by_shard();
        let seed = self.seed ^ u64::from(shard.0);
        work(by_shard.entry(shard).or_insert_with(|| Breaker::new(self.settings, seed, now)))
    }

    fn by_shard(&self) -> MutexGuard<'_, BTreeMap<ShardId, Breaker>> {
        self.by_shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport> Inner<T> {
    /// Lets a call to a slot through, to be answered by `deadline`.
    pub(super) fn admit(&self, slot: Slot, now: Instant, deadline: Instant) -> Option<Arc<Watch>> {
        let shard = self.transport.shard(slot);
        let ticket = self.breakers.with(shard, now, |breaker| breaker.admit(now))?;
        Some(Arc::new(Watch { slot, shard, ticket, deadline, is_counted: AtomicBool::new(false) }))
    }

    /// A call was answered. Too late is a failure like any other.
    pub(super) fn call_answered(self: &Arc<Self>, watch: &Watch, now: Instant) {
        if now > watch.deadline {
            return self.call_failed(watch, Failure::Trouble(Cause::Timeout), now);
        }
        if watch.is_counted.swap(true, Ordering::Relaxed) {
            return;
        }
        let change = self.breakers.with(watch.shard, now, |breaker| breaker.succeeded(watch.ticket, now));
        if change == Some(Change::Closed) {
            self.counters.breakers_closed.add(1);
            (self.on_change)(StoreEvent::BreakerClosed { shard: watch.shard.0 });
        }
    }

    /// A call failed, or is overdue.
    pub(super) fn call_failed(self: &Arc<Self>, watch: &Watch, failure: Failure, now: Instant) {
        if watch.is_counted.swap(true, Ordering::Relaxed) {
            return;
        }
        self.counters.failed(failure);
        let change = self.breakers.with(watch.shard, now, |breaker| breaker.failed(watch.ticket, now));
        if change == Some(Change::Opened) {
            self.counters.breakers_opened.add(1);
            (self.on_change)(StoreEvent::BreakerOpened { shard: watch.shard.0, cause: failure.name() });
        }
        if change.is_some() && !self.is_planted(Planted::NeverProbe) {
            self.runtime.spawn(probe_until_answered(Arc::downgrade(self), watch.shard, watch.slot));
        }
    }

    /// An empty call only asks the time.
    async fn probe(&self, slot: Slot) -> bool {
        let deadline = Instant::now() + self.settings.deadline;
        let (heard, answer) = oneshot::channel();
        let done = Done::new(move |answered| {
            // Nobody listens any more if it comes too late.
            let _ = heard.send(answered.is_ok());
        });
        self.transport.send(slot, Call { lines: Vec::new() }, deadline, done);
        matches!(timeout_at(deadline, answer).await, Ok(Ok(true)))
    }
}

/// Runs while a breaker is open, and ends with the store.
async fn probe_until_answered<T: Transport>(store: Weak<Inner<T>>, shard: ShardId, slot: Slot) {
    loop {
        let probe_at = match store.upgrade() {
            Some(store) => store.breakers.with(shard, Instant::now(), |breaker| breaker.probe_at()),
            None => return,
        };
        let Some(probe_at) = probe_at else { return };
        sleep_until(probe_at).await;
        let Some(store) = store.upgrade() else { return };
        let answered = store.probe(slot).await;
        let now = Instant::now();
        store.breakers.with(shard, now, |breaker| breaker.probed(answered, now));
    }
}
