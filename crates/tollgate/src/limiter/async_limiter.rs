use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tollgate_core::{Decision, Quota, Settlement};
use tollgate_policy::{CheckedPolicy, CompiledPolicy, Matched, Problem, Request};
use tollgate_store::{Charge, ChargeReceipt, Limit, LimitOptions, MemoryStore, SharedOverrides, Store, Timer};

use super::LimiterError;
use super::active::ActivePolicy;
use super::backend::Backend;
use super::decision::{CheckMode, DecisionMachine};
use super::in_memory::{decide_any, decide_common, decide_common_not_inlined, decide_uncommon};
use super::permit_queue::{PermitQueue, QueuePosition};
use crate::permit::Permit;
use crate::receipt::Receipt;
use crate::verdict::{Action, Refused, Verdict};

/// How often a task that waits for a permit attempts without having been woken. Permits become free without a wake-up
/// when a lease expires, and in a shared store when another instance releases one.
const MEMORY_POLL_NS: u64 = 1_000_000_000;
const SHARED_POLL_NS: u64 = 50_000_000;

/// A policy over any store, with async methods: Redis, Valkey, a cluster, or a custom [`Store`].
///
/// A [`Limiter`](super::Limiter) is the same over counters in this process, without `async`. Cloning is cheap, and all
/// clones share the same counters and the same policy.
#[derive(Clone)]
pub struct AsyncLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Backend,
    active: ArcSwap<ActivePolicy>,
    /// The generation of the active policy. Pooled verdicts of another generation are not reused.
    generation: AtomicU64,
    /// The number of this limiter, which selects its slot in the thread-local verdict pools.
    limiter_number: usize,
    /// Held while the active policy is replaced.
    changing: Mutex<()>,
    /// The tasks that wait for concurrency permits.
    permit_queue: PermitQueue,
}

impl AsyncLimiter {
    /// Creates a limiter over a custom store.
    pub fn with_store(policy: &CheckedPolicy, store: impl Store) -> Result<AsyncLimiter, LimiterError> {
        AsyncLimiter::over(policy, Backend::Other(Box::new(store)))
    }

    pub(super) fn over(policy: &CheckedPolicy, backend: Backend) -> Result<AsyncLimiter, LimiterError> {
        static LIMITERS: AtomicUsize = AtomicUsize::new(0);
        let limiter_number = LIMITERS.fetch_add(1, Ordering::Relaxed);
        let active = ActivePolicy::prepare(policy, &backend, limiter_number)?;
        backend.compare_fingerprint(active.compiled.secrets_fingerprint());
        let generation = AtomicU64::new(active.generation());
        let active = ArcSwap::from_pointee(active);
        let (changing, permit_queue) = (Mutex::new(()), PermitQueue::default());
        Ok(AsyncLimiter {
            shared: Arc::new(Shared { backend, active, generation, limiter_number, changing, permit_queue }),
        })
    }

    /// Replaces the policy of this limiter and all its clones, between two requests.
    ///
    /// Counters are kept: a rule of the same name continues its counts under its new limit, and overrides of keys
    /// remain. The settings of the store do not change. Neither may the HMAC key that hashes secret identities: with
    /// another one every client would have other keys, and so new counters.
    pub fn set_policy(&self, policy: &CheckedPolicy) -> Result<(), LimiterError> {
        let _changing = self.changing();
        let active = ActivePolicy::prepare(policy, &self.shared.backend, self.shared.limiter_number)?;
        let before = self.shared.active.load();
        let fingerprint = active.compiled.secrets_fingerprint();
        if let (Some(before), Some(now)) = (before.compiled.secrets_fingerprint(), fingerprint)
            && before != now
        {
            return Err(LimiterError::OtherSecretKey);
        }
        self.shared.backend.compare_fingerprint(fingerprint);
        active.continue_from(&before);
        self.activate(active);
        Ok(())
    }

    /// Returns the active policy.
    #[must_use]
    pub fn policy(&self) -> Arc<CompiledPolicy> {
        Arc::clone(&self.shared.active.load().compiled)
    }

