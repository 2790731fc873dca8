//! The grants of rules and the costs of requests: tiers, overrides, and quotas with their scopes.

pub(crate) mod cost;
pub(crate) mod override_grant;
pub(crate) mod rule_grants;
pub(crate) mod scopes;
pub(crate) mod tier;
