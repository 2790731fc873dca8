//! Refunds and settlements.

use tollgate::{Limiter, rule};

use crate::support::{S_NS, any, built, clock, costing, one, remaining};

#[test]
fn a_refund_gives_everything_back() {
    let limiter = built(
        Limiter::builder()
            .rule(rule("all").limit("10/min"))
            .rule(rule("slots").concurrency(2))
            .rule(rule("fixed").limit("50/h").cost(5)),
        &clock(),
    );
    limiter.permit(&costing(2)).unwrap().refund();
    assert_eq!(remaining(&limiter), [10, 2, 50]);
    let (verdict, receipt) = limiter.check_with_receipt(&any());
    assert!(verdict.is_allowed());
    assert_eq!(remaining(&limiter), [9, 1, 45]);
    limiter.refund(receipt.unwrap());
    assert_eq!(remaining(&limiter), [10, 2, 50]);
}

/// What time has given back already is not given back again.
#[test]
fn a_late_refund_mints_nothing() {
    let clock = clock();
    let limiter = one(rule("all").limit("10/min"), &clock);
    let (_, early) = limiter.check_with_receipt(&costing(4));
    clock.advance(12 * S_NS);
    // Two of the four are back by themselves.
    limiter.refund(early.unwrap());
    assert_eq!(remaining(&limiter), [10]);
    assert_eq!((0..20).filter(|_| limiter.check(&any()).is_allowed()).count(), 10);
}

#[test]
fn a_refusal_has_no_receipt() {
    let limiter = one(rule("all").limit("1/min"), &clock());
    assert!(limiter.check(&any()).is_allowed());
    let (verdict, receipt) = limiter.check_with_receipt(&any());
    assert!(!verdict.is_allowed() && receipt.is_none());
}

#[test]
fn a_settlement_replaces_the_estimate() {
    // As much as the limit may be owed beyond it.
    for (true_cost, left, overrun) in [(0, 100, 0), (3, 97, 0), (20, 80, 0), (90, 10, 0), (130, 0, 0), (250, 0, 50)] {
        let limiter = one(rule("tokens").limit("100/day").estimate(20), &clock());
        let (_, receipt) = limiter.check_with_receipt(&any());
        assert_eq!(remaining(&limiter), [80]);
        let settled = limiter.settle(receipt.unwrap(), true_cost);
        assert_eq!((remaining(&limiter), settled.overrun), (vec![left], overrun), "{true_cost}");
    }
}

#[test]
fn rules_with_a_cost_of_their_own_keep_it() {
    let limiter = built(
        Limiter::builder()
            .rule(rule("tokens").limit("100/day").estimate(20))
            .rule(rule("requests").limit("100/day"))
            .rule(rule("fixed").limit("100/day").cost(5))
            .rule(rule("slots").concurrency(3)),
        &clock(),
    );
    let (_, receipt) = limiter.check_with_receipt(&any());
    assert_eq!(remaining(&limiter), [80, 99, 95, 2]);
    limiter.settle(receipt.unwrap(), 1);
    assert_eq!(remaining(&limiter), [99, 99, 95, 3]);
}

/// Where nothing was estimated, what the caller said is what turns out otherwise.
#[test]
fn without_estimates_the_cost_that_the_caller_gave_is_settled() {
    let limiter = built(
        Limiter::builder().rule(rule("tokens").limit("100/day")).rule(rule("fixed").limit("100/day").cost(5)),
        &clock(),
    );
    let (_, receipt) = limiter.check_with_receipt(&costing(30));
    limiter.settle(receipt.unwrap(), 12);
    assert_eq!(remaining(&limiter), [88, 95]);
}

#[tokio::test]
async fn a_permit_settles_too() {
    let limiter = built(
        Limiter::builder().rule(rule("tokens").limit("100/day").estimate(20)).rule(rule("slots").concurrency(1)),
        &clock(),
    );
    let permit = limiter.permit(&any()).unwrap();
    assert_eq!(permit.settle(7).await.overrun, 0);
    assert_eq!(remaining(&limiter), [93, 1]);
}
