//! What clients are told of a quota: how much can remain, and how long it takes to come back.

use tollgate_core::Quota;

use crate::check::grants::capacity_of;

/// The largest integer that a structured field can carry: 15 digits.
pub const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;

const S_NS: u128 = 1_000_000_000;

/// A quota in the figures of `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedQuota {
    /// The largest that can remain: `q`.
    pub limit: u64,
    /// The whole seconds in which it comes back: `w`.
    pub refill_s: u64,
}

impl AdvertisedQuota {
    /// The figures of a quota.
    #[must_use]
    pub fn of(quota: &Quota) -> AdvertisedQuota {
        let limit = capacity_of(quota);
        // Whole at once where it is no bucket, which holds the amount.
        let refill_ns = u128::from(limit) * u128::from(quota.period_ns()) / u128::from(quota.amount().max(1));
        let refill_s = u64::try_from(refill_ns.div_ceil(S_NS)).unwrap_or(u64::MAX);
        AdvertisedQuota { limit: limit.min(MAX_FIELD_INTEGER), refill_s: refill_s.clamp(1, MAX_FIELD_INTEGER) }
    }
}
