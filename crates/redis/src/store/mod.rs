//! The logic of the store: batching, cached refusals, refunds, circuit breakers and fallback. It reaches servers only
//! through a [`Transport`].

mod batch;
mod breaker;
#[cfg(test)]
mod cost;
mod decide;
mod fallback;
mod fault_points;
mod key_names;
mod leases;
mod limit;
pub(crate) mod random;
mod refund;
mod refusals;
mod regional;
mod report;
mod server_clock;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{AlgorithmKind, MAX_SPAN_NS, Quota, RegionShare, Settlement};
use tollgate_store::{
    BoxFuture, Charge, ChargeReceipt, Limit, LimitOptions, MemoryStore, OnFailure, Outcome, Store, StoreAdmin,
};

use self::batch::{Coalescer, Deadlines};
use self::breaker::shards::Breakers;
use self::decide::DecideFuture;
use self::fallback::debts::Debts;
use self::fault_points::FaultPoints;
use self::leases::LeaseTable;
use self::leases::terms::LeaseTerms;
use self::limit::{Origin, RedisLimitData};
use self::refund::receipt::{AdmittedBy, RedisReceiptData};
use self::refusals::RefusalCache;
use self::report::stats::Counters;
use self::report::throttle::Throttle;
use self::server_clock::ServerClock;
use crate::admin::RedisAdmin;
use crate::call::{Answer, ScriptOp, ScriptReply};
use crate::regions::{Exchange, RedisExchange, RegionSettings, RegionState, RegionStatus, RegionSync, RegionalLimit};
use crate::transport::{Slot, Transport};
use crate::wire::{RedisClient, RedisOptions};

pub use breaker::state::{BreakerSettings, BreakerState};
pub use report::durations::CallDurations;
pub use report::stats::{StoreEvent, StoreStats};
pub use settings::RedisStoreSettings;

pub(crate) use key_names::{RedisKeyName, prefix_and_scope};
pub(crate) use leases::clock::LeaseClock;
pub(crate) use limit::is_concurrency;
#[cfg(test)]
pub(crate) use limit::{RedisLimitError, limit_of};
#[cfg(test)]
pub(crate) use refund::receipt::{ReceiptKind, key_name, receipt_kind};
pub(crate) use regional::at_rate;
pub(crate) use report::client_events::on_client_event;
pub(crate) use report::region_events::{RegionalStore, report_region_events};

/// Counters on Redis, Valkey or a cluster of them, shared by all instances with the same servers and prefix.
///
/// It connects in the background, and no check waits for a connection: while no server replies, each limit applies its
/// [`OnFailure`] mode.
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
    /// Overrides, resets and the readiness of the servers. `None` in tests over another transport.
    admin: Option<RedisAdmin>,
    /// Synchronises this instance with its region and others.
    region_task: Option<JoinHandle<()>>,
}

/// The least time between two [`StoreEvent::DebtsPaid`] events. (A debt is usage of an outage that the server has not
/// counted yet: see `fallback/debts.rs`.) A server that is often late causes small debts all the
/// time, and they are paid soon after.
const PAID_DEBTS_REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// The least time between two reports of bad values. Such a value stays until an operator removes it, and every request
/// may read it.
const BAD_VALUE_REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The callback for events that an operator should know of.
pub(crate) type OnStoreEvent = Box<dyn Fn(StoreEvent) + Send + Sync>;

