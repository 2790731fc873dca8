use std::time::Duration;

use tollgate_core::{BucketState, Quota};

use super::*;
use crate::call::ReportedState;
use crate::store::limit_of;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const PATIENCE: u64 = 20 * MS;
const SERVER_US: u64 = 1_700_000_000_000_000;

/// Returns a key under 1000/s burst 1000: 100 tokens in a horizon of 100 ms, 500 outstanding, generations of 1 s.
fn key() -> LeasedKey {
    let quota = Quota::token_bucket("1000/s burst 1000".parse().unwrap()).unwrap();
    let terms = LeaseTerms::new(&quota, Duration::from_secs(1)).unwrap();
    LeasedKey::new(limit_of(quota).unwrap(), terms, Slot(0), b"key".as_slice().into(), S)
}

fn answer(granted: u64, generation: u64, expires_in_us: u64, used: u64) -> LeaseAnswer {
    let state = ReportedState::Bucket(BucketState { tat: SERVER_US + used * 1_000, part: 0 });
    LeaseAnswer { granted, generation, expires_in_us, outstanding: granted, state }
}

/// Returns a key that has asked at 1 s for the tokens of `demand` requests and got `granted` of generation 7.
fn leased(demand: u64, granted: u64, used: u64) -> LeasedKey {
    let mut key = key();
    (MIN_TOKENS..demand).for_each(|_| assert_eq!(key.take(1, S, PATIENCE), Taken::NotHeld));
    let call = key.ask(1, S, || 1).unwrap();
    assert_eq!((call.request.wanted, &call.request.settlements[..]), (demand.min(100), &[][..]));
    assert_eq!(key.answered(1, &answer(granted, 7, 1_500_000, used), SERVER_US, S + MS), Stranded(0));
    key
}

fn spent(taken: Taken) -> LotId {
    match taken {
        Taken::Spent(lot) => lot,
        other => panic!("{other:?}"),
    }
}

#[test]
fn holder_asks_again_when_half_is_left_and_reports_what_it_spent() {
    let mut key = leased(40, 40, 40);
    for _ in 0..19 {
        spent(key.take(1, S + 2 * MS, PATIENCE));
        assert!(key.ask(0, S + 2 * MS, || 2).is_none());
    }
    spent(key.take(1, S + 2 * MS, PATIENCE));
    let call = key.ask(0, S + 2 * MS, || 2).unwrap();
    assert_eq!(call.request.settlements[..], [LeaseSettlement { generation: 7, spent: 20, returned: 0 }]);
    assert_eq!((call.request.wanted, call.request.max_outstanding, key.left(S + 2 * MS)), (60, 500, 20));
    assert!(key.ask(0, S + 2 * MS, || 3).is_none(), "a call is in flight");
}

#[test]
fn key_whose_requests_have_become_rare_is_not_leased_again() {
    let mut key = leased(2, 2, 2);
    for (at, asks) in [(S + 50 * MS, true), (S + 250 * MS, false)] {
        spent(key.take(1, at, PATIENCE));
        assert_eq!(key.ask(0, at, || 2).is_some(), asks);
        key.failed(2, Executed::Unknown, at);
        key.ask_after_ns = 0;
    }
}

#[test]
fn exhausted_key_is_refused_until_it_is_asked_for_again() {
    // 3 of 100 were left.
    let mut key = leased(100, 3, 1_000);
    spent(key.take(3, S + MS, PATIENCE));
    let pause_ends = S + MS + 50 * MS;
    assert_eq!(key.take(1, pause_ends - 1, PATIENCE), Taken::Exhausted);
    let refusal = key.decision(1, Taken::Exhausted, pause_ends - 1);
    assert_eq!((refusal.remaining, refusal.retry_after()), (0, Some(1)));
    assert!(key.ask(1, pause_ends - 1, || 2).is_none());
    let call = key.ask(1, pause_ends, || 2).unwrap();
    assert_eq!(call.request.settlements[..], [LeaseSettlement { generation: 7, spent: 3, returned: 0 }]);
    // While the answer is in flight, but no longer than a check may take.
    assert_eq!(key.take(1, pause_ends + PATIENCE - 1, PATIENCE), Taken::Exhausted);
    assert_eq!(key.take(1, pause_ends + PATIENCE, PATIENCE), Taken::NotHeld);
}

