use crate::quota::{AlgorithmKind, Quota};

/// Returns the largest cost that `quota` can admit in any half-open span of `span_ns` nanoseconds, in process, without
/// refunds. `None` if there is no such bound: concurrency limits an instant, not a span.
///
/// Settling above estimates adds at most the quota's `max_debt`, in a span of any length.
///
/// For a queue this counts departures, not decisions, of requests with a cost of 1; a request with a larger cost
/// departs as a whole. For a bucket with reservations likewise: a reservation counts when it departs.
///
/// ```
/// use tollgate_core::{Quota, max_admitted};
///
/// let quota = Quota::token_bucket("60/min burst 10".parse()?)?;
/// assert_eq!(max_admitted(&quota, 60_000_000_000), Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn max_admitted(quota: &Quota, span_ns: u64) -> Option<u64> {
    let (limit, period) = (u128::from(quota.amount()), u128::from(quota.period_ns()));
    let span = u128::from(span_ns);
    if span == 0 {
        return Some(0);
    }
    let windows = (span - 1).div_ceil(period) + 1;
    let max = match quota.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
            // A delay is rounded up to a whole tick, so two departures can be one tick closer to each other.
            let rounding = u128::from(quota.ahead_ns() > 0);
            u128::from(quota.burst()) + (span + rounding) * limit / period
        }
        AlgorithmKind::LeakyQueue => 1 + (span + 1) * limit / period,
        AlgorithmKind::FixedWindow => limit * windows,
        AlgorithmKind::SlidingWindowLog => limit * span.div_ceil(period),
        AlgorithmKind::SlidingWindowCounter => {
            // The count before a boundary, at most the limit, is weighed against the count after it, and fades in
            // proportion to how far the span reaches beyond the boundary.
            let within_one = |rest: u128| if rest == 0 { 0 } else { limit + limit * rest / period };
            let one_after_another = (2 * limit - 1) * (span / period) + within_one(span % period).min(2 * limit - 1);
            (limit * windows).min(one_after_another)
        }
        AlgorithmKind::Concurrency => return None,
    };
    Some(u64::try_from(max).unwrap_or(u64::MAX))
}

/// Returns the largest cost that `quota` can admit in any half-open span of `span_ns` nanoseconds if callers ignore
/// their delays: all positions of a queue at once, plus the departures meanwhile. For all other quotas it equals
/// [`max_admitted`].
#[must_use]
pub fn max_admitted_without_delays(quota: &Quota, span_ns: u64) -> Option<u64> {
    if quota.kind() != AlgorithmKind::LeakyQueue || span_ns == 0 {
        return max_admitted(quota, span_ns);
    }
    let (limit, period) = (u128::from(quota.amount()), u128::from(quota.period_ns()));
    let departing = |ns: u64| u128::from(ns) * limit / period;
    let positions = u128::from(quota.queue_size()) + departing(span_ns);
    let within_wait = 1 + departing(quota.ahead_ns().saturating_add(span_ns));
    Some(u64::try_from(positions.min(within_wait)).unwrap_or(u64::MAX))
}