/// The state shared by all tasks of a store.
pub(crate) struct Inner {
    transport: Arc<dyn Transport>,
    /// Whether the servers are a cluster, as reported by the transport. If not, all keys are in slot 0.
    is_cluster: bool,
    pub(crate) settings: RedisStoreSettings,
    runtime: Handle,
    clock: ServerClock,
    /// The local counters that decide while the servers fail. They are not cleared after a failure.
    fallback: MemoryStore,
    /// A limit of the fallback for each scope, by the prefix and scope of its keys. When another instance resets a key,
    /// this instance finds the limit here and resets its local counter too.
    fallback_scopes: Mutex<HashMap<Box<[u8]>, Limit>>,
    coalescer: Coalescer,
    deadlines: Deadlines,
    /// The cache of exhausted keys.
    pub(crate) refusals: RefusalCache,
    /// Usage that was admitted while the servers failed and is not yet charged at them.
    debts: Debts,
    /// The number and the sum of the debts paid (charged at the servers) since the last report.
    paid_debts: Throttle<(u64, u64)>,
    /// The number of calls since the last report that failed because of a value that tollgate did not write.
    bad_values: Throttle<u64>,
    /// Tokens that this instance has leased, and spends without a call.
    leases: LeaseTable,
    /// The regions that divide limits; `None` if there is only this one.
    pub(crate) regions: Option<Arc<RegionState>>,
    /// Whether any limit may be leased.
    has_leases: AtomicBool,
    breakers: Breakers,
    counters: Counters,
    /// The callback for events.
    pub(crate) on_event: OnStoreEvent,
    fault_points: FaultPoints,
}

impl Inner {
    /// Creates the shared state. Its timers run on the current Tokio runtime.
    fn new(
        transport: Arc<dyn Transport>,
        settings: RedisStoreSettings,
        on_event: OnStoreEvent,
        clock: ServerClock,
        lease_clock: LeaseClock,
        fault_points: FaultPoints,
    ) -> Result<Arc<Inner>, Box<dyn Error + Send + Sync>> {
        Ok(Arc::new(Inner {
            is_cluster: transport.is_cluster(),
            transport,
            runtime: Handle::current(),
            fallback: MemoryStore::with(settings.fallback, clock.local())?,
            fallback_scopes: Mutex::default(),
            clock,
            coalescer: Coalescer::new(settings.deadline),
            deadlines: Deadlines::default(),
            refusals: RefusalCache::new(settings.refusal_cache_capacity),
            debts: Debts::new(settings.debt_table_capacity),
            paid_debts: Throttle::new(PAID_DEBTS_REPORT_INTERVAL),
            bad_values: Throttle::new(BAD_VALUE_REPORT_INTERVAL),
            leases: LeaseTable::new(lease_clock),
            regions: settings
                .regions
                .as_ref()
                .map(|regions| Arc::new(RegionState::new(&regions.region, fault_points.of_regions()))),
            has_leases: AtomicBool::new(false),
            breakers: Breakers::new(settings.breaker, settings.seed),
            counters: Counters::default(),
            on_event,
            fault_points,
            settings,
        }))
    }
}