#[test]
fn partial_lease_of_a_key_with_capacity_refuses_nothing() {
    // The most that may be outstanding was reached.
    let mut key = leased(100, 3, 500);
    spent(key.take(3, S + MS, PATIENCE));
    assert_eq!(key.take(1, S + 2 * MS, PATIENCE), Taken::NotHeld);
}

#[test]
fn lease_counts_from_its_call_and_ends_early() {
    let mut key = leased(40, 40, 40);
    // 1.5 s after the call, less a five-hundredth and a millisecond.
    let ends = S + 1_500 * MS - 3 * MS - MS;
    assert_eq!(key.left(ends - 1), 40);
    spent(key.take(1, ends - 1, PATIENCE));
    assert_eq!(key.take(1, ends, PATIENCE), Taken::NotHeld);
    assert_eq!(key.drop_ended(ends), Stranded(39));
    assert!(key.return_all(ends, || 2).is_none(), "a lease that has ended is not reported");
}

#[test]
fn answer_after_the_end_of_its_lease_is_not_spent() {
    let mut key = key();
    key.ask(1, S, || 1).unwrap();
    assert_eq!(key.answered(1, &answer(1, 7, 10_000, 1), SERVER_US, S + 10 * MS), Stranded(1));
    assert_eq!(key.left(S + 10 * MS), 0);
}

#[test]
fn tokens_are_given_back_only_before_they_are_reported() {
    let mut key = leased(40, 40, 40);
    let first = spent(key.take(2, S + 2 * MS, PATIENCE));
    assert!(key.refund(first, 1, S + 2 * MS));
    assert_eq!(key.left(S + 2 * MS), 39);
    let call = key.ask(40, S + 2 * MS, || 2).unwrap();
    assert_eq!(call.request.settlements[..], [LeaseSettlement { generation: 7, spent: 1, returned: 0 }]);
    spent(key.take(1, S + 2 * MS, PATIENCE));
    assert!(!key.refund(first, 1, S + 2 * MS), "the server has charged it");
}

#[test]
fn settlement_is_sent_again_only_if_it_was_not_executed() {
    for (executed, expected) in [(Executed::No, 40), (Executed::Unknown, 0)] {
        let mut key = leased(40, 40, 40);
        spent(key.take(1, S + 2 * MS, PATIENCE));
        let call = key.return_all(S + 2 * MS, || 2).unwrap();
        assert_eq!(call.request.settlements[..], [LeaseSettlement { generation: 7, spent: 1, returned: 39 }]);
        assert_eq!(key.take(1, S + 3 * MS, PATIENCE), Taken::NotHeld, "returned tokens are not spent");
        key.failed(2, executed, S + 4 * MS);
        let again = key.return_all(S + 5 * MS, || 3);
        let settled = again.map_or(0, |call| call.request.settlements[0].spent + call.request.settlements[0].returned);
        assert_eq!(settled, expected, "{executed:?}");
    }
}

