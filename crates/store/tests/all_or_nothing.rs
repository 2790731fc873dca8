//! Charges that are decided together are all made, or none is.

#![allow(clippy::unwrap_used)]

mod model;
mod quotas;

use model::pair::{KEYS, Pair, SCOPES, Step, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use quotas::{any_tight_concurrency, any_tight_queue, any_tight_quota, cases};
use tollgate_store::{ChargeVerdict, Decision, ManualClock, MemoryStore, Quota};

const START_NS: u64 = 1 << 60;

type Charges = Vec<(Target, u64)>;

fn any_charges(longest: usize) -> impl Strategy<Value = Charges> {
    let target = (0..SCOPES, 0..KEYS).prop_map(|(limit, key)| Target { limit, key });
    vec((target, prop_oneof![1 => Just(0), 8 => 1_u64..4, 2 => 4_u64..9]), 1..=longest)
}

/// Four quotas, each in its own scope, so that none reads another's counts.
fn any_setting() -> impl Strategy<Value = Vec<(usize, Quota)>> {
    let quota = prop_oneof![3 => any_tight_quota(), 1 => any_tight_queue(), 1 => any_tight_concurrency()];
    vec(quota, SCOPES).prop_map(|quotas| quotas.into_iter().enumerate().collect())
}

/// Charges one by one, so that the limits have been used before.
fn spend(pair: &mut Pair, charges: &Charges) {
    for (target, cost) in charges {
        pair.step(&Step::Check(*target, *cost));
        pair.step(&Step::Forward(50_000));
    }
}

/// Returns the position of a target's peek among those of `peek_everything`.
fn place(target: Target) -> usize {
    target.limit * KEYS as usize + target.key as usize
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn joint_check_charges_all_keys_or_none(
        setting in any_setting(),
        before in any_charges(12),
        charges in any_charges(6),
        with_receipts in any::<bool>(),
    ) {
        let mut pair = Pair::new(&setting, START_NS);
        spend(&mut pair, &before);
        let untouched = pair.peek_everything();
        let (all, decisions) = pair.answers_to_all(&charges, with_receipts);
        // The model has charged all or none: `peek_everything` compares the store with it.
        let after = pair.peek_everything();
        prop_assert_eq!(all, decisions.iter().all(Decision::is_allowed));
        if !all {
            prop_assert_eq!(&after, &untouched);
            for ((target, _), decision) in charges.iter().zip(&decisions).filter(|(_, decision)| decision.is_allowed()) {
                prop_assert_eq!(decision.remaining, untouched[place(*target)].remaining);
            }
        }
    }

    #[test]
    fn receipts_of_a_joint_check_refund_all_charges(
        setting in any_setting(),
        before in any_charges(8),
        charges in any_charges(6),
    ) {
        let mut pair = Pair::new(&setting, START_NS);
        spend(&mut pair, &before);
        let untouched = pair.peek_everything();
        pair.step(&Step::CheckAllWithReceipts(charges));
        pair.refund_everything();
        prop_assert_eq!(pair.peek_everything(), untouched);
    }
}

fn store() -> MemoryStore {
    MemoryStore::with(Default::default(), ManualClock::at(START_NS)).unwrap()
}

#[test]
fn key_charged_twice_in_a_joint_check_pays_twice_or_not_at_all() {
    let store = store();
    let limit = store.limit("api", Quota::fixed_window("10/min".parse().unwrap()).unwrap()).unwrap();
    let mut decisions = Vec::new();
    // Each would pass alone.
    let twice = [store.charge(&limit, "ann", 6), store.charge(&limit, "ann", 6)];
    assert!(!store.check_all(&twice, &mut decisions));
    assert_eq!((decisions[0].is_allowed(), decisions[0].remaining), (true, 10));
    assert!(matches!(decisions[1].verdict, ChargeVerdict::Refused { .. }));
    assert_eq!(store.peek(&limit, "ann").remaining, 10);

    let twice = [store.charge(&limit, "ann", 6), store.charge(&limit, "ann", 4)];
    assert!(store.check_all(&twice, &mut decisions));
    assert_eq!(decisions.iter().map(|decision| decision.remaining).collect::<Vec<_>>(), [4, 0]);
}

#[test]
fn cost_of_0_in_a_joint_check_is_a_peek() {
    let store = store();
    let limit = store.limit("api", Quota::token_bucket("10/min".parse().unwrap()).unwrap()).unwrap();
    let mut decisions = Vec::new();
    assert!(store.check(&limit, "ben", 10).is_allowed());
    // A peek is allowed even if nothing remains, so it does not refuse the whole.
    let charges = [store.charge(&limit, "ann", 3), store.charge(&limit, "ben", 0), store.charge(&limit, "ann", 0)];
    let receipts = store.check_all_with_receipts(&charges, &mut decisions).unwrap();
    assert_eq!(receipts.iter().map(tollgate_store::ChargeReceipt::cost).collect::<Vec<_>>(), [3]);
    assert_eq!((decisions[0].remaining, decisions[1].remaining), (7, 0));
    assert_eq!(store.peek(&limit, "ann").remaining, 7);
}

#[test]
fn reservations_in_a_queue_are_undone_last_first() {
    let store = store();
    let queue = tollgate_store::Queue { size: 10, max_wait: None };
    let queue = store.limit("queue", Quota::leaky_queue("1/s".parse().unwrap(), queue).unwrap()).unwrap();
    let window = store.limit("window", Quota::fixed_window("10/min".parse().unwrap()).unwrap()).unwrap();
    let charges = [
        store.charge(&queue, "ann", 1),
        store.charge(&queue, "ann", 1),
        store.charge(&window, "ann", 6),
        store.charge(&window, "ann", 6),
    ];
    assert!(!store.check_all(&charges, &mut Vec::new()));
    assert_eq!(store.peek(&queue, "ann").remaining, 10, "both places are free again");
}

#[test]
fn peek_in_an_undone_joint_check_writes_nothing() {
    let clock = ManualClock::at(START_NS);
    let store = MemoryStore::with(Default::default(), clock.clone()).unwrap();
    let log = store.limit("log", Quota::sliding_window_log("10/min".parse().unwrap()).unwrap()).unwrap();
    let window = store.limit("window", Quota::fixed_window("10/min".parse().unwrap()).unwrap()).unwrap();
    assert!(store.check(&log, "ann", 1).is_allowed());
    let before = store.peek(&log, "ann");
    // A charge would correct the state after a clock step back. A peek does not.
    clock.set(START_NS - 1_000);
    let charges = [store.charge(&log, "ann", 0), store.charge(&window, "ann", 6), store.charge(&window, "ann", 6)];
    assert!(!store.check_all(&charges, &mut Vec::new()));
    clock.set(START_NS);
    assert_eq!(store.peek(&log, "ann"), before);
}

#[test]
fn joint_check_without_charges_is_allowed() {
    assert!(store().check_all(&[], &mut Vec::new()));
}