impl RedisStore {
    /// Creates a store and starts to connect. Must be called within a Tokio runtime, which runs all connections.
    /// `on_event` is called with the events that an operator should know of; these are rare, never one for each
    /// request.
    pub fn connect(
        options: &RedisOptions,
        settings: RedisStoreSettings,
        on_event: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<RedisStore, Box<dyn Error + Send + Sync>> {
        if settings.prefix.contains(['{', '}']) {
            return Err(
                "the prefix of the keys contains a brace, which would put all keys into one slot: remove it".into()
            );
        }
        let on_event: Arc<OnStoreEvent> = Arc::new(Box::new(on_event));
        let on_client_event = on_client_event(&on_event);
        let client = Arc::new(RedisClient::start_with(options, &on_client_event)?);
        let transport: Arc<dyn Transport> = Arc::<RedisClient>::clone(&client);
        let clock = ServerClock::at_time_of_day();
        let (lease_clock, fault_points) = (LeaseClock::real(), FaultPoints::default());
        let inner =
            Inner::new(transport, settings, Box::new(move |event| on_event(event)), clock, lease_clock, fault_points)?;
        inner.report_first_contact();
        let region_task = match inner.settings.regions.as_ref().map(|regions| &regions.global) {
            Some(global) => {
                let global = Arc::new(RedisClient::start_with(global, &on_client_event)?);
                let exchange: Arc<dyn Exchange> = Arc::new(RedisExchange::new(Arc::clone(&client), global));
                inner.runtime.spawn(report_region_events(Arc::downgrade(&inner), Arc::clone(&exchange)));
                inner.region_sync(exchange).map(|sync| tokio::spawn(sync.run()))
            }
            None => None,
        };
        let admin = Some(RedisAdmin::start(&inner, client));
        Ok(RedisStore { inner, admin, region_task })
    }

    /// Creates a store over another transport, with an injected fault if given, whose clock starts at `now_ns`.
    #[cfg(test)]
    pub(crate) fn for_test(
        transport: impl Transport,
        settings: RedisStoreSettings,
        on_event: OnStoreEvent,
        now_ns: u64,
        fault: Option<crate::sim::InjectedFault>,
    ) -> RedisStore {
        let lease_clock = LeaseClock::Runtime { started: Instant::now(), drift_ppm: 0 };
        RedisStore::for_lease_test(transport, settings, on_event, now_ns, lease_clock, fault)
    }

    /// Like [`for_test`](RedisStore::for_test), with a clock for leases.
    #[cfg(test)]
    pub(crate) fn for_lease_test(
        transport: impl Transport,
        settings: RedisStoreSettings,
        on_event: OnStoreEvent,
        now_ns: u64,
        lease_clock: LeaseClock,
        fault: Option<crate::sim::InjectedFault>,
    ) -> RedisStore {
        let (clock, fault_points) = (ServerClock::at(now_ns), FaultPoints { fault });
        RedisStore {
            inner: Inner::new(Arc::new(transport), settings, on_event, clock, lease_clock, fault_points).unwrap(),
            admin: None,
            region_task: None,
        }
    }

    /// Like [`for_test`](RedisStore::for_test), with another exchange with regions.
    #[cfg(test)]
    pub(crate) fn for_region_test(
        transport: impl Transport,
        settings: RedisStoreSettings,
        now_ns: u64,
        exchange: Arc<dyn Exchange>,
        fault: Option<crate::sim::InjectedFault>,
    ) -> RedisStore {
        let mut store = RedisStore::for_test(transport, settings, Box::new(|_| {}), now_ns, fault);
        store.region_task = store.inner.region_sync(exchange).map(|sync| tokio::spawn(sync.run()));
        store
    }

    /// Returns the statistics of this store.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let Inner { counters, breakers, debts, .. } = &*self.inner;
        let stats = counters.snapshot(breakers.states(), debts.pending(Instant::now()));
        let (leased_keys, leased_tokens_held) = self.inner.leases.held();
        StoreStats { secret_key_differs: self.secret_key_differs(), leased_keys, leased_tokens_held, ..stats }
    }

    /// Returns the state of the synchronisation with other regions; `None` if the store has no regions.
    #[must_use]
    pub fn region_status(&self) -> Option<RegionStatus> {
        self.inner.regions.as_ref().map(|regions| regions.status())
    }

    /// Returns whether other instances hash secret values under another key, so that the same clients are counted
    /// separately.
    #[must_use]
    pub fn secret_key_differs(&self) -> bool {
        self.admin.as_ref().is_some_and(|admin| admin.fingerprint_check.differs())
    }

    /// Returns whether every server can be reached at present.
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
        let whole = with_permit_lease(quota, self.inner.settings.default_lease)?;
        let regional = if options.regional { Some(self.inner.divide(scope, &whole)?) } else { None };
        let quota = regional.as_ref().map_or(Ok(whole), |(share, _)| share.quota(&whole))?;
        let fallback_limit = |quota: Quota| match origin {
            Origin::Policy => self.inner.fallback.limit(scope, quota),
            // Keys of callers are counted in a separate table of the fallback too, so that they evict no key of the
            // policy.
            Origin::Caller => self.inner.fallback.caller_limit(scope, quota),
        };
        let fallback = match options.on_failure {
            OnFailure::Open | OnFailure::Closed => None,
            // Of a limit that is divided, the policy's share is already that of an instance of this region.
            OnFailure::Local { share } => Some(fallback_limit(whole.share(share))?),
        };
        let prefix_and_scope = prefix_and_scope(&self.inner.settings.prefix, scope);
        let token_lease = match (origin, options.lease) {
            (Origin::Policy, Some(generation)) => LeaseTerms::new(&quota, generation),
            _ => None,
        };
        if token_lease.is_some() {
            self.inner.has_leases.store(true, Ordering::Relaxed);
        }
        let name_prefix_len = prefix_and_scope.len();
        let regional = regional.map(|(_, regions)| {
            Arc::new(RegionalLimit { scope: regions.register(scope, &whole), whole, name_prefix_len, regions })
        });
        let data = RedisLimitData {
            origin,
            fallback,
            lease: token_lease.filter(|_| regional.is_none()),
            regional,
            ..RedisLimitData::of_policy(prefix_and_scope)
        };
        let limit = limit::prepare(scope, quota, options, data)?;
        self.inner.register_fallback(RedisLimitData::of(&limit));
        Ok(limit)
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        if let Some(task) = &self.region_task {
            task.abort();
        }
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

