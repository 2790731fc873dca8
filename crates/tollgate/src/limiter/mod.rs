mod active;
mod admit;
mod block;
mod builder;
mod immediate;
mod key_report;
mod keys;
mod overrides;
mod together;
mod violations;
mod watched;

use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tollgate_policy::model::{MemorySettings, StoreSettings, WhenFull as WhenFullSetting};
use tollgate_policy::{CheckedPolicy, CompileError, CompiledPolicy, PolicyErrors, Problem, Request};
use tollgate_store::{
    Board, BuildError, Capacity, Clock, LocalStore, MemoryOptions, MemoryStore, RealClock, Settled, Store, Timer,
    WhenFull,
};

use crate::permit::Permit;
use crate::receipt::Receipt;
use crate::verdict::Verdict;
use active::Active;
use admit::Asking;
pub(crate) use immediate::immediately;

pub use builder::LimiterBuilder;
pub use key_report::{KeyCounter, KeyError, KeyReport};
pub use overrides::KeyOverride;
pub use together::{AskedTogether, Part, Together};
pub use watched::Watched;

/// A policy and the counters behind it: may this request pass?
///
/// Cloning is cheap, and all clones share the same counters and the same
/// policy. Make one when the program starts and hand out clones; a layer that
/// made its own for each connection would limit nothing.
///
/// ```
/// use tollgate::{Limiter, Request, rule};
///
/// let limiter = Limiter::builder().rule(rule("per-user").per("user").limit("2/min")).build()?;
/// let alice = Request { identities: &[("user", "alice")], ..Request::from_peer(None) };
/// assert!(limiter.check(&alice).is_allowed());
/// assert!(limiter.check(&alice).is_allowed());
///
/// let refused = limiter.check(&alice);
/// assert_eq!(refused.rule(), Some("per-user"));
/// assert_eq!(refused.retry_after().map(|wait| wait.as_secs_f32().ceil()), Some(30.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter<S: Store = MemoryStore> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: Store> {
    store: S,
    active: ArcSwap<Active<S::Limit>>,
    /// Held by whoever replaces what is active.
    changing: Mutex<()>,
}

/// Why a limiter cannot be made, or cannot take a policy.
#[derive(Debug)]
#[non_exhaustive]
pub enum LimiterError {
    /// The policy has errors.
    Policy(PolicyErrors),
    /// The policy's file has errors, or cannot be read.
    #[cfg(feature = "yaml")]
    File(tollgate_policy::LoadError),
    /// The policy cannot be compiled.
    Compile(CompileError),
    /// The store cannot be built.
    Store(BuildError),
    /// The counters of the past cannot be had.
    Snapshot(Box<dyn Error + Send + Sync>),
    /// The policy wants a store that must be given: see [`Limiter::with_store`].
    OtherStore,
    /// The policy hashes secret values under another key than the one in force.
    OtherSecretKey,
    /// The policy's shared store cannot be had.
    #[cfg(feature = "redis")]
    Connect(crate::connect::ConnectError),
    /// The store does not take one of the policy's quotas.
    Limit {
        /// The scope of the quota.
        scope: String,
        /// What the store says.
        error: Box<dyn Error + Send + Sync>,
    },
}

impl Limiter {
    /// Puts a policy together in the program.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    /// A limiter for a policy, with the memory store that the policy's settings describe.
    pub fn new(policy: &CheckedPolicy) -> Result<Limiter, LimiterError> {
        Limiter::in_memory(policy, RealClock::new())
    }

    /// Reads a policy file, and the files that it names (tiers, keys), once. What is likely wrong in it is in
    /// [`warnings`](Limiter::warnings); [`load`](crate::policy::load) tells it with line and column. A program that
    /// wants changes of the files to take effect, such as a new signing key in a JWKS file, loads the policy again with
    /// [`load`](tollgate_policy::load) and hands it to [`set_policy`](Limiter::set_policy); where loading fails, what
    /// is in force stays. [`Loaded::files`](tollgate_policy::Loaded) says which files to look at besides the policy.
    #[cfg(feature = "yaml")]
    pub fn from_file(path: impl AsRef<std::path::Path>) -> Result<Limiter, LimiterError> {
        let loaded = tollgate_policy::load(path.as_ref()).map_err(LimiterError::File)?;
        Limiter::new(&loaded.policy)
    }

