//! The store's own logic: what is sent, joined, remembered, given back and done
//! without an answer. It knows no server, only a [`Transport`].

mod batch;
mod breaker;
#[cfg(test)]
mod cost;
mod decide;
mod fallback;
mod key_names;
mod limit;
pub(crate) mod random;
mod refund;
mod refusals;
mod report;
mod seam;
mod server_clock;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{AlgorithmKind, MAX_SPAN_NS, Quota, Settled};
use tollgate_store::{
    BoxFuture, Charge, Limit, LimitOptions, MemoryStore, OnFailure, Outcome, Receipt, Store, StoreAdmin,
};

use self::batch::{Coalescer, Deadlines};
use self::breaker::shards::Breakers;
use self::decide::Deciding;
use self::fallback::debts::Debts;
use self::key_names::prefix_and_scope;
use self::limit::{Origin, SharedLimit};
use self::refund::receipt::{MadeWhere, SharedReceipt};
use self::refusals::KnownRefusals;
use self::report::stats::Counters;
use self::report::throttle::Throttle;
use self::seam::Seam;
use self::server_clock::ServerClock;
use crate::admin::Admin;
use crate::call::{Answer, Line, Reply};
use crate::transport::{Slot, Transport};
use crate::wire::{Client, RedisOptions};

pub use breaker::state::{BreakerSettings, BreakerState};
pub use report::durations::CallDurations;
pub use report::stats::{StoreEvent, StoreStats};
pub use settings::StoreSettings;

pub(crate) use limit::is_concurrency;
#[cfg(test)]
pub(crate) use limit::{LimitError, limit_of};
#[cfg(test)]
pub(crate) use refund::receipt::{SeenReceipt, key_name, seen_receipt};

/// Counters on Redis, Valkey or a cluster of them, shared by every instance
/// that has the same servers and the same prefix.
///
/// It connects in the background and never waits for that: while no server
/// answers, each limit does what its [`OnFailure`] says.
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
    /// What goes beyond decisions. A test over another transport has none.
    admin: Option<Admin>,
}

/// A server that is often late makes and clears small debts all the time.
const PAYMENTS_APART: Duration = Duration::from_secs(10);
/// Such a value stays until an operator removes it, and every request may meet it.
const BAD_VALUES_APART: Duration = Duration::from_secs(60);

/// Who hears of what an operator should know.
pub(crate) type OnChange = Box<dyn Fn(StoreEvent) + Send + Sync>;

/// What all tasks of a store share.
pub(crate) struct Inner {
    transport: Arc<dyn Transport>,
    /// Whether all keys live in slot 0, as the transport says.
    has_one_slot: bool,
    pub(crate) settings: StoreSettings,
    runtime: Handle,
    clock: ServerClock,
    /// Counts while the store fails. It is kept between two failures.
    fallback: MemoryStore,
    /// A limit of the fallback for each scope, by what the names of its keys begin with.
    fallback_scopes: Mutex<HashMap<Box<[u8]>, Limit>>,
    coalescer: Coalescer,
    deadlines: Deadlines,
    pub(crate) refusals: KnownRefusals,
    debts: Debts,
    /// Debts that were charged, and how much that was.
    payments: Throttle<(u64, u64)>,
    /// Calls that failed because of a value that tollgate did not write.
    bad_values: Throttle<u64>,
    breakers: Breakers,
    counters: Counters,
    pub(crate) on_change: OnChange,
    seam: Seam,
}

impl Inner {
    /// Its timers run on the runtime within which it is called.
    fn new(
        transport: Arc<dyn Transport>,
        settings: StoreSettings,
        on_change: OnChange,
        clock: ServerClock,
        seam: Seam,
    ) -> Result<Arc<Inner>, Box<dyn Error + Send + Sync>> {
        Ok(Arc::new(Inner {
            has_one_slot: transport.has_one_slot(),
            transport,
            runtime: Handle::current(),
            fallback: MemoryStore::with(settings.fallback, clock.own())?,
            fallback_scopes: Mutex::default(),
            clock,
            coalescer: Coalescer::new(settings.deadline),
            deadlines: Deadlines::default(),
            refusals: KnownRefusals::new(settings.remembered_keys),
            debts: Debts::new(settings.owing_keys),
            payments: Throttle::new(PAYMENTS_APART),
            bad_values: Throttle::new(BAD_VALUES_APART),
            breakers: Breakers::new(settings.breaker, settings.seed),
            counters: Counters::default(),
            on_change,
            seam,
            settings,
        }))
    }
}

