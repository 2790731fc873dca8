//! Generates quotas and costs: limits small enough for a few requests to exhaust.
// Every test file is a separate crate and uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use tollgate_store::{AlgorithmKind, Queue, Quota, Rate};

/// Returns a configuration with this number of cases; failures are shrunk and stored in a file next to the test.
pub(crate) fn cases(cases: u32) -> Config {
    let kept = FileFailurePersistence::WithSource("proptest-regressions");
    Config { cases, failure_persistence: Some(Box::new(kept)), max_shrink_iters: 20_000, ..Config::default() }
}

/// Tokens take from one tick to many, whole or not.
pub(crate) fn any_tight_rate() -> impl Strategy<Value = Rate> + Clone {
    let count = prop_oneof![3 => 1_u64..=12, 1 => 100_000_u64..=1_000_000];
    (count, 1_u64..=3).prop_map(|(count, ms)| Rate::new(count, Duration::from_millis(ms)).unwrap())
}

pub(crate) fn any_tight_bucket() -> impl Strategy<Value = Quota> + Clone {
    (any_tight_rate(), 1_u64..=8, any::<bool>()).prop_map(|(rate, burst, leaks)| {
        let rate = rate.with_burst(burst).unwrap();
        if leaks { Quota::leaky_bucket(rate) } else { Quota::token_bucket(rate) }.unwrap()
    })
}

pub(crate) fn any_tight_reserving_bucket() -> impl Strategy<Value = Quota> + Clone {
    (any_tight_bucket(), 1_u64..=500).prop_map(|(quota, percent_of_token)| {
        let ahead_ns = (quota.period_ns() * percent_of_token / quota.amount() / 100).max(1);
        quota.with_reservations(Duration::from_nanos(ahead_ns)).unwrap()
    })
}

pub(crate) fn any_tight_queue() -> impl Strategy<Value = Quota> + Clone {
    let wait = prop_oneof![Just(None), (0_u64..5_000_000).prop_map(|ns| Some(Duration::from_nanos(ns)))];
    (any_tight_rate(), 1_u64..=6, wait)
        .prop_map(|(rate, size, max_wait)| Quota::leaky_queue(rate, Queue { size, max_wait }).unwrap())
}

/// Small limits, so that a log stays small too.
fn any_window_rate() -> impl Strategy<Value = Rate> + Clone {
    (1_u64..=12, 1_u64..=3).prop_map(|(count, ms)| Rate::new(count, Duration::from_millis(ms)).unwrap())
}

pub(crate) fn any_tight_window() -> impl Strategy<Value = Quota> + Clone {
    (any_window_rate(), 0..3).prop_map(|(rate, kind)| {
        match kind {
            0 => Quota::fixed_window(rate),
            1 => Quota::sliding_window_counter(rate),
            _ => Quota::sliding_window_log(rate),
        }
        .unwrap()
    })
}

pub(crate) fn any_tight_concurrency() -> impl Strategy<Value = Quota> + Clone {
    let lease = prop_oneof![Just(None), (1_u64..5_000_000).prop_map(|ns| Some(Duration::from_nanos(ns)))];
    (1_u64..=8, lease).prop_map(|(permits, lease)| Quota::concurrency(permits, lease).unwrap())
}

pub(crate) fn any_tight_quota() -> impl Strategy<Value = Quota> + Clone {
    let rate = prop_oneof![
        3 => any_tight_bucket(),
        1 => any_tight_reserving_bucket(),
        1 => any_tight_queue(),
        4 => any_tight_window(),
    ];
    let debt = prop_oneof![2 => Just(None), 1 => Just(Some(0)), 2 => (1_u64..=30).prop_map(Some)];
    let owing = (rate, debt).prop_map(|(quota, debt)| debt.map_or(quota, |debt| quota.with_max_debt(debt).unwrap()));
    prop_oneof![9 => owing, 1 => any_tight_concurrency()]
}

/// Usually small, sometimes more than any limit here.
pub(crate) fn any_cost() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![12 => 0_u64..4, 4 => 4_u64..14, 1 => prop_oneof![Just(1_000_000_000_000), Just(u64::MAX)]]
}

/// Token bucket, leaky bucket and leaky queue share one table and one kind of state.
pub(crate) fn is_bucket(kind: AlgorithmKind) -> bool {
    matches!(kind, AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue)
}

/// Every algorithm at the same rate.
pub(crate) fn every_algorithm(rate: &str) -> Vec<Quota> {
    let rate: Rate = rate.parse().unwrap();
    vec![
        Quota::token_bucket(rate).unwrap(),
        Quota::leaky_bucket(rate).unwrap(),
        Quota::leaky_queue(rate, Queue { size: rate.count(), max_wait: None }).unwrap(),
        Quota::fixed_window(rate).unwrap(),
        Quota::sliding_window_counter(rate).unwrap(),
        Quota::sliding_window_log(rate).unwrap(),
        Quota::concurrency(rate.count(), None).unwrap(),
    ]
}
