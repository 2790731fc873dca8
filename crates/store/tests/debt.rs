//! A store keeps debt until it is paid, and across a restart.

#![allow(clippy::unwrap_used)]

mod quotas;

use std::time::Duration;

use quotas::every_algorithm;
use tollgate_store::{AlgorithmKind, Clock, Limit, ManualClock, MemoryOptions, MemoryStore, Quota};

const START_NS: u64 = 1_790_000_000_000_000_000;
const H_NS: u64 = 3_600_000_000_000;

type Store = MemoryStore;

/// Every algorithm that can have debt, at 10/h.
fn algorithms_with_debt() -> Vec<Quota> {
    let permits = |quota: &Quota| quota.kind() == AlgorithmKind::Concurrency;
    every_algorithm("10/h").into_iter().filter(|quota| !permits(quota)).collect()
}

fn new_store() -> (Store, ManualClock) {
    let clock = ManualClock::at(START_NS - START_NS % H_NS);
    (MemoryStore::restorable(MemoryOptions::default(), clock.clone()).unwrap(), clock)
}

/// Charges 5 and settles them at 25. Returns the overrun.
fn settle_above_limit(store: &Store, limit: &Limit) -> u64 {
    let (decision, receipt) = store.check_with_receipt(limit, "ann", 5);
    assert!(decision.is_allowed());
    store.settle(receipt.unwrap(), 25).overrun
}

#[test]
fn later_requests_wait_until_the_debt_is_paid() {
    let (store, clock) = new_store();
    for (at, quota) in algorithms_with_debt().into_iter().enumerate() {
        let limit = store.limit(&format!("rule-{at}"), quota).unwrap();
        let overrun = settle_above_limit(&store, &limit);
        let decision = store.peek(&limit, "ann");
        assert_eq!(decision.remaining, 0, "{quota:?}");
        // 10 are used and 10 owed; a queue, which holds one more, owes as many as its size.
        assert_eq!(overrun, if quota.queue_size() > 0 { 4 } else { 5 }, "{quota:?}");
        let wait_ns = store.check(&limit, "ann", 1).retry_after().unwrap();
        assert!(wait_ns > H_NS, "{quota:?} waits {wait_ns} ns");
        let waited = (clock.now_ns(), wait_ns);
        clock.advance(Duration::from_nanos(wait_ns - 1));
        assert!(!store.check(&limit, "ann", 1).is_allowed(), "{quota:?} {waited:?}");
        clock.advance(Duration::from_nanos(1));
        assert!(store.check(&limit, "ann", 1).is_allowed(), "{quota:?} {waited:?}");
        clock.advance(Duration::from_nanos(10 * H_NS - clock.now_ns() % H_NS));
        assert_eq!(store.peek(&limit, "ann").reset_after, 0);
    }
}

#[test]
fn debt_survives_a_restart() {
    for down_ns in [0, H_NS / 3, H_NS] {
        let (store, clock) = new_store();
        let made = |store: &Store| -> Vec<Limit> {
            let limits = algorithms_with_debt().into_iter().enumerate();
            limits.map(|(at, quota)| store.limit(&format!("rule-{at}"), quota).unwrap()).collect()
        };
        for limit in made(&store) {
            settle_above_limit(&store, &limit);
        }
        let mut bytes = Vec::new();
        store.write_snapshot(clock.now_ns(), &mut bytes).unwrap();
        clock.advance(Duration::from_nanos(down_ns));
        let (restored, _) =
            MemoryStore::restore(MemoryOptions::default(), clock.clone(), clock.now_ns(), &mut &bytes[..]).unwrap();
        for (before, after) in made(&store).iter().zip(made(&restored)) {
            for cost in [1, 10] {
                let refused = store.check(before, "ann", cost);
                assert!(!refused.is_allowed());
                assert_eq!(restored.check(&after, "ann", cost), refused, "{:?}", before.quota());
            }
        }
    }
}

#[test]
fn refund_on_a_key_with_debt_lowers_the_debt() {
    let (store, clock) = new_store();
    let is_queue = |quota: &Quota| quota.queue_size() > 0;
    for (at, quota) in algorithms_with_debt().into_iter().enumerate().filter(|(_, quota)| !is_queue(quota)) {
        let limit = store.limit(&format!("rule-{at}"), quota).unwrap();
        let (_, kept) = store.check_with_receipt(&limit, "ann", 5);
        settle_above_limit(&store, &limit);
        let before = store.peek(&limit, "ann").reset_after;
        store.refund(kept.unwrap());
        let after = store.peek(&limit, "ann");
        assert_eq!(after.remaining, 0, "{quota:?}");
        assert!(store.check(&limit, "ann", 1).retry_after().is_some());
        let lowered = before - after.reset_after;
        // Windows pay by the window, and half of one is still owed.
        let expected = if quota.burst() > 0 { H_NS / 2 } else { 0 };
        assert_eq!(lowered, expected, "{quota:?}");
        let half = store.check(&limit, "ann", 5).retry_after().unwrap();
        clock.advance(Duration::from_nanos(half));
        assert!(store.check(&limit, "ann", 5).is_allowed(), "{quota:?}");
        clock.advance(Duration::from_nanos(10 * H_NS - clock.now_ns() % H_NS));
    }
}

#[test]
fn debt_is_carried_to_another_quota_up_to_its_max_debt() {
    let (store, _) = new_store();
    let make: [fn(tollgate_store::Rate) -> Result<Quota, _>; 4] =
        [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window_counter, Quota::sliding_window_log];
    for (at, make) in make.into_iter().enumerate() {
        let quota = |rate: &str| make(rate.parse().unwrap()).unwrap();
        let limit = |quota: Quota| store.limit(&format!("rule-{at}"), quota).unwrap();
        // 10 used and 10 owed.
        settle_above_limit(&store, &limit(quota("10/h")));
        let before = store.peek(&limit(quota("10/h")), "ann").reset_after;
        assert!(before >= 2 * H_NS, "{before}");
        // A quota that holds only the limit itself drops the debt, but refills nothing.
        let owing_none = store.check(&limit(quota("10/h").with_max_debt(0).unwrap()), "ann", 1);
        assert!(!owing_none.is_allowed());
        assert!(owing_none.reset_after < before, "{owing_none:?}");
        // Usage above a lower limit does not become debt.
        let lower = store.check(&limit(quota("2/h")), "ann", 1);
        assert!(!lower.is_allowed() && lower.reset_after <= 2 * H_NS, "{lower:?}");
    }
}
