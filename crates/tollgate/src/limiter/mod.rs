//! The limiter: a policy and the counters behind it.
//!
//! [`AsyncLimiter`] has both, over any store; [`Limiter`] is one whose counters are in this process, and answers without
//! waiting. `active` is the policy in force, compiled for the store, and `verdict_pool` how verdicts keep it. `in_memory`
//! decides common requests; `decision` goes from the rules that apply to any request to its verdict; `backend` is the
//! store; `keys` is for operators.

mod active;
mod async_limiter;
mod backend;
mod builder;
mod decision;
mod error;
mod in_memory;
mod keys;
mod verdict_pool;

use std::fmt;
use std::ops::Deref;

use tollgate_core::Settled;
use tollgate_policy::model::{MemorySettings, StoreSettings, WhenFull as WhenFullSetting};
use tollgate_policy::{CheckedPolicy, Request};
use tollgate_store::{Capacity, Clock, MemoryOptions, MemoryStore, RealClock, WhenFull};

use crate::permit::Permit;
use crate::receipt::Receipt;
use crate::verdict::Verdict;
use backend::Backend;

pub(crate) use active::ActivePolicy;
pub use async_limiter::AsyncLimiter;
pub use builder::LimiterBuilder;
pub use decision::Ask;
pub use decision::together::{AskedTogether, Part, Together};
pub use error::LimiterError;
pub use keys::overrides::KeyOverride;
pub use keys::report::{KeyCounter, KeyError, KeyReport};
pub(crate) use verdict_pool::give_back;

/// A policy and the counters behind it in this process: may this request pass?
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
///
/// It is an [`AsyncLimiter`] whose store answers at once, and has all its methods too.
#[derive(Clone)]
pub struct Limiter {
    limiter: AsyncLimiter,
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

    /// Like [`Limiter::new`], with a clock of one's own.
    pub fn in_memory(policy: &CheckedPolicy, clock: impl Clock + 'static) -> Result<Limiter, LimiterError> {
        let StoreSettings::Memory(settings) = &policy.store else { return Err(LimiterError::OtherStore) };
        if settings.snapshot.is_some() {
            // Nothing would write it, and every start would refill what should not be.
            return Err(LimiterError::Snapshot(NO_KEEPER.into()));
        }
        Limiter::with_memory(policy, memory_store(settings, clock)?)
    }

    /// A limiter over a memory store of one's own.
    pub fn with_memory(policy: &CheckedPolicy, store: MemoryStore) -> Result<Limiter, LimiterError> {
        Ok(Limiter { limiter: AsyncLimiter::over(policy, Backend::Memory(store))? })
    }

    /// Reads a policy file, and the files that it names (tiers, keys), once. What is likely wrong in it is in
    /// [`warnings`](AsyncLimiter::warnings); [`load`](crate::policy::load) tells it with line and column. A program that
    /// wants changes of the files to take effect, such as a new signing key in a JWKS file, loads the policy again with
    /// [`load`](tollgate_policy::load) and hands it to [`set_policy`](AsyncLimiter::set_policy); where loading fails,
    /// what is in force stays. [`Loaded::files`](tollgate_policy::Loaded) says which files to look at besides the policy.
    #[cfg(feature = "yaml")]
    pub fn from_file(path: impl AsRef<std::path::Path>) -> Result<Limiter, LimiterError> {
        let loaded = tollgate_policy::load(path.as_ref()).map_err(LimiterError::File)?;
        Limiter::new(&loaded.policy)
    }

    /// Reads a policy from text, as it would stand in a file. What is likely wrong in it is in
    /// [`warnings`](AsyncLimiter::warnings).
    #[cfg(feature = "yaml")]
    pub fn from_yaml(text: &str) -> Result<Limiter, LimiterError> {
        let loaded = tollgate_policy::parse(text, "policy", None)
            .map_err(|report| LimiterError::File(tollgate_policy::LoadError::Invalid(report)))?;
        Limiter::new(&loaded.policy)
    }

    /// The store behind it.
    #[inline]
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        match self.limiter.memory_store() {
            Some(store) => store,
            None => unreachable!("it was made with a memory store"),
        }
    }

    /// Decides, and charges if it may pass. Permits are looked at and not
    /// taken, because nothing would give them back: see [`permit`](Limiter::permit).
    #[inline]
    #[must_use]
    pub fn check(&self, request: &Request<'_>) -> Verdict {
        self.limiter.check_in_memory(self.store(), request)
    }

    /// What the answer would be, charging nothing.
    #[must_use]
    pub fn peek(&self, request: &Request<'_>) -> Verdict {
        self.ask_memory(request, Ask::Peek).0
    }

    /// Decides, charges, and takes permits, with a guard that releases them.
    /// The refusal if it may not pass.
    pub fn permit(&self, request: &Request<'_>) -> Result<Permit, Verdict> {
        let (verdict, receipt) = self.ask_memory(request, Ask::Admit);
        if verdict.is_allowed() { Ok(Permit::new(self.limiter.clone(), receipt)) } else { Err(verdict) }
    }

    /// Decides with a receipt, for what can only be settled or refunded later.
    pub fn check_with_receipt(&self, request: &Request<'_>) -> (Verdict, Option<Receipt>) {
        let (verdict, receipt) = self.ask_memory(request, Ask::Admit);
        let receipt = verdict.is_allowed().then_some(receipt);
        (verdict, receipt)
    }

    /// Replaces the estimated cost by the true one, and releases permits.
    pub fn settle(&self, receipt: Receipt, true_cost: u64) -> Settled {
        self.limiter.settle_in_memory(self.store(), receipt, true_cost)
    }
}

impl Limiter {
    fn ask_memory(&self, request: &Request<'_>, ask: Ask) -> (Verdict, Receipt) {
        self.limiter.decide_in_memory(self.store(), request, ask, &mut None)
    }
}

impl Deref for Limiter {
    type Target = AsyncLimiter;

    fn deref(&self) -> &AsyncLimiter {
        &self.limiter
    }
}

impl From<Limiter> for AsyncLimiter {
    fn from(limiter: Limiter) -> AsyncLimiter {
        limiter.limiter
    }
}

const NO_KEEPER: &str = "only the service keeps snapshots: leave out `snapshot`, or give a store of \
                         MemoryStore::restore to Limiter::with_memory and write it down yourself";

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

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("rules", &self.policy().rules().len()).finish_non_exhaustive()
    }
}
