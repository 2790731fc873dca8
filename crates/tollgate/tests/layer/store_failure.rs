//! A failure of the store is a 503 and never a 429.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tollgate::policy::PolicyBuilder;
use tollgate::policy::model::{MemorySettings, StoreSettings, WhenFullSetting};
use tollgate::{AsyncLimiter, Limiter, rule};

use crate::support::{Down, Reply, S_NS, ask_from, check_fields, clock, get, hello, hesitant_at};

fn client(app: &axum::Router, at: u32) -> impl Future<Output = Reply> {
    let peer = std::net::Ipv4Addr::from(0x0a00_0000 + at).to_string();
    async move { ask_from(app, &peer, Request::get("/").body(Body::empty()).unwrap()).await }
}

fn check_store_failure(reply: &Reply) {
    check_fields(reply);
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!(reply.json()["status"], 503);
    assert!(reply.number("retry-after").unwrap() >= 1);
}

/// Addresses are counted up to the capacity of the store; the next one cannot be.
#[tokio::test]
async fn full_store_is_a_503() {
    let full = MemorySettings { entries: 1, when_full: WhenFullSetting::Refuse, snapshot: None };
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("10/h"))
        .with(|policy| policy.store = StoreSettings::Memory(full));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    let mut replies = Vec::new();
    for at in 0..2_000 {
        replies.push(client(&app, at).await);
    }
    let failed: Vec<&Reply> = replies.iter().filter(|reply| reply.status != 200).collect();
    assert!(!failed.is_empty() && failed.len() < replies.len());
    failed.into_iter().for_each(check_store_failure);
}

/// A warning is for requests above a limit. A request that cannot be counted would otherwise pass uncounted.
#[tokio::test]
async fn uncounted_request_does_not_pass_with_a_warning() {
    let full = MemorySettings { entries: 1, when_full: WhenFullSetting::Refuse, snapshot: None };
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("10/h").on_limit(2, Duration::from_secs(60), None))
        .with(|policy| policy.store = StoreSettings::Memory(full));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    for at in 0..2_000 {
        let reply = client(&app, at).await;
        // No request came before, so none is above the limit.
        assert_eq!(reply.field("x-ratelimit-warning"), None, "{at}: {reply:?}");
    }
}

#[tokio::test]
async fn refusal_while_the_store_is_down_is_a_503() {
    let policy = PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit("10/h")).build().unwrap();
    let app = hello(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: None }).unwrap());
    for _ in 0..3 {
        check_store_failure(&get(&app, "/").await);
    }
}

/// A store may return any time; `Retry-After` is at least 1.
#[tokio::test]
async fn retry_after_is_at_least_one() {
    for (retry_after_ns, seconds) in [(0, 1), (1, 1), (S_NS, 1), (S_NS + 1, 2)] {
        let policy = PolicyBuilder::default().rule(rule("all").limit("10/h")).build().unwrap();
        let app = hello(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: Some(retry_after_ns) }).unwrap());
        assert_eq!(get(&app, "/").await.number("retry-after"), Some(seconds));
    }
}

/// A failure of the store is not a violation and leads to no block.
#[tokio::test]
async fn store_failure_counts_no_violation() {
    let block = Some((1, Duration::from_secs(900)));
    let login = rule("login").limit("10/h").on_limit(1, Duration::from_secs(60), block);
    let policy = PolicyBuilder::default().rule(login).build().unwrap();
    let app = hello(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: None }).unwrap());
    for _ in 0..5 {
        check_store_failure(&get(&app, "/").await);
    }
}

/// The road over which a store is waited for gives the same answers.
#[tokio::test]
async fn async_store_decides() {
    let clock = clock();
    let limiter = hesitant_at(rule("per-ip").per("client_ip").limit("2/min"), clock.clone());
    let app = hello(&limiter);
    let mut replies = Vec::new();
    for _ in 0..3 {
        let reply = get(&app, "/").await;
        check_fields(&reply);
        replies.push((reply.status, reply.number("x-ratelimit-remaining"), reply.number("retry-after")));
    }
    assert_eq!(replies, [(200, Some(1), None), (200, Some(0), None), (429, Some(0), Some(30))]);
    clock.advance(Duration::from_secs(30));
    assert_eq!(get(&app, "/").await.status, 200);
}
