//! The breakers of all shards, and the probes that close them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::call::Call;
use crate::store::Inner;
use crate::store::breaker::state::{Breaker, BreakerSettings, BreakerState, Change, Ticket};
use crate::store::report::stats::StoreEvent;
use crate::transport::{Cause, Done, ShardId, Slot};

pub(in crate::store) struct Breakers {
    by_shard: Mutex<BTreeMap<ShardId, Shard>>,
    /// How many of them are open, for the usual case that none is.
    open: AtomicUsize,
    settings: BreakerSettings,
    seed: u64,
}

/// What is known of a shard.
struct Shard {
    breaker: Breaker,
    /// When the last call to it was answered, failed or became overdue.
    last_outcome: Option<Instant>,
    /// Calls that are past their deadline and neither answered nor lost. Briefly negative where an answer arrives just
    /// as the deadline passes.
    overdue: i32,
    /// The name under which its failure was reported, while it fails.
    failing_as: Option<String>,
}

impl Shard {
    fn is_open(&self) -> bool {
        self.breaker.state() == BreakerState::Open
    }
}

/// A call under way, as its shard's breaker sees it: it counts once, whoever notices first how it ended.
#[derive(Debug)]
pub(in crate::store) struct Watch {
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

    /// Whether there is a shard that would not be asked.
    pub(in crate::store) fn is_any_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Whether a shard would not be asked.
    pub(in crate::store) fn is_open(&self, shard: ShardId) -> bool {
        self.by_shard().get(&shard).is_some_and(Shard::is_open)
    }

    pub(in crate::store) fn states(&self) -> Vec<(u32, BreakerState)> {
        self.by_shard().iter().map(|(id, shard)| (id.0, shard.breaker.state())).collect()
    }

    /// Whether no call to a shard was answered or failed within a span.
    pub(in crate::store) fn is_idle(&self, shard: ShardId, now: Instant, span: Duration) -> bool {
        let by_shard = self.by_shard();
        let last_outcome = by_shard.get(&shard).and_then(|shard| shard.last_outcome);
        last_outcome.is_none_or(|at| now.saturating_duration_since(at) >= span)
    }

    /// Forgets all other shards. Returns the failing ones among them with their names.
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

    fn with<R>(&self, shard: ShardId, now: Instant, work: impl FnOnce(&mut Shard) -> R) -> R {
        let mut by_shard = self.by_shard();
        let seed = self.seed ^ u64::from(shard.0);
        let new = || Shard {
            breaker: Breaker::new(self.settings, seed, now),
            last_outcome: None,
            overdue: 0,
            failing_as: None,
        };
        self.work_on(by_shard.entry(shard).or_insert_with(new), work)
    }

    /// The same, unless the shard was forgotten.
    fn with_known<R>(&self, shard: ShardId, work: impl FnOnce(&mut Shard) -> R) -> Option<R> {
        self.by_shard().get_mut(&shard).map(|shard| self.work_on(shard, work))
    }

    fn work_on<R>(&self, shard: &mut Shard, work: impl FnOnce(&mut Shard) -> R) -> R {
        let was_open = shard.is_open();
        let result = work(shard);
        self.count_open(was_open, shard.is_open());
        result
    }

    /// A breaker changed. The lock is held, so the count is exact.
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
    /// Lets a call to a slot through, to be answered by `deadline`.
    pub(in crate::store) fn admit(&self, slot: Slot, now: Instant, deadline: Instant) -> Option<Watch> {
        self.admit_to(self.transport.shard(slot), slot, now, deadline)
    }

    /// The same, where it is known whose slot it is.
    pub(in crate::store) fn admit_to(
        &self,
        shard: ShardId,
        slot: Slot,
        now: Instant,
        deadline: Instant,
    ) -> Option<Watch> {
        let admitted = self.breakers.with(shard, now, |shard| Some((shard.breaker.admit(now)?, shard.overdue > 0)));
        let (ticket, has_overdue_calls) = admitted?;
        let (is_counted, progress) = (AtomicBool::new(false), AtomicU8::new(IN_FLIGHT));
        Some(Watch { slot, shard, ticket, deadline, has_overdue_calls, is_counted, progress })
    }

    /// A call was answered, or its connection was lost.
    pub(in crate::store) fn call_done(&self, watch: &Watch, now: Instant) {
        if watch.progress.swap(DONE, Ordering::Relaxed) == OVERDUE {
            self.breakers.with(watch.shard, now, |shard| shard.overdue -= 1);
        }
    }