impl RedisStore {
    /// Begins to connect. It must be called within a tokio runtime, which
    /// carries all connections. `on_change` hears what an operator should
    /// know: rare, and never once for each request.
    pub fn connect(
        options: &RedisOptions,
        settings: StoreSettings,
        on_change: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<RedisStore, Box<dyn Error + Send + Sync>> {
        if settings.prefix.contains(['{', '}']) {
            return Err("a brace in the prefix of the keys: it would put all of them into one slot".into());
        }
        let client = Arc::new(Client::start(options)?);
        let transport: Arc<dyn Transport> = Arc::<Client>::clone(&client);
        let clock = ServerClock::at_time_of_day();
        let inner = Inner::new(transport, settings, Box::new(on_change), clock, Seam::default())?;
        inner.tell_beginning();
        let admin = Some(Admin::start(&inner, client));
        Ok(RedisStore { inner, admin })
    }

    /// A store over another transport, with a mistake in it, whose clock begins at a given time.
    #[cfg(test)]
    pub(crate) fn for_test(
        transport: impl Transport,
        settings: StoreSettings,
        on_change: OnChange,
        now_ns: u64,
        fault: Option<crate::sim::InjectedFault>,
    ) -> RedisStore {
        let (clock, seam) = (ServerClock::at(now_ns), Seam { fault });
        RedisStore { inner: Inner::new(Arc::new(transport), settings, on_change, clock, seam).unwrap(), admin: None }
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let Inner { counters, breakers, debts, .. } = &*self.inner;
        let stats = counters.snapshot(breakers.states(), debts.standing(Instant::now()));
        StoreStats { secret_key_differs: self.secret_key_differs(), ..stats }
    }

    /// Whether other instances hash secret values under another key, so that clients are counted apart.
    #[must_use]
    pub fn secret_key_differs(&self) -> bool {
        self.admin.as_ref().is_some_and(|admin| admin.agreement.differs())
    }

    /// Whether every server can be reached at present.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.admin.as_ref().is_some_and(|admin| admin.client.is_ready())
    }

    fn prepare(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
        origin: Origin,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        let quota = with_lease(quota, self.inner.settings.default_lease)?;
        let fallback = |quota: Quota| match origin {
            Origin::Policy => self.inner.fallback.limit(scope, quota),
            // What callers bring counts apart here too, and pushes out nothing of the policy's.
            Origin::Caller => self.inner.fallback.caller_limit(scope, quota),
        };
        let fallback = match options.on_failure {
            OnFailure::Open | OnFailure::Closed => None,
            OnFailure::Local { share } => Some(fallback(quota.share(share))?),
        };
        let prefix_and_scope = prefix_and_scope(&self.inner.settings.prefix, scope);
        let shared = SharedLimit { prefix_and_scope, origin, fallback };
        let limit = limit::prepare(scope, quota, options, shared)?;
        self.inner.note_fallback(SharedLimit::of(&limit));
        Ok(limit)
    }
}

