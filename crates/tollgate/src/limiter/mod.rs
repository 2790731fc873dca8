//! The limiter: a policy over a store of counters.
//!
//! [`AsyncLimiter`] works over any store; [`Limiter`] keeps its counters in this process and needs no `async`;
//! [`KeyLimiter`] has one limit and no rules. This module also has the types that front ends and admin tools use:
//! [`CheckMode`], joint checks, and reports about keys.

// `active` is the active policy compiled for the store, and `verdict_pool` reuses the memory of verdicts. `in_memory`
// decides over the memory store, in three levels; the last is `decision`, which decides every request, over any store.
// `backend` is the store; `permit_queue` has the tasks that wait for permits; `keys` is the admin API.
mod active;
mod async_limiter;
mod backend;
mod builder;
mod decision;
mod error;
mod in_memory;
mod keys;
mod per_key;
mod permit_queue;
mod verdict_pool;

use std::fmt;
use std::ops::Deref;

use tollgate_core::Settlement;
use tollgate_policy::model::{MemorySettings, StoreSettings, WhenFullSetting};
use tollgate_policy::{CheckedPolicy, Request};
use tollgate_store::{Capacity, Clock, MemoryOptions, MemoryStore, RealClock, WhenFull};

use crate::permit::Permit;
use crate::receipt::Receipt;
use crate::verdict::{Refused, Verdict};
use backend::Backend;

pub(crate) use active::ActivePolicy;
pub use async_limiter::AsyncLimiter;
pub use builder::LimiterBuilder;
pub use decision::CheckMode;
pub use decision::joint::{JointCharge, JointRequest, JointVerdict};
pub use error::LimiterError;
pub use keys::overrides::KeyOverride;
pub use keys::report::{KeyCounter, KeyError, KeyReport};
pub use per_key::KeyLimiter;
pub(crate) use verdict_pool::return_to_pool;

/// A rate limiter with its counters in this process.
///
/// [`per_key`](Limiter::per_key) is the simplest form. [`builder`](Limiter::builder) and
/// [`from_file`](Limiter::from_file) create one from rules: limits by address, user, path or tier, checked together.
///
/// Cloning is cheap, and all clones share the same counters and the same policy. Create one when the program starts: a
/// layer with its own limiter for each connection would limit nothing.
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
/// It dereferences to an [`AsyncLimiter`] and has its methods too, such as [`acquire`](AsyncLimiter::acquire) and the
/// admin API. Where both have a method of one name, the synchronous one of this type is called.
#[derive(Clone)]
pub struct Limiter {
    limiter: AsyncLimiter,
}

impl Limiter {
    /// Starts a limiter whose rules are built in the program.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    /// Creates a limiter for a policy, with the memory store that the policy configures.
    pub fn new(policy: &CheckedPolicy) -> Result<Limiter, LimiterError> {
        Limiter::with_clock(policy, RealClock::new())
    }

    /// Like [`Limiter::new`], with another clock.
    pub fn with_clock(policy: &CheckedPolicy, clock: impl Clock + 'static) -> Result<Limiter, LimiterError> {
        let StoreSettings::Memory(settings) = &policy.store else { return Err(LimiterError::OtherStore) };
        if settings.snapshot.is_some() {
            // Without a snapshot writer every restart would reset the counters.
            return Err(LimiterError::Snapshot(NO_SNAPSHOT_WRITER.into()));
        }
        Limiter::with_memory(policy, memory_store(settings, clock)?)
    }

    /// Creates a limiter over an existing memory store.
    pub fn with_memory(policy: &CheckedPolicy, store: MemoryStore) -> Result<Limiter, LimiterError> {
        Ok(Limiter { limiter: AsyncLimiter::over(policy, Backend::Memory(store))? })
    }

