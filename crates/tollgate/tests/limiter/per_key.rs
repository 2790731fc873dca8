//! The limiter without rules, and refusals as errors.

use std::time::Duration;

use tollgate::{Limiter, LimiterError, Refused, rule};

use crate::support::{any, at_once, clock, costing, one};

#[test]
fn keys_are_counted_separately_and_refill() {
    let clock = clock();
    let limiter = Limiter::per_key_with_clock("2/min", clock.clone()).unwrap();
    assert_eq!([(); 3].map(|()| limiter.check("alice").is_allowed()), [true, true, false]);
    assert_eq!(limiter.peek("bob").remaining(), Some(2));
    assert_eq!(limiter.check("bob").remaining(), Some(1));
    clock.advance(Duration::from_secs(30));
    assert!(limiter.check("alice").is_allowed());
    assert!(!limiter.check_cost("bob", 3).is_allowed());
}

#[test]
fn permit_refunds_and_waiting_works_by_key() {
    let clock = clock();
    let limiter = Limiter::per_key_with_clock("1/min", clock.clone()).unwrap();
    limiter.permit("alice").unwrap().refund();
    let permit = at_once(limiter.acquire("alice", Duration::ZERO, clock)).unwrap();
    assert_eq!(permit.verdict().remaining(), Some(0));
    assert!(limiter.permit("alice").is_err());
    at_once(limiter.limiter().reset_key("per-key", "alice")).unwrap();
    assert!(limiter.check("alice").is_allowed());
}

#[test]
fn invalid_rate_is_an_error_with_a_hint() {
    let error = Limiter::per_key("100 a minute").unwrap_err();
    assert!(matches!(error, LimiterError::Policy(_)) && error.to_string().contains("100/s"), "{error}");
}

#[test]
fn refusal_propagates_with_a_question_mark() {
    fn allowed(limiter: &Limiter) -> Result<u64, Box<dyn std::error::Error>> {
        let verdict = limiter.check(&any()).into_result()?;
        Ok(verdict.remaining().unwrap_or_default())
    }
    let limiter = one(rule("all").limit("1/min"), &clock());
    assert_eq!(allowed(&limiter).unwrap(), 0);
    let error = allowed(&limiter).unwrap_err();
    assert_eq!(error.to_string(), "refused by rule `all`: retry after 60 s");
    assert_eq!(error.downcast::<Refused>().unwrap().into_verdict().limit(), Some(1));
}

#[test]
fn refusals_name_their_reason() {
    let message = |limiter: &Limiter, cost| limiter.permit(&costing(cost)).unwrap_err().to_string();
    let slots = one(rule("slots").concurrency(1), &clock());
    let _held = slots.permit(&any()).unwrap();
    assert_eq!(message(&slots, 1), "refused by rule `slots`");
    assert_eq!(message(&slots, 2), "refused by rule `slots`: the cost exceeds the limit");
    let denied = one(rule("closed").deny(), &clock());
    assert_eq!(message(&denied, 1), "denied by rule `closed`");
    let minute = Duration::from_secs(60);
    let blocked = one(rule("login").limit("1/min").on_limit(0, minute, Some((1, minute))), &clock());
    assert!((0..3).filter(|_| blocked.check(&any()).is_allowed()).count() == 1);
    assert_eq!(message(&blocked, 1), "blocked by rule `login`: retry after 60 s");
}

/// A delay that exceeds the maximum wait is a refusal, and its `retry_after` is when the delay would fit.
#[test]
fn delay_beyond_the_maximum_wait_is_a_refusal() {
    let clock = clock();
    let limiter = one(rule("upstream").limit("1 per 10s").queue(9, Duration::from_secs(90)), &clock);
    assert!(limiter.check(&any()).is_allowed() && limiter.check(&any()).is_allowed());
    let refused = at_once(limiter.acquire(&any(), Duration::from_secs(12), clock)).unwrap_err();
    assert_eq!((refused.is_allowed(), refused.status()), (false, 429));
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(8)));
}
