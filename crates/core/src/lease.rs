use crate::quota::{AlgorithmKind, Quota};

const S_NS: u128 = 1_000_000_000;

/// The usual time for which the tokens of a lease should suffice.
const HORIZON_NS: u64 = 100_000_000;

/// The shortest useful horizon: below it, a lease saves too few calls.
const MIN_HORIZON_NS: u64 = 5_000_000;

/// The shortest window of a counter whose tokens are leased. A token that is reported after its window has ended counts in
/// the next one, where it leaves less for that whole window: as much as passes in the time until it is reported, some
/// tens of milliseconds. That is below one percent of such a window.
const MIN_COUNTER_WINDOW_NS: u64 = 5_000_000_000;

/// The fewest tokens of a useful lease.
const MIN_TOKENS: u64 = 2;

/// The bounds of the leases of a quota's tokens.
///
/// An instance that shares a store leases tokens of a key ahead of requests and spends them without a call. A leased
/// token is *outstanding* until it is reported as spent, returned, or its lease has ended. Outstanding tokens count
/// against the capacity, so leases admit no more than [`max_admitted`](crate::max_admitted).
///
/// ```
/// use tollgate_core::{NotLeased, Quota, TokenLease};
///
/// let lease = TokenLease::of(&Quota::token_bucket("1000/s burst 1000".parse()?)?);
/// assert_eq!(lease.map(|lease| lease.max_outstanding), Ok(500));
/// let lease = TokenLease::of(&Quota::token_bucket("60/min".parse()?)?);
/// assert_eq!(lease, Err(NotLeased::Slow));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLease {
    /// The most tokens of a key that are outstanding, over all instances.
    pub max_outstanding: u64,
    /// The time for which the tokens of a lease should suffice at the observed rate. (The lease itself ends with a
    /// generation.)
    pub horizon_ns: u64,
}

/// The reasons why tokens of a quota are not leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLeased {
    /// A permit of a stalled holder cannot be revoked, and positions in a queue have an order.
    Algorithm,
    /// The rate is below [`TokenLease::MIN_PER_SECOND`].
    Slow,
    /// The capacity is below 4, it refills within 10 ms, or the window is shorter than 500 ms (5 s of a counter).
    Small,
}

impl TokenLease {
    /// At most this part of the capacity is outstanding: numerator and denominator.
    pub const MAX_SHARE: (u64, u64) = (1, 2);

    /// The number of requests for a key in a second, at one instance, from which leases save calls.
    pub const MIN_PER_SECOND: u64 = 20;

    /// Returns the bounds of the leases of a quota's tokens.
    pub fn of(quota: &Quota) -> Result<TokenLease, NotLeased> {
        let period = u128::from(quota.period_ns());
        // The holder of a partial lease waits for half a horizon. The capacity must not fill up meanwhile.
        let (capacity, horizon) = match quota.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket if quota.ahead_ns() == 0 => {
                let refill = u128::from(quota.burst()) * period / u128::from(quota.amount());
                (quota.burst(), refill / 2)
            }
            AlgorithmKind::FixedWindow | AlgorithmKind::SlidingWindowLog | AlgorithmKind::SlidingWindowCounter => {
                // Spent tokens leave a window later by the time until they are reported.
                (quota.amount(), period / 100)
            }
            _ => return Err(NotLeased::Algorithm),
        };
        if u128::from(quota.amount()) * S_NS < u128::from(TokenLease::MIN_PER_SECOND) * period {
            return Err(NotLeased::Slow);
        }
        let (part, whole) = TokenLease::MAX_SHARE;
        let max_outstanding = capacity * part / whole;
        let horizon_ns = u64::try_from(horizon).unwrap_or(u64::MAX).min(HORIZON_NS);
        let is_short_counter =
            quota.kind() == AlgorithmKind::SlidingWindowCounter && quota.period_ns() < MIN_COUNTER_WINDOW_NS;
        if horizon_ns < MIN_HORIZON_NS || max_outstanding < MIN_TOKENS || is_short_counter {
            return Err(NotLeased::Small);
        }
        Ok(TokenLease { max_outstanding, horizon_ns })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::quota::Queue;

    fn bucket(text: &str) -> Quota {
        Quota::token_bucket(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn half_of_the_capacity_may_be_outstanding() {
        let lease = |max_outstanding, horizon_ns| Ok(TokenLease { max_outstanding, horizon_ns });
        assert_eq!(TokenLease::of(&bucket("1000/s burst 1000")), lease(500, 100_000_000));
        assert_eq!(TokenLease::of(&bucket("1000/s burst 51")), lease(25, 25_500_000));
        let rate = || "6000/min".parse().unwrap();
        for quota in
            [Quota::fixed_window(rate()), Quota::sliding_window_log(rate()), Quota::sliding_window_counter(rate())]
        {
            assert_eq!(TokenLease::of(&quota.unwrap()), lease(3_000, 100_000_000));
        }
    }

    #[test]
    fn limits_that_cannot_gain_are_not_leased() {
        assert_eq!(TokenLease::of(&bucket("19/s burst 100")), Err(NotLeased::Slow));
        assert_eq!(TokenLease::of(&bucket("1199/min burst 100")), Err(NotLeased::Slow));
        assert!(TokenLease::of(&bucket("1200/min burst 100")).is_ok());
        assert_eq!(TokenLease::of(&bucket("20/s burst 3")), Err(NotLeased::Small));
        assert_eq!(TokenLease::of(&bucket("1000/s burst 9")), Err(NotLeased::Small));
        let window = Quota::fixed_window("100 per 499ms".parse().unwrap()).unwrap();
        assert_eq!(TokenLease::of(&window), Err(NotLeased::Small));
        let counter = |text: &str| TokenLease::of(&Quota::sliding_window_counter(text.parse().unwrap()).unwrap());
        assert_eq!(counter("1000 per 4999ms"), Err(NotLeased::Small));
        assert!(counter("1000 per 5s").is_ok());
    }

    #[test]
    fn permits_queues_and_reservations_are_not_leased() {
        let queue = Queue { size: 100, max_wait: None };
        for quota in [
            Quota::concurrency(100, Some(Duration::from_secs(1))),
            Quota::leaky_queue("1000/s".parse().unwrap(), queue),
            bucket("1000/s burst 1000").with_reservations(Duration::from_secs(1)),
        ] {
            assert_eq!(TokenLease::of(&quota.unwrap()), Err(NotLeased::Algorithm));
        }
    }
}
