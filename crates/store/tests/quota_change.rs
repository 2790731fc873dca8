//! Another quota under the same scope takes over the used amount, and no client gains by the change.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate_store::{Limit, LimitError, ManualClock, MemoryOptions, MemoryStore, Quota, Rate};

const START_NS: u64 = 1 << 60;
const SECOND_NS: u64 = 1_000_000_000;

fn store_at(clock: &ManualClock) -> MemoryStore {
    MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap()
}

fn bucket(store: &MemoryStore, rate: &str) -> Limit {
    store.limit("plan", Quota::token_bucket(rate.parse().unwrap()).unwrap()).unwrap()
}

#[test]
fn faster_quota_gives_no_free_refill() {
    let store = store_at(&ManualClock::at(START_NS));
    let (slow, fast) = (bucket(&store, "10/s burst 10"), bucket(&store, "20/s burst 10"));
    assert!(store.check(&slow, "ann", 10).is_allowed());
    assert_eq!(store.peek(&fast, "ann").remaining, 0);
    assert_eq!(store.check(&fast, "ann", 1).retry_after(), Some(SECOND_NS / 20));
}

#[test]
fn smaller_quota_caps_the_used_amount() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let (large, small) = (bucket(&store, "100/s burst 100"), bucket(&store, "5/s burst 5"));
    assert!(store.check(&large, "ann", 90).is_allowed());
    let refused = store.check(&small, "ann", 1);
    assert_eq!((refused.limit, refused.remaining, refused.retry_after()), (5, 0, Some(SECOND_NS / 5)));
    assert_eq!(refused.reset_after, SECOND_NS, "90 used of 5 is 5 used");
    clock.advance(Duration::from_nanos(SECOND_NS / 5));
    assert!(store.check(&small, "ann", 1).is_allowed());
}

#[test]
fn larger_quota_keeps_the_used_amount_and_adds_the_difference() {
    let store = store_at(&ManualClock::at(START_NS));
    let (small, large) = (bucket(&store, "5/s burst 5"), bucket(&store, "50/s burst 50"));
    assert!(store.check(&small, "ann", 5).is_allowed());
    assert_eq!(store.peek(&large, "ann").remaining, 45);
}

#[test]
fn peek_with_another_quota_converts_nothing() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let (slow, fast) = (bucket(&store, "1/s burst 10"), bucket(&store, "1000/s burst 10"));
    assert!(store.check(&slow, "ann", 10).is_allowed());
    assert_eq!(store.peek(&fast, "ann").remaining, 0);
    clock.advance(Duration::from_secs(1));
    assert_eq!(store.peek(&slow, "ann").remaining, 1, "still refilled at the slow rate");
    assert_eq!(store.peek(&fast, "ann").remaining, 1, "and read as 9 used");
}

#[test]
fn new_rate_applies_from_the_first_refused_check() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let (slow, fast) = (bucket(&store, "1/s burst 10"), bucket(&store, "1000/s burst 10"));
    assert!(store.check(&slow, "ann", 10).is_allowed());
    let retry_after = store.check(&fast, "ann", 1).retry_after().unwrap();
    assert_eq!(retry_after, SECOND_NS / 1000);
    clock.advance(Duration::from_nanos(retry_after - 1));
    assert!(!store.check(&fast, "ann", 1).is_allowed());
    clock.advance(Duration::from_nanos(1));
    assert!(store.check(&fast, "ann", 1).is_allowed());
}

#[test]
fn receipt_from_before_a_quota_change_creates_no_quota() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let (old, new) = (bucket(&store, "10/s burst 10"), bucket(&store, "100/s burst 10"));
    let receipts = [6, 4].map(|cost| store.check_with_receipt(&old, "ann", cost).1.unwrap());
    assert!(!store.check(&new, "ann", 1).is_allowed(), "taken over");
    clock.advance(Duration::from_nanos(SECOND_NS / 50));
    assert!(store.check(&new, "ann", 2).is_allowed(), "2 came back at the new rate");
    // At the old rate 0.2 of a token was refilled since, so that 5 whole tokens of the 6 are left to refund, and 3 of
    // the 4. The new rate has refilled 2 of either, and they are not refunded again.
    let [first, second] = receipts;
    store.refund(first);
    assert_eq!(store.peek(&new, "ann").remaining, 3);
    store.refund(second);
    assert_eq!(store.peek(&new, "ann").remaining, 4);
    clock.advance(Duration::from_secs(1));
    assert_eq!(store.peek(&new, "ann").remaining, 10, "never above the burst");
}

