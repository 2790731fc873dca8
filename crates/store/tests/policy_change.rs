//! A limit that changes while it is in use creates no quota, and a client is admitted at the reported retry time.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate_store::{
    AlgorithmKind, Capacity, ChargeMode, Decision, Limit, ManualClock, MemoryOptions, MemoryStore, Queue, Quota, Rate,
};

const HOUR_NS: u64 = 3_600_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// A whole number of hours and of minutes, so that windows begin here.
const START_NS: u64 = 500_000 * HOUR_NS;

const FAMILIES: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindowCounter,
    AlgorithmKind::SlidingWindowLog,
];

type Store = MemoryStore;

fn store_at(clock: &ManualClock) -> Store {
    MemoryStore::with(options(), clock.clone()).unwrap()
}

/// Small enough for all keys to be counted.
fn options() -> MemoryOptions {
    MemoryOptions { capacity: Capacity::Entries(100), ..MemoryOptions::default() }
}

fn quota(kind: AlgorithmKind, rate: &str) -> Quota {
    let rate: Rate = rate.parse().unwrap();
    match kind {
        AlgorithmKind::LeakyBucket => Quota::leaky_bucket(rate),
        AlgorithmKind::LeakyQueue => Quota::leaky_queue(rate, Queue { size: 10, max_wait: None }),
        AlgorithmKind::FixedWindow => Quota::fixed_window(rate),
        AlgorithmKind::SlidingWindowCounter => Quota::sliding_window_counter(rate),
        AlgorithmKind::SlidingWindowLog => Quota::sliding_window_log(rate),
        _ => Quota::token_bucket(rate),
    }
    .unwrap()
}

fn limit(store: &Store, kind: AlgorithmKind, rate: &str) -> Limit {
    store.limit("rule", quota(kind, rate)).unwrap()
}

/// A check as the limiter makes it: together with other charges of the request.
fn joint(store: &Store, limit: &Limit, cost: u64) -> Decision {
    let mut decisions = Vec::new();
    store.check_all(&[store.charge(limit, "ann", cost)], &mut decisions);
    decisions[0]
}

/// Retries until the time that the first refusal reported, and again then.
fn assert_admits_at_the_reported_time(clock: &ManualClock, mut ask: impl FnMut() -> Decision, what: &str) {
    let first = ask();
    let retry_after = first.retry_after().unwrap_or_else(|| panic!("{what}: not refused: {first:?}"));
    for _ in 0..4 {
        clock.advance(Duration::from_nanos(retry_after / 5));
        assert!(!ask().is_allowed(), "{what}: admitted before the reported time");
    }
    clock.advance(Duration::from_nanos(retry_after - retry_after / 5 * 4));
    assert!(ask().is_allowed(), "{what}: refused after {retry_after} ns, the reported time");
}

#[test]
fn changed_limit_admits_at_the_reported_time_despite_earlier_retries() {
    for kind in FAMILIES {
        for (before, after) in [("100 per 20s", "10 per 2s"), ("900/h", "120/min"), ("100/min", "100/h")] {
            let clock = ManualClock::at(START_NS);
            let store = store_at(&clock);
            let (old, new) = (limit(&store, kind, before), limit(&store, kind, after));
            while joint(&store, &old, 1).is_allowed() {}
            assert_admits_at_the_reported_time(
                &clock,
                || joint(&store, &new, 1),
                &format!("{kind} {before} to {after}"),
            );
        }
    }
}

#[test]
fn rule_that_fits_is_carried_over_too_when_another_rule_refuses() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let full = store.limit("other", quota(AlgorithmKind::TokenBucket, "1/h")).unwrap();
    let (old, new) =
        (limit(&store, AlgorithmKind::TokenBucket, "100/h"), limit(&store, AlgorithmKind::TokenBucket, "100 per 100s"));
    let mut decisions = Vec::new();
    assert!(joint(&store, &old, 50).is_allowed());
    assert!(store.check(&full, "ann", 1).is_allowed());
    for expected in [50, 60, 70] {
        let charges = [store.charge(&full, "ann", 1), store.charge(&new, "ann", 1)];
        assert!(!store.check_all(&charges, &mut decisions));
        assert_eq!(decisions[1].remaining, expected, "refills at the new rate from the first check on");
        clock.advance(Duration::from_secs(10));
    }
}

#[test]
fn guard_under_a_changed_quota_ends_at_the_reported_time() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let (old, new) =
        (limit(&store, AlgorithmKind::TokenBucket, "1/h"), limit(&store, AlgorithmKind::TokenBucket, "1/min"));
    assert!(joint(&store, &old, 1).is_allowed());
    let mut decisions = Vec::new();
    let ask = || {
        let charge = store.charge(&new, "ann", 1).with_mode(ChargeMode::Guard);
        store.check_all(&[charge], &mut decisions);
        decisions[0]
    };
    assert_admits_at_the_reported_time(&clock, ask, "a guard");
}

#[test]
fn refusals_on_the_joint_path_follow_a_clock_that_went_back() {
    for kind in FAMILIES {
        let clock = ManualClock::at(START_NS + HOUR_NS);
        let store = store_at(&clock);
        let limit = limit(&store, kind, "10 per 10s");
        while joint(&store, &limit, 1).is_allowed() {}
        clock.set(START_NS);
        assert_admits_at_the_reported_time(&clock, || joint(&store, &limit, 1), &format!("{kind} after a step back"));
    }
}

