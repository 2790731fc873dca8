//! Concurrency permits.

use std::time::Duration;

use tollgate::{Limiter, rule};

use crate::support::{any, built, clock, costing, from, one, remaining};

#[test]
fn permit_is_held_until_dropped() {
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

/// A caller that does not learn when a request ends is not limited in concurrency.
#[tokio::test]
async fn permit_rates_ignores_concurrency_limits() {
    let limiter =
        built(Limiter::builder().rule(rule("reports").concurrency(1)).rule(rule("requests").limit("2/h")), &clock());
    let _held = limiter.permit(&any()).unwrap();
    assert!(limiter.permit(&any()).is_err());
    let permit = limiter.permit_without_concurrency(&any()).await.unwrap();
    assert_eq!(permit.verdict().states().len(), 1);
    permit.refund();
    assert!(limiter.permit_without_concurrency(&any()).await.is_ok());
    assert_eq!(limiter.permit_without_concurrency(&any()).await.unwrap_err().rule(), Some("requests"));
}

/// Nothing would release a permit of a plain check, so it takes none; but it refuses without a free one.
#[test]
fn check_takes_no_permits() {
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
fn permit_without_renewal_expires_with_its_lease() {
    let clock = clock();
    let limiter = one(rule("reports").concurrency(1), &clock);
    let permit = limiter.permit(&any()).unwrap();
    assert_eq!(permit.renew_every(), Some(Duration::from_secs(20)));
    for _ in 0..10 {
        clock.advance(Duration::from_secs(59));
        assert!(permit.renew());
        assert!(limiter.permit(&any()).is_err());
    }
    clock.advance(Duration::from_secs(60));
    let other = limiter.permit(&any()).unwrap();
    assert!(!permit.renew());
    // The former holder cannot release a permit that has another holder now.
    drop(permit);
    assert!(limiter.permit(&any()).is_err());
    drop(other);
    assert_eq!(remaining(&limiter), [1]);
}

#[test]
fn receipt_holds_permits_until_released() {
    let limiter = one(rule("reports").concurrency(1), &clock());
    let receipt = limiter.permit(&any()).unwrap().into_receipt();
    assert!(receipt.holds_permits() && !receipt.is_empty());
    assert!(limiter.renew(&receipt));
    assert_eq!(remaining(&limiter), [0]);
    limiter.release(receipt);
    assert_eq!(remaining(&limiter), [1]);
}

#[test]
fn refused_request_holds_no_permit() {
    let limiter = built(Limiter::builder().rule(rule("a").concurrency(5)).rule(rule("b").concurrency(1)), &clock());
    let held = limiter.permit(&any()).unwrap();
    for _ in 0..100 {
        assert!(limiter.permit(&any()).is_err());
    }
    assert_eq!(remaining(&limiter), [4, 0]);
    drop(held);
    assert_eq!(remaining(&limiter), [5, 1]);
}

/// The release time of a permit is unknown, so the refusal has no time, whichever other rules refuse.
#[test]
fn unknown_wait_outweighs_a_known_one() {
    let limiter =
        built(Limiter::builder().rule(rule("slots").concurrency(1)).rule(rule("requests").limit("1/h")), &clock());
    let _held = limiter.permit(&any()).unwrap();
    let refused = limiter.permit(&any()).unwrap_err();
    assert_eq!((refused.rule(), refused.retry_after()), (Some("slots"), None));
}

#[test]
fn request_may_take_several_permits() {
    let limiter = one(rule("slots").concurrency(5), &clock());
    let three = limiter.permit(&costing(3)).unwrap();
    assert!(limiter.permit(&costing(3)).is_err());
    assert!(limiter.permit(&costing(2)).is_ok());
    drop(three);
    assert_eq!(remaining(&limiter), [5]);
}
