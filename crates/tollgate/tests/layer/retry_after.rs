//! Whoever comes back when told to passes.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tollgate::policy::model::CostSource;
use tollgate::{AlgorithmKind, Limiter, PolicyBuilder, rule};

use crate::support::{App, Client, S_NS, Server, ask_from, changed, check_fields, clock, get, hello, item};

const ALGORITHMS: [AlgorithmKind; 5] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindowLog,
    AlgorithmKind::SlidingWindowCounter,
];

/// Rates whose times are no whole seconds are told rounded up.
#[tokio::test]
async fn obeying_it_passes_under_every_algorithm() {
    for algorithm in ALGORITHMS {
        for rate in ["1/s", "7/min", "3 per 1500ms", "5 per 90s", "40/h"] {
            let clock = clock();
            clock.advance(123_456_789);
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
                clock.advance(seconds * S_NS);
                assert_eq!(get(&app, "/").await.status, 200, "{algorithm:?} {rate}: {reply:?}");
            }
            assert!(refusals > 0, "{algorithm:?} {rate}");
        }
    }
}

/// It is not told later than it must be either: a second before, all are still refused.
#[tokio::test]
async fn it_is_no_later_than_necessary() {
    for algorithm in ALGORITHMS {
        let clock = clock();
        let only = rule("only").limit("1 per 10s").algorithm(algorithm);
        let app = hello(&Limiter::builder().rule(only).build_with_clock(clock.clone()).unwrap());
        get(&app, "/").await;
        let reply = get(&app, "/").await;
        let seconds = reply.number("retry-after").unwrap();
        clock.advance((seconds - 1) * S_NS);
        assert_eq!(get(&app, "/").await.status, 429, "{algorithm:?} {reply:?}");
    }
}

#[tokio::test]
async fn of_several_rules_it_is_the_longest() {
    let clock = clock();
    let limiter = Limiter::builder()
        .rule(rule("short").limit("1 per 10s"))
        .rule(rule("long").limit("1 per 90s"))
        .rule(rule("shadow").limit("1/day").shadow());
    let app = hello(&limiter.build_with_clock(clock.clone()).unwrap());
    get(&app, "/").await;
    assert_eq!(get(&app, "/").await.number("retry-after"), Some(90));
    clock.advance(90 * S_NS);
    assert_eq!(get(&app, "/").await.status, 200);
}

/// Who asks for more than the limit ever holds is not told to come back.
#[tokio::test]
async fn what_will_never_pass_has_no_time() {
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
async fn obeying_it_passes_on_a_real_server() {
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

/// A permit that is held for so long, and then let go of.
async fn hold(limiter: &App, clock: &tollgate::ManualClock, seconds: u64) {
    let (_, permit) = limiter.admit(&tollgate::Request::from_peer(None)).await;
    clock.advance(seconds * S_NS);
    drop(permit.unwrap());
}

#[tokio::test]
async fn refusal_for_want_of_a_permit_estimates_from_recent_holding_times() {
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
            hold(&limiter, &clock, held_s).await;
        }
        let (_, permit) = limiter.admit(&tollgate::Request::from_peer(None)).await;
        let reply = get(&app, "/").await;
        check_fields(&reply);
        assert_eq!((reply.status, reply.number("retry-after")), (429, Some(told_s)), "{reply:?}");
        assert_eq!(reply.json()["detail"], detail);
        assert_eq!(reply.json().get("retry_after_ms"), None, "nothing is known to the millisecond");
        permit.unwrap().refund();
    }
}

#[tokio::test]
async fn estimate_is_no_shorter_than_what_another_limit_says() {
    let clock = clock();
    let rules = Limiter::builder().rule(rule("reports").concurrency(1)).rule(rule("slow").limit("1 per 90s"));
    let limiter = rules.build_with_clock(clock.clone()).unwrap();
    let (_, _permit) = limiter.admit(&tollgate::Request::from_peer(None)).await;
    let reply = get(&hello(&limiter), "/").await;
    assert_eq!((reply.status, reply.number("retry-after")), (429, Some(90)));
    assert_eq!(reply.json().get("retry_after_ms"), None);
}

#[tokio::test]
async fn holding_times_outlive_a_change_of_the_policy() {
    let clock = clock();
    let limiter = Limiter::builder().rule(rule("reports").concurrency(1)).build_with_clock(clock.clone()).unwrap();
    hold(&limiter, &clock, 20).await;
    let changed = PolicyBuilder::default().rule(rule("new").limit("9/s")).rule(rule("reports").concurrency(1));
    limiter.set_policy(&changed.build().unwrap()).unwrap();
    let (_, _permit) = limiter.admit(&tollgate::Request::from_peer(None)).await;
    assert_eq!(get(&hello(&limiter), "/").await.number("retry-after"), Some(20));
}
