//! The terms under which tokens of a limit are leased.

use std::time::Duration;

use tollgate_core::{Quota, TokenLease};

/// The terms under which tokens of a limit are leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct LeaseTerms {
    /// The length of a generation. A lease is counted until the end of the generation after its own.
    pub(super) generation_ms: u64,
    /// The number of tokens that may be outstanding over all instances.
    pub(super) max_outstanding: u64,
    /// The time for which the tokens of a lease should suffice at the observed rate.
    pub(super) horizon_ns: u64,
    /// The number of tokens that the limit admits in a horizon, rounded up.
    pub(super) per_horizon: u64,
    /// The longest pause after a lease that was smaller than wanted, while the key is overloaded.
    pub(super) max_pause_ns: u64,
}

impl LeaseTerms {
    /// Returns the terms for a quota; `None` if its tokens are not leased.
    pub(in crate::store) fn new(quota: &Quota, generation: Duration) -> Option<LeaseTerms> {
        let TokenLease { max_outstanding, horizon_ns } = TokenLease::of(quota).ok()?;
        // A bucket must not fill up meanwhile. In windows, what waits is lost when the window ends.
        let fills_ns = u128::from(quota.burst()) * u128::from(quota.period_ns()) / u128::from(quota.amount());
        let max_pause_ns = u64::try_from(fills_ns / 4).unwrap_or(u64::MAX).clamp(horizon_ns / 2, 2 * horizon_ns);
        let per_horizon = (u128::from(quota.amount()) * u128::from(horizon_ns)).div_ceil(u128::from(quota.period_ns()));
        Some(LeaseTerms {
            generation_ms: u64::try_from(generation.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 40),
            max_outstanding,
            horizon_ns,
            per_horizon: u64::try_from(per_horizon).unwrap_or(u64::MAX),
            max_pause_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(quota: Quota) -> Option<LeaseTerms> {
        LeaseTerms::new(&quota, Duration::from_secs(1))
    }

    #[test]
    fn lease_lasts_a_tenth_of_a_second_at_the_rate_of_the_limit() {
        let expected = LeaseTerms {
            generation_ms: 1_000,
            max_outstanding: 500,
            horizon_ns: 100_000_000,
            per_horizon: 100,
            max_pause_ns: 200_000_000,
        };
        let bucket = Quota::token_bucket("1000/s burst 1000".parse().unwrap()).unwrap();
        assert_eq!(terms(bucket), Some(expected));
        let window = Quota::fixed_window("60000/min".parse().unwrap()).unwrap();
        let of_window = LeaseTerms { max_outstanding: 30_000, max_pause_ns: 50_000_000, ..expected };
        assert_eq!(terms(window), Some(of_window));
    }

    #[test]
    fn bucket_does_not_fill_up_in_a_pause() {
        let max_pause_ms = |text: &str| {
            let quota = Quota::token_bucket(text.parse().unwrap()).unwrap();
            terms(quota).map(|terms| terms.max_pause_ns / 1_000_000)
        };
        assert_eq!(max_pause_ms("1000/s burst 10000"), Some(200));
        assert_eq!(max_pause_ms("1000/s burst 400"), Some(100));
        assert_eq!(max_pause_ms("1000/s burst 100"), Some(25));
    }

    #[test]
    fn short_window_shortens_the_horizon() {
        let terms = terms(Quota::sliding_window_log("1000/s".parse().unwrap()).unwrap()).unwrap();
        assert_eq!((terms.horizon_ns, terms.per_horizon, terms.max_outstanding), (10_000_000, 10, 500));
    }

    #[test]
    fn slow_limits_are_not_leased() {
        assert_eq!(terms(Quota::token_bucket("19/s burst 100".parse().unwrap()).unwrap()), None);
    }
}