#[test]
fn refilled_receipt_refunds_nothing_under_the_new_quota() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let (old, new) = (bucket(&store, "10/s burst 10"), bucket(&store, "1/h burst 10"));
    let (_, receipt) = store.check_with_receipt(&old, "ann", 10);
    clock.advance(Duration::from_secs(1));
    assert!(store.check(&new, "ann", 10).is_allowed(), "the old quota had refilled");
    store.refund(receipt.unwrap());
    assert_eq!(store.peek(&new, "ann").remaining, 0);
}

#[test]
fn windows_of_another_length_take_over_the_active_usage() {
    let rates: [Rate; 2] = ["10/min", "10/h"].map(|rate| rate.parse().unwrap());
    for quota in [Quota::fixed_window, Quota::sliding_window_counter, Quota::sliding_window_log] {
        let clock = ManualClock::at(START_NS);
        let store = store_at(&clock);
        let [short, long] = rates.map(|rate| store.limit("plan", quota(rate).unwrap()).unwrap());
        assert!(store.check(&short, "ann", 7).is_allowed());
        assert_eq!(store.peek(&long, "ann").remaining, 3);
        assert!(store.check(&long, "ann", 3).is_allowed());
        assert!(!store.check(&short, "ann", 1).is_allowed());
    }
}

#[test]
fn store_distinguishes_4096_bucket_quotas_and_rejects_more() {
    let store = store_at(&ManualClock::at(START_NS));
    let quota =
        |count: u64| Quota::token_bucket(Rate::new(count, std::time::Duration::from_secs(60)).unwrap()).unwrap();
    let _used: Vec<Limit> = (1..=4096).map(|count| store.limit("plan", quota(count)).unwrap()).collect();
    assert_eq!((store.stats().quotas, store.stats().quotas_used), (4096, 4096));
    assert_eq!(store.limit("plan", quota(4097)).unwrap_err(), LimitError::TooManyQuotas);
    assert!(LimitError::TooManyQuotas.to_string().contains("4096"));
    // A known quota under any scope, and quotas of other algorithms, are still accepted.
    store.limit("other", quota(4096)).unwrap();
    store.limit("other", Quota::fixed_window("7/s".parse().unwrap()).unwrap()).unwrap();
    let last = store.limit("plan", quota(4096)).unwrap();
    assert!(store.check(&last, "ann", 4000).is_allowed());
    let first = store.limit("plan", quota(1)).unwrap();
    assert_eq!(store.peek(&first, "ann").remaining, 0, "the last tag is read by the first");
}

#[test]
fn unused_quotas_are_replaced() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let stays = bucket(&store, "7/s burst 7");
    assert!(store.check(&stays, "bea", 7).is_allowed());
    for count in 1..=20_000_u64 {
        let rate = Rate::new(count, std::time::Duration::from_secs(3600)).unwrap().with_burst(30_000).unwrap();
        let limit = store.limit("plan", Quota::token_bucket(rate).unwrap()).unwrap();
        assert_eq!(store.check(&limit, "ann", 1).remaining, 30_000 - count, "what was used stays used");
    }
    let stats = store.stats();
    assert!(stats.quotas <= 1_024, "{stats:?}");
    assert_eq!(stats.quotas_used, 1);
    assert_eq!(store.peek(&stays, "bea").remaining, 0);
}

#[test]
fn quota_of_a_live_key_keeps_its_tag_until_the_key_is_full() {
    let clock = ManualClock::at(START_NS);
    let store = store_at(&clock);
    let quota =
        |count: u64| Quota::token_bucket(Rate::new(count, std::time::Duration::from_secs(60)).unwrap()).unwrap();
    // Each leaves a key that it alone has counted, and no limit uses it any more.
    for count in 1..=4096 {
        assert!(store.check(&store.limit("plan", quota(count)).unwrap(), &count, 1).is_allowed());
    }
    assert_eq!(store.limit("plan", quota(4097)).unwrap_err(), LimitError::TooManyQuotas);
    let last = store.limit("plan", quota(4096)).unwrap();
    for count in 2..=4096_u64 {
        assert_eq!(store.peek(&last, &count).remaining, 4095, "one of {count} was used");
    }
    clock.advance(Duration::from_secs(60));
    let next = store.limit("plan", quota(4097)).unwrap();
    assert_eq!(store.stats().quotas_used, 2);
    assert!(store.stats().quotas <= 3, "{:?}", store.stats());
    assert!(store.check(&next, &1_u64, 4097).is_allowed());
}

#[test]
#[should_panic(expected = "a limit can only be used in the store that made it")]
fn limit_of_another_store_panics() {
    let clock = ManualClock::at(START_NS);
    let (one, other) = (store_at(&clock), store_at(&clock));
    let limit = bucket(&one, "5/s");
    other.check(&limit, "ann", 1);
}
