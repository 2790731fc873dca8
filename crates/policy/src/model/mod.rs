//! The policy as plain data.
//!
//! Parts refer to identities and rules by name. [`Policy::check`] checks that the names exist and that the parts are
//! consistent, for policies from a program and from a file alike.

mod consistency;
mod identity;
mod regions;
mod rule;
mod settings;
mod when;

pub use consistency::Consistency;
pub(crate) use consistency::{
    DEFAULT_LEASE_GENERATION_NS, Indivisible, MAX_LEASE_GENERATION_NS, MIN_LEASE_GENERATION_NS, StaysExact,
    is_divisible,
};
pub(crate) use identity::is_credential_header;
pub use identity::{
    ClientIp, ForwardedBy, Identity, IdentitySource, JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial, MAX_JWT_KEYS,
    OnInvalid, Tier, TierSource,
};
pub use regions::{GlobalServer, Regions};
pub(crate) use regions::{MAX_REGIONS, MAX_SYNC_NS, MAX_WEIGHT, MIN_REGIONS, MIN_SYNC_NS};
pub use rule::{Allowance, Block, Budget, Cost, CostSource, Grant, OnLimit, Override, Rule};
pub(crate) use rule::{DEFAULT_LEASE, quota_of};
pub use settings::{
    FailureMode, FieldSet, MemorySettings, Paths, RedisSettings, RedisTopology, ResetFormat, ResponseFields, Secret,
    SecretKey, SnapshotSettings, StoreSettings, TrailingSlash, WhenFullSetting,
};
pub(crate) use when::is_parameter;
pub use when::{AccessList, Condition, Networks, TextPattern, When};

use std::collections::HashMap;

use sha2::{Digest, Sha256};

/// The content of a policy file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The declared identities, in addition to [`BUILT_IN_IDENTITIES`].
    pub identities: Vec<Identity>,
    /// How the client's address is determined.
    pub client_ip: ClientIp,
    /// The source of a client's tier.
    pub tier: Option<Tier>,
    /// The keys that verify signed tokens.
    pub jwt: Option<JwtSettings>,
    /// The key that hashes the values of secret identities before they are stored.
    pub secret_key: Option<SecretKey>,
    /// The clients that are denied before any rule.
    pub deny: AccessList,
    /// The clients to which no rule applies. `deny` takes precedence.
    pub allow: AccessList,
    /// Budgets that several rules share.
    pub budgets: Vec<Budget>,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// How paths are normalised before they are compared.
    pub paths: Paths,
    /// The rate limit fields of responses.
    pub fields: ResponseFields,
    /// Where counters are stored.
    pub store: StoreSettings,
    /// The regions that divide the limits of regional rules.
    pub regions: Option<Regions>,
    /// The codes of warnings and notes that are accepted anywhere in the policy.
    pub accept: Vec<String>,
}

/// The identities that exist without being declared.
pub const BUILT_IN_IDENTITIES: [&str; 5] = ["client_ip", "method", "host", "path", "route"];

/// The identity that selects a limit from a rule's `tiers`.
pub const TIER: &str = "tier";

impl Policy {
    /// Copies the key, the allowance and the consistency of each budget to its rules. A rule that has its own is left for the check, which
    /// reports an error.
    pub(crate) fn resolve_budgets(&mut self) {
        let mut by_name: HashMap<&str, &Budget> = HashMap::new();
        for budget in &self.budgets {
            by_name.entry(budget.name.as_str()).or_insert(budget);
        }
        for rule in &mut self.rules {
            let Some(name) = &rule.budget else { continue };
            let budget = by_name.get(name.as_str());
            let is_unset = rule.key.is_empty() && rule.allowance == Allowance::Same(Grant::Unlimited);
            if let Some(budget) = budget.filter(|_| is_unset) {
                rule.key.clone_from(&budget.key);
                rule.allowance.clone_from(&budget.allowance);
                rule.consistency = rule.consistency.or(budget.consistency);
            }
        }
    }

    /// Whether a rule is regional, and the region of this instance is not set. Such a policy can be checked, but not
    /// applied.
    #[must_use]
    pub fn lacks_region(&self) -> bool {
        let is_set = self.regions.as_ref().is_some_and(|regions| regions.own.is_some());
        !is_set && self.rules.iter().any(|rule| rule.is_regional(&self.store))
    }

    /// Returns a short hash of the policy. Instances with the same fingerprint decide by the same rules.
    ///
    /// Metrics publish it, so it does not cover keys: a weak secret could be found from its hash by brute force, because
    /// the rest of the policy may be known. Another version of tollgate may compute another fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // The policy consists of lists, not of hash maps, so the text is the same in every process.
        let hash = Sha256::digest(format!("{self:?}").as_bytes());
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{PolicyBuilder, rule};

    fn fingerprint(limit: &str) -> String {
        PolicyBuilder::default().rule(rule("r").per("client_ip").limit(limit)).build().unwrap().fingerprint()
    }

    #[test]
    fn fingerprint_differs_only_for_different_policies() {
        assert_eq!(fingerprint("1/min"), fingerprint("1/min"));
        assert_ne!(fingerprint("1/min"), fingerprint("2/min"));
        assert_eq!(fingerprint("1/min").len(), 16);
    }
}