#[test]
fn unused_tokens_are_returned() {
    let returned = |key: &mut LeasedKey, at: u64| {
        key.return_unused(at, || 2).map_or(0, |call| call.request.settlements.iter().map(|lot| lot.returned).sum())
    };
    let mut idle = leased(40, 40, 40);
    assert_eq!(returned(&mut idle, S + 99 * MS), 0);
    assert_eq!(returned(&mut idle, S + 100 * MS), 40);
    let mut used = leased(40, 40, 40);
    // Of two horizons with 5 requests each.
    for at in [100, 200] {
        (0..5).for_each(|_| assert_ne!(used.take(1, S + at * MS, PATIENCE), Taken::Exhausted));
    }
    assert_eq!(returned(&mut used, S + 250 * MS), 20, "twice the demand is kept");
    let mut ending = leased(40, 40, 40);
    // It ends 4 ms before its time. All of its tokens are wanted.
    for _ in 0..20 {
        spent(ending.take(1, S + 1_420 * MS, PATIENCE));
    }
    assert_eq!(returned(&mut ending, S + 1_426 * MS), 0);
    assert_eq!(returned(&mut ending, S + 1_427 * MS), 20);
}

#[test]
fn another_quota_takes_over_when_everything_is_returned() {
    let mut key = leased(40, 40, 40);
    let quota = Quota::token_bucket("2000/s burst 1000".parse().unwrap()).unwrap();
    let (limit, terms) = (limit_of(quota).unwrap(), LeaseTerms::new(&quota, Duration::from_secs(1)).unwrap());
    let same = limit_of(*key.limit.quota()).unwrap();
    assert!(key.continue_under(&same, key.terms, S + 2 * MS));
    assert_eq!(key.left(S + 2 * MS), 40);
    assert!(!key.continue_under(&limit, terms, S + 2 * MS));
    key.return_all(S + 2 * MS, || 2).unwrap();
    assert!(!key.continue_under(&limit, terms, S + 3 * MS), "the return is in flight");
    key.answered(2, &answer(0, 7, 0, 0), SERVER_US, S + 4 * MS);
    assert!(key.continue_under(&limit, terms, S + 4 * MS));
    assert_eq!(key.terms.per_horizon, 200);
}

#[test]
fn remaining_is_that_of_the_server_and_of_the_lease() {
    let mut key = leased(40, 40, 240);
    let lot = Taken::Spent(spent(key.take(1, S + MS, PATIENCE)));
    let decision = key.decision(1, lot, S + MS);
    assert_eq!((decision.limit, decision.remaining), (1_000, 760 + 39));
}

/// Returns a key that got no token of its first lease, after a horizon with this demand.
fn exhausted_key(demand: u64) -> LeasedKey {
    let mut key = key();
    (MIN_TOKENS..demand).for_each(|_| assert_eq!(key.take(1, S, 0), Taken::NotHeld));
    key.ask(1, S, || 1).unwrap();
    assert_eq!(key.answered(1, &answer(0, 5, 2_000_000, 2_000), SERVER_US, S), Stranded(0));
    key
}

#[test]
fn overloaded_key_pauses_longer_after_a_partial_lease() {
    for (demand, pause_ms) in [(90, 50), (799, 50), (800, 200), (5_000, 200)] {
        let mut key = exhausted_key(demand);
        let asks = |key: &mut LeasedKey, at_ms: u64| {
            (0..demand).for_each(|_| assert!(!matches!(key.take(1, S + at_ms * MS, 0), Taken::Spent(_))));
            key.ask(1, S + at_ms * MS, || 2).is_some()
        };
        assert!(!asks(&mut key, pause_ms - 1), "demand {demand}");
        assert!(asks(&mut key, pause_ms), "demand {demand}");
    }
}

#[test]
fn request_that_asks_after_the_pause_is_refused_only_if_the_key_is_overloaded() {
    let was_exhausted = |demand: u64, at_ms: u64| {
        let mut key = exhausted_key(demand);
        // The demand continues until then.
        (0..demand).for_each(|_| assert_eq!(key.take(1, S + at_ms * MS, 0), Taken::NotHeld));
        key.was_just_exhausted(S + at_ms * MS)
    };
    assert!(was_exhausted(800, 201));
    assert!(was_exhausted(800, 299));
    assert!(!was_exhausted(800, 300));
    assert!(!was_exhausted(799, 150));
}