    /// A call was answered. Too late is a failure like any other.
    pub(in crate::store) fn call_answered(self: &Arc<Self>, watch: &Watch, now: Instant) {
        if now > watch.deadline {
            return self.call_failed(watch, Cause::Timeout, now);
        }
        if watch.is_counted.swap(true, Ordering::Relaxed) {
            return;
        }
        let change = self.breakers.with(watch.shard, now, |shard| {
            shard.last_outcome = Some(now);
            let change = shard.breaker.succeeded(watch.ticket, now);
            shard.failing_as.take_if(|_| change == Some(Change::Closed));
            change
        });
        if change == Some(Change::Closed) {
            self.counters.breakers_closed.add(1);
            (self.on_change)(StoreEvent::BreakerClosed { server: self.server_name(watch.shard) });
        }
    }

    /// A call failed, or is overdue.
    pub(in crate::store) fn call_failed(self: &Arc<Self>, watch: &Watch, failure: Cause, now: Instant) {
        if watch.is_counted.swap(true, Ordering::Relaxed) {
            return;
        }
        self.counters.failed(failure);
        let progress = &watch.progress;
        let is_overdue = progress.compare_exchange(IN_FLIGHT, OVERDUE, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let server = self.server_name(watch.shard);
        let change = self.breakers.with(watch.shard, now, |shard| {
            shard.last_outcome = Some(now);
            shard.overdue += i32::from(is_overdue);
            let change = shard.breaker.failed(watch.ticket, now);
            if change == Some(Change::Opened) {
                shard.failing_as = Some(server.clone());
            }
            change
        });
        if change == Some(Change::Opened) {
            self.counters.breakers_opened.add(1);
            (self.on_change)(StoreEvent::BreakerOpened { server, cause: failure.name() });
        }
        if change.is_some() {
            let probes = Probes { shard: watch.shard, slot: watch.slot, told: failure, last: failure };
            self.runtime.spawn(probes.until_answered(Arc::downgrade(self)));
        }
    }

    /// An empty call only asks the time.
    pub(in crate::store) async fn probe(&self, slot: Slot, patience: Duration) -> Result<(), Cause> {
        let deadline = Instant::now() + patience;
        let (heard, answer) = oneshot::channel();
        let done = Done::new(move |answered| {
            // Nobody listens any more if it comes too late.
            let _ = heard.send(answered.map(|_| ()).map_err(|trouble| trouble.cause));
        });
        self.transport.send(slot, Call { lines: smallvec::SmallVec::new() }, deadline, done);
        match timeout_at(deadline, answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => Err(Cause::Connection),
            Err(_) => Err(Cause::Timeout),
        }
    }

    /// What people call a server. One that was let go of has no address any more.
    fn server_name(&self, shard: ShardId) -> String {
        self.transport.server(shard).unwrap_or_else(|| "of an unknown address".to_owned())
    }
}

/// What closes a breaker that is open.
struct Probes {
    shard: ShardId,
    slot: Slot,
    /// How it failed when somebody last heard of it.
    told: Cause,
    /// How it failed last.
    last: Cause,
}

impl Probes {
    /// Runs while a breaker is open, and ends with the store.
    async fn until_answered(mut self, store: Weak<Inner>) {
        loop {
            let probe_at = match store.upgrade() {
                Some(store) => store.breakers.with_known(self.shard, |shard| shard.breaker.probe_at()),
                None => return,
            };
            // The breaker is no longer open, or the shard was forgotten.
            let Some(probe_at) = probe_at.flatten() else { return };
            sleep_until(probe_at).await;
            let Some(store) = store.upgrade() else { return };
            let answered = store.probe(self.slot(&store), store.settings.deadline).await;
            let now = Instant::now();
            store.breakers.with_known(self.shard, |shard| shard.breaker.probed(answered.is_ok(), now));
            if let Err(failure) = answered {
                self.failed(&store, failure);
            }
        }
    }

    /// A slot that the shard owns now: the one that failed may have moved to another shard.
    fn slot(&self, store: &Inner) -> Slot {
        let own = store.transport.shards().into_iter().find(|(shard, _)| *shard == self.shard);
        own.map_or(self.slot, |(_, slot)| slot)
    }

    /// Tells of another cause once it has come twice: a server that is going away fails in several ways at first.
    fn failed(&mut self, store: &Inner, failure: Cause) {
        let is_steady = std::mem::replace(&mut self.last, failure) == failure;
        if is_steady && failure != self.told {
            self.told = failure;
            let server = store.server_name(self.shard);
            (store.on_change)(StoreEvent::CauseChanged { server, cause: failure.name() });
        }
    }
}