    /// Returns the warnings of the active policy: limits that clients can avoid, rules that can never apply, and other
    /// likely mistakes. A warning has a code, which docs/policy-messages.md explains, a path in the policy, a message
    /// and a hint.
    ///
    /// The limiter does not print them. A program should, at startup and after
    /// [`set_policy`](AsyncLimiter::set_policy):
    ///
    /// ```
    /// use tollgate::policy::model::IdentitySource;
    /// use tollgate::{Limiter, rule};
    ///
    /// let limiter = Limiter::builder()
    ///     .identity("user", IdentitySource::Header("x-user".to_owned()))
    ///     .rule(rule("per-user").per("user").limit("100/min"))
    ///     .build()?;
    /// let warnings = limiter.warnings();
    /// for warning in &*warnings {
    ///     eprintln!("policy: {}: {warning}", warning.code);
    /// }
    /// let codes: Vec<&str> = warnings.iter().map(|warning| warning.code).collect();
    /// assert_eq!(codes, ["limits-can-be-avoided", "untrusted-identity"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Arc<[Problem]> {
        Arc::clone(&self.shared.active.load().warnings)
    }

    /// Returns the memory store, if the counters are in this process.
    #[inline]
    #[must_use]
    pub fn memory_store(&self) -> Option<&MemoryStore> {
        match &self.shared.backend {
            Backend::Memory(store) => Some(store),
            Backend::Other(_) => None,
        }
    }

    /// Returns the store if it is of this type, for example to read its statistics.
    #[must_use]
    pub fn store_as<S: Store>(&self) -> Option<&S> {
        (self.shared.backend.store() as &dyn Any).downcast_ref()
    }

    /// Returns the time of the store's clock, in nanoseconds since 1970.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.backend.now_ns()
    }

    /// Decides a request in a given mode: for front ends that log and count decisions.
    ///
    /// `matched` is an optional output: the rules that apply to the request, with keys and costs. A decision that does
    /// not collect them leaves it `None`, and [`Verdict::matched`] computes it when needed. An allowed request has a
    /// permit in the modes that provide one.
    pub async fn check_in_mode<'r>(
        &self,
        request: &Request<'r>,
        mode: CheckMode,
        matched: &mut Option<Matched<'r>>,
    ) -> (Verdict, Option<Permit>) {
        let (verdict, receipt) = match &self.shared.backend {
            Backend::Memory(store) => self.decide_in_memory(store, request, mode, matched),
            // Boxed, because it is large and would enlarge the future of decisions in memory.
            Backend::Other(store) => Box::pin(self.decide_in_other_store(&**store, request, mode, matched)).await,
        };
        let permit = self.permit_in(mode, &verdict, receipt);
        (verdict, permit)
    }

    /// The synchronous [`check_in_mode`](AsyncLimiter::check_in_mode); `None` if the counters are not in this process.
    #[inline]
    pub fn check_in_mode_sync<'r>(
        &self,
        request: &Request<'r>,
        mode: CheckMode,
        matched: &mut Option<Matched<'r>>,
    ) -> Option<(Verdict, Option<Permit>)> {
        let store = self.memory_store()?;
        let mut verdict = self.blank(Store::now_ns(store));
        let mode = mode.resolve(&verdict.policy);
        if mode == CheckMode::Check && decide_common_not_inlined(store, request, &mut verdict) {
            return Some((verdict, None));
        }
        Some(self.decide_uncommon_with_permit(store, request, mode, matched, verdict))
    }

    #[inline(never)]
    fn decide_uncommon_with_permit<'r>(
        &self,
        store: &MemoryStore,
        request: &Request<'r>,
        mode: CheckMode,
        matched: &mut Option<Matched<'r>>,
        blank: Verdict,
    ) -> (Verdict, Option<Permit>) {
        let (verdict, receipt) = decide_uncommon(store, request, mode, matched, blank);
        let permit = self.permit_in(mode, &verdict, receipt);
        (verdict, permit)
    }

    /// Wraps the receipt of an allowed request in a permit, if the mode provides one.
    fn permit_in(&self, mode: CheckMode, verdict: &Verdict, receipt: Receipt) -> Option<Permit> {
        let has_permit = mode.resolve(&verdict.policy).wants_receipts() && verdict.is_allowed();
        has_permit.then(|| Permit::new(self.clone(), receipt, verdict.clone()))
    }

    /// Decides a request, and charges it if allowed.
    ///
    /// Concurrency limits are checked, but no permit is taken, because nothing would release it: see
    /// [`permit`](AsyncLimiter::permit).
    pub async fn check(&self, request: &Request<'_>) -> Verdict {
        self.decide_in_mode(request, CheckMode::Check).await.0
    }

    /// Decides a request without charging it.
    pub async fn peek(&self, request: &Request<'_>) -> Verdict {
        self.decide_in_mode(request, CheckMode::Peek).await.0
    }

    /// Decides a request, charges it if allowed, and takes permits of concurrency limits.
    ///
    /// The permit releases them when it is dropped, and can refund or settle the charges.
    pub async fn permit(&self, request: &Request<'_>) -> Result<Permit, Refused> {
        self.permit_in_mode(request, CheckMode::Permit).await
    }

    /// Like [`permit`](AsyncLimiter::permit), for a caller that does not learn when a request ends: concurrency limits
    /// do not apply.
    pub async fn permit_without_concurrency(&self, request: &Request<'_>) -> Result<Permit, Refused> {
        self.permit_in_mode(request, CheckMode::PermitWithoutConcurrency).await
    }

    /// Waits until a request is allowed, for at most `max_wait`, and returns its permit.
    ///
    /// - Under a queueing rule it reserves the next departure and waits for it, first in, first out.
    /// - Under a concurrency limit it waits until a permit is released, first in, first out for each key. Permits that
    ///   other instances release are noticed within 50 ms. At most 65,536 tasks wait; further ones are refused.
    /// - Under other rules it retries after the refusal's `retry_after`. Another request may be faster.
    ///
    /// If the wait would certainly exceed `max_wait`, it returns the refusal at once. Dropping the future cancels the
    /// wait and refunds its reservation.
    ///
    /// A concurrency permit expires with its lease, one minute by default: a longer task calls [`Permit::renew`] at the
    /// interval of [`Permit::renew_every`]. Tests pass their [`ManualClock`](crate::ManualClock) as the timer too.
    ///
    /// ```
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Request, TokioTimer, rule};
    ///
    /// let limiter = Limiter::builder().rule(rule("jobs").concurrency(3)).build()?;
    /// let permit = limiter.acquire(&Request::from_peer(None), Duration::from_secs(30), TokioTimer).await?;
    /// // .. run the job ..
    /// drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire<T: Timer>(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
        timer: T,
    ) -> Result<Permit, Refused> {
        self.acquire_by(request, max_wait, timer, |_| false).await
    }

    /// Like [`acquire`](AsyncLimiter::acquire), but a refusal under a queue is final: the queue is full.
    #[cfg(feature = "client")]
    pub(crate) async fn acquire_in_queue<T: Timer>(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
        timer: T,
    ) -> Result<Permit, Refused> {
        self.acquire_by(request, max_wait, timer, Verdict::is_by_queue).await
    }

    async fn acquire_by<T: Timer>(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
        timer: T,
        is_final: impl Fn(&Verdict) -> bool,
    ) -> Result<Permit, Refused> {
        let deadline_ns = self.now_ns().saturating_add(u64::try_from(max_wait.as_nanos()).unwrap_or(u64::MAX));
        let left_ns = || deadline_ns.saturating_sub(self.now_ns());
        let mut position = self.join_waiters(request);
        loop {
            if let Some(position) = position.as_ref().filter(|position| !position.is_first())
                && left_ns() > 0
            {
                position.wait(timer.sleep(left_ns())).await;
                continue;
            }
            let refused = match self.permit(request).await {
                Ok(permit) => return wait_for_delay(permit, left_ns(), timer).await,
                Err(refused) => refused,
            };
            match self.missing_permit(request, &refused) {
                Some(_) if left_ns() == 0 => return Err(refused),
                Some(key) if position.as_ref().is_some_and(|position| position.key() == key) => {
                    let poll_ns = if self.memory_store().is_some() { MEMORY_POLL_NS } else { SHARED_POLL_NS };
                    if let Some(position) = &position {
                        position.wait(timer.sleep(poll_ns.min(left_ns()))).await;
                    }
                }
                Some(key) => {
                    // Leaves the queue of another key first.
                    drop(position.take());
                    position = self.shared.permit_queue.join(key);
                    if position.is_none() {
                        return Err(refused);
                    }
                }
                None => {
                    drop(position.take());
                    match refused.retry_after_ns() {
                        Some(wait_ns) if wait_ns <= left_ns() && !is_final(&refused) => timer.sleep(wait_ns).await,
                        _ => return Err(refused),
                    }
                }
            }
        }
    }

    /// Joins the queue of a permit that the request needs, if other tasks wait for it already.
    fn join_waiters(&self, request: &Request<'_>) -> Option<QueuePosition<'_>> {
        let queue = &self.shared.permit_queue;
        if queue.is_empty() {
            return None;
        }
        let blank = self.blank(self.now_ns());
        let (policy, matched) = (&*blank.policy, blank.matched(request));
        let mut keys = matched.charges.iter().filter_map(|charge| policy.permit_queue_key(charge, matched.key(charge)));
        keys.find(|key| queue.has_waiters(*key)).and_then(|key| queue.join(key))
    }

    /// Returns the key of the queue to wait in, if the request was refused for lack of a permit.
    fn missing_permit(&self, request: &Request<'_>, refused: &Verdict) -> Option<u64> {
        let state = refused.deciding().filter(|state| refused.action() == Action::Reject && state.lacks_permit())?;
        let matched = refused.matched(request);
        let charge = matched.charges.get(state.charge_position())?;
        refused.policy.permit_queue_key(charge, matched.key(charge))
    }

    /// Sends back the tokens that this instance has leased from a shared store, before the program stops. Takes at most
    /// half a second; without leases, no time. Leases that are not sent back end by themselves, two seconds later at
    /// most by default.
    pub async fn close(&self) {
        self.shared.backend.store().close().await;
    }

    /// Refunds all charges of a receipt, and releases its permits.
    pub fn refund(&self, receipt: impl Into<Receipt>) {
        let receipt = receipt.into();
        let keys = queue_keys(&receipt);
        receipt.into_all().for_each(|charge| self.shared.backend.store().refund(charge));
        self.shared.permit_queue.released(keys);
    }

    /// Releases the permits of a receipt; its other charges remain.
    pub fn release(&self, receipt: impl Into<Receipt>) {
        let receipt = receipt.into();
        self.measure(&receipt);
        let keys = queue_keys(&receipt);
        self.release_permits(receipt.into_permits(), keys);
    }

    /// Replaces the estimated cost of a receipt by the true one, and releases its permits.
    ///
    /// Which charges change:
    /// - if a matched rule has an `estimate` or reads its cost from a header, only the charges of such rules;
    /// - otherwise the charges at the cost of the request. A cost that a rule sets does not change.
    pub async fn settle(&self, receipt: impl Into<Receipt>, true_cost: u64) -> Settlement {
        let receipt = receipt.into();
        if let Some(store) = self.memory_store() {
            return self.settle_in_memory(store, receipt, true_cost);
        }
        self.measure(&receipt);
        let keys = queue_keys(&receipt);
        let (permits, to_settle) = receipt.into_permits_and_settled();
        self.release_permits(permits, keys);
        let mut overrun = 0;
        for charge in to_settle {
            overrun = overrun.max(self.shared.backend.store().settle(charge, true_cost).await.overrun);
        }
        Settlement { overrun }
    }

    /// Settles a receipt of the memory store.
    pub(crate) fn settle_in_memory(&self, store: &MemoryStore, receipt: Receipt, true_cost: u64) -> Settlement {
        self.measure(&receipt);
        let keys = queue_keys(&receipt);
        let (permits, to_settle) = receipt.into_permits_and_settled();
        self.release_permits(permits, keys);
        let settle = |charge| store.settle(charge, true_cost).overrun;
        Settlement { overrun: to_settle.into_iter().map(settle).max().unwrap_or(0) }
    }

    fn release_permits(&self, permits: impl IntoIterator<Item = ChargeReceipt>, keys: impl IntoIterator<Item = u64>) {
        permits.into_iter().for_each(|charge| self.shared.backend.store().refund(charge));
        self.shared.permit_queue.released(keys);
    }

    /// Extends the leases of a receipt's permits. Returns `false` if one has expired.
    pub fn renew(&self, receipt: &Receipt) -> bool {
        // Not `all`: the permits after an expired one are renewed too.
        let lost = receipt.permits().filter(|charge| !self.shared.backend.store().renew(charge)).count();
        lost == 0
    }

    /// Prepares a caller's limit: one that a caller sends with its request. Its keys are counted separately from those
    /// of all rules and never evict them. `scope` must not be the name of a rule.
    pub fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.shared.backend.store().caller_limit(scope, quota, options)
    }

    /// Decides one charge under a [caller's limit](AsyncLimiter::caller_limit). A cost of 0 charges nothing.
    pub async fn check_caller_limit(&self, charge: Charge<'_>) -> Decision {
        match &self.shared.backend {
            Backend::Memory(store) => store.check(charge.limit, charge.key, charge.cost),
            Backend::Other(store) => store.check_all(&[charge]).await.decisions[0],
        }
    }

    /// The synchronous [`check_caller_limit`](AsyncLimiter::check_caller_limit); `None` if the counters are not in this
    /// process.
    #[inline]
    pub fn check_caller_limit_sync(&self, charge: Charge<'_>) -> Option<Decision> {
        Some(self.memory_store()?.check(charge.limit, charge.key, charge.cost))
    }

    async fn decide_in_mode(&self, request: &Request<'_>, mode: CheckMode) -> (Verdict, Receipt) {
        match &self.shared.backend {
            Backend::Memory(store) => self.decide_in_memory(store, request, mode, &mut None),
            Backend::Other(store) => Box::pin(self.decide_in_other_store(&**store, request, mode, &mut None)).await,
        }
    }

    async fn permit_in_mode(&self, request: &Request<'_>, mode: CheckMode) -> Result<Permit, Refused> {
        let (verdict, receipt) = self.decide_in_mode(request, mode).await;
        self.permit_if_allowed(verdict, receipt)
    }

    pub(super) fn permit_if_allowed(&self, verdict: Verdict, receipt: Receipt) -> Result<Permit, Refused> {
        Ok(Permit::new(self.clone(), receipt, verdict.into_result()?))
    }

    /// Decides a request in the memory store.
    #[inline]
    pub(super) fn decide_in_memory<'r>(
        &self,
        store: &MemoryStore,
        request: &Request<'r>,
        mode: CheckMode,
        matched: &mut Option<Matched<'r>>,
    ) -> (Verdict, Receipt) {
        let mut verdict = self.blank(Store::now_ns(store));
        let mode = mode.resolve(&verdict.policy);
        if mode == CheckMode::Check && decide_common_not_inlined(store, request, &mut verdict) {
            return (verdict, Receipt::nothing());
        }
        decide_uncommon(store, request, mode, matched, verdict)
    }

    /// Decides a request in the memory store in the mode [`CheckMode::Check`], which most requests use.
    #[inline]
    pub(super) fn check_in_memory(&self, store: &MemoryStore, request: &Request<'_>) -> Verdict {
        let mut verdict = self.blank(Store::now_ns(store));
        if decide_common(store, request, &mut verdict) {
            return verdict;
        }
        decide_uncommon(store, request, CheckMode::Check, &mut None, verdict).0
    }

    /// Decides a request in a store other than the memory store.
    async fn decide_in_other_store<'r>(
        &self,
        store: &dyn Store,
        request: &Request<'r>,
        mode: CheckMode,
        matched: &mut Option<Matched<'r>>,
    ) -> (Verdict, Receipt) {
        let blank = self.blank(store.now_ns());
        let matched = matched.insert(blank.matched(request));
        self.decide_matched(&blank, matched, mode, &[]).await
    }

    /// Decides the matched charges of a request together with charges under callers' limits.
    pub(super) async fn decide_matched(
        &self,
        blank: &Verdict,
        matched: &Matched<'_>,
        mode: CheckMode,
        caller_charges: &[Charge<'_>],
    ) -> (Verdict, Receipt) {
        let store = match &self.shared.backend {
            Backend::Memory(store) => return decide_any(store, blank, matched, mode, caller_charges),
            Backend::Other(store) => &**store,
        };
        let policy = &*blank.policy;
        let mut machine = DecisionMachine::new(blank, matched, mode.resolve(policy), caller_charges);
        while let Some(charges) = machine.next() {
            let outcome = store.check_all(charges).await;
            machine.apply(outcome);
        }
        machine.finish()
    }

    pub(super) fn backend(&self) -> &Backend {
        &self.shared.backend
    }

    /// Records the holding times of permits that are about to be released.
    fn measure(&self, receipt: &Receipt) {
        if receipt.holds_permits() {
            let now_ns = self.now_ns();
            receipt.held_permits().for_each(|permit| permit.holding.record(now_ns.saturating_sub(permit.since_ns)));
        }
    }

    /// Takes a blank verdict of the active policy, with the current overrides, from the pool.
    #[inline(always)]
    pub(super) fn blank(&self, now_ns: u64) -> Verdict {
        let shared = &*self.shared;
        let generation = shared.generation.load(Ordering::Acquire);
        let verdict = Verdict::blank(shared.limiter_number, generation, now_ns, || shared.active.load_full());
        if self.overrides_version() == verdict.policy.overrides_version {
            verdict
        } else {
            self.blank_after_override_change(now_ns)
        }
    }

    /// Takes a blank verdict after an override was set or has ended.
    #[cold]
    fn blank_after_override_change(&self, now_ns: u64) -> Verdict {
        let policy = self.update_overrides();
        Verdict::blank(self.shared.limiter_number, policy.generation(), now_ns, || policy)
    }

    /// Returns the active policy with the current overrides, for rare calls: it does not use the verdict pool.
    pub(super) fn active_policy(&self) -> Arc<ActivePolicy> {
        let policy = self.shared.active.load_full();
        let is_current = self.overrides_version() == policy.overrides_version;
        if is_current { policy } else { self.update_overrides() }
    }

    fn update_overrides(&self) -> Arc<ActivePolicy> {
        let _changing = self.changing();
        let active = self.shared.active.load();
        if self.overrides_version() != active.overrides_version {
            self.activate(active.with_overrides(&self.shared.backend));
        }
        self.shared.active.load_full()
    }

    /// Activates a policy. The caller holds the lock, so that the generation and the policy change together.
    fn activate(&self, policy: ActivePolicy) {
        let generation = policy.generation();
        self.shared.active.store(Arc::new(policy));
        self.shared.generation.store(generation, Ordering::Release);
        self.shared.permit_queue.wake_all();
    }

    /// Wakes the tasks that wait for permits, after a change that may have freed some.
    pub(super) fn wake_waiters(&self) {
        self.shared.permit_queue.wake_all();
    }

    #[inline]
    fn overrides_version(&self) -> u64 {
        self.shared.backend.overrides().map_or(0, SharedOverrides::version)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the policy depends on the client's address.
    #[cfg(feature = "tower")]
    pub(crate) fn needs_client_ip(&self) -> bool {
        self.shared.active.load().compiled.needs_client_ip()
    }
}

/// Waits for the delay of a permit, or refunds it if the delay exceeds the time left.
async fn wait_for_delay(permit: Permit, left_ns: u64, timer: impl Timer) -> Result<Permit, Refused> {
    let delay_ns = permit.verdict().delay_ns();
    if delay_ns > left_ns {
        let verdict = permit.verdict().clone();
        permit.refund();
        return Err(Refused::too_slow(verdict, left_ns));
    }
    let delayed = permit.refund_on_drop();
    if delay_ns > 0 {
        timer.sleep(delay_ns).await;
    }
    Ok(delayed.keep())
}

/// Returns the queues of the permits that a receipt holds.
fn queue_keys(receipt: &Receipt) -> SmallVec<[u64; 2]> {
    receipt.held_permits().map(|permit| permit.queue_key).collect()
}

impl fmt::Debug for AsyncLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncLimiter").field("rules", &self.policy().rules().len()).finish_non_exhaustive()
    }
}
