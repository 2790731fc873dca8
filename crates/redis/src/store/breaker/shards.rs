//! The breakers of all shards, and the probes that close them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::call::Call;
use crate::store::Inner;
use crate::store::breaker::state::{Breaker, BreakerChange, BreakerSettings, BreakerState, Ticket};
use crate::store::report::stats::StoreEvent;
use crate::transport::{Cause, Done, ShardId, Slot};

pub(in crate::store) struct Breakers {
    by_shard: Mutex<BTreeMap<ShardId, Shard>>,
    /// The number of open breakers, read without the lock. Usually there are none.
    open: AtomicUsize,
    settings: BreakerSettings,
    seed: u64,
}

/// The state of a shard.
struct Shard {
    breaker: Breaker,
    /// The time at which the last call to it was answered, failed or became overdue.
    last_outcome: Option<Instant>,
    /// The number of calls past their deadline that are neither answered nor lost. Briefly negative if a reply arrives
    /// just as the deadline passes.
    overdue: i32,
    /// Whether a call failed for lack of memory, and no call that writes has succeeded since: probes write.
    lacks_memory: bool,
    /// The server name in the report of its failure, while it fails.
    failing_as: Option<String>,
}

impl Shard {
    fn is_open(&self) -> bool {
        self.breaker.state() == BreakerState::Open
    }
}

/// A call in flight, as tracked for the breaker of its shard. It is counted once, whether its reply or its deadline
/// comes first.
#[derive(Debug)]
pub(in crate::store) struct TrackedCall {
    slot: Slot,
    shard: ShardId,
    ticket: Ticket,
    pub(in crate::store) deadline: Instant,
    /// Whether other calls to its shard are past their deadlines and unanswered.
    pub(in crate::store) has_overdue_calls: bool,
    is_counted: AtomicBool,
    progress: AtomicU8,
}

/// The progress of a call: before its deadline, past it without an answer, answered or lost.
const IN_FLIGHT: u8 = 0;
const OVERDUE: u8 = 1;
const DONE: u8 = 2;

impl Breakers {
    pub(in crate::store) fn new(settings: BreakerSettings, seed: u64) -> Breakers {
        Breakers { by_shard: Mutex::default(), open: AtomicUsize::new(0), settings, seed }
    }

    /// Returns whether any breaker is open.
    pub(in crate::store) fn is_any_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Returns whether the breaker of a shard is open.
    pub(in crate::store) fn is_open(&self, shard: ShardId) -> bool {
        self.by_shard().get(&shard).is_some_and(Shard::is_open)
    }

    pub(in crate::store) fn states(&self) -> Vec<(u32, BreakerState)> {
        self.by_shard().iter().map(|(id, shard)| (id.0, shard.breaker.state())).collect()
    }

    /// Returns whether no call to a shard was answered or failed within a span.
    pub(in crate::store) fn is_idle(&self, shard: ShardId, now: Instant, span: Duration) -> bool {
        let by_shard = self.by_shard();
        let last_outcome = by_shard.get(&shard).and_then(|shard| shard.last_outcome);
        last_outcome.is_none_or(|at| now.saturating_duration_since(at) >= span)
    }

    /// Removes all shards except these. Returns the failing ones of those removed, with their names.
    pub(in crate::store) fn retain_shards(&self, shards: &[(ShardId, Slot)]) -> Vec<(ShardId, String)> {
        let mut left = Vec::new();
        self.by_shard().retain(|id, shard| {
            let stays = shards.iter().any(|(known, _)| known == id);
            self.count_open(shard.is_open(), stays && shard.is_open());
            if let Some(name) = shard.failing_as.take_if(|_| !stays) {
                left.push((*id, name));
            }
            stays
        });
        left
    }

    /// Changes the state of a shard, which is created if it is new, and updates the number of open breakers.
    fn with<R>(&self, shard: ShardId, now: Instant, change: impl FnOnce(&mut Shard) -> R) -> R {
        let mut by_shard = self.by_shard();
        let seed = self.seed ^ u64::from(shard.0);
        let new = || Shard {
            breaker: Breaker::new(self.settings, seed, now),
            last_outcome: None,
            overdue: 0,
            lacks_memory: false,
            failing_as: None,
        };
        self.update(by_shard.entry(shard).or_insert_with(new), change)
    }

