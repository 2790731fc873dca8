use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tollgate_core::{Decision, Quota, Settled};
use tollgate_policy::{CheckedPolicy, CompiledPolicy, Matched, Problem, Request};
use tollgate_store::{Charge, Limit, LimitOptions, MemoryStore, SharedOverrides, Store, Timer};

use super::LimiterError;
use super::active::ActivePolicy;
use super::backend::Backend;
use super::decision::{Ask, Deciding};
use super::in_memory::{decide_any, decide_common, decide_common_apart, decide_uncommon};
use crate::permit::Permit;
use crate::receipt::Receipt;
use crate::verdict::Verdict;

/// A policy and the counters behind it, wherever they are: may this request pass?
///
/// Where the counters are in this process, every call answers at once, and a
/// [`Limiter`](super::Limiter) offers the same without `async`. Cloning is cheap,
/// and all clones share the same counters and the same policy.
#[derive(Clone)]
pub struct AsyncLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Backend,
    active: ArcSwap<ActivePolicy>,
    /// The number of the active policy, so that a thread knows whether it has references to it.
    number: AtomicU64,
    /// Where threads keep these references.
    slot: usize,
    /// Held while the active policy is replaced.
    changing: Mutex<()>,
}

impl AsyncLimiter {
    /// A limiter over a store of one's own.
    pub fn with_store(policy: &CheckedPolicy, store: impl Store) -> Result<AsyncLimiter, LimiterError> {
        AsyncLimiter::over(policy, Backend::Other(Box::new(store)))
    }

    pub(super) fn over(policy: &CheckedPolicy, backend: Backend) -> Result<AsyncLimiter, LimiterError> {
        static LIMITERS: AtomicUsize = AtomicUsize::new(0);
        let slot = LIMITERS.fetch_add(1, Ordering::Relaxed);
        let active = ActivePolicy::prepare(policy, &backend, slot)?;
        backend.agree_on(active.compiled.secrets_fingerprint());
        let number = AtomicU64::new(active.number());
        let active = ArcSwap::from_pointee(active);
        Ok(AsyncLimiter { shared: Arc::new(Shared { backend, active, number, slot, changing: Mutex::new(()) }) })
    }

    /// Replaces the policy for this limiter and all its clones, between two
    /// requests. Counters stay: a rule of the same name goes on where it was,
    /// under its new limit, and overrides of keys stay. The store's settings are
    /// those it was made with, and so is the key for secret values: under another
    /// one every client would have fresh counters, apart from those on other instances.
    pub fn set_policy(&self, policy: &CheckedPolicy) -> Result<(), LimiterError> {
        let _changing = self.changing();
        let active = ActivePolicy::prepare(policy, &self.shared.backend, self.shared.slot)?;
        let before = self.shared.active.load();
        let fingerprint = active.compiled.secrets_fingerprint();
        if let (Some(before), Some(now)) = (before.compiled.secrets_fingerprint(), fingerprint)
            && before != now
        {
            return Err(LimiterError::OtherSecretKey);
        }
        self.shared.backend.agree_on(fingerprint);
        active.continue_from(&before);
        self.activate(active);
        Ok(())
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Arc<CompiledPolicy> {
        Arc::clone(&self.shared.active.load().compiled)
    }

    /// What is legal in the policy in force and likely not what was meant: limits that clients can avoid, rules that
    /// can never apply, and the like. Each has a code, under which docs/policy-messages.md explains it, its place in
    /// the policy, what is wrong, and a hint.
    ///
    /// Nothing prints them. A program should, when it starts and after [`set_policy`](AsyncLimiter::set_policy):
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

    /// The store, if it is in this process.
    #[inline]
    #[must_use]
    pub fn memory_store(&self) -> Option<&MemoryStore> {
        match &self.shared.backend {
            Backend::Memory(store) => Some(store),
            Backend::Other(_) => None,
        }
    }

    /// The store, if it is of this type: to read its statistics, for instance.
    #[must_use]
    pub fn store_as<S: Store>(&self) -> Option<&S> {
        (self.shared.backend.store() as &dyn Any).downcast_ref()
    }

    /// The time by which the store decides, in nanoseconds since 1970.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.backend.now_ns()
    }

