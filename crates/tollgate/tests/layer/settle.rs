//! Costs that are known only afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::routing::get as route;
use axum::{Extension, Router};
use tollgate::tower::TrueCost;
use tollgate::{AsyncLimiter, Limiter, LimiterBuilder, Request, rule};

use crate::support::{behind, built, changed, clock, get, hello, hesitant};

/// What remains of each rule, in order.
async fn remaining(limiter: &AsyncLimiter) -> Vec<u64> {
    let verdict = limiter.peek(&Request { cost: 0, ..Request::from_peer(None) }).await;
    verdict.states().iter().map(|state| state.decision.remaining).collect()
}

/// A service whose true costs the test sets.
fn costing(cost: u64) -> Router {
    let handler = move |Extension(true_cost): Extension<TrueCost>| async move {
        true_cost.set(cost);
        "answer"
    };
    Router::new().route("/", route(handler))
}

fn tokens() -> LimiterBuilder {
    Limiter::builder().rule(rule("tokens").limit("1000/day").estimate(100))
}

#[tokio::test]
async fn true_cost_of_the_handler_replaces_the_estimate() {
    for (true_cost, left) in [(10, 990), (100, 900), (250, 750), (0, 1_000)] {
        let limiter = built(tokens());
        let reply = get(&behind(&limiter, costing(true_cost)), "/").await;
        // The fields of the response were written before the settlement.
        assert_eq!(reply.number("x-ratelimit-remaining"), Some(900));
        assert_eq!(remaining(&limiter).await, [left], "{true_cost}");
    }
}

#[tokio::test]
async fn estimate_stays_without_a_true_cost() {
    let limiter = built(tokens());
    get(&hello(&limiter), "/").await;
    assert_eq!(remaining(&limiter).await, [900]);
}

/// What costs more than there is, is owed: later requests wait for it.
#[tokio::test]
async fn cost_above_the_estimate_becomes_debt() {
    let clock = clock();
    let limiter = tokens().build_with_clock(clock.clone()).unwrap();
    let app = behind(&limiter, costing(1_500));
    assert_eq!(get(&app, "/").await.status, 200);
    let refused = get(&app, "/").await;
    assert_eq!(refused.status, 429);
    assert_eq!(remaining(&limiter).await, [0]);
    // 500 are owed, and room for the next estimate takes 100 more, at 1,000 a day.
    let seconds = refused.number("retry-after").unwrap();
    assert_eq!(seconds, 6 * 8_640);
    clock.advance(Duration::from_secs(seconds - 1));
    assert_eq!(get(&app, "/").await.status, 429);
    clock.advance(Duration::from_secs(1));
    assert_eq!(get(&app, "/").await.status, 200);
}

#[tokio::test]
async fn added_costs_are_summed() {
    let limiter = built(tokens());
    let handler = |Extension(true_cost): Extension<TrueCost>| async move {
        (0..5).for_each(|_| true_cost.add(7));
        "answer"
    };
    get(&behind(&limiter, Router::new().route("/", route(handler))), "/").await;
    assert_eq!(remaining(&limiter).await, [965]);
}

#[tokio::test]
async fn response_header_settles_the_cost() {
    for (header, left) in [("30", 970), (" 450 ", 550), ("many", 900), ("-3", 900)] {
        let limiter = changed(rule("tokens").limit("1000/day").estimate(100), |rule| {
            rule.cost.settled_by = Some("x-tokens-used".to_owned());
        });
        let handler = move || async move { ([("x-tokens-used", header)], "answer") };
        get(&behind(&limiter, Router::new().route("/", route(handler))), "/").await;
        assert_eq!(remaining(&limiter).await, [left], "{header}");
    }
}

/// A response header is capped by the policy's maximum; the handler's value is not.
#[tokio::test]
async fn response_header_cost_is_capped() {
    let limiter = changed(rule("tokens").limit("1000/day").estimate(100), |rule| {
        rule.cost.settled_by = Some("x-tokens-used".to_owned());
        rule.cost.max = 300;
    });
    let handler = || async { ([("x-tokens-used", "99999999999999")], "answer") };
    get(&behind(&limiter, Router::new().route("/", route(handler))), "/").await;
    assert_eq!(remaining(&limiter).await, [700]);
}

/// The response header takes precedence over the handler.
#[tokio::test]
async fn response_header_takes_precedence_over_the_handler() {
    let limiter = changed(rule("tokens").limit("1000/day").estimate(100), |rule| {
        rule.cost.settled_by = Some("x-tokens-used".to_owned());
    });
    let handler = |Extension(true_cost): Extension<TrueCost>| async move {
        true_cost.set(5);
        ([("x-tokens-used", "30")], "answer")
    };
    get(&behind(&limiter, Router::new().route("/", route(handler))), "/").await;
    assert_eq!(remaining(&limiter).await, [970]);
}

/// A limit on requests has nothing to do with how many tokens one of them took.
#[tokio::test]
async fn only_estimated_costs_are_settled() {
    let limiter = built(tokens().rule(rule("requests").limit("100/day")).rule(rule("fixed").limit("100/day").cost(5)));
    get(&behind(&limiter, costing(40)), "/").await;
    assert_eq!(remaining(&limiter).await, [960, 99, 95]);
}

/// The charge has its estimated cost while the response is in flight.
#[tokio::test]
async fn cost_is_settled_when_the_response_ends() {
    let limiter = built(tokens());
    let seen = Arc::new(AtomicU64::new(0));
    let handler = {
        let (limiter, seen) = (limiter.clone(), Arc::clone(&seen));
        move |Extension(true_cost): Extension<TrueCost>| async move {
            true_cost.set(1);
            seen.store(remaining(&limiter).await[0], Ordering::SeqCst);
            "answer"
        }
    };
    get(&behind(&limiter, Router::new().route("/", route(handler))), "/").await;
    assert_eq!(seen.load(Ordering::SeqCst), 900);
    assert_eq!(remaining(&limiter).await, [999]);
}

#[tokio::test]
async fn async_store_settles_in_the_background() {
    let limiter = hesitant(rule("tokens").limit("1000/day").estimate(100));
    get(&behind(&limiter, costing(10)), "/").await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(remaining(&limiter).await, [990]);
}

/// An inner layer that estimates nothing does not come between an outer one and the handler.
#[tokio::test]
async fn every_estimating_layer_settles() {
    let (outer, inner) = (built(tokens()), built(Limiter::builder().rule(rule("slots").concurrency(5))));
    get(&behind(&outer, behind(&inner, costing(10))), "/").await;
    assert_eq!(remaining(&outer).await, [990]);

    let (outer, inner) = (built(tokens()), built(tokens()));
    get(&behind(&outer, behind(&inner, costing(10))), "/").await;
    assert_eq!((remaining(&outer).await, remaining(&inner).await), (vec![990], vec![990]));
}

/// Requests are not tokens, also where the policy has permits that must be held.
#[tokio::test]
async fn policy_without_estimates_settles_nothing() {
    let limits = || Limiter::builder().rule(rule("slots").concurrency(5)).rule(rule("requests").limit("100/day"));
    let (outer, inner) = (built(limits()), built(tokens()));
    get(&behind(&outer, behind(&inner, costing(40))), "/").await;
    assert_eq!(remaining(&outer).await, [5, 99]);
    assert_eq!(remaining(&inner).await, [960]);
}