    /// Creates a limiter from a policy file. The file, and the files that it names (tiers, keys), are read once.
    ///
    /// Likely mistakes are in [`warnings`](AsyncLimiter::warnings); [`load`](crate::policy::load) returns them with
    /// line and column. To apply changes of the files, such as a new signing key in a JWKS file, load the policy again
    /// with [`load`](tollgate_policy::load) and pass it to [`set_policy`](AsyncLimiter::set_policy); if loading fails,
    /// the active policy remains. [`Loaded::files`](tollgate_policy::Loaded) lists the files that the policy was read
    /// from.
    #[cfg(feature = "yaml")]
    pub fn from_file(path: impl AsRef<std::path::Path>) -> Result<Limiter, LimiterError> {
        let loaded = tollgate_policy::load(path.as_ref()).map_err(LimiterError::File)?;
        Limiter::new(&loaded.policy)
    }

    /// Creates a limiter from the text of a policy file. Likely mistakes are in [`warnings`](AsyncLimiter::warnings).
    #[cfg(feature = "yaml")]
    pub fn from_yaml(text: &str) -> Result<Limiter, LimiterError> {
        let loaded = tollgate_policy::parse(text, "policy", None)
            .map_err(|report| LimiterError::File(tollgate_policy::LoadError::Invalid(report)))?;
        Limiter::new(&loaded.policy)
    }

    /// Returns its memory store.
    #[inline]
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        match self.limiter.memory_store() {
            Some(store) => store,
            None => unreachable!("a Limiter has a memory store"),
        }
    }

    /// Decides a request, and charges it if allowed.
    ///
    /// Concurrency limits are checked, but no permit is taken, because nothing would release it: see
    /// [`permit`](Limiter::permit).
    #[inline]
    #[must_use]
    pub fn check(&self, request: &Request<'_>) -> Verdict {
        self.limiter.check_in_memory(self.store(), request)
    }

    /// Decides a request without charging it.
    #[must_use]
    pub fn peek(&self, request: &Request<'_>) -> Verdict {
        self.decide(request, CheckMode::Peek).0
    }

    /// Decides a request, charges it if allowed, and takes permits of concurrency limits.
    ///
    /// The permit releases them when it is dropped, and can refund or settle the charges.
    pub fn permit(&self, request: &Request<'_>) -> Result<Permit, Refused> {
        let (verdict, receipt) = self.decide(request, CheckMode::Permit);
        self.limiter.permit_if_allowed(verdict, receipt)
    }

    /// Replaces the estimated cost of a permit or receipt by the true one, and releases permits.
    ///
    /// Which charges change:
    /// - if a matched rule has an `estimate` or reads its cost from a header, only the charges of such rules;
    /// - otherwise the charges at the cost of the request. A cost that a rule sets does not change.
    pub fn settle(&self, receipt: impl Into<Receipt>, true_cost: u64) -> Settlement {
        self.limiter.settle_in_memory(self.store(), receipt.into(), true_cost)
    }
}

impl Limiter {
    /// Decides without the optional output of the matched rules.
    fn decide(&self, request: &Request<'_>, mode: CheckMode) -> (Verdict, Receipt) {
        self.limiter.decide_in_memory(self.store(), request, mode, &mut None)
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

const NO_SNAPSHOT_WRITER: &str = "only the service writes snapshots: remove `snapshot`, or restore a store with \
                                  MemoryStore::restore, pass it to Limiter::with_memory and call write_snapshot";

/// Creates the memory store that a policy configures.
pub fn memory_store(settings: &MemorySettings, clock: impl Clock + 'static) -> Result<MemoryStore, LimiterError> {
    MemoryStore::with(memory_options(settings), clock).map_err(LimiterError::Store)
}

/// Returns the options of the memory store that a policy configures.
#[must_use]
pub fn memory_options(settings: &MemorySettings) -> MemoryOptions {
    MemoryOptions {
        capacity: Capacity::Entries(usize::try_from(settings.entries).unwrap_or(usize::MAX)),
        when_full: match settings.when_full {
            WhenFullSetting::Evict => WhenFull::EvictLeastUsed,
            WhenFullSetting::Refuse => WhenFull::RefuseNew,
        },
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("rules", &self.policy().rules().len()).finish_non_exhaustive()
    }
}
