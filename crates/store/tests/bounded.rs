//! A store never exceeds its capacity, and counts evictions and refusals.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::time::Duration;

use quotas::every_algorithm;
use tollgate_store::{
    AlgorithmKind, BuildError, Capacity, ChargeVerdict, ManualClock, MemoryOptions, MemoryStore, Quota, WhenFull,
};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND_NS;
/// A time at which windows of an hour begin.
const START_NS: u64 = 300_000 * HOUR_NS;

fn store(capacity: Capacity, when_full: WhenFull, clock: &ManualClock) -> MemoryStore {
    MemoryStore::with(MemoryOptions { capacity, when_full }, clock.clone()).unwrap()
}

fn log(rate: &str) -> Quota {
    Quota::sliding_window_log(rate.parse().unwrap()).unwrap()
}

#[test]
fn tables_do_not_grow_with_the_number_of_keys() {
    for when_full in [WhenFull::EvictLeastUsed, WhenFull::RefuseNew] {
        for quota in every_algorithm("5/h") {
            let store = store(Capacity::Entries(1_000), when_full, &ManualClock::at(START_NS));
            let limit = store.limit("all", quota).unwrap();
            // Several times as many keys as there is space for, so that every part of the table has been filled.
            for key in 0_u64..4_000 {
                store.check(&limit, &key, 1);
            }
            let full = store.stats().bytes;
            for key in 4_000_u64..20_000 {
                store.check(&limit, &key, 1);
            }
            assert_eq!(store.stats().bytes, full, "{quota:?}");
            assert!(store.stats().live_keys >= 1_000, "{quota:?}: {:?}", store.stats());
        }
    }
}

#[test]
fn all_tables_together_stay_within_the_byte_capacity() {
    for bytes in [64 << 10, 100_000, 1 << 20] {
        for when_full in [WhenFull::EvictLeastUsed, WhenFull::RefuseNew] {
            let store = store(Capacity::Bytes(bytes), when_full, &ManualClock::at(START_NS));
            let quotas = every_algorithm("20/h");
            let limits: Vec<_> = quotas.iter().map(|quota| store.limit("all", *quota).unwrap()).collect();
            for number in 0..(bytes / 64) as u64 {
                for limit in &limits {
                    // Some keys are charged once, some until they are blocked, so that logs and leases grow too.
                    store.check(limit, &number, 1);
                    store.check(limit, &(number % 64), 1);
                }
            }
            let stats = store.stats();
            assert!(stats.bytes <= bytes, "{} of {bytes} bytes, {when_full:?}", stats.bytes);
            assert!(stats.bytes >= bytes / 3, "{} of {bytes} bytes, {when_full:?}", stats.bytes);
        }
    }
}

