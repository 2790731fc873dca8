mod reload;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tollgate::clock::Clock;
use tollgate::limiter::{CheckMode, JointRequest, JointVerdict};
use tollgate::policy::CheckedPolicy;
use tollgate::policy::Matched;
use tollgate::policy::promise::Promise;
use tollgate::policy::published::Published;
use tollgate::quota::{Decision, Settlement};
use tollgate::redis::RedisStore;
use tollgate::redis::StoreEvent;
use tollgate::store::{Limit, LimitOptions};
use tollgate::{AsyncLimiter, LimiterError, Permit, Quota, RealClock, Receipt, Request, Verdict};

use crate::decided::DecidedRequest;
use crate::front_end::FrontEnd;
use crate::listen::{ListenerMetrics, ShareMetrics};
use crate::metrics::ServiceMetrics;
use crate::metrics::receipt_metrics::ReceiptUse;
use crate::observe::{LogKeyError, Observer, ObserverSettings};
use crate::policy_source::{PolicyHistory, PolicySource};
use crate::receipts::{ReceiptName, Receipts};
use crate::rule_metrics::TotalCounts;
use crate::snapshot::SnapshotWriter;
use crate::store::{self, OpenStore};
use crate::throttle::{CachedQuota, CallerQuotas, NotThrottled, ThrottleCounts};
use reload::{PolicyData, has_permits};
pub use reload::{Reload, ReloadError};

/// Decides requests. All front ends share one.
pub struct Engine {
    limiter: AsyncLimiter,
    /// The local clock, whichever clock the store uses: measures durations and expires receipts.
    clock: Arc<dyn Clock>,
    /// The same clock, if it is the real one: it is then read without dynamic dispatch.
    real_clock: Option<RealClock>,
    active: ArcSwap<PolicyData>,
    /// Whether a rule limits concurrency. Read for every check, so it is not behind a pointer that may change.
    has_permits: AtomicBool,
    receipts: Arc<Receipts>,
    /// Quotas supplied by callers.
    caller_quotas: CallerQuotas,
    metrics: ServiceMetrics,
    observer: Arc<Observer>,
    snapshots: Option<Arc<SnapshotWriter>>,
    /// The file of the active policy, and the recent reloads.
    policy_history: PolicyHistory,
    /// Held while a policy is replaced, so that its parts change together.
    replacing: Mutex<()>,
    /// Disables metrics and observation, for benchmarks.
    skips_observation: bool,
}

/// The receipt was used, has expired, or never existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownReceipt;

impl Engine {
    /// Builds an engine with the store that the policy configures. A memory store uses `clock`; a shared store must be
    /// opened within a Tokio runtime, and uses its own clock.
    pub fn new(policy: &CheckedPolicy, clock: Arc<dyn Clock>) -> Result<Engine, LimiterError> {
        Engine::with_store_events(policy, clock, |_| {})
    }

