//! Permits: how many are under way at once.

use std::time::Duration;

use tollgate::{Limiter, rule};

use crate::support::{S_NS, any, built, clock, costing, from, one, remaining};

#[test]
fn a_permit_is_held_until_it_is_dropped() {
    let limiter = one(rule("reports").concurrency(2), &clock());
    let first = limiter.permit(&any()).unwrap();
    let second = limiter.permit(&any()).unwrap();
    assert!(first.holds_permits());
    let refused = limiter.permit(&any()).unwrap_err();
    assert_eq!((refused.rule(), refused.status(), refused.retry_after()), (Some("reports"), 429, None));
    drop(first);
    let third = limiter.permit(&any()).unwrap();
    assert!(limiter.permit(&any()).is_err());
    drop((second, third));
    assert_eq!(remaining(&limiter), [2]);
}

#[test]
fn permits_are_counted_by_key() {
    let limiter = one(rule("reports").per("user").concurrency(1), &clock());
    let _alice = limiter.permit(&from(&[("user", "alice")])).unwrap();
    assert!(limiter.permit(&from(&[("user", "alice")])).is_err());
    assert!(limiter.permit(&from(&[("user", "bob")])).is_ok());
}

/// Who never learns when a request ends is not asked how many are under way.
#[tokio::test]
async fn rates_alone_are_asked_where_nobody_lets_go() {
    let limiter =
        built(Limiter::builder().rule(rule("reports").concurrency(1)).rule(rule("requests").limit("2/h")), &clock());
    let _held = limiter.permit(&any()).unwrap();
    assert!(limiter.permit(&any()).is_err());
    let (verdict, permit) = limiter.admit_rates(&any()).await;
    assert_eq!(verdict.states().len(), 1);
    permit.unwrap().refund();
    assert!(limiter.admit_rates(&any()).await.0.is_allowed());
    let (refused, permit) = limiter.admit_rates(&any()).await;
    assert_eq!((refused.rule(), permit.is_none()), (Some("requests"), true));
}

/// Nobody would give back what a plain check took, so it takes nothing; but it does ask.
#[test]
fn a_check_looks_at_permits_and_takes_none() {
    let limiter =
        built(Limiter::builder().rule(rule("reports").concurrency(1)).rule(rule("requests").limit("10/h")), &clock());
    for _ in 0..3 {
        assert!(limiter.check(&any()).is_allowed());
    }
    assert_eq!(remaining(&limiter), [1, 7]);
    let held = limiter.permit(&any()).unwrap();
    assert!(!limiter.check(&any()).is_allowed());
    assert_eq!(remaining(&limiter), [0, 6]);
    drop(held);
    // The permit came back; the request stays counted.
    assert_eq!(remaining(&limiter), [1, 6]);
}

#[test]
fn a_permit_that_is_not_renewed_is_lost_with_its_lease() {
    let clock = clock();
    let limiter = one(rule("reports").concurrency(1), &clock);
    let permit = limiter.permit(&any()).unwrap();
    assert_eq!(permit.renew_every(), Some(Duration::from_secs(20)));
    for _ in 0..10 {
        clock.advance(59 * S_NS);
        assert!(permit.renew());
        assert!(limiter.permit(&any()).is_err());
    }
    clock.advance(60 * S_NS);
    let other = limiter.permit(&any()).unwrap();
    assert!(!permit.renew());
    // Whoever lost it cannot give away what is somebody else's by now.
    drop(permit);
    assert!(limiter.permit(&any()).is_err());
    drop(other);
    assert_eq!(remaining(&limiter), [1]);
}

#[test]
fn a_receipt_holds_on_where_a_guard_cannot_go() {
    let limiter = one(rule("reports").concurrency(1), &clock());
    let receipt = limiter.permit(&any()).unwrap().into_receipt();
    assert!(receipt.holds_permits() && !receipt.is_empty());
    assert!(limiter.renew(&receipt));
    assert_eq!(remaining(&limiter), [0]);
    limiter.release(receipt);
    assert_eq!(remaining(&limiter), [1]);
}

#[test]
fn a_refused_request_holds_nothing() {
    let limiter = built(Limiter::builder().rule(rule("a").concurrency(5)).rule(rule("b").concurrency(1)), &clock());
    let held = limiter.permit(&any()).unwrap();
    for _ in 0..100 {
        assert!(limiter.permit(&any()).is_err());
    }
    assert_eq!(remaining(&limiter), [4, 0]);
    drop(held);
    assert_eq!(remaining(&limiter), [5, 1]);
}

/// When a permit comes back nobody knows, so nobody is told a time, whatever else is in the way.
#[test]
fn what_nobody_knows_is_in_the_way_longest() {
    let limiter =
        built(Limiter::builder().rule(rule("slots").concurrency(1)).rule(rule("requests").limit("1/h")), &clock());
    let _held = limiter.permit(&any()).unwrap();
    let refused = limiter.permit(&any()).unwrap_err();
    assert_eq!((refused.rule(), refused.retry_after()), (Some("slots"), None));
}

#[test]
fn a_permit_may_cost_several() {
    let limiter = one(rule("slots").concurrency(5), &clock());
    let three = limiter.permit(&costing(3)).unwrap();
    assert!(limiter.permit(&costing(3)).is_err());
    assert!(limiter.permit(&costing(2)).is_ok());
    drop(three);
    assert_eq!(remaining(&limiter), [5]);
}
