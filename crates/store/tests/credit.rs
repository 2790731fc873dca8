//! What is given back without a receipt is never more than was used.

#![allow(clippy::unwrap_used)]

mod quotas;

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
fn a_credit_gives_back_what_was_used_and_no_more() {
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
        assert_eq!(store.peek(&limit, "ann").remaining, 10, "{quota:?}: nobody has more than everything");
        assert!(store.check(&limit, "ann", 5).is_allowed());
        store.credit(&limit, "ann", 3);
        assert_eq!(store.peek(&limit, "ann").remaining, 8, "{quota:?}");
        store.credit(&limit, "ann", 1_000);
        assert_eq!(store.peek(&limit, "ann").remaining, 10, "{quota:?}");
        assert_eq!((0..20).filter(|_| store.check(&limit, "ann", 1).is_allowed()).count(), 10, "{quota:?}");
    }
}

/// Negative hits are of no particular charge: how many charges it were does not matter.
#[test]
fn credits_take_back_as_much_as_asked_across_charges() {
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
            clock.advance(1_000_000_000);
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
        clock.advance(10_000_000_000);
    }
    store.credit(&limit, "ann", 5);
    // 2 of the first and 2 of the second charge are left.
    clock.advance(30_000_000_000);
    assert_eq!(store.peek(&limit, "ann").remaining, 8);
    clock.advance(10_000_000_000);
    assert_eq!(store.peek(&limit, "ann").remaining, 10);
}

/// What the previous window still counts is used, too.
#[test]
fn credits_under_a_counter_reach_into_the_previous_window() {
    let clock = ManualClock::at(START_NS - START_NS % 60_000_000_000 + 59_000_000_000);
    let store = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
    let limit = store.limit("all", Quota::sliding_window_counter(rate("10/min")).unwrap()).unwrap();
    assert!(store.check(&limit, "ann", 8).is_allowed());
    clock.advance(1_000_000_000);
    assert!(store.check(&limit, "ann", 1).is_allowed());
    store.credit(&limit, "ann", 9);
    assert_eq!(store.peek(&limit, "ann").remaining, 10);
}

/// Whoever holds a permit, or was promised a place, keeps it.
#[test]
fn permits_and_promised_places_are_not_given_back() {
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

    /// At one moment nobody gets more than the limit and what was given back.
    #[test]
    fn nothing_is_minted(
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
