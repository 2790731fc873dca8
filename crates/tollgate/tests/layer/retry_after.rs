//! A client that waits for `Retry-After` passes.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tollgate::policy::PolicyBuilder;
use tollgate::policy::model::CostSource;
use tollgate::{AlgorithmKind, Limiter, rule};

use crate::support::{App, Client, Server, ask_from, changed, check_fields, clock, get, hello, item};

const ALGORITHMS: [AlgorithmKind; 5] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindowLog,
    AlgorithmKind::SlidingWindowCounter,
];

/// Rates whose times are not whole seconds are rounded up.
#[tokio::test]
async fn retry_after_admits_under_every_algorithm() {
    for algorithm in ALGORITHMS {
        for rate in ["1/s", "7/min", "3 per 1500ms", "5 per 90s", "40/h"] {
            let clock = clock();
            clock.advance(Duration::from_nanos(123_456_789));
            let only = rule("only").per("client_ip").limit(rate).algorithm(algorithm);
            let app = hello(&Limiter::builder().rule(only).build_with_clock(clock.clone()).unwrap());
            let mut refusals = 0;
            for _ in 0..60 {
                let reply = get(&app, "/").await;
                check_fields(&reply);
                if reply.status == 200 {
                    continue;
                }
                refusals += 1;
                let seconds = reply.number("retry-after").unwrap();
                let state = item(&reply, "ratelimit", "only");
                let next = state.iter().find(|(name, _)| name == "t").map_or(0, |(_, next)| *next);
                assert!(i64::try_from(seconds).unwrap() >= next, "{algorithm:?} {rate}: {reply:?}");
                clock.advance(Duration::from_secs(seconds));
                assert_eq!(get(&app, "/").await.status, 200, "{algorithm:?} {rate}: {reply:?}");
            }
            assert!(refusals > 0, "{algorithm:?} {rate}");
        }
    }
}

/// It is not later than necessary: a second before, all requests are still refused.
#[tokio::test]
async fn retry_after_is_not_later_than_necessary() {
    for algorithm in ALGORITHMS {
        let clock = clock();
        let only = rule("only").limit("1 per 10s").algorithm(algorithm);
        let app = hello(&Limiter::builder().rule(only).build_with_clock(clock.clone()).unwrap());
        get(&app, "/").await;
        let reply = get(&app, "/").await;
        let seconds = reply.number("retry-after").unwrap();
        clock.advance(Duration::from_secs(seconds - 1));
        assert_eq!(get(&app, "/").await.status, 429, "{algorithm:?} {reply:?}");
    }
}

#[tokio::test]
async fn retry_after_is_the_longest_of_several_rules() {
    let clock = clock();
    let limiter = Limiter::builder()
        .rule(rule("short").limit("1 per 10s"))
        .rule(rule("long").limit("1 per 90s"))
        .rule(rule("shadow").limit("1/day").shadow());
    let app = hello(&limiter.build_with_clock(clock.clone()).unwrap());
    get(&app, "/").await;
    assert_eq!(get(&app, "/").await.number("retry-after"), Some(90));
    clock.advance(Duration::from_secs(90));
    assert_eq!(get(&app, "/").await.status, 200);
}

/// A cost above the capacity of the limit has no `Retry-After`.
#[tokio::test]
async fn impossible_request_has_no_retry_after() {
    let limiter = changed(rule("only").limit("5/min"), |rule| {
        rule.cost.source = CostSource::Header { name: "x-cost".to_owned(), default: 1 };
    });
    let request = Request::get("/").header("x-cost", "6").body(Body::empty()).unwrap();
    let reply = ask_from(&hello(&limiter), "203.0.113.9", request).await;
    check_fields(&reply);
    assert_eq!((reply.status, reply.field("retry-after")), (429, None));
    assert_eq!(reply.json().get("retry_after_ms"), None);
    assert_eq!(reply.number("x-ratelimit-remaining"), Some(5));
    let detail = "the request costs more than the limit of 5 can ever let pass; ask for less at once";
    assert_eq!(reply.json()["detail"], detail);
}

#[tokio::test]
async fn retry_after_admits_on_a_real_server() {
    let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("1/s burst 1")).build().unwrap();
    let server = Server::start(hello(&limiter)).await;
    let mut client = Client::connect(server.address).await;
    // On a machine that is slow enough the second comes a second later, and passes too.
    let mut refused = client.get("/").await;
    for _ in 0..20 {
        if refused.status == 429 {
            break;
        }
        refused = client.get("/").await;
    }
    assert_eq!((refused.status, refused.number("retry-after")), (429, Some(1)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.get("/").await.status, 200);
}

/// Holds a permit for some seconds.
fn hold(limiter: &App, clock: &tollgate::ManualClock, seconds: u64) {
    let permit = limiter.permit(&tollgate::Request::from_peer(None));
    clock.advance(Duration::from_secs(seconds));
    drop(permit.unwrap());
}

#[tokio::test]
async fn missing_permit_estimates_retry_after_from_holding_times() {
    let clock = clock();
    let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build_with_clock(clock.clone()).unwrap();
    let app = hello(&limiter);
    // Nothing was measured yet; then 7 s; then, after many of 3 s, 3 s and a bit of the past.
    for (held_s, times, told_s, detail) in [
        (0, 0, 1, "the limit is reached; try again in about 1 second"),
        (7, 1, 7, "the limit is reached; try again in about 7 seconds"),
        (3, 40, 4, "the limit is reached; try again in about 4 seconds"),
    ] {
        for _ in 0..times {
            hold(&limiter, &clock, held_s);
        }
        let permit = limiter.permit(&tollgate::Request::from_peer(None)).unwrap();
        let reply = get(&app, "/").await;
        check_fields(&reply);
        assert_eq!((reply.status, reply.number("retry-after")), (429, Some(told_s)), "{reply:?}");
        assert_eq!(reply.json()["detail"], detail);
        assert_eq!(reply.json().get("retry_after_ms"), None, "nothing is known to the millisecond");
        permit.refund();
    }
}

#[tokio::test]
async fn estimate_is_not_shorter_than_other_limits() {
    let clock = clock();
    let rules = Limiter::builder().rule(rule("reports").concurrency(1)).rule(rule("slow").limit("1 per 90s"));
    let limiter = rules.build_with_clock(clock.clone()).unwrap();
    let _permit = limiter.permit(&tollgate::Request::from_peer(None)).unwrap();
    let reply = get(&hello(&limiter), "/").await;
    assert_eq!((reply.status, reply.number("retry-after")), (429, Some(90)));
    assert_eq!(reply.json().get("retry_after_ms"), None);
}

#[tokio::test]
async fn holding_times_outlive_a_change_of_the_policy() {
    let clock = clock();
    let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build_with_clock(clock.clone()).unwrap();
    hold(&limiter, &clock, 20);
    let changed = PolicyBuilder::default().rule(rule("new").limit("9/s")).rule(rule("reports").concurrency(1));
    limiter.set_policy(&changed.build().unwrap()).unwrap();
    let _permit = limiter.permit(&tollgate::Request::from_peer(None)).unwrap();
    assert_eq!(get(&hello(&limiter), "/").await.number("retry-after"), Some(20));
}