    /// Like [`with`](Breakers::with), for a shard that is known; `None` if it was removed.
    fn with_known<R>(&self, shard: ShardId, change: impl FnOnce(&mut Shard) -> R) -> Option<R> {
        self.by_shard().get_mut(&shard).map(|shard| self.update(shard, change))
    }

    fn update<R>(&self, shard: &mut Shard, change: impl FnOnce(&mut Shard) -> R) -> R {
        let was_open = shard.is_open();
        let result = change(shard);
        self.count_open(was_open, shard.is_open());
        result
    }

    /// Updates the number of open breakers after a change. The lock is held, so the number is exact.
    fn count_open(&self, was_open: bool, is_open: bool) {
        match (was_open, is_open) {
            (false, true) => drop(self.open.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.open.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    fn by_shard(&self) -> MutexGuard<'_, BTreeMap<ShardId, Shard>> {
        self.by_shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Admits a call to a slot that must be answered by `deadline`; `None` if the breaker rejects it.
    pub(in crate::store) fn admit(&self, slot: Slot, now: Instant, deadline: Instant) -> Option<TrackedCall> {
        self.admit_to(self.transport.shard(slot), slot, now, deadline)
    }

    /// Like [`admit`](Inner::admit), for a known shard.
    pub(in crate::store) fn admit_to(
        &self,
        shard: ShardId,
        slot: Slot,
        now: Instant,
        deadline: Instant,
    ) -> Option<TrackedCall> {
        let admitted = self.breakers.with(shard, now, |shard| Some((shard.breaker.admit(now)?, shard.overdue > 0)));
        let (ticket, has_overdue_calls) = admitted?;
        let (is_counted, progress) = (AtomicBool::new(false), AtomicU8::new(IN_FLIGHT));
        Some(TrackedCall { slot, shard, ticket, deadline, has_overdue_calls, is_counted, progress })
    }

    /// Called when a call was answered or its connection was lost.
    pub(in crate::store) fn on_call_done(&self, tracked: &TrackedCall, now: Instant) {
        if tracked.progress.swap(DONE, Ordering::Relaxed) == OVERDUE {
            self.breakers.with(tracked.shard, now, |shard| shard.overdue -= 1);
        }
    }

    /// Counts a call that was answered. A late reply is a failure.
    pub(in crate::store) fn on_call_answered(self: &Arc<Self>, tracked: &TrackedCall, now: Instant) {
        if now > tracked.deadline {
            return self.on_call_failed(tracked, Cause::Timeout, now);
        }
        if tracked.is_counted.swap(true, Ordering::Relaxed) {
            return;
        }
        let change = self.breakers.with(tracked.shard, now, |shard| {
            shard.last_outcome = Some(now);
            let change = shard.breaker.record_success(tracked.ticket, now);
            shard.failing_as.take_if(|_| change == Some(BreakerChange::Closed));
            change
        });
        if change == Some(BreakerChange::Closed) {
            self.counters.breakers_closed.add(1);
            (self.on_event)(StoreEvent::BreakerClosed { server: self.server_name(tracked.shard) });
        }
    }

    /// Counts a call that failed or is overdue.
    pub(in crate::store) fn on_call_failed(self: &Arc<Self>, tracked: &TrackedCall, failure: Cause, now: Instant) {
        if tracked.is_counted.swap(true, Ordering::Relaxed) {
            return;
        }
        self.counters.count_failure(failure);
        let progress = &tracked.progress;
        let is_overdue = progress.compare_exchange(IN_FLIGHT, OVERDUE, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let server = self.server_name(tracked.shard);
        let change = self.breakers.with(tracked.shard, now, |shard| {
            shard.last_outcome = Some(now);
            shard.overdue += i32::from(is_overdue);
            shard.lacks_memory |= failure == Cause::OutOfMemory;
            let change = shard.breaker.record_failure(tracked.ticket, now);
            if change == Some(BreakerChange::Opened) {
                shard.failing_as = Some(server.clone());
            }
            change
        });
        if change == Some(BreakerChange::Opened) {
            self.counters.breakers_opened.add(1);
            (self.on_event)(StoreEvent::BreakerOpened { server, cause: failure.name() });
        }
        if change.is_some() {
            let probes = Probes { shard: tracked.shard, slot: tracked.slot, reported: failure, last: failure };
            self.runtime.spawn(probes.run(Arc::downgrade(self)));
        }
    }

    /// Sends an empty call, which only returns the server's time; or one that writes, if the shard was out of memory.
    pub(in crate::store) async fn probe_shard(
        &self,
        shard: ShardId,
        slot: Slot,
        timeout: Duration,
    ) -> Result<(), Cause> {
        let lacks_memory = self.breakers.by_shard().get(&shard).is_some_and(|shard| shard.lacks_memory);
        let writing = lacks_memory.then(|| self.write_probe(slot)).flatten();
        let Some(call) = writing else { return self.probe(slot, timeout).await };
        self.send_probe(slot, call, timeout).await?;
        self.breakers.with_known(shard, |shard| shard.lacks_memory = false);
        Ok(())
    }

    /// Sends an empty call, which only returns the server's time.
    pub(in crate::store) async fn probe(&self, slot: Slot, timeout: Duration) -> Result<(), Cause> {
        self.send_probe(slot, Call { ops: smallvec::SmallVec::new() }, timeout).await
    }

    async fn send_probe(&self, slot: Slot, call: Call, timeout: Duration) -> Result<(), Cause> {
        let deadline = Instant::now() + timeout;
        let (sender, answer) = oneshot::channel();
        let done = Done::new(move |answered| {
            // Fails only if the reply is too late.
            let _ = sender.send(answered.map(|_| ()).map_err(|error| error.cause));
        });
        self.transport.send(slot, call, deadline, done);
        match timeout_at(deadline, answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => Err(Cause::Connection),
            Err(_) => Err(Cause::Timeout),
        }
    }

    /// Returns the address of a server for events. A server that was removed has none any more.
    fn server_name(&self, shard: ShardId) -> String {
        self.transport.server(shard).unwrap_or_else(|| "of an unknown address".to_owned())
    }
}

/// The probes of a shard while its breaker is open.
struct Probes {
    shard: ShardId,
    slot: Slot,
    /// The cause that was last reported.
    reported: Cause,
    /// The cause of the last failure.
    last: Cause,
}

impl Probes {
    /// Sends probes until the breaker is not open any more, or the store is dropped.
    async fn run(mut self, store: Weak<Inner>) {
        loop {
            let probe_at = match store.upgrade() {
                Some(store) => store.breakers.with_known(self.shard, |shard| shard.breaker.probe_at()),
                None => return,
            };
            // The breaker is no longer open, or the shard was removed.
            let Some(probe_at) = probe_at.flatten() else { return };
            sleep_until(probe_at).await;
            let Some(store) = store.upgrade() else { return };
            let answered = store.probe_shard(self.shard, self.slot(&store), store.settings.deadline).await;
            let now = Instant::now();
            store.breakers.with_known(self.shard, |shard| shard.breaker.record_probe(answered.is_ok(), now));
            if let Err(failure) = answered {
                self.report_new_cause(&store, failure);
            }
        }
    }

    /// Returns a slot that the shard owns now: the one that failed may have moved to another shard.
    fn slot(&self, store: &Inner) -> Slot {
        let own = store.transport.shards().into_iter().find(|(shard, _)| *shard == self.shard);
        own.map_or(self.slot, |(_, slot)| slot)
    }

    /// Reports another cause when it has occurred twice in a row: a server that goes down fails in several ways at
    /// first.
    fn report_new_cause(&mut self, store: &Inner, failure: Cause) {
        let is_steady = std::mem::replace(&mut self.last, failure) == failure;
        if is_steady && failure != self.reported {
            self.reported = failure;
            let server = store.server_name(self.shard);
            (store.on_event)(StoreEvent::CauseChanged { server, cause: failure.name() });
        }
    }
}
