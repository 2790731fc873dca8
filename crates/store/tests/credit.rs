//! A refund without a receipt never exceeds the used amount.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::time::Duration;

use proptest::prelude::*;
use quotas::{any_tight_bucket, any_tight_window, cases};
use tollgate_store::{ManualClock, MemoryOptions, MemoryStore, Queue, Quota, Rate};

const START_NS: u64 = 1 << 60;

fn store() -> MemoryStore {
    MemoryStore::with(MemoryOptions::default(), ManualClock::at(START_NS)).unwrap()
}

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

#[test]
fn credit_refunds_at_most_what_was_used() {
    let ten = rate("10/min");
    for quota in [
        Quota::token_bucket(ten).unwrap(),
        Quota::leaky_bucket(ten).unwrap(),
        Quota::fixed_window(ten).unwrap(),
        Quota::sliding_window_counter(ten).unwrap(),
        Quota::sliding_window_log(ten).unwrap(),
    ] {
        let store = store();
        let limit = store.limit("all", quota).unwrap();
        store.credit(&limit, "ann", 3);
        assert_eq!(store.peek(&limit, "ann").remaining, 10, "{quota:?}: no key has more than its limit");
        assert!(store.check(&limit, "ann", 5).is_allowed());
        store.credit(&limit, "ann", 3);
        assert_eq!(store.peek(&limit, "ann").remaining, 8, "{quota:?}");
        store.credit(&limit, "ann", 1_000);
        assert_eq!(store.peek(&limit, "ann").remaining, 10, "{quota:?}");
        assert_eq!((0..20).filter(|_| store.check(&limit, "ann", 1).is_allowed()).count(), 10, "{quota:?}");
    }
}

/// Negative hits refer to no particular charge: the number of charges does not matter.
#[test]
fn credits_refund_across_charges() {
    let ten = rate("10/min");
    for quota in [
        Quota::fixed_window(ten).unwrap(),
        Quota::sliding_window_counter(ten).unwrap(),
        Quota::sliding_window_log(ten).unwrap(),
    ] {
        let clock = ManualClock::at(START_NS - START_NS % 60_000_000_000);
        let store = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
        let limit = store.limit("all", quota).unwrap();
        for cost in [1, 3, 1, 1, 2] {
            assert!(store.check(&limit, "ann", cost).is_allowed());
            clock.advance(Duration::from_secs(1));
        }
        store.credit(&limit, "ann", 5);
        assert_eq!(store.peek(&limit, "ann").remaining, 7, "{quota:?}");
        store.credit(&limit, "ann", 5);
        assert_eq!(store.peek(&limit, "ann").remaining, 10, "{quota:?}");
    }
}

#[test]
fn credits_under_a_log_take_the_newest_charges_first() {
    let clock = ManualClock::at(START_NS);
    let store = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
    let limit = store.limit("all", Quota::sliding_window_log(rate("10/min")).unwrap()).unwrap();
    for cost in [2, 3, 4] {
        assert!(store.check(&limit, "ann", cost).is_allowed());
        clock.advance(Duration::from_secs(10));
    }
    store.credit(&limit, "ann", 5);
    // 2 of the first and 2 of the second charge are left.
    clock.advance(Duration::from_secs(30));
    assert_eq!(store.peek(&limit, "ann").remaining, 8);
    clock.advance(Duration::from_secs(10));
    assert_eq!(store.peek(&limit, "ann").remaining, 10);
}

/// The counted part of the previous window is used, too.
#[test]
fn credits_under_a_counter_reach_into_the_previous_window() {
    let clock = ManualClock::at(START_NS - START_NS % 60_000_000_000 + 59_000_000_000);
    let store = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
    let limit = store.limit("all", Quota::sliding_window_counter(rate("10/min")).unwrap()).unwrap();
    assert!(store.check(&limit, "ann", 8).is_allowed());
    clock.advance(Duration::from_secs(1));
    assert!(store.check(&limit, "ann", 1).is_allowed());
    store.credit(&limit, "ann", 9);
    assert_eq!(store.peek(&limit, "ann").remaining, 10);
}

/// Held permits and reservations are kept.
#[test]
fn credits_keep_permits_and_reservations() {
    let store = store();
    let permits = store.limit("slots", Quota::concurrency(1, None).unwrap()).unwrap();
    let (_, _held) = store.check_with_receipt(&permits, "ann", 1);
    store.credit(&permits, "ann", 1);
    assert!(!store.check(&permits, "ann", 1).is_allowed());
    let queue =
        store.limit("queue", Quota::leaky_queue(rate("1/s"), Queue { size: 2, max_wait: None }).unwrap()).unwrap();
    assert!(store.check(&queue, "ann", 1).is_allowed());
    assert!(store.check(&queue, "ann", 1).delay() > 0);
    store.credit(&queue, "ann", 1);
    assert!(!store.check(&queue, "ann", 1).is_allowed());
}

proptest! {
    #![proptest_config(cases(200))]

    /// At one moment no more than the limit plus the refunds is admitted.
    #[test]
    fn concurrent_credits_create_no_quota(
        quota in prop_oneof![any_tight_bucket(), any_tight_window()],
        steps in prop::collection::vec((any::<bool>(), 1_u64..4), 1..60),
    ) {
        let store = store();
        let limit = store.limit("all", quota).unwrap();
        let most = store.peek(&limit, "ann").remaining;
        let (mut admitted, mut credited) = (0, 0);
        for (is_credit, amount) in steps {
            if is_credit {
                store.credit(&limit, "ann", amount);
                credited += amount;
            } else if store.check(&limit, "ann", amount).is_allowed() {
                admitted += amount;
            }
            let remaining = store.peek(&limit, "ann").remaining;
            prop_assert!(remaining <= most && admitted + remaining <= most + credited);
        }
    }
}