impl Store for RedisStore {
    fn limit(&self, scope: &str, quota: Quota, options: LimitOptions) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.prepare(scope, quota, options, Origin::Policy)
    }

    fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.prepare(scope, quota, options, Origin::Caller)
    }

    fn decide<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        Box::pin(Deciding::new(&self.inner, charges))
    }

    fn give_back(&self, receipt: Receipt) {
        let (target, charged, shared) = SharedReceipt::take(receipt);
        match shared.made {
            MadeWhere::Server { slot, .. } => {
                self.inner.counters.refunds.add(1);
                let line = Line::GiveBack { target, charged, amount: charged.cost };
                self.inner.send_refund(slot, smallvec![line], vec![shared.key], |_, _| {});
            }
            MadeWhere::Here { receipt } => {
                let _ = self.inner.debts.reduce(&target.key, charged.cost);
                self.inner.fallback.refund(receipt);
            }
            MadeWhere::Nowhere => {
                let _ = self.inner.debts.reduce(&target.key, charged.cost);
            }
        }
    }

    /// What passed uncounted while the store failed is given back first: it is not known to the server yet.
    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        if cost == 0 || is_concurrency(limit) {
            return;
        }
        let (slot, target) = self.inner.target(limit, key);
        let owed = self.inner.debts.reduce(&target.key, cost);
        if let Some(fallback) = SharedLimit::of(limit).fallback.as_ref().filter(|_| owed > 0) {
            self.inner.fallback.credit(fallback, key, owed);
        }
        if cost > owed {
            self.inner.counters.refunds.add(1);
            let line = Line::Credit { target, cost: cost - owed };
            self.inner.send_refund(slot, smallvec![line], vec![key.into()], |_, _| {});
        }
    }

    fn settle(&self, receipt: Receipt, true_cost: u64) -> BoxFuture<'_, Settled> {
        Box::pin(async move {
            let (target, charged, shared) = SharedReceipt::take(receipt);
            match shared.made {
                MadeWhere::Server { slot, .. } => {
                    let line = Line::Settle { target, charged, true_cost };
                    self.inner.settle_there(slot, line, shared.key).await
                }
                MadeWhere::Here { receipt } => {
                    self.inner.settle_debt(&target, charged.cost, true_cost);
                    self.inner.fallback.settle(receipt, true_cost)
                }
                MadeWhere::Nowhere => {
                    self.inner.settle_debt(&target, charged.cost, true_cost);
                    Settled { overrun: 0 }
                }
            }
        })
    }

    fn renew(&self, receipt: &Receipt) -> bool {
        if !is_concurrency(receipt.limit()) {
            return false;
        }
        let shared = SharedReceipt::of(receipt);
        match &shared.made {
            MadeWhere::Here { receipt } => self.inner.fallback.renew(receipt),
            // Nothing holds it, so it cannot be lost.
            MadeWhere::Nowhere => true,
            MadeWhere::Server { slot, lease_lost } => {
                let lost = Arc::clone(lease_lost);
                let line = Line::Renew { target: shared.target(receipt.limit()), charged: *receipt.charged() };
                let heard = move |_: &Arc<Inner>, answered: crate::transport::Answered| {
                    let held = answered.map_or(true, |reply| reply.answers[..] != [Answer::Renewed { held: false }]);
                    if !held {
                        lost.store(true, Ordering::Relaxed);
                    }
                };
                if lease_lost.load(Ordering::Relaxed) {
                    return false;
                }
                self.inner.send_in_background(*slot, smallvec![line], 0, Box::new(heard));
                true
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.inner.clock.server_ns(Instant::now())
    }

    fn admin(&self) -> Option<&dyn StoreAdmin> {
        self.admin.as_ref().map(|admin| admin as &dyn StoreAdmin)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.admin.as_ref().map_or(&[][..], |admin| admin.client.nodes());
        f.debug_struct("RedisStore").field("nodes", &nodes).finish_non_exhaustive()
    }
}

impl Inner {
    /// Settles a charge that a server counts. What is not known in time is taken for settled.
    async fn settle_there(self: &Arc<Self>, slot: Slot, line: Line, key: Box<[u8]>) -> Settled {
        let deadline = Instant::now() + self.settings.deadline;
        let (heard, answer) = oneshot::channel();
        self.send_refund(slot, smallvec![line], vec![key], move |_, answered| {
            // Who does not wait any more does not want to know.
            let _ = heard.send(answered.map_or(0, |reply| overrun(&reply)));
        });
        let overrun = timeout_at(deadline, answer).await.ok().and_then(Result::ok);
        Settled { overrun: overrun.unwrap_or(0) }
    }
}

fn overrun(reply: &Reply) -> u64 {
    match reply.answers.first() {
        Some(Answer::Settled { overrun }) => *overrun,
        _ => 0,
    }
}

/// A permit whose holder is gone must come back by itself.
fn with_lease(quota: Quota, lease: Duration) -> Result<Quota, Box<dyn Error + Send + Sync>> {
    if quota.kind() != AlgorithmKind::Concurrency || quota.period_ns() < MAX_SPAN_NS {
        return Ok(quota);
    }
    Ok(Quota::concurrency(quota.amount(), Some(lease))?)
}