#[test]
fn full_store_that_refuses_new_keys_counts_refusals() {
    for quota in every_algorithm("5/h") {
        let store = store(Capacity::Entries(100), WhenFull::RefuseNew, &ManualClock::at(START_NS));
        let limit = store.limit("all", quota).unwrap();
        let (mut known, mut refused) = (Vec::new(), 0);
        for key in 0_u64..1_000 {
            match store.check(&limit, &key, 1).verdict {
                ChargeVerdict::Allowed { .. } => known.push(key),
                ChargeVerdict::Unavailable => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        let stats = store.stats();
        assert_eq!((stats.refused_full, stats.evictions), (refused, 0), "{quota:?}");
        assert!(known.len() >= 90 && refused > 0, "{} known: {quota:?}", known.len());
        // Known keys are still counted, and peeks are free for all keys.
        for key in &known {
            let left = store.peek(&limit, key);
            assert_eq!(left.remaining, left.limit - 1, "{quota:?}");
            assert!(store.check(&limit, key, 1).is_allowed());
        }
        for key in 0_u64..1_000 {
            assert!(store.peek(&limit, &key).is_allowed());
        }
        assert_eq!(store.stats().refused_full, refused);
    }
}

#[test]
fn entry_that_expires_soonest_is_evicted() {
    for quota in every_algorithm("5/h") {
        if matches!(quota.kind(), AlgorithmKind::FixedWindow | AlgorithmKind::Concurrency) {
            continue; // Live windows all end together, and permits that are out are never forgotten.
        }
        let clock = ManualClock::at(START_NS + HOUR_NS / 2);
        let store = store(Capacity::Entries(64), WhenFull::EvictLeastUsed, &clock);
        let limit = store.limit("all", quota).unwrap();
        for old in 0_u64..2_000 {
            store.check(&limit, &old, 2);
        }
        let before = store.stats().evictions;
        // The 2 tokens of a bucket take 24 minutes, the counter's window begins anew, the log counts for an hour.
        clock.advance(Duration::from_nanos(match quota.kind() {
            AlgorithmKind::SlidingWindowCounter => HOUR_NS / 2,
            _ => HOUR_NS / 6,
        }));
        for new in 2_000_u64..2_020 {
            assert!(store.check(&limit, &new, 2).is_allowed());
        }
        assert_eq!(store.stats().evictions, before + 20, "{quota:?}");
        for new in 2_000_u64..2_020 {
            let left = store.peek(&limit, &new);
            assert_eq!(left.remaining, left.limit - 2, "only older ones made room: {quota:?}");
        }
    }
}

#[test]
fn blocked_keys_stay_blocked_while_fuller_keys_arrive() {
    for quota in every_algorithm("5/h") {
        if matches!(quota.kind(), AlgorithmKind::SlidingWindowLog | AlgorithmKind::Concurrency) {
            continue; // A log is forgotten in the order of its last charge; permits never.
        }
        let clock = ManualClock::at(START_NS);
        let store = store(Capacity::Entries(64), WhenFull::EvictLeastUsed, &clock);
        let limit = store.limit("all", quota).unwrap();
        while store.check(&limit, "blocked", 1).is_allowed() {}
        for key in 0_u64..5_000 {
            store.check(&limit, &key, 1);
            clock.advance(Duration::from_nanos(SECOND_NS / 10));
        }
        assert!(store.stats().evictions >= 4_000, "{quota:?}: {:?}", store.stats());
        assert!(!store.check(&limit, "blocked", 1).is_allowed(), "{quota:?}");
    }
}

#[test]
fn expired_keys_are_replaced_without_an_eviction() {
    for when_full in [WhenFull::EvictLeastUsed, WhenFull::RefuseNew] {
        for quota in every_algorithm("5/s") {
            let clock = ManualClock::at(START_NS);
            let store = store(Capacity::Entries(200), when_full, &clock);
            let limit = store.limit("all", quota).unwrap();
            for round in 0_u64..50 {
                for key in 0_u64..60 {
                    let (decision, receipt) = store.check_with_receipt(&limit, &(round * 100 + key), 5);
                    assert!(decision.is_allowed(), "{quota:?}");
                    if quota.kind() == AlgorithmKind::Concurrency {
                        store.refund(receipt.unwrap());
                    }
                }
                clock.advance(Duration::from_secs(2));
            }
            let stats = store.stats();
            assert_eq!((stats.evictions, stats.refused_full, stats.live_keys), (0, 0, 0), "{quota:?}");
        }
    }
}

#[test]
fn live_keys_of_a_small_store_are_counted_exactly() {
    for quota in every_algorithm("5/h") {
        let store = store(Capacity::Entries(10_000), WhenFull::EvictLeastUsed, &ManualClock::at(START_NS));
        let limit = store.limit("all", quota).unwrap();
        for key in 1_u64..=300 {
            store.check(&limit, &key, 1);
            assert_eq!(store.stats().live_keys as u64, key, "{quota:?}");
        }
    }
}

#[test]
fn at_their_nominal_capacity_stores_lose_less_than_one_live_key_in_ten_thousand() {
    const KEYS: u64 = 200_000;
    // Hashes differ in each run, and a single store may have bad luck; three stores do not.
    const STORES: u64 = 3;
    let rate = "5/h".parse().unwrap();
    // The two kinds of table.
    for quota in [Quota::token_bucket(rate).unwrap(), Quota::fixed_window(rate).unwrap()] {
        let mut lost = 0;
        for number in 0..STORES {
            let store = store(Capacity::Entries(KEYS as usize), WhenFull::EvictLeastUsed, &ManualClock::at(START_NS));
            let limit = store.limit(&number.to_string(), quota).unwrap();
            for key in 0..KEYS {
                store.check(&limit, &key, 1);
            }
            let stats = store.stats();
            lost += stats.evictions;
            let about = stats.live_keys as u64;
            assert!(about.abs_diff(KEYS) < KEYS / 8, "{about} of {KEYS}: {quota:?}");
        }
        assert!(lost * 10_000 < STORES * KEYS, "{lost} of {STORES} times {KEYS}: {quota:?}");
    }
}

#[test]
fn long_logs_of_many_keys_stay_within_their_memory() {
    for when_full in [WhenFull::EvictLeastUsed, WhenFull::RefuseNew] {
        let clock = ManualClock::at(START_NS);
        let store = store(Capacity::Bytes(1 << 20), when_full, &clock);
        let limit = store.limit("all", log("5000/h")).unwrap();
        let mut most = 0;
        for round in 0_u64..60 {
            for key in 0_u64..600 {
                store.check(&limit, &(key % (10 + round)), 3);
                clock.advance(Duration::from_nanos(SECOND_NS / 100));
            }
            most = most.max(store.stats().bytes);
        }
        // An eighth is for logs. The excess of one charge is noticed only at the next.
        assert!(most <= (1 << 17) * 9 / 8, "{most} bytes were taken: {when_full:?}");
        let stats = store.stats();
        match when_full {
            WhenFull::EvictLeastUsed => assert!(stats.evictions > 0, "{stats:?}"),
            WhenFull::RefuseNew => assert!(stats.refused_full > 0 && stats.evictions == 0, "{stats:?}"),
        }
    }
}

#[test]
fn log_that_used_all_memory_is_admitted_again_after_it_expired() {
    let clock = ManualClock::at(START_NS);
    let store = store(Capacity::Entries(1), WhenFull::RefuseNew, &clock);
    let limit = store.limit("all", log("100000/h")).unwrap();
    while store.check(&limit, "long", 1).is_allowed() {
        clock.advance(Duration::from_nanos(SECOND_NS / 100));
    }
    assert_eq!(store.check(&limit, "long", 1).verdict, ChargeVerdict::Unavailable);
    clock.advance(Duration::from_nanos(HOUR_NS));
    assert!(store.check(&limit, "long", 1).is_allowed());
}

#[test]
fn held_permits_are_never_evicted() {
    let store = store(Capacity::Entries(64), WhenFull::EvictLeastUsed, &ManualClock::at(START_NS));
    let limit = store.limit("jobs", Quota::concurrency(2, None).unwrap()).unwrap();
    let mut held = Vec::new();
    for key in 0_u64..1_000 {
        let (decision, receipt) = store.check_with_receipt(&limit, &key, 2);
        assert_eq!(receipt.is_none(), decision.verdict == ChargeVerdict::Unavailable);
        held.extend(receipt.map(|receipt| (key, receipt)));
    }
    let stats = store.stats();
    assert_eq!((stats.evictions, stats.refused_full + held.len() as u64), (0, 1_000));
    for (key, _) in &held {
        assert_eq!(store.peek(&limit, key).remaining, 0);
    }
    for (key, receipt) in held {
        store.refund(receipt);
        assert_eq!(store.peek(&limit, &key).remaining, 2, "a permit can be released when the store is full");
    }
    assert_eq!(store.stats().live_keys, 0);
}

#[test]
fn permits_are_renewed_and_released_without_free_memory() {
    let clock = ManualClock::at(START_NS);
    let store = store(Capacity::Entries(1), WhenFull::RefuseNew, &clock);
    let lease = Some(Duration::from_secs(10));
    let limit = store.limit("jobs", Quota::concurrency(1_000_000, lease).unwrap()).unwrap();
    let mut held = Vec::new();
    let last = loop {
        match store.check_with_receipt(&limit, "key", 1) {
            (_, Some(receipt)) => held.push(receipt),
            (decision, None) => break decision,
        }
    };
    assert_eq!(last.verdict, ChargeVerdict::Unavailable);
    clock.advance(Duration::from_secs(6));
    assert!(held.iter().all(|receipt| store.renew(receipt)));
    clock.advance(Duration::from_secs(6));
    let out = held.len() as u64;
    assert_eq!(store.peek(&limit, "key").remaining, 1_000_000 - out, "renewed, so they live on");
    held.into_iter().for_each(|receipt| store.refund(receipt));
    assert_eq!(store.peek(&limit, "key").remaining, 1_000_000);
}

#[test]
fn capacity_out_of_range_is_an_error_with_the_range() {
    let build = |capacity| {
        let options = MemoryOptions { capacity, when_full: WhenFull::EvictLeastUsed };
        MemoryStore::with(options, ManualClock::at(START_NS)).map(|_| ()).unwrap_err()
    };
    assert_eq!(build(Capacity::Entries(0)), BuildError::NoCapacity);
    assert_eq!(build(Capacity::Bytes((64 << 10) - 1)), BuildError::NoCapacity);
    assert!(BuildError::NoCapacity.to_string().contains("65536"), "{}", BuildError::NoCapacity);
    assert_eq!(build(Capacity::Entries((1 << 32) + 1)), BuildError::CapacityTooLarge);
    assert_eq!(build(Capacity::Bytes((1 << 40) + 1)), BuildError::CapacityTooLarge);
}

#[test]
fn smallest_store_holds_one_key() {
    for quota in every_algorithm("5/h") {
        let store = store(Capacity::Entries(1), WhenFull::RefuseNew, &ManualClock::at(START_NS));
        let limit = store.limit("all", quota).unwrap();
        while store.check(&limit, "key", 1).is_allowed() {}
        assert_eq!(store.peek(&limit, "key").remaining, 0, "{quota:?}");
    }
}
