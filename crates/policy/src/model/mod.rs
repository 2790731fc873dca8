//! The policy as plain data: what the file says, once every word of it has been understood.
//!
//! Identities are referred to by name. Whether each name exists, and all that
//! concerns several parts at once, is checked afterwards, the same for a policy
//! that was built in a program and for one that was read from a file.

mod identity;
mod rule;
mod settings;
mod when;

pub(crate) use identity::is_credential_header;
pub use identity::{
    ClientIp, ForwardedBy, Identity, IdentitySource, JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial, MAX_JWT_KEYS,
    OnInvalid, Tier, TierSource,
};
pub use rule::{Allowance, Block, Cost, CostSource, Grant, OnLimit, Override, Rule};
pub(crate) use rule::{DEFAULT_LEASE, quota_of};
pub use settings::{
    FieldSet, MemorySettings, OnFailure, Paths, RedisMode, RedisSettings, Reset, ResponseFields, Secret, SecretKey,
    SnapshotSettings, StoreSettings, TrailingSlash, WhenFull,
};
pub(crate) use when::is_parameter;
pub use when::{AccessList, Condition, Networks, TextPattern, When};

use sha2::{Digest, Sha256};

/// Everything that a policy file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Identities besides those that exist undeclared.
    pub identities: Vec<Identity>,
    /// How the client's address is found.
    pub client_ip: ClientIp,
    /// Where a client's tier comes from.
    pub tier: Option<Tier>,
    /// With what signed tokens are verified.
    pub jwt: Option<JwtSettings>,
    /// With what the values of secret identities are hashed before they become keys.
    pub secret_key: Option<SecretKey>,
    /// Who is turned away before any rule.
    pub deny: AccessList,
    /// Who passes without meeting any rule.
    pub allow: AccessList,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// How paths are made comparable.
    pub paths: Paths,
    /// What clients are told.
    pub fields: ResponseFields,
    /// Where counters live.
    pub store: StoreSettings,
}

/// The identities that exist without being declared.
pub const BUILT_IN_IDENTITIES: [&str; 5] = ["client_ip", "method", "host", "path", "route"];

/// The identity that chooses among a rule's `tiers`.
pub const TIER: &str = "tier";

impl Policy {
    /// A short name for all that the policy says: instances that have the same
    /// one decide by the same rules. It is told to whoever reads the metrics,
    /// so keys are no part of it: a hash of a weak secret
    /// beside the known rest could be tried out. Another version of tollgate
    /// may give the same policy another name.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // Everything here is kept in lists, so the text is the same in every process.
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
    fn it_is_the_same_for_the_same_policy_and_another_for_another() {
        assert_eq!(fingerprint("1/min"), fingerprint("1/min"));
        assert_ne!(fingerprint("1/min"), fingerprint("2/min"));
        assert_eq!(fingerprint("1/min").len(), 16);
    }
}
