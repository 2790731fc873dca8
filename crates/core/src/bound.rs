use crate::quota::{AlgorithmKind, Quota};

/// The most that `quota` can admit in any half-open span of `span_ns`, in
/// process, with nothing given back; `None` where there is no such bound
/// (concurrency limits an instant, not a span). What is charged by settling
/// above estimates adds at most the quota's debt, in a span of any length.
///
/// For a queue it counts departures, not answers, of requests that cost 1: a
/// larger one departs whole. For a bucket with reservations likewise: what was
/// promised counts when it departs.
#[must_use]
pub fn most_admitted(quota: &Quota, span_ns: u64) -> Option<u64> {
    let (limit, period) = (u128::from(quota.amount()), u128::from(quota.period_ns()));
    let span = u128::from(span_ns);
    if span == 0 {
        return Some(0);
    }
    let windows = (span - 1).div_ceil(period) + 1;
    let most = match quota.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
            // A delay is rounded up to a whole tick, so two departures can come one tick closer.
            let rounding = u128::from(quota.ahead_ns() > 0);
            u128::from(quota.burst()) + (span + rounding) * limit / period
        }
        AlgorithmKind::LeakyQueue => 1 + (span + 1) * limit / period,
        AlgorithmKind::FixedWindow => limit * windows,
        AlgorithmKind::SlidingWindowLog => limit * span.div_ceil(period),
        AlgorithmKind::SlidingWindowCounter => {
            // What came before a boundary, at most the limit, counts against what comes
            // after it, and fades by as much as the span reaches beyond it.
            let within_one = |rest: u128| if rest == 0 { 0 } else { limit + limit * rest / period };
            let one_after_another = (2 * limit - 1) * (span / period) + within_one(span % period).min(2 * limit - 1);
            (limit * windows).min(one_after_another)
        }
        AlgorithmKind::Concurrency => return None,
    };
    Some(u64::try_from(most).unwrap_or(u64::MAX))
}

/// The most cost that `quota` can admit in any half-open span of `span_ns`
/// where callers do not wait as they are told: of a queue all places at once,
/// and what departs meanwhile. For other quotas the same as [`most_admitted`].
#[must_use]
pub fn most_admitted_unheld(quota: &Quota, span_ns: u64) -> Option<u64> {
    if quota.kind() != AlgorithmKind::LeakyQueue || span_ns == 0 {
        return most_admitted(quota, span_ns);
    }
    let (limit, period) = (u128::from(quota.amount()), u128::from(quota.period_ns()));
    let departing = |ns: u64| u128::from(ns) * limit / period;
    let places = u128::from(quota.queue_size()) + departing(span_ns);
    let within_wait = 1 + departing(quota.ahead_ns().saturating_add(span_ns));
    Some(u64::try_from(places.min(within_wait)).unwrap_or(u64::MAX))
}
