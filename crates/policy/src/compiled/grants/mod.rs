//! What a rule grants and what a request costs: tiers, overrides, quotas under their scopes.

pub(crate) mod cost;
pub(crate) mod override_grant;
pub(crate) mod rule_grants;
pub(crate) mod scopes;
pub(crate) mod tier;