    fn check_all<'a>(&'a self, charges: &'a [Charge<'a>]) -> BoxFuture<'a, Outcome> {
        Box::pin(DecideFuture::new(&self.inner, charges))
    }

    fn refund(&self, receipt: ChargeReceipt) {
        let (target, charged, data) = RedisReceiptData::take(receipt);
        match data.admitted_by {
            AdmittedBy::Server { slot, .. } => {
                self.inner.counters.refunds.add(1);
                let op = ScriptOp::Refund { target, charged, amount: charged.cost };
                self.inner.send_adjustment(slot, smallvec![op], vec![data.key], |_, _| {});
            }
            AdmittedBy::Lease { slot, lot } => {
                let scope = &RedisLimitData::of(&target.limit).prefix_and_scope;
                self.inner.counters.refunds.add(1);
                if !self.inner.refund_leased(scope, &data.key, lot, charged.cost) {
                    let op = ScriptOp::Refund { target, charged, amount: charged.cost };
                    self.inner.send_adjustment(slot, smallvec![op], vec![data.key], |_, _| {});
                }
            }
            AdmittedBy::Fallback { receipt } => {
                let _ = self.inner.debts.reduce(&target.key, charged.cost);
                self.inner.fallback.refund(receipt);
            }
            AdmittedBy::FailOpen => {
                let _ = self.inner.debts.reduce(&target.key, charged.cost);
            }
        }
    }

    /// Reduces the key's debt first, because the server has not counted the debt yet. Only the rest of the cost is sent
    /// to the server.
    fn credit(&self, limit: &Limit, key: &[u8], cost: u64) {
        if cost == 0 || is_concurrency(limit) {
            return;
        }
        let (slot, target) = self.inner.target(limit, key);
        let reduced = self.inner.debts.reduce(&target.key, cost);
        if let Some(fallback) = RedisLimitData::of(limit).fallback.as_ref().filter(|_| reduced > 0) {
            self.inner.fallback.credit(fallback, key, reduced);
        }
        if cost > reduced {
            self.inner.counters.refunds.add(1);
            let op = ScriptOp::Credit { target, cost: cost - reduced };
            self.inner.send_adjustment(slot, smallvec![op], vec![key.into()], |_, _| {});
        }
    }

    fn settle(&self, receipt: ChargeReceipt, true_cost: u64) -> BoxFuture<'_, Settlement> {
        Box::pin(async move {
            let (target, charged, data) = RedisReceiptData::take(receipt);
            match data.admitted_by {
                AdmittedBy::Server { slot, .. } => {
                    let op = ScriptOp::Settle { target, charged, true_cost };
                    self.inner.settle_on_server(slot, op, data.key).await
                }
                AdmittedBy::Lease { slot, lot } => {
                    let scope = &RedisLimitData::of(&target.limit).prefix_and_scope;
                    if let Some(rest) = charged.cost.checked_sub(true_cost)
                        && self.inner.refund_leased(scope, &data.key, lot, rest)
                    {
                        return Settlement { overrun: 0 };
                    }
                    let op = ScriptOp::Settle { target, charged, true_cost };
                    self.inner.settle_on_server(slot, op, data.key).await
                }
                AdmittedBy::Fallback { receipt } => {
                    self.inner.settle_debt(&target, charged.cost, true_cost);
                    self.inner.fallback.settle(receipt, true_cost)
                }
                AdmittedBy::FailOpen => {
                    self.inner.settle_debt(&target, charged.cost, true_cost);
                    Settlement { overrun: 0 }
                }
            }
        })
    }

    fn renew(&self, receipt: &ChargeReceipt) -> bool {
        if !is_concurrency(receipt.limit()) {
            return false;
        }
        let data = RedisReceiptData::of(receipt);
        match &data.admitted_by {
            AdmittedBy::Fallback { receipt } => self.inner.fallback.renew(receipt),
            // Only tokens are leased ahead, and permits are not.
            AdmittedBy::Lease { .. } => false,
            // No store counts this permit, so its lease cannot be lost.
            AdmittedBy::FailOpen => true,
            AdmittedBy::Server { slot, lease_lost } => {
                let lost = Arc::clone(lease_lost);
                let op = ScriptOp::Renew { target: data.target(receipt.limit()), charged: *receipt.charged() };
                let on_reply = move |_: &Arc<Inner>, answered: crate::transport::CallResult| {
                    if answered.is_ok_and(|reply| reply.answers[..] == [Answer::Renewed { held: false }]) {
                        lost.store(true, Ordering::Relaxed);
                    }
                };
                if lease_lost.load(Ordering::Relaxed) {
                    return false;
                }
                self.inner.send_in_background(*slot, smallvec![op], Box::new(on_reply));
                true
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.inner.clock.server_ns(Instant::now())
    }

    /// Sends back all tokens that this instance has leased. From then on nothing is leased.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.inner.close_leases())
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

impl RegionalStore for Inner {
    fn regions(&self) -> Option<(&RegionState, &RegionSettings)> {
        Some((self.regions.as_deref()?, self.settings.regions.as_ref()?))
    }

    fn report(&self, event: StoreEvent) {
        (self.on_event)(event);
    }
}

impl Inner {
    /// Returns the share of this region in a limit by the policy, and the regions.
    fn divide(
        &self,
        scope: &str,
        whole: &Quota,
    ) -> Result<(RegionShare, Arc<RegionState>), Box<dyn Error + Send + Sync>> {
        let (Some(regions), Some(settings)) = (&self.regions, &self.settings.regions) else {
            return Err(format!("the limit {scope} is regional, but the store has no regions: add them").into());
        };
        let share = settings.share();
        share.quota(whole)?;
        Ok((share, Arc::clone(regions)))
    }

    /// Returns what synchronises this instance with its region and others over `exchange`.
    pub(crate) fn region_sync(&self, exchange: Arc<dyn Exchange>) -> Option<RegionSync> {
        let (regions, settings) = (self.regions.as_ref()?, self.settings.regions.clone()?);
        let instance = format!("{:016x}", random::Random::new(self.settings.seed).next());
        Some(RegionSync::new(regions, exchange, settings, self.settings.prefix.clone(), instance, false))
    }

    /// Settles a charge that a server counts. If there is no reply before the deadline, the reported overrun is 0.
    async fn settle_on_server(self: &Arc<Self>, slot: Slot, op: ScriptOp, key: Box<[u8]>) -> Settlement {
        let deadline = Instant::now() + self.settings.deadline;
        let (sender, answer) = oneshot::channel();
        self.send_adjustment(slot, smallvec![op], vec![key], move |_, answered| {
            // Fails only if the caller has stopped waiting.
            let _ = sender.send(answered.map_or(0, |reply| overrun(&reply)));
        });
        let overrun = timeout_at(deadline, answer).await.ok().and_then(Result::ok);
        Settlement { overrun: overrun.unwrap_or(0) }
    }
}

fn overrun(reply: &ScriptReply) -> u64 {
    match reply.answers.first() {
        Some(Answer::Settled { overrun }) => *overrun,
        _ => 0,
    }
}

/// Adds the default lease to a concurrency quota without one, so that the permits of a dead holder are released. The
/// period of a concurrency quota is its lease; `MAX_SPAN_NS` means none.
fn with_permit_lease(quota: Quota, lease: Duration) -> Result<Quota, Box<dyn Error + Send + Sync>> {
    if quota.kind() != AlgorithmKind::Concurrency || quota.period_ns() < MAX_SPAN_NS {
        return Ok(quota);
    }
    Ok(Quota::concurrency(quota.amount(), Some(lease))?)
}