    /// Asks about a request. `matched` holds afterwards which rules apply to the request, with keys and costs, if that
    /// was written down on the way; otherwise [`Verdict::matched`] says it again. A request that was to be admitted and
    /// is has a permit.
    pub async fn ask<'r>(
        &self,
        request: &Request<'r>,
        ask: Ask,
        matched: &mut Option<Matched<'r>>,
    ) -> (Verdict, Option<Permit>) {
        let (verdict, receipt) = match &self.shared.backend {
            Backend::Memory(store) => self.decide_in_memory(store, request, ask, matched),
            // On the heap: it is large, and a request that is decided in memory would carry it about.
            Backend::Other(store) => Box::pin(self.decide_elsewhere(&**store, request, ask, matched)).await,
        };
        let permit = self.held(&verdict, receipt, ask);
        (verdict, permit)
    }

    /// The same without waiting; `None` if the store is elsewhere.
    #[inline]
    pub fn ask_now<'r>(
        &self,
        request: &Request<'r>,
        ask: Ask,
        matched: &mut Option<Matched<'r>>,
    ) -> Option<(Verdict, Option<Permit>)> {
        let store = self.memory_store()?;
        let mut verdict = self.undecided(Store::now_ns(store));
        let ask = ask.under(&verdict.policy);
        if ask == Ask::Check && decide_common_apart(store, request, &mut verdict) {
            return Some((verdict, None));
        }
        Some(self.ask_uncommon(store, request, ask, matched, verdict))
    }

    #[inline(never)]
    fn ask_uncommon<'r>(
        &self,
        store: &MemoryStore,
        request: &Request<'r>,
        ask: Ask,
        matched: &mut Option<Matched<'r>>,
        undecided: Verdict,
    ) -> (Verdict, Option<Permit>) {
        let (verdict, receipt) = decide_uncommon(store, request, ask, matched, undecided);
        let permit = self.held(&verdict, receipt, ask);
        (verdict, permit)
    }

    fn held(&self, verdict: &Verdict, receipt: Receipt, ask: Ask) -> Option<Permit> {
        let holds = ask.under(&verdict.policy).wants_receipts() && verdict.is_allowed();
        holds.then(|| Permit::new(self.clone(), receipt))
    }

    /// Decides, and charges if it may pass. Permits are looked at and not
    /// taken, because nothing would give them back: see
    /// [`admit`](AsyncLimiter::admit).
    pub async fn decide(&self, request: &Request<'_>) -> Verdict {
        self.decide_asking(request, Ask::Check).await.0
    }

    /// What the answer would be, charging nothing.
    pub async fn look(&self, request: &Request<'_>) -> Verdict {
        self.decide_asking(request, Ask::Peek).await.0
    }

    /// Decides, charges, and takes permits where rules limit concurrency. The
    /// guard releases them when it is dropped; until then the charges can also
    /// be refunded or settled through it. `None` if it was refused.
    pub async fn admit(&self, request: &Request<'_>) -> (Verdict, Option<Permit>) {
        self.admit_asking(request, Ask::Admit).await
    }

    /// Like [`admit`](AsyncLimiter::admit), for a caller that never learns when
    /// a request ends: rules that limit concurrency do not apply.
    pub async fn admit_rates(&self, request: &Request<'_>) -> (Verdict, Option<Permit>) {
        self.admit_asking(request, Ask::AdmitRates).await
    }

    /// Like [`admit`](AsyncLimiter::admit), waiting up to `max_wait` for its turn.
    ///
    /// A queueing rule's place is waited for in order. Under other rules it
    /// tries again when the refusal says so, and another request may have come
    /// first. Where it is clear that it would take longer, the answer is the
    /// refusal, at once. Dropping the future gives back what it was waiting for.
    pub async fn acquire<T: Timer>(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
        timer: T,
    ) -> Result<(Verdict, Permit), Verdict> {
        let begun_ns = self.now_ns();
        let deadline_ns = begun_ns.saturating_add(u64::try_from(max_wait.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let (verdict, permit) = self.admit(request).await;
            let wait_ns = if verdict.is_allowed() { Some(verdict.delay_ns()) } else { verdict.retry_after_ns() };
            let now_ns = self.now_ns();
            let in_time = wait_ns.is_some_and(|wait| now_ns.saturating_add(wait) <= deadline_ns);
            match (permit, wait_ns) {
                (Some(permit), Some(wait_ns)) if in_time => {
                    let waiting = permit.refunded_unless_kept();
                    if wait_ns > 0 {
                        timer.sleep(wait_ns).await;
                    }
                    return Ok((verdict, waiting.keep()));
                }
                (None, Some(wait_ns)) if in_time => timer.sleep(wait_ns).await,
                (permit, _) => {
                    if let Some(permit) = permit {
                        permit.refund();
                    }
                    return Err(verdict);
                }
            }
        }
    }

    /// Decides like [`admit`](AsyncLimiter::admit), for a caller that keeps the receipt where a guard cannot go.
    pub async fn decide_with_receipt(&self, request: &Request<'_>) -> (Verdict, Option<Receipt>) {
        let (verdict, receipt) = self.decide_asking(request, Ask::Admit).await;
        let receipt = verdict.is_allowed().then_some(receipt);
        (verdict, receipt)
    }

    /// Gives back everything that a receipt is for.
    pub fn refund(&self, receipt: Receipt) {
        receipt.into_all().for_each(|charge| self.shared.backend.store().give_back(charge));
    }

    /// Releases permits; what was charged stays charged.
    pub fn release(&self, receipt: Receipt) {
        self.measure(&receipt);
        receipt.into_permits().for_each(|charge| self.shared.backend.store().give_back(charge));
    }

    /// Replaces the estimated cost by the true one, and releases permits.
    /// Rules with a fixed cost of their own keep it.
    pub async fn settle_by(&self, receipt: Receipt, true_cost: u64) -> Settled {
        if let Some(store) = self.memory_store() {
            return self.settle_in_memory(store, receipt, true_cost);
        }
        self.measure(&receipt);
        let (permits, estimates) = receipt.into_permits_and_estimates();
        permits.into_iter().for_each(|charge| self.shared.backend.store().give_back(charge));
        let mut overrun = 0;
        for charge in estimates {
            overrun = overrun.max(self.shared.backend.store().settle(charge, true_cost).await.overrun);
        }
        Settled { overrun }
    }

    /// The same in this process, at once.
    pub(crate) fn settle_in_memory(&self, store: &MemoryStore, receipt: Receipt, true_cost: u64) -> Settled {
        self.measure(&receipt);
        let (permits, estimates) = receipt.into_permits_and_estimates();
        permits.into_iter().for_each(|charge| self.shared.backend.store().give_back(charge));
        let settle = |charge| store.settle(charge, true_cost).overrun;
        Settled { overrun: estimates.into_iter().map(settle).max().unwrap_or(0) }
    }

    /// Extends the leases of a receipt's permits. `false` if one was lost.
    pub fn renew(&self, receipt: &Receipt) -> bool {
        // Not `all`: those after a lost one are renewed too.
        let lost = receipt.permits().filter(|charge| !self.shared.backend.store().renew(charge)).count();
        lost == 0
    }

    /// Prepares a limit that a caller brings along: its keys are counted apart from those of all rules, and make room
    /// for none of them. `scope` must be no rule's name.
    pub fn caller_limit(
        &self,
        scope: &str,
        quota: Quota,
        options: LimitOptions,
    ) -> Result<Limit, Box<dyn Error + Send + Sync>> {
        self.shared.backend.store().caller_limit(scope, quota, options)
    }

    /// Decides one charge under a limit that a caller brings along. A cost of 0 only looks.
    pub async fn check_caller(&self, charge: Charge<'_>) -> Decision {
        match &self.shared.backend {
            Backend::Memory(store) => store.check(charge.limit, charge.key, charge.cost),
            Backend::Other(store) => store.decide(&[charge]).await.decisions[0],
        }
    }

    /// The same without waiting; `None` if the store is elsewhere.
    #[inline]
    pub fn check_caller_now(&self, charge: Charge<'_>) -> Option<Decision> {
        Some(self.memory_store()?.check(charge.limit, charge.key, charge.cost))
    }

    async fn decide_asking(&self, request: &Request<'_>, ask: Ask) -> (Verdict, Receipt) {
        match &self.shared.backend {
            Backend::Memory(store) => self.decide_in_memory(store, request, ask, &mut None),
            Backend::Other(store) => Box::pin(self.decide_elsewhere(&**store, request, ask, &mut None)).await,
        }
    }

    async fn admit_asking(&self, request: &Request<'_>, ask: Ask) -> (Verdict, Option<Permit>) {
        let (verdict, receipt) = self.decide_asking(request, ask).await;
        let permit = verdict.is_allowed().then(|| Permit::new(self.clone(), receipt));
        (verdict, permit)
    }

    /// From a request to its verdict, in this process.
    #[inline]
    pub(super) fn decide_in_memory<'r>(
        &self,
        store: &MemoryStore,
        request: &Request<'r>,
        ask: Ask,
        matched: &mut Option<Matched<'r>>,
    ) -> (Verdict, Receipt) {
        let mut verdict = self.undecided(Store::now_ns(store));
        let ask = ask.under(&verdict.policy);
        if ask == Ask::Check && decide_common_apart(store, request, &mut verdict) {
            return (verdict, Receipt::nothing());
        }
        decide_uncommon(store, request, ask, matched, verdict)
    }

    /// The same for a request that is only charged, as most are.
    #[inline]
    pub(super) fn check_in_memory(&self, store: &MemoryStore, request: &Request<'_>) -> Verdict {
        let mut verdict = self.undecided(Store::now_ns(store));
        if decide_common(store, request, &mut verdict) {
            return verdict;
        }
        decide_uncommon(store, request, Ask::Check, &mut None, verdict).0
    }

    /// From a request to its verdict, by a store that has to be waited for.
    async fn decide_elsewhere<'r>(
        &self,
        store: &dyn Store,
        request: &Request<'r>,
        ask: Ask,
        matched: &mut Option<Matched<'r>>,
    ) -> (Verdict, Receipt) {
        let undecided = self.undecided(store.now_ns());
        let matched = matched.insert(undecided.matched(request));
        self.decide_matched(&undecided, matched, ask, &[]).await
    }

    /// Decides what applies to a request, together with charges under limits of callers.
    pub(super) async fn decide_matched(
        &self,
        undecided: &Verdict,
        matched: &Matched<'_>,
        ask: Ask,
        extra: &[Charge<'_>],
    ) -> (Verdict, Receipt) {
        let store = match &self.shared.backend {
            Backend::Memory(store) => return decide_any(store, undecided, matched, ask, extra),
            Backend::Other(store) => &**store,
        };
        let policy = &*undecided.policy;
        let mut deciding = Deciding::new(undecided, matched, ask.under(policy), extra);
        while let Some(charges) = deciding.next() {
            let outcome = store.decide(charges).await;
            deciding.answer(outcome);
        }
        deciding.finish()
    }

    pub(super) fn backend(&self) -> &Backend {
        &self.shared.backend
    }

    /// Notes how long permits were held that are released now.
    fn measure(&self, receipt: &Receipt) {
        if receipt.holds_permits() {
            let now_ns = self.now_ns();
            receipt.measured().for_each(|measured| measured.ends(now_ns));
        }
    }

    /// A verdict of the policy in force, with the overrides that the store knows, in which nothing is decided yet.
    #[inline(always)]
    pub(super) fn undecided(&self, now_ns: u64) -> Verdict {
        let shared = &*self.shared;
        let number = shared.number.load(Ordering::Acquire);
        let verdict = Verdict::undecided(shared.slot, number, now_ns, || shared.active.load_full());
        if self.overrides_version() == verdict.policy.overrides_version {
            verdict
        } else {
            self.undecided_after_change(now_ns)
        }
    }

    /// An override was set or has ended.
    #[cold]
    fn undecided_after_change(&self, now_ns: u64) -> Verdict {
        let policy = self.with_new_overrides();
        Verdict::undecided(self.shared.slot, policy.number(), now_ns, || policy)
    }

    /// The policy in force, for a call that is rare: the thread does not keep it afterwards.
    pub(super) fn active_policy(&self) -> Arc<ActivePolicy> {
        let policy = self.shared.active.load_full();
        let is_new = self.overrides_version() == policy.overrides_version;
        if is_new { policy } else { self.with_new_overrides() }
    }

    fn with_new_overrides(&self) -> Arc<ActivePolicy> {
        let _changing = self.changing();
        let active = self.shared.active.load();
        if self.overrides_version() != active.overrides_version {
            self.activate(active.with_overrides(&self.shared.backend));
        }
        self.shared.active.load_full()
    }

    /// Puts a policy in force. Only under the lock, so that number and policy change together.
    fn activate(&self, policy: ActivePolicy) {
        let number = policy.number();
        self.shared.active.store(Arc::new(policy));
        self.shared.number.store(number, Ordering::Release);
    }

    #[inline]
    fn overrides_version(&self) -> u64 {
        self.shared.backend.overrides().map_or(0, SharedOverrides::version)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything depends on where a request comes from.
    #[cfg(feature = "tower")]
    pub(crate) fn needs_client_ip(&self) -> bool {
        self.shared.active.load().compiled.needs_client_ip()
    }
}

impl fmt::Debug for AsyncLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncLimiter").field("rules", &self.policy().rules().len()).finish_non_exhaustive()
    }
}
