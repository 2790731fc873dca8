//! Generates rates and quotas from the slowest to the fastest.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{MAX_AMOUNT, MAX_SPAN_NS, Queue, Quota, QuotaError, Rate, Tick};

const MS_NS: u64 = 1_000_000;
const DAY_MS: u64 = 86_400_000;
/// A quota whose token takes a fraction of ticks with a larger denominator is only approximated.
pub(crate) const EXACT_UP_TO: u64 = 1 << 20;

/// Generates numbers spread evenly over the orders of magnitude of `1..=max`.
pub(crate) fn any_magnitude(max: u64) -> impl Strategy<Value = u64> + Clone {
    (0..=max.ilog2(), any::<u64>()).prop_map(move |(bits, noise)| ((1 << bits) | (noise & ((1 << bits) - 1))).min(max))
}

pub(crate) fn any_tick() -> impl Strategy<Value = Tick> + Clone {
    prop_oneof![Just(Tick::Nanosecond), Just(Tick::Microsecond)]
}

/// A count and a period in milliseconds, at most 10^9 a second.
fn count_and_period() -> impl Strategy<Value = (u64, u64)> + Clone {
    let said = prop_oneof![
        Just((1, DAY_MS)),
        Just((1, 365 * DAY_MS)),
        Just((1_000_000_000, 1_000)),
        Just((999_983, 1_000)),
        Just((7, 1_000)),
        Just((7, 60_000)),
        Just((1, 1_000)),
        Just((1_000_000, 1)),
    ];
    let any = (any_magnitude(MAX_AMOUNT), any_magnitude(MAX_SPAN_NS / MS_NS));
    prop_oneof![
        1 => said,
        2 => (1_u64..=100, 1_u64..=100),
        2 => any.prop_map(|(count, period)| (count.min(period.saturating_mul(MS_NS)), period)),
    ]
}

/// Any rate that can be built, without a burst.
pub(crate) fn any_rate() -> impl Strategy<Value = Rate> + Clone {
    count_and_period().prop_map(|(count, ms)| Rate::new(count, Duration::from_millis(ms)).unwrap())
}

/// Any rate and burst that can be built.
pub(crate) fn any_rate_with_burst() -> impl Strategy<Value = Rate> + Clone {
    let burst = prop_oneof![1_u64..=20, any_magnitude(MAX_AMOUNT)];
    (any_rate(), burst).prop_filter_map("one token refills in time", |(rate, burst)| {
        halving(burst).find_map(|burst| rate.with_burst(burst).ok())
    })
}

/// A number and its halves down to 1, to find the largest that is not too large.
fn halving(n: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(n), |n| (*n > 1).then_some(n / 2))
}

/// Returns the denominator of the ticks that one token takes.
pub(crate) fn token_denominator(quota: &Quota, tick: Tick) -> u64 {
    let (mut a, mut b) = (quota.period_ns() / tick.ns(), quota.amount());
    while b > 0 {
        (a, b) = (b, a % b);
    }
    quota.amount() / a
}

pub(crate) fn any_bucket() -> impl Strategy<Value = Quota> + Clone {
    (any_rate_with_burst(), any::<bool>())
        .prop_map(|(rate, leaks)| if leaks { Quota::leaky_bucket(rate) } else { Quota::token_bucket(rate) }.unwrap())
}

/// Token buckets with reservations: from a fraction of a token to the longest possible.
pub(crate) fn any_reserving_bucket() -> impl Strategy<Value = Quota> + Clone {
    (any_bucket(), any_magnitude(MAX_SPAN_NS)).prop_filter_map("some time is left", |(quota, ahead)| {
        halving(ahead).find_map(|ahead| quota.with_reservations(Duration::from_nanos(ahead)).ok())
    })
}

pub(crate) fn any_queue() -> impl Strategy<Value = Quota> + Clone {
    let wait = prop_oneof![Just(None), (0_u64..=300_000_000).prop_map(Some), any_magnitude(u64::MAX).prop_map(Some)];
    let size = prop_oneof![1_u64..=10, any_magnitude(MAX_AMOUNT - 1)];
    (any_rate(), size, wait).prop_filter_map("two places lie within reach", |(rate, size, wait)| {
        let max_wait = wait.map(Duration::from_nanos);
        halving(size).find_map(|size| Quota::leaky_queue(rate, Queue { size, max_wait }).ok())
    })
}

pub(crate) fn any_fixed_window() -> impl Strategy<Value = Quota> + Clone {
    any_rate().prop_map(|rate| Quota::fixed_window(rate).unwrap())
}

pub(crate) fn any_counter() -> impl Strategy<Value = Quota> + Clone {
    any_rate().prop_map(|rate| Quota::sliding_window_counter(rate).unwrap())
}

pub(crate) fn any_log() -> impl Strategy<Value = Quota> + Clone {
    any_rate().prop_map(|rate| {
        let count = rate.count().min(Quota::MAX_LOG);
        Quota::sliding_window_log(Rate::new(count, rate.period()).unwrap()).unwrap()
    })
}

pub(crate) fn any_concurrency() -> impl Strategy<Value = Quota> + Clone {
    let lease = prop_oneof![Just(None), any_magnitude(MAX_SPAN_NS - 1).prop_map(Some)];
    (prop_oneof![1_u64..=10, any_magnitude(MAX_AMOUNT)], lease)
        .prop_map(|(permits, lease)| Quota::concurrency(permits, lease.map(Duration::from_nanos)).unwrap())
}

/// A quota whose refusals have a retry time: every algorithm but concurrency.
pub(crate) fn any_timed_quota() -> impl Strategy<Value = Quota> + Clone {
    prop_oneof![any_bucket(), any_reserving_bucket(), any_queue(), any_fixed_window(), any_counter(), any_log()]
}

pub(crate) fn any_quota() -> impl Strategy<Value = Quota> + Clone {
    prop_oneof![6 => any_timed_quota(), 1 => any_concurrency()]
}

/// Quotas of a millisecond or two, in microseconds, with small and large debts.
pub(crate) fn any_small_quota_with_debt() -> impl Strategy<Value = Quota> + Clone {
    let kinds = prop_oneof![
        Just(Quota::token_bucket as fn(Rate) -> Result<Quota, QuotaError>),
        Just(Quota::fixed_window as fn(Rate) -> Result<Quota, QuotaError>),
        Just(Quota::sliding_window_counter as fn(Rate) -> Result<Quota, QuotaError>),
        Just(Quota::sliding_window_log as fn(Rate) -> Result<Quota, QuotaError>),
    ];
    (kinds, 1_u64..=7, 1_u64..=2, 0_u64..=25).prop_map(|(make, limit, ms, debt)| {
        make(format!("{limit} per {ms}ms").parse().unwrap()).unwrap().with_max_debt(debt).unwrap()
    })
}