#[test]
fn changed_algorithm_keeps_the_used_amount() {
    for before in FAMILIES {
        for after in FAMILIES {
            let clock = ManualClock::at(START_NS);
            let store = store_at(&clock);
            let old = limit(&store, before, "10/h");
            assert!(joint(&store, &old, 7).is_allowed());
            let new = limit(&store, after, "10/h");
            assert_eq!(store.peek(&new, "ann").remaining, 3, "{before} to {after}");
            assert_eq!(joint(&store, &new, 1).remaining, 2, "{before} to {after}");
            assert!(joint(&store, &new, 2).is_allowed());
            assert_admits_at_the_reported_time(&clock, || joint(&store, &new, 1), &format!("{before} to {after}"));
        }
    }
}

#[test]
fn changed_algorithm_caps_the_used_amount_at_the_new_limit() {
    for before in FAMILIES {
        for after in FAMILIES {
            let clock = ManualClock::at(START_NS);
            let store = store_at(&clock);
            let old = limit(&store, before, "1000/h");
            assert!(joint(&store, &old, 900).is_allowed());
            let new = limit(&store, after, "60/min");
            let refused = joint(&store, &new, 1);
            assert_eq!((refused.limit, refused.remaining), (60, 0), "{before} to {after}");
            assert!(refused.retry_after().unwrap() <= 120 * SECOND_NS, "{before} to {after}: {refused:?}");
            assert_admits_at_the_reported_time(&clock, || joint(&store, &new, 1), &format!("{before} to {after}"));
        }
    }
}

#[test]
fn count_is_moved_to_the_new_algorithm_and_not_copied() {
    for (before, after) in FAMILIES.into_iter().flat_map(|a| FAMILIES.into_iter().map(move |b| (a, b))) {
        let clock = ManualClock::at(START_NS);
        let store = store_at(&clock);
        let old = limit(&store, before, "10/h");
        assert!(joint(&store, &old, 4).is_allowed());
        let new = limit(&store, after, "10/h");
        assert!(joint(&store, &new, 2).is_allowed());
        assert_eq!(store.stats().live_keys, 1, "{before} to {after}");
        // Back again: the usage under both.
        assert_eq!(joint(&store, &old, 1).remaining, 3, "{before} to {after} and back");
        assert_eq!(store.peek(&new, "ann").remaining, 3, "{before} to {after} and back");
    }
}

#[test]
fn receipts_from_before_an_algorithm_change_create_no_quota() {
    for (before, after) in FAMILIES.into_iter().flat_map(|a| FAMILIES.into_iter().map(move |b| (a, b))) {
        let clock = ManualClock::at(START_NS);
        let store = store_at(&clock);
        let old = limit(&store, before, "10/h");
        let (_, given_back) = store.check_with_receipt(&old, "ann", 3);
        let (_, settled) = store.check_with_receipt(&old, "ann", 3);
        let new = limit(&store, after, "10/h");
        assert!(joint(&store, &new, 2).is_allowed());
        store.refund(given_back.unwrap());
        assert!(store.peek(&new, "ann").remaining <= 5, "{before} to {after}: at most the 3 refunded");
        let before_settling = store.peek(&new, "ann").remaining;
        store.settle(settled.unwrap(), 5);
        assert_eq!(
            store.peek(&new, "ann").remaining,
            before_settling - 2,
            "{before} to {after}: an overrun is charged"
        );
        assert_eq!(store.stats().live_keys, 1);
    }
}

#[test]
fn reset_reaches_a_key_that_another_algorithm_counted() {
    for (before, after) in FAMILIES.into_iter().flat_map(|a| FAMILIES.into_iter().map(move |b| (a, b))) {
        let store = store_at(&ManualClock::at(START_NS));
        let old = limit(&store, before, "10/h");
        assert!(joint(&store, &old, 10).is_allowed());
        let new = limit(&store, after, "10/h");
        store.reset(&new, "ann");
        assert_eq!(store.peek(&new, "ann").remaining, 10, "{before} to {after}");
        assert_eq!(store.peek(&old, "ann").remaining, 10, "{before} to {after}");
    }
}

#[test]
fn restored_store_carries_counts_over_to_another_algorithm() {
    for (before, after) in FAMILIES.into_iter().flat_map(|a| FAMILIES.into_iter().map(move |b| (a, b))) {
        let clock = ManualClock::at(START_NS);
        let store = MemoryStore::restorable(options(), clock.clone()).unwrap();
        assert!(store.check(&limit(&store, before, "10/h"), "ann", 10).is_allowed());
        let mut file = Vec::new();
        store.write_snapshot(START_NS, &mut file).unwrap();
        let (restored, _) = MemoryStore::restore(options(), clock.clone(), START_NS, &mut file.as_slice()).unwrap();
        let new = limit(&restored, after, "10/h");
        assert_admits_at_the_reported_time(
            &clock,
            || joint(&restored, &new, 1),
            &format!("{before} to {after}, restored"),
        );
    }
}

#[test]
fn permits_and_rates_are_counted_separately() {
    let store = store_at(&ManualClock::at(START_NS));
    let rate = limit(&store, AlgorithmKind::TokenBucket, "10/h");
    assert!(joint(&store, &rate, 10).is_allowed());
    let permits = store.limit("rule", Quota::concurrency(2, Some(Duration::from_secs(60))).unwrap()).unwrap();
    assert!(joint(&store, &permits, 2).is_allowed(), "nothing is in flight yet");
    assert!(!joint(&store, &rate, 1).is_allowed());
}
