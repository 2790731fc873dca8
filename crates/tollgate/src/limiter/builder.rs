use tollgate_policy::model::{IdentitySource, Policy};
use tollgate_policy::{PolicyBuilder, RuleBuilder};
use tollgate_store::Clock;

use super::{Limiter, LimiterError};

/// Puts a limiter together in the program: a policy without a file.
#[derive(Clone, Debug, Default)]
#[must_use = "it is finished by `build`"]
pub struct LimiterBuilder {
    policy: PolicyBuilder,
}

impl LimiterBuilder {
    /// Adds a rule: see [`rule`](crate::rule).
    pub fn rule(self, rule: RuleBuilder) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.rule(rule) }
    }

    /// Says where an identity is found. A rule may also count by one that is
    /// not declared: it is what the caller gives with the request, unless its
    /// name looks like a typing mistake for a known one, which is an error.
    pub fn identity(self, name: &str, source: IdentitySource) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.identity(name, source) }
    }

    /// Changes anything else of the policy: trusted proxies, tiers, lists, settings.
    pub fn with(self, change: impl FnOnce(&mut Policy)) -> LimiterBuilder {
        LimiterBuilder { policy: self.policy.with(change) }
    }

    /// The limiter, with a memory store. What a policy file would be refused for is an error;
    /// what is likely wrong is in [`warnings`](super::AsyncLimiter::warnings).
    pub fn build(self) -> Result<Limiter, LimiterError> {
        Limiter::new(&self.policy.build().map_err(LimiterError::Policy)?)
    }

    /// The limiter, with a memory store that goes by a clock of one's own.
    pub fn build_with_clock(self, clock: impl Clock + 'static) -> Result<Limiter, LimiterError> {
        Limiter::in_memory(&self.policy.build().map_err(LimiterError::Policy)?, clock)
    }
}
