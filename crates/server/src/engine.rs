mod reload;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tollgate::policy::Matched;
use tollgate::policy::promise::Promise;
use tollgate::policy::published::Published;
use tollgate::redis::StoreEvent;
use tollgate::{
    Ask, AskedTogether, AsyncLimiter, CheckedPolicy, Clock, Decision, Limit, LimitOptions, LimiterError, Permit, Quota,
    RealClock, Receipt, RedisStore, Request, Settled, Together, Verdict,
};

use crate::decided::Decided;
use crate::front_end::FrontEnd;
use crate::listen::{ListenerMetrics, ShareMetrics};
use crate::metrics::Metrics;
use crate::metrics::receipt_metrics::ReceiptUse;
use crate::observe::{LogKeyError, Observer, ObserverSettings};
use crate::receipts::{ReceiptName, Receipts};
use crate::snapshot::SnapshotKeeper;
use crate::store::{self, OpenStore};
use crate::throttle::{CallerQuota, CallerQuotas, NotThrottled, Throttled};
use reload::{InForce, has_permits};
pub use reload::{Reload, ReloadError};

/// Decides requests. All front ends share one.
pub struct Engine {
    limiter: AsyncLimiter,
    /// Ours, whatever clock the store decides by: how long things take, and when receipts end.
    clock: Arc<dyn Clock>,
    /// The same, if it is the real clock: it is then read in place.
    real_clock: Option<RealClock>,
    in_force: ArcSwap<InForce>,
    /// Whether a rule limits how many are under way. Every check asks, so it is not behind a pointer that may change.
    has_permits: AtomicBool,
    receipts: Arc<Receipts>,
    /// The quotas that callers bring along.
    caller_quotas: CallerQuotas,
    metrics: Metrics,
    observer: Arc<Observer>,
    snapshots: Option<Arc<SnapshotKeeper>>,
    /// Held while a policy is replaced, so that its parts are replaced together.
    replacing: Mutex<()>,
    /// Decisions are neither counted nor observed, as a benchmark may want it.
    is_unobserved: bool,
}

/// There is no receipt of that name: it was used, has ended, or never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoReceipt;

impl Engine {
    /// A policy over the store that it describes. One in memory goes by
    /// `clock`; a shared one must be opened within a runtime, and goes by its own.
    pub fn new(policy: &CheckedPolicy, clock: Arc<dyn Clock>) -> Result<Engine, LimiterError> {
        Engine::telling(policy, clock, |_| {})
    }