    /// Reads a policy from text, as it would stand in a file. What is likely wrong in it is in
    /// [`warnings`](Limiter::warnings).
    #[cfg(feature = "yaml")]
    pub fn from_yaml(text: &str) -> Result<Limiter, LimiterError> {
        let loaded = tollgate_policy::parse(text, "policy", None)
            .map_err(|report| LimiterError::File(tollgate_policy::LoadError::Invalid(report)))?;
        Limiter::new(&loaded.policy)
    }
}

impl Limiter {
    /// Like [`Limiter::new`], with a clock of one's own.
    pub fn in_memory(policy: &CheckedPolicy, clock: impl Clock + 'static) -> Result<Limiter, LimiterError> {
        let StoreSettings::Memory(settings) = &policy.store else { return Err(LimiterError::OtherStore) };
        if settings.snapshot.is_some() {
            // Nobody would write it, and every start would refill what should not be.
            return Err(LimiterError::Snapshot(NO_KEEPER.into()));
        }
        Limiter::with_store(policy, memory_store(settings, clock)?)
    }
}

const NO_KEEPER: &str = "only the service keeps snapshots: leave out `snapshot`, or give a store of \
                         MemoryStore::restore to Limiter::with_store and write it down yourself";

/// The memory store that a policy's settings describe.
pub fn memory_store(settings: &MemorySettings, clock: impl Clock + 'static) -> Result<MemoryStore, LimiterError> {
    MemoryStore::with(memory_options(settings), clock).map_err(LimiterError::Store)
}

/// The options of the memory store that a policy's settings describe.
#[must_use]
pub fn memory_options(settings: &MemorySettings) -> MemoryOptions {
    MemoryOptions {
        capacity: Capacity::Entries(usize::try_from(settings.entries).unwrap_or(usize::MAX)),
        when_full: match settings.when_full {
            WhenFullSetting::Evict => WhenFull::EvictFullest,
            WhenFullSetting::Refuse => WhenFull::RefuseNew,
        },
    }
}

impl<S: Store> Limiter<S> {
    /// A limiter over a store of one's own.
    pub fn with_store(policy: &CheckedPolicy, store: S) -> Result<Limiter<S>, LimiterError> {
        let active = Active::prepare(policy, &store)?;
        store.agree_on(active.facts.plan.secrets_fingerprint());
        let active = ArcSwap::from_pointee(active);
        Ok(Limiter { shared: Arc::new(Shared { store, active, changing: Mutex::new(()) }) })
    }

    /// Replaces the policy for this limiter and all its clones, between two
    /// requests. Counters stay: a rule of the same name goes on where it was,
    /// under its new limit, and limits that were set by hand stay. (The store's
    /// settings are those it was made with, and so is the key for secret values: under another one every client
    /// would have fresh counters, apart from those on other instances.)
    pub fn set_policy(&self, policy: &CheckedPolicy) -> Result<(), LimiterError> {
        let _changing = self.changing();
        let active = Active::prepare(policy, &self.shared.store)?;
        let (before, now) = (self.plan(), &active.facts.plan);
        if let (Some(before), Some(now)) = (before.secrets_fingerprint(), now.secrets_fingerprint())
            && before != now
        {
            return Err(LimiterError::OtherSecretKey);
        }
        self.shared.store.agree_on(now.secrets_fingerprint());
        active.facts.go_on_from(&self.shared.active.load().facts);
        self.shared.active.store(Arc::new(active));
        Ok(())
    }

    /// The plan that is in force.
    #[must_use]
    pub fn plan(&self) -> Arc<CompiledPolicy> {
        Arc::clone(&self.shared.active.load().facts.plan)
    }

    /// What is legal in the policy in force and likely not what was meant: limits that clients can avoid, rules that
    /// can never apply, and the like. Each has a code, under which docs/policy-messages.md explains it, its place in
    /// the policy, what is wrong, and a hint.
    ///
    /// Nothing prints them. A program should, when it starts and after [`set_policy`](Limiter::set_policy):
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

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Decides, and charges if it may pass. Permits are looked at and not
    /// taken, because nobody would give them back: see
    /// [`admit`](Limiter::admit).
    pub async fn decide(&self, request: &Request<'_>) -> Verdict {
        self.ask(request, Asking::Check).await.0
    }

