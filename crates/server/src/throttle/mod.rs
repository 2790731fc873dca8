//! Limits that callers bring along: a key, a quota and a cost, without a rule.

mod local;
mod shared;

pub(crate) use local::{AskedQuota, LocalThrottle};
pub(crate) use shared::{NotThrottled, SharedQuotas};

/// Where the keys of callers count, apart from those of every rule: no rule can
/// have this name. In metrics it stands where a rule's name does.
pub(crate) const THROTTLE_SCOPE: &str = "*throttle";