    /// Like [`Engine::new`], with a callback for failure and recovery of the servers of a shared store.
    pub fn with_store_events(
        policy: &CheckedPolicy,
        clock: Arc<dyn Clock>,
        on_event: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<Engine, LimiterError> {
        let observer = Observer::new(ObserverSettings::default(), Arc::clone(&clock)).map_err(observer_error)?;
        Engine::with_observer(policy, clock, Arc::new(observer), on_event)
    }

    /// Like [`Engine::with_store_events`], with a custom observer, which receives every decision.
    pub fn with_observer(
        policy: &CheckedPolicy,
        clock: Arc<dyn Clock>,
        observer: Arc<Observer>,
        on_event: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<Engine, LimiterError> {
        let OpenStore { limiter, opened } = store::open(policy, &clock, Box::new(on_event))?;
        let snapshots = opened.map(|opened| Arc::new(SnapshotWriter::new(opened, limiter.clone())));
        let receipts = Arc::new(Receipts::new(Arc::clone(&clock)));
        let metrics = ServiceMetrics::new(limiter.now_ns());
        let active = ArcSwap::from_pointee(PolicyData::new(policy, &limiter, &metrics));
        let caller_quotas = CallerQuotas::new(policy);
        Ok(Engine {
            has_permits: AtomicBool::new(has_permits(&limiter)),
            limiter,
            real_clock: clock.as_real().cloned(),
            clock,
            active,
            receipts,
            caller_quotas,
            metrics,
            observer,
            snapshots,
            policy_history: PolicyHistory::default(),
            replacing: Mutex::default(),
            skips_observation: false,
        })
    }

    /// Returns the snapshot writer, if the policy configures snapshots.
    #[must_use]
    pub fn snapshots(&self) -> Option<Arc<SnapshotWriter>> {
        self.snapshots.clone()
    }

    /// Decides one request and counts it. Concurrency permits are checked, not taken.
    pub async fn check(&self, front_end: FrontEnd, request: &Request<'_>) -> Verdict {
        match self.decide_now(front_end, request, CheckMode::Check) {
            Some((verdict, _)) => verdict,
            None => self.decide_later(front_end, request, CheckMode::Check).await.0,
        }
    }

    /// Disables counting and observation, so that a benchmark can measure their cost.
    #[doc(hidden)]
    #[must_use]
    pub fn unobserved(mut self) -> Engine {
        self.skips_observation = true;
        self
    }

    /// Decides one request for a caller that can return a receipt. A receipt is issued if requested, or if permits
    /// were taken. It counts against the limit of the caller's address.
    pub(crate) async fn check_with_receipt(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        wants_receipt: bool,
        caller: IpAddr,
    ) -> (Verdict, Option<ReceiptName>) {
        if let Some(checked) = self.check_with_receipt_now(front_end, request, wants_receipt, caller) {
            return checked;
        }
        let (verdict, permit) = self.decide_later(front_end, request, self.check_mode(request, wants_receipt)).await;
        let receipt = permit.and_then(|permit| self.store_receipt(permit, wants_receipt, caller));
        (verdict, receipt)
    }

    /// The same without waiting; `None` for a shared store.
    #[inline]
    pub(crate) fn check_with_receipt_now(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        wants_receipt: bool,
        caller: IpAddr,
    ) -> Option<(Verdict, Option<ReceiptName>)> {
        let (verdict, permit) = self.decide_now(front_end, request, self.check_mode(request, wants_receipt))?;
        let receipt = permit.and_then(|permit| self.store_receipt(permit, wants_receipt, caller));
        Some((verdict, receipt))
    }

    /// Returns how to decide a request. A request with cost 0 takes nothing that could be refunded.
    fn check_mode(&self, request: &Request<'_>, wants_receipt: bool) -> CheckMode {
        let takes_something = request.cost > 0 && (wants_receipt || self.has_permits.load(Relaxed));
        if takes_something { CheckMode::Permit } else { CheckMode::Check }
    }

    /// Decides one request for a caller that does not report its end. Rules that limit concurrency do not apply. The
    /// charge can be refunded while the permit is held.
    pub(crate) async fn permit_without_concurrency(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
    ) -> (Verdict, Option<Permit>) {
        match self.decide_now(front_end, request, CheckMode::PermitWithoutConcurrency) {
            Some(decided) => decided,
            None => self.decide_later(front_end, request, CheckMode::PermitWithoutConcurrency).await,
        }
    }

    /// Decides, counts and observes a request; `None` for a shared store.
    #[inline]
    fn decide_now(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        mode: CheckMode,
    ) -> Option<(Verdict, Option<Permit>)> {
        let mut matched = None;
        let (verdict, permit) = self.limiter.check_in_mode_sync(request, mode, &mut matched)?;
        self.note(front_end, request, &verdict, matched.as_ref(), verdict.decided_at_ns());
        Some((verdict, permit))
    }

    /// The same for a shared store.
    async fn decide_later(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        mode: CheckMode,
    ) -> (Verdict, Option<Permit>) {
        // A shared store uses another clock.
        let begun_ns = self.now_ns();
        let mut matched = None;
        let (verdict, permit) = self.limiter.check_in_mode(request, mode, &mut matched).await;
        self.note(front_end, request, &verdict, matched.as_ref(), begun_ns);
        (verdict, permit)
    }

    /// Refunds everything that a receipt was charged.
    pub(crate) fn refund(&self, name: ReceiptName) -> Result<(), UnknownReceipt> {
        self.limiter.refund(self.take_receipt(name, ReceiptUse::Refund)?);
        Ok(())
    }

    /// Releases the permits of a receipt; the charge remains.
    pub(crate) fn release(&self, name: ReceiptName) -> Result<(), UnknownReceipt> {
        self.limiter.release(self.take_receipt(name, ReceiptUse::Release)?);
        Ok(())
    }

    /// Replaces the estimated cost by the actual cost, and releases permits.
    pub(crate) async fn settle(&self, name: ReceiptName, true_cost: u64) -> Result<Settlement, UnknownReceipt> {
        let receipt = self.take_receipt(name, ReceiptUse::Settle)?;
        let settled = self.limiter.settle(receipt, true_cost).await;
        self.metrics.receipts.count_overrun(settled.overrun);
        Ok(settled)
    }

    fn take_receipt(&self, name: ReceiptName, receipt_use: ReceiptUse) -> Result<Receipt, UnknownReceipt> {
        let receipt = self.receipts.take(name);
        self.metrics.receipts.count(receipt_use, receipt.is_some());
        receipt.ok_or(UnknownReceipt)
    }

    /// Returns whether a peer is a trusted proxy.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.limiter.policy().trusts(peer)
    }

    /// Calls `read` with the published limits.
    pub fn with_published<R>(&self, read: impl FnOnce(&Published) -> R) -> R {
        read(&self.active.load().published)
    }

    /// Returns whether other instances hash the same clients under another key.
    pub(crate) fn secret_key_differs(&self) -> bool {
        self.limiter.store_as::<RedisStore>().is_some_and(RedisStore::secret_key_differs)
    }

    /// Calls `read` with the fingerprint of the policy's content.
    pub(crate) fn with_fingerprint<R>(&self, read: impl FnOnce(&str) -> R) -> R {
        read(&self.active.load().fingerprint)
    }

    pub(crate) fn receipts(&self) -> &Receipts {
        &self.receipts
    }

    /// Returns the tokens that this instance has leased from a shared store. Called after all listeners are closed.
    pub async fn close(&self) {
        self.limiter.close().await;
    }

    /// Returns the limiter, for the admin API.
    pub(crate) fn limiter(&self) -> &AsyncLimiter {
        &self.limiter
    }

    /// Calls `read` with the guarantees of each rule.
    pub fn with_promises<R>(&self, read: impl FnOnce(&[Promise]) -> R) -> R {
        read(&self.active.load().promises)
    }

    /// Returns the connection metrics of a listener.
    pub(crate) fn connection_metrics(&self, listener: &'static str) -> ListenerMetrics {
        self.metrics.connections.of_listener(listener)
    }

    /// Returns whether decisions wait for a shared store.
    pub(crate) fn waits_for_store(&self) -> bool {
        self.limiter.memory_store().is_none()
    }

    /// Returns the metrics of waits for per-address resources.
    pub(crate) fn share_metrics(&self) -> ShareMetrics {
        self.metrics.connections.of_shares()
    }

    /// Decides a charge under a caller-supplied quota. Such keys share no counter with any rule; under another quota,
    /// the usage of a key remains. A cost of 0 is a peek. [`note_throttled`](Engine::note_throttled) counts it. `None`
    /// for a shared store: see [`throttle`](Engine::throttle).
    #[inline]
    pub(crate) fn throttle_now(&self, key: &[u8], quota: &mut CachedQuota, cost: u64) -> Option<Decision> {
        self.caller_quotas.check_now(&self.limiter, key, quota, cost)
    }

    /// The same for a shared store.
    pub(crate) async fn throttle(
        &self,
        key: &[u8],
        quota: &mut CachedQuota,
        cost: u64,
    ) -> Result<Decision, NotThrottled> {
        let begun_ns = self.now_ns();
        let decision = self.caller_quotas.check(&self.limiter, key, quota, cost).await?;
        let mut throttled = ThrottleCounts::default();
        throttled.add(cost, &decision);
        self.note_throttled(&throttled, begun_ns);
        Ok(decision)
    }

    /// Counts throttled charges, which took from `begun_ns` until now. They are counted and timed together, because
    /// timing each would take as long as deciding it.
    pub(crate) fn note_throttled(&self, throttled: &ThrottleCounts, begun_ns: u64) {
        let taken_ns = self.now_ns().saturating_sub(begun_ns);
        self.metrics.rules.count_throttled(throttled);
        self.metrics.rules.time_throttled(throttled.count(), taken_ns);
    }

    /// Decides several requests together, all or none, and counts them as one decision.
    pub(crate) async fn check_all(&self, front_end: FrontEnd, requests: &[JointRequest<'_>]) -> JointVerdict {
        let begun_ns = if self.waits_for_store() { Some(self.now_ns()) } else { None };
        let together = self.limiter.check_all(requests).await;
        // They are a peek only if all costs are 0.
        if let Some(largest) = requests.iter().max_by_key(|one| one.request.cost) {
            let begun_ns = begun_ns.unwrap_or(together.overall.decided_at_ns());
            self.note(front_end, &largest.request, &together.overall, Some(&together.matched), begun_ns);
        }
        together
    }

    /// Prepares a caller-supplied limit. Its scope must not be the name of a rule.
    pub(crate) fn caller_limit(&self, scope: &str, quota: Quota) -> Option<Limit> {
        self.limiter.caller_limit(scope, quota, LimitOptions::default()).ok()
    }

    /// Returns the observer of all decisions.
    #[must_use]
    pub fn observer(&self) -> &Arc<Observer> {
        &self.observer
    }

    /// Sets the file of the active policy, for operators.
    pub fn set_policy_source(&self, source: PolicySource) {
        self.policy_history.set_source(source);
    }

    /// Records the outcome of a reload for operators: what has changed, or why the previous policy stays active.
    pub fn note_reload(&self, outcome: Result<&str, &str>) {
        let (Ok(message) | Err(message)) = outcome;
        self.policy_history.note(self.observer.now(), outcome.is_ok(), message);
    }

    pub(crate) fn policy_history(&self) -> &PolicyHistory {
        &self.policy_history
    }

    /// Returns the time of the last successful load of a policy, in seconds since 1970.
    pub(crate) fn policy_loaded_at_s(&self) -> u64 {
        self.metrics.reloads.last_success_s()
    }

    /// Returns the counts of all decisions since the start.
    pub(crate) fn counts(&self) -> TotalCounts {
        self.metrics.rules.counts()
    }

    /// Returns the metrics in Prometheus' text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.text(self)
    }

    /// The same without rules and paths that the policy does not publish.
    pub(crate) fn public_metrics_text(&self) -> String {
        self.active.load().public_names.visible_part(&self.metrics_text())
    }

    /// Counts and times a decision, and passes it to the observer. Not inlined: the decision before it uses all
    /// registers.
    #[inline(never)]
    fn note(
        &self,
        front_end: FrontEnd,
        request: &Request<'_>,
        verdict: &Verdict,
        matched: Option<&Matched<'_>>,
        begun_ns: u64,
    ) {
        if self.skips_observation {
            return;
        }
        // The real clock is monotonic, but a test clock may be set back.
        let taken_ns = self.now_ns().saturating_sub(begun_ns);
        let decided = DecidedRequest { front_end, request, verdict, deciding: verdict.deciding() };
        let refused_by = self.metrics.rules.count(decided, taken_ns);
        self.observer.record(decided, matched, refused_by);
    }

    fn store_receipt(&self, permit: Permit, wants_receipt: bool, caller: IpAddr) -> Option<ReceiptName> {
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

/// Converts the error of an observer: without random numbers, client IDs cannot be hashed.
fn observer_error(error: LogKeyError) -> LimiterError {
    LimiterError::Limit { scope: "the key of the log".to_owned(), error: Box::new(error) }
}
