use tollgate_policy::IpNet;
use tollgate_policy::model::{IdentitySource, Policy};
use tollgate_policy::{BudgetBuilder, PolicyBuilder, RuleBuilder};
use tollgate_store::Clock;

use super::{Limiter, LimiterError};

/// Builds a limiter from rules in the program, without a policy file. [`Limiter::builder`] creates it.
#[derive(Clone, Debug, Default)]
#[must_use = "call `build` to create the limiter"]
pub struct LimiterBuilder {
    policy: PolicyBuilder,
}

impl LimiterBuilder {
    /// Adds a rule: see [`rule`](crate::rule).
    pub fn rule(self, rule: RuleBuilder) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.rule(rule) }
    }

    /// Adds a budget that several rules share: see [`budget`](crate::budget).
    pub fn budget(self, budget: BudgetBuilder) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.budget(budget) }
    }

    /// Declares an identity and its source in the request.
    ///
    /// An identity that is not declared is set by the caller with the request; a name that looks like a misspelling of a
    /// known one is an error. For the tier use [`tier_from`](LimiterBuilder::tier_from).
    pub fn identity(self, name: &str, source: IdentitySource) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.identity(name, source) }
    }

    /// Sets the source of a client's tier, and the tier of clients whose tier is absent or unknown.
    ///
    /// With [`IdentitySource::Given`] the program sets the tier with each request, as an identity named `tier`.
    ///
    /// ```
    /// use tollgate::{IdentitySource, Limiter, Request, rule};
    ///
    /// let limiter = Limiter::builder()
    ///     .tier_from(IdentitySource::Given, "free")
    ///     .rule(rule("per-user").per("user").tier("free", "20/min").tier("pro", "60/min"))
    ///     .build()?;
    /// let request = Request { identities: &[("user", "bob"), ("tier", "pro")], ..Request::from_peer(None) };
    /// assert_eq!(limiter.check(&request).limit(), Some(60));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tier_from(self, source: IdentitySource, default: &str) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.tier_from(source, default) }
    }

    /// Declares an identity whose values are credentials. They become keys only as hashes.
    pub fn secret_identity(self, name: &str, source: IdentitySource) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.secret_identity(name, source) }
    }

    /// Sets the key for hashing the values of secret identities: at least 32 bytes.
    pub fn secret_key(self, key: impl Into<Vec<u8>>) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.secret_key(key) }
    }

    /// Adds proxies whose forwarding header is trusted for the client address.
    pub fn trusted_proxies(self, networks: impl IntoIterator<Item = IpNet>) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.trusted_proxies(networks) }
    }

    /// Accepts warnings of this code: they are not among [`warnings`](super::AsyncLimiter::warnings).
    pub fn accept(self, code: &str) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.accept(code) }
    }

    /// Changes any other part of the policy: lists, settings.
    pub fn with(self, change: impl FnOnce(&mut Policy)) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.with(change) }
    }

    /// Creates the limiter with a memory store.
    ///
    /// Errors are those of a policy file; likely mistakes are in [`warnings`](super::AsyncLimiter::warnings).
    pub fn build(self) -> Result<Limiter, LimiterError> {
        Limiter::new(&self.policy.build().map_err(LimiterError::Policy)?)
    }

    /// Creates the limiter with a memory store that uses `clock`: a [`ManualClock`](crate::ManualClock) in tests.
    pub fn build_with_clock(self, clock: impl Clock + 'static) -> Result<Limiter, LimiterError> {
        Limiter::with_clock(&self.policy.build().map_err(LimiterError::Policy)?, clock)
    }
}
