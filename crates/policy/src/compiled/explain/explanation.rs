//! What a plan makes of a request, told to people.

use std::net::IpAddr;

use crate::compiled::Access;

/// What a plan makes of a request, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// How it fares before any limit: a rule that denies counts here as a list does.
    pub access: Access,
    /// The entry of a list that decided, such as `client_ip 192.0.2.0/24`, or the rule that denies, as `rule NAME`.
    pub decided_by: Option<String>,
    /// Whose request it is taken for, by address.
    pub client_ip: Option<IpAddr>,
    /// The path in its first reading, the most resolved one; `None` where it is not known.
    pub path: Option<String>,
    /// All readings of the path, that one first: what limits applies in any of them, what exempts only in all.
    pub readings: Vec<String>,
    /// The identities that are present, by name, with their values.
    pub identities: Vec<(String, String)>,
    /// The tier.
    pub tier: Option<String>,
    /// Each rule in turn. Empty where a list decides.
    pub rules: Vec<ExplainedRule>,
}

/// One rule of an [`Explanation`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedRule {
    /// Its position among [`CompiledPolicy::rules`](crate::CompiledPolicy::rules).
    pub rule: u32,
    /// Its name.
    pub name: String,
    /// Whether it applies.
    pub outcome: RuleOutcome,
}

/// Whether a rule applies, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleOutcome {
    /// It does.
    Applies(Application),
    /// It does not.
    NotApplied {
        /// Why, in words.
        reason: String,
    },
}

/// How a rule applies to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The key; empty where everybody is counted together.
    pub key: String,
    /// Other keys that are charged as well, because the path read in another way gives another part of it.
    pub more_keys: Vec<String>,
    /// The reading of the path in which it applies, where there are several.
    pub read_as: Option<String>,
    /// The quotas, as positions among [`CompiledPolicy::quotas`](crate::CompiledPolicy::quotas). None: unlimited.
    pub quotas: Vec<u32>,
    /// Whether the rule denies the request. Nothing is charged then.
    pub denies: bool,
    /// What the request costs.
    pub cost: u64,
    /// The pattern that the path matched.
    pub route: Option<String>,
    /// Where the grant comes from.
    pub grant: GrantSource,
}

/// Where a grant comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantSource {
    /// It is the rule's own, the same for everybody.
    Rule,
    /// It is that of this tier.
    Tier(String),
    /// It is that of an override for this pattern.
    Override(String),
}

impl Application {
    /// Whether it passes, and nothing is charged.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.quotas.is_empty() && !self.denies
    }
}
