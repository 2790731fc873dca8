use tollgate_core::{AlgorithmKind, Decision, Quota};
use tollgate_policy::{GrantSource, InvalidKey, InvalidLimit};
use tollgate_store::ChangeError;

use super::overrides::KeyOverride;

/// The state of a key under a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyReport {
    /// The name of the rule.
    pub rule: String,
    /// The key, as `explain` prints it.
    pub key: String,
    /// A counter for each limit that the key may have. If the tier decides, those of all tiers, because a key does not
    /// contain its tier.
    pub counters: Vec<KeyCounter>,
    /// The number of counted violations, if the rule counts them.
    pub violations: Option<Decision>,
    /// The remaining time of its block in nanoseconds, if it is blocked.
    pub blocked_for_ns: Option<u64>,
    /// The active override, if there is one.
    pub key_override: Option<KeyOverride>,
}

/// A counter of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCounter {
    /// The tier or key that grants its limit; `None` for an override.
    pub source: Option<GrantSource>,
    /// The name of the limit in response fields.
    pub name: String,
    /// The limit.
    pub quota: Quota,
    /// What remains, the largest that can remain, and the time until all of it does, in nanoseconds.
    pub standing: Decision,
}

impl KeyCounter {
    /// Returns how much is used, or the number of held permits.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.standing.limit.saturating_sub(self.standing.remaining)
    }

    /// Returns the number of held permits, if it counts permits.
    #[must_use]
    pub fn held(&self) -> Option<u64> {
        (self.quota.kind() == AlgorithmKind::Concurrency).then(|| self.used())
    }
}

impl KeyReport {
    /// Returns the number of counted violations.
    #[must_use]
    pub fn violations_counted(&self) -> u64 {
        self.violations.map_or(0, |counted| counted.limit.saturating_sub(counted.remaining))
    }
}

/// Why an admin call for a key failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The policy has no rule of this name.
    #[error("there is no rule `{0}`")]
    NoSuchRule(String),
    /// The text cannot be a key of the rule.
    #[error(transparent)]
    InvalidKey(InvalidKey),
    /// The text is not a valid limit of the rule.
    #[error(transparent)]
    InvalidLimit(InvalidLimit),
    /// The store does not accept the limit.
    #[error("the store does not accept this limit: {0}")]
    NotTaken(String),
    /// The duration is zero or exceeds 36 years.
    #[error("the duration must be above zero and at most 36 years")]
    Duration,
    /// The store did not apply the change.
    #[error(transparent)]
    Change(#[from] ChangeError),
}
