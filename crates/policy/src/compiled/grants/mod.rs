//! What a rule grants and what a request costs: tiers, overrides, quotas under their scopes.

pub(in crate::compiled) mod cost;
pub(in crate::compiled) mod override_grant;
pub(in crate::compiled) mod rule_grants;
pub(in crate::compiled) mod scopes;
pub(in crate::compiled) mod tier;