    /// Like [`Engine::new`], with somebody who hears when the servers of a
    /// shared store fail and when they are back.
    pub fn telling(
        policy: &CheckedPolicy,
        clock: Arc<dyn Clock>,
        on_change: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<Engine, LimiterError> {
        let observer = Observer::new(ObserverSettings::default(), Arc::clone(&clock)).map_err(unobserved)?;
        Engine::observed(policy, clock, Arc::new(observer), on_change)
    }

    /// Like [`Engine::telling`], with an observer of one's own, who sees every decision.
    pub fn observed(
        policy: &CheckedPolicy,
        clock: Arc<dyn Clock>,
        observer: Arc<Observer>,
        on_change: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<Engine, LimiterError> {
        let OpenStore { limiter, opened } = store::open(policy, &clock, Box::new(on_change))?;
        let snapshots = opened.map(|opened| Arc::new(SnapshotKeeper::new(opened, limiter.clone())));
        let receipts = Arc::new(Receipts::new(Arc::clone(&clock)));
        let metrics = Metrics::new(limiter.now_ns());
        let in_force = ArcSwap::from_pointee(InForce::new(policy, &limiter, &metrics));
        let caller_quotas = CallerQuotas::new(policy);
        Ok(Engine {
            has_permits: AtomicBool::new(has_permits(&limiter)),
            limiter,
            real_clock: clock.as_real().cloned(),
            clock,
            in_force,
            receipts,
            caller_quotas,
            metrics,
            observer,
            snapshots,
            replacing: Mutex::default(),
            is_unobserved: false,
        })
    }

    /// Whoever writes the counters down, if the policy wants them written.
    #[must_use]
    pub fn snapshots(&self) -> Option<Arc<SnapshotKeeper>> {
        self.snapshots.clone()
    }

    /// Decides one request, and counts it. Permits are looked at and not taken.
    pub async fn decide(&self, front_end: FrontEnd, request: &Request<'_>) -> Verdict {
        match self.ask_now(front_end, request, Ask::Check) {
            Some((verdict, _)) => verdict,
            None => self.ask_later(front_end, request, Ask::Check).await.0,
        }
    }

    /// Decides from now on without counting or observing, so that a benchmark can tell what these cost.
    #[doc(hidden)]
    #[must_use]
    pub fn unobserved(mut self) -> Engine {
        self.is_unobserved = true;
        self
    }

    /// Decides one request for a caller who can bring a receipt back. One is
    /// given where it is wanted, and where permits were taken. It counts among
    /// those of the caller's address.
    pub(crate) async fn check(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        wants_receipt: bool,
        caller: IpAddr,
    ) -> (Verdict, Option<ReceiptName>) {
        if let Some(checked) = self.check_now(front_end, request, wants_receipt, caller) {
            return checked;
        }
        let (verdict, permit) = self.ask_later(front_end, request, self.ask_for(request, wants_receipt)).await;
        let receipt = permit.and_then(|permit| self.keep(permit, wants_receipt, caller));
        (verdict, receipt)
    }

    /// The same without waiting; `None` where the store is shared.
    #[inline]
    pub(crate) fn check_now(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        wants_receipt: bool,
        caller: IpAddr,
    ) -> Option<(Verdict, Option<ReceiptName>)> {
        let (verdict, permit) = self.ask_now(front_end, request, self.ask_for(request, wants_receipt))?;
        let receipt = permit.and_then(|permit| self.keep(permit, wants_receipt, caller));
        Some((verdict, receipt))
    }

    /// A request that costs nothing takes nothing that could be brought back.
    fn ask_for(&self, request: &Request<'_>, wants_receipt: bool) -> Ask {
        let takes_something = request.cost > 0 && (wants_receipt || self.has_permits.load(Relaxed));
        if takes_something { Ask::Admit } else { Ask::Check }
    }

    /// Decides one request for a caller who never says when it ends. Rules that
    /// limit concurrency do not apply. What it was charged can be
    /// refunded as long as the permit is held.
    pub(crate) async fn admit_rates(&self, front_end: FrontEnd, request: &Request<'_>) -> (Verdict, Option<Permit>) {
        match self.ask_now(front_end, request, Ask::AdmitRates) {
            Some(asked) => asked,
            None => self.ask_later(front_end, request, Ask::AdmitRates).await,
        }
    }

    /// Asks the limiter, and then counts and observes what it answered; `None` where the store is shared.
    #[inline]
    fn ask_now(&self, front_end: FrontEnd, request: &Request<'_>, ask: Ask) -> Option<(Verdict, Option<Permit>)> {
        let mut matched = None;
        let (verdict, permit) = self.limiter.ask_now(request, ask, &mut matched)?;
        self.note(front_end, request, &verdict, matched.as_ref(), verdict.decided_at_ns());
        Some((verdict, permit))
    }

    /// The same where the store is shared, which has to be waited for.
    async fn ask_later(&self, front_end: FrontEnd, request: &Request<'_>, ask: Ask) -> (Verdict, Option<Permit>) {
        // A shared store goes by another clock than ours.
        let begun_ns = self.now_ns();
        let mut matched = None;
        let (verdict, permit) = self.limiter.ask(request, ask, &mut matched).await;
        self.note(front_end, request, &verdict, matched.as_ref(), begun_ns);
        (verdict, permit)
    }

    /// Gives back everything that a receipt is for.
    pub(crate) fn refund(&self, name: ReceiptName) -> Result<(), NoReceipt> {
        self.limiter.refund(self.take(name, ReceiptUse::Refund)?);
        Ok(())
    }

    /// Lets go of a receipt's permits; what was charged stays charged.
    pub(crate) fn release(&self, name: ReceiptName) -> Result<(), NoReceipt> {
        self.limiter.release(self.take(name, ReceiptUse::Release)?);
        Ok(())
    }

    /// Replaces an estimated cost by the true one, and lets go of permits.
    pub(crate) async fn settle(&self, name: ReceiptName, true_cost: u64) -> Result<Settled, NoReceipt> {
        let receipt = self.take(name, ReceiptUse::Settle)?;
        let settled = self.limiter.settle_by(receipt, true_cost).await;
        self.metrics.receipts.count_overrun(settled.overrun);
        Ok(settled)
    }

    fn take(&self, name: ReceiptName, receipt_use: ReceiptUse) -> Result<Receipt, NoReceipt> {
        let receipt = self.receipts.take(name);
        self.metrics.receipts.count(receipt_use, receipt.is_some());
        receipt.ok_or(NoReceipt)
    }

    /// Whether somebody at this address is believed when they speak for others.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.limiter.policy().trusts(peer)
    }

    /// Shows the limits as clients may know them to `read`.
    pub fn with_published<R>(&self, read: impl FnOnce(&Published) -> R) -> R {
        read(&self.in_force.load().published)
    }

    /// Whether other instances are known to count the same clients under other keys.
    pub(crate) fn counts_apart(&self) -> bool {
        self.limiter.store_as::<RedisStore>().is_some_and(RedisStore::secret_key_differs)
    }

    /// Tells policies apart by what they say.
    pub(crate) fn with_fingerprint<R>(&self, read: impl FnOnce(&str) -> R) -> R {
        read(&self.in_force.load().fingerprint)
    }

    pub(crate) fn receipts(&self) -> &Receipts {
        &self.receipts
    }

    /// What decides, for operators.
    pub(crate) fn limiter(&self) -> &AsyncLimiter {
        &self.limiter
    }

    /// Shows what each rule promises to `read`.
    pub fn with_promises<R>(&self, read: impl FnOnce(&[Promise]) -> R) -> R {
        read(&self.in_force.load().promises)
    }

    /// The counters for connections of one listener.
    pub(crate) fn connection_metrics(&self, listener: &'static str) -> ListenerMetrics {
        self.metrics.connections.of_listener(listener)
    }

    /// Whether decisions wait for a store elsewhere.
    pub(crate) fn waits_for_store(&self) -> bool {
        self.limiter.memory_store().is_none()
    }

    /// The counters for what connections wait for.
    pub(crate) fn share_metrics(&self) -> ShareMetrics {
        self.metrics.connections.of_shares()
    }

    /// Decides a charge under a quota that the caller brings along. Such keys share no
    /// counter with those of any rule; under another quota, what a key has used stays
    /// used. A cost of 0 only looks. [`note_throttled`](Engine::note_throttled) counts it.
    /// `None` where the store is shared, which has to be waited for: see [`throttle`](Engine::throttle).
    #[inline]
    pub(crate) fn throttle_now(&self, key: &[u8], quota: &mut CallerQuota, cost: u64) -> Option<Decision> {
        self.caller_quotas.check_now(&self.limiter, key, quota, cost)
    }

    /// The same where the store is shared.
    pub(crate) async fn throttle(
        &self,
        key: &[u8],
        quota: &mut CallerQuota,
        cost: u64,
    ) -> Result<Decision, NotThrottled> {
        let begun_ns = self.now_ns();
        let decision = self.caller_quotas.check(&self.limiter, key, quota, cost).await?;
        let mut throttled = Throttled::default();
        throttled.add(cost, &decision);
        self.note_throttled(&throttled, begun_ns);
        Ok(decision)
    }

    /// Counts throttled charges, which took from `begun_ns` until now. They are counted
    /// and timed together, because to time each would take as long as to decide it.
    pub(crate) fn note_throttled(&self, throttled: &Throttled, begun_ns: u64) {
        let taken_ns = self.now_ns().saturating_sub(begun_ns);
        self.metrics.rules.count_throttled(throttled);
        self.metrics.rules.time_throttled(throttled.count(), taken_ns);
    }

    /// Decides several requests together, all or none, and counts them as one.
    pub(crate) async fn decide_together(&self, front_end: FrontEnd, asked: &[AskedTogether<'_>]) -> Together {
        let begun_ns = if self.waits_for_store() { Some(self.now_ns()) } else { None };
        let together = self.limiter.decide_together(asked).await;
        // They are a peek only if none of them takes anything.
        if let Some(largest) = asked.iter().max_by_key(|one| one.request.cost) {
            let begun_ns = begun_ns.unwrap_or(together.overall.decided_at_ns());
            self.note(front_end, &largest.request, &together.overall, Some(&together.matched), begun_ns);
        }
        together
    }

    /// Prepares a limit that is no rule's, for a caller who brings one. Its scope must be no rule's either.
    pub(crate) fn caller_limit(&self, scope: &str, quota: Quota) -> Option<Limit> {
        self.limiter.caller_limit(scope, quota, LimitOptions::default()).ok()
    }

    /// What sees every decision: who is refused most often, and what happens.
    #[must_use]
    pub fn observer(&self) -> &Arc<Observer> {
        &self.observer
    }

    /// The metrics in Prometheus' text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.text(self)
    }

    /// The same without rules and paths that the policy does not publish.
    pub(crate) fn public_metrics_text(&self) -> String {
        self.in_force.load().public_names.visible_of(&self.metrics_text())
    }

    /// Counts a decision and how long it took, and shows it to the observer.
    /// Not inlined: the decision before it has the registers for itself.
    #[inline(never)]
    fn note(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        verdict: &Verdict,
        matched: Option<&Matched<'_>>,
        begun_ns: u64,
    ) {
        if self.is_unobserved {
            return;
        }
        // Monotonic in earnest, but a clock of a test may be set back.
        let taken_ns = self.now_ns().saturating_sub(begun_ns);
        let decided = Decided { front_end, request, verdict, deciding: verdict.deciding() };
        let refused_by = self.metrics.rules.count(decided, taken_ns);
        self.observer.see(decided, matched, refused_by);
    }

    fn keep(&self, permit: Permit, wants_receipt: bool, caller: IpAddr) -> Option<ReceiptName> {
        if !wants_receipt && !permit.holds_permits() {
            return None;
        }
        let lease_ns = permit.lease().map(|lease| u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX));
        self.receipts.keep(permit.into_receipt(), lease_ns, caller)
    }

    #[inline(always)]
    pub(crate) fn now_ns(&self) -> u64 {
        match &self.real_clock {
            Some(real) => real.now_ns(),
            None => self.clock.now_ns(),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}

/// Without random numbers no client could be told of without being named.
fn unobserved(error: LogKeyError) -> LimiterError {
    LimiterError::Limit { scope: "the key of the log".to_owned(), error: Box::new(error) }
}
