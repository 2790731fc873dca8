use tollgate_core::{AlgorithmKind, Decision, Quota};
use tollgate_policy::{GrantSource, InvalidKey, InvalidLimit};
use tollgate_store::ChangeError;

use super::overrides::KeyOverride;

/// How one key stands under a rule. Nothing was charged to find out.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyReport {
    /// The rule's name.
    pub rule: String,
    /// The key, as `explain` shows it.
    pub key: String,
    /// A counter for each limit that the key may have. Where the tier decides,
    /// those of all tiers: a key alone does not say whose it is.
    pub counters: Vec<KeyCounter>,
    /// How many violations are counted at present, where the rule counts them.
    pub violations: Option<Decision>,
    /// For how long it is blocked, if it is: in nanoseconds.
    pub blocked_for_ns: Option<u64>,
    /// The limit that was set by hand, if one stands.
    pub key_override: Option<KeyOverride>,
}

/// One counter of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCounter {
    /// Whose limit it is; `None` for one that was set by hand.
    pub source: Option<GrantSource>,
    /// The name under which clients know it.
    pub name: String,
    /// The limit.
    pub quota: Quota,
    /// What remains, of how much, and when all of it is back: in nanoseconds.
    pub standing: Decision,
}

impl KeyCounter {
    /// How much is used, or how many permits are held.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.standing.limit.saturating_sub(self.standing.remaining)
    }

    /// How many permits are held, where it counts permits.
    #[must_use]
    pub fn held(&self) -> Option<u64> {
        (self.quota.kind() == AlgorithmKind::Concurrency).then(|| self.used())
    }
}

impl KeyReport {
    /// How many violations are counted at present.
    #[must_use]
    pub fn violations_counted(&self) -> u64 {
        self.violations.map_or(0, |counted| counted.limit.saturating_sub(counted.remaining))
    }
}

/// Why an operator cannot have what was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The policy has no rule of this name.
    #[error("there is no rule `{0}`")]
    NoSuchRule(String),
    /// The text can never be a key of the rule.
    #[error(transparent)]
    InvalidKey(InvalidKey),
    /// The text is no limit for the rule.
    #[error(transparent)]
    InvalidLimit(InvalidLimit),
    /// The store does not take the limit.
    #[error("the store does not take this limit: {0}")]
    NotTaken(String),
    /// It must last for some time, and no longer than 36 years.
    #[error("it must last for some time, and at most 36 years")]
    Duration,
    /// The store did not do it.
    #[error(transparent)]
    Change(#[from] ChangeError),
}