    /// What the answer would be, charging nothing.
    pub async fn look(&self, request: &Request<'_>) -> Verdict {
        self.ask(request, Asking::Look).await.0
    }

    /// Decides, charges, and takes permits where rules limit how many are under
    /// way. The guard lets go of them when it is dropped; until then the
    /// charges can also be refunded or settled through it. `None` if it was refused.
    pub async fn admit(&self, request: &Request<'_>) -> (Verdict, Option<Permit<S>>) {
        let (verdict, receipt) = self.ask(request, Asking::Admit).await;
        let permit = verdict.is_allowed().then(|| Permit::new(self.clone(), receipt));
        (verdict, permit)
    }

    /// Like [`admit`](Limiter::admit), for whoever never learns when a request
    /// ends: rules that limit how many are under way do not apply.
    pub async fn admit_rates(&self, request: &Request<'_>) -> (Verdict, Option<Permit<S>>) {
        let (verdict, receipt) = self.ask(request, Asking::AdmitRates).await;
        let permit = verdict.is_allowed().then(|| Permit::new(self.clone(), receipt));
        (verdict, permit)
    }

    /// Like [`admit`](Limiter::admit), waiting up to `max_wait` for its turn.
    ///
    /// A queueing rule's place is waited for in order. Under other rules it
    /// tries again when the refusal says so, and somebody else may have come
    /// first. Where it is clear that it would take longer, the answer is the
    /// refusal, at once. Dropping the future gives back what it was waiting for.
    pub async fn acquire<T: Timer>(
        &self,
        request: &Request<'_>,
        max_wait: Duration,
        timer: T,
    ) -> Result<(Verdict, Permit<S>), Verdict> {
        let begun_ns = self.shared.store.now_ns();
        let deadline_ns = begun_ns.saturating_add(u64::try_from(max_wait.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let (verdict, permit) = self.admit(request).await;
            let wait_ns = if verdict.is_allowed() { Some(verdict.delay_ns()) } else { verdict.retry_after_ns() };
            let now_ns = self.shared.store.now_ns();
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

    /// Decides like [`admit`](Limiter::admit), for somebody who keeps the receipt where a guard cannot go.
    pub async fn decide_with_receipt(&self, request: &Request<'_>) -> (Verdict, Option<Receipt<S>>) {
        let (verdict, receipt) = self.ask(request, Asking::Admit).await;
        let receipt = verdict.is_allowed().then_some(receipt);
        (verdict, receipt)
    }

    /// Decides several requests together: all are charged or none. Where
    /// several meet the same rule with the same key, it is charged once, with
    /// the largest cost. Rules that hold permits do not apply, because nobody
    /// would give them back. Where one request is denied, none is charged.
    pub async fn decide_together(&self, asked: &[AskedTogether<'_, S::Limit>]) -> Together {
        self.ask_together(asked, |_, _| {}).await
    }

    /// Gives back everything that a receipt is for.
    pub fn refund(&self, receipt: Receipt<S>) {
        receipt.into_all().for_each(|held| self.shared.store.give_back(held));
    }

    /// Lets go of permits; what was charged stays charged.
    pub fn release(&self, receipt: Receipt<S>) {
        self.measure(&receipt);
        receipt.into_permits().for_each(|held| self.shared.store.give_back(held));
    }

    /// Replaces the estimated cost by the true one, and lets go of permits.
    /// Rules with a fixed cost of their own keep it.
    pub async fn settle_by(&self, receipt: Receipt<S>, true_cost: u64) -> Settled {
        self.measure(&receipt);
        let (permits, estimates) = receipt.into_permits_and_estimates();
        permits.into_iter().for_each(|held| self.shared.store.give_back(held));
        let mut overrun = 0;
        for held in estimates {
            overrun = overrun.max(self.shared.store.settle(held, true_cost).await.overrun);
        }
        Settled { overrun }
    }

    /// Extends the leases of a receipt's permits. `false` if one was lost.
    pub fn renew(&self, receipt: &Receipt<S>) -> bool {
        // Not `all`: those after a lost one are renewed too.
        let lost = receipt.permits().filter(|held| !self.shared.store.renew(held)).count();
        lost == 0
    }

    /// Notes how long permits were held that are let go of now.
    fn measure(&self, receipt: &Receipt<S>) {
        if receipt.holds_permits() {
            let now_ns = self.shared.store.now_ns();
            receipt.measured().for_each(|measured| measured.ends(now_ns));
        }
    }

    /// What is in force now.
    #[inline]
    fn active(&self) -> Guard<Arc<Active<S::Limit>>> {
        let active = self.shared.active.load();
        if self.board_version() == active.board_version { active } else { self.active_after_change() }
    }

    /// Somebody has set a limit by hand, or ended one.
    #[cold]
    fn active_after_change(&self) -> Guard<Arc<Active<S::Limit>>> {
        let _changing = self.changing();
        let active = self.shared.active.load();
        if self.board_version() != active.board_version {
            self.shared.active.store(Arc::new(active.with_board(&self.shared.store)));
        }
        self.shared.active.load()
    }

    fn board_version(&self) -> u64 {
        self.shared.store.board().map_or(0, Board::version)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything depends on where a request comes from.
    #[cfg(feature = "tower")]
    pub(crate) fn needs_client_ip(&self) -> bool {
        self.shared.active.load().facts.plan.needs_client_ip()
    }

    /// Like [`admit`](Limiter::admit) where the policy may want something given
    /// back or settled, else like [`decide`](Limiter::decide), which is cheaper.
    #[cfg(feature = "tower")]
    pub(crate) async fn admit_where_needed(&self, request: &Request<'_>) -> (Verdict, Option<Permit<S>>) {
        let (verdict, receipt) = self.ask(request, Asking::AdmitWhereNeeded).await;
        let holds = verdict.is_allowed() && verdict.told.facts.needs_receipts;
        let permit = holds.then(|| Permit::new(self.clone(), receipt));
        (verdict, permit)
    }
}

/// The same without waiting, for stores that answer at once.
impl<S: LocalStore> Limiter<S> {
    /// Decides, and charges if it may pass. Permits are looked at and not
    /// taken, because nobody would give them back: see [`permit`](Limiter::permit).
    #[must_use]
    pub fn check(&self, request: &Request<'_>) -> Verdict {
        immediately(pin!(self.decide(request)))
    }

    /// What the answer would be, charging nothing.
    #[must_use]
    pub fn peek(&self, request: &Request<'_>) -> Verdict {
        immediately(pin!(self.look(request)))
    }

    /// Decides, charges, and takes permits, with a guard that lets go of them.
    /// The refusal if it may not pass.
    pub fn permit(&self, request: &Request<'_>) -> Result<Permit<S>, Box<Verdict>> {
        match immediately(pin!(self.admit(request))) {
            (_, Some(permit)) => Ok(permit),
            (verdict, None) => Err(Box::new(verdict)),
        }
    }

    /// Decides with a receipt, for what can only be settled or refunded later.
    pub fn check_with_receipt(&self, request: &Request<'_>) -> (Verdict, Option<Receipt<S>>) {
        immediately(pin!(self.decide_with_receipt(request)))
    }

    /// Replaces the estimated cost by the true one, and lets go of permits.
    pub fn settle(&self, receipt: Receipt<S>, true_cost: u64) -> Settled {
        immediately(pin!(self.settle_by(receipt, true_cost)))
    }
}

impl<S: Store> Clone for Limiter<S> {
    fn clone(&self) -> Limiter<S> {
        Limiter { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Store> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan();
        f.debug_struct("Limiter").field("rules", &plan.rules().len()).finish_non_exhaustive()
    }
}

impl fmt::Display for LimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimiterError::Policy(errors) => errors.fmt(f),
            #[cfg(feature = "yaml")]
            LimiterError::File(error) => error.fmt(f),
            LimiterError::Compile(error) => error.fmt(f),
            LimiterError::Store(error) => error.fmt(f),
            LimiterError::Snapshot(error) => error.fmt(f),
            LimiterError::OtherStore => f.write_str(
                "the policy keeps its counters elsewhere: Limiter::connect is for Redis, Limiter::new for memory, and Limiter::with_store for any store",
            ),
            LimiterError::OtherSecretKey => f.write_str(
                "it hashes secret values under another key, so that their counts would start anew: start again to use it",
            ),
            #[cfg(feature = "redis")]
            LimiterError::Connect(error) => error.fmt(f),
            LimiterError::Limit { scope, error } => write!(f, "{scope}: {error}"),
        }
    }
}

impl Error for LimiterError {}
