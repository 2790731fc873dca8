//! Refunds and settlements.

use std::time::Duration;

use tollgate::{Limiter, rule};

use crate::support::{any, built, clock, costing, one, remaining};

#[test]
fn refund_returns_all_charges() {
    let limiter = built(
        Limiter::builder()
            .rule(rule("all").limit("10/min"))
            .rule(rule("slots").concurrency(2))
            .rule(rule("fixed").limit("50/h").cost(5)),
        &clock(),
    );
    limiter.permit(&costing(2)).unwrap().refund();
    assert_eq!(remaining(&limiter), [10, 2, 50]);
    let receipt = limiter.permit(&any()).unwrap().into_receipt();
    assert_eq!(remaining(&limiter), [9, 1, 45]);
    limiter.refund(receipt);
    assert_eq!(remaining(&limiter), [10, 2, 50]);
}

/// Tokens that time has refilled are not refunded again.
#[test]
fn late_refund_does_not_return_refilled_tokens() {
    let clock = clock();
    let limiter = one(rule("all").limit("10/min"), &clock);
    let early = limiter.permit(&costing(4)).unwrap();
    clock.advance(Duration::from_secs(12));
    // Two of the four are back by themselves.
    early.refund();
    assert_eq!(remaining(&limiter), [10]);
    assert_eq!((0..20).filter(|_| limiter.check(&any()).is_allowed()).count(), 10);
}

#[test]
fn refusal_has_no_permit() {
    let limiter = one(rule("all").limit("1/min"), &clock());
    assert!(limiter.check(&any()).is_allowed());
    assert_eq!(limiter.permit(&any()).unwrap_err().rule(), Some("all"));
}

#[test]
fn settlement_replaces_the_estimate() {
    // As much as the limit may be owed beyond it.
    for (true_cost, left, overrun) in [(0, 100, 0), (3, 97, 0), (20, 80, 0), (90, 10, 0), (130, 0, 0), (250, 0, 50)] {
        let limiter = one(rule("tokens").limit("100/day").estimate(20), &clock());
        let permit = limiter.permit(&any()).unwrap();
        assert_eq!(remaining(&limiter), [80]);
        let settled = limiter.settle(permit, true_cost);
        assert_eq!((remaining(&limiter), settled.overrun), (vec![left], overrun), "{true_cost}");
    }
}

#[test]
fn settlement_leaves_fixed_costs_unchanged() {
    let limiter = built(
        Limiter::builder()
            .rule(rule("tokens").limit("100/day").estimate(20))
            .rule(rule("requests").limit("100/day"))
            .rule(rule("fixed").limit("100/day").cost(5))
            .rule(rule("slots").concurrency(3)),
        &clock(),
    );
    let permit = limiter.permit(&any()).unwrap();
    assert_eq!(remaining(&limiter), [80, 99, 95, 2]);
    limiter.settle(permit, 1);
    assert_eq!(remaining(&limiter), [99, 99, 95, 3]);
}

/// Without estimates, the cost that the caller gave is the one that is settled.
#[test]
fn request_cost_is_settled_without_estimates() {
    let limiter = built(
        Limiter::builder().rule(rule("tokens").limit("100/day")).rule(rule("fixed").limit("100/day").cost(5)),
        &clock(),
    );
    let permit = limiter.permit(&costing(30)).unwrap();
    limiter.settle(permit, 12);
    assert_eq!(remaining(&limiter), [88, 95]);
}

#[tokio::test]
async fn permit_settles_its_charges() {
    let limiter = built(
        Limiter::builder().rule(rule("tokens").limit("100/day").estimate(20)).rule(rule("slots").concurrency(1)),
        &clock(),
    );
    let permit = limiter.permit(&any()).unwrap();
    assert_eq!(permit.settle(7).await.overrun, 0);
    assert_eq!(remaining(&limiter), [93, 1]);
}
