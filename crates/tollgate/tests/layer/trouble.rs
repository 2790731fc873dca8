//! The store's trouble is not the client's fault, and is never told as if it were.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tollgate::policy::model::{MemorySettings, StoreSettings, WhenFull};
use tollgate::{AsyncLimiter, Limiter, PolicyBuilder, rule};

use crate::support::{Down, Reply, S_NS, ask_from, check_fields, clock, get, hello, hesitant_at};

fn client(app: &axum::Router, at: u32) -> impl Future<Output = Reply> {
    let peer = std::net::Ipv4Addr::from(0x0a00_0000 + at).to_string();
    async move { ask_from(app, &peer, Request::get("/").body(Body::empty()).unwrap()).await }
}

fn check_trouble(reply: &Reply) {
    check_fields(reply);
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!(reply.json()["status"], 503);
    assert!(reply.number("retry-after").unwrap() >= 1);
}

/// So many addresses as the store has room for are counted; the next cannot be.
#[tokio::test]
async fn a_store_without_room_is_trouble() {
    let full = MemorySettings { entries: 1, when_full: WhenFull::Refuse, snapshot: None };
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("10/h"))
        .with(|policy| policy.store = StoreSettings::Memory(full));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    let mut replies = Vec::new();
    for at in 0..2_000 {
        replies.push(client(&app, at).await);
    }
    let troubled: Vec<&Reply> = replies.iter().filter(|reply| reply.status != 200).collect();
    assert!(!troubled.is_empty() && troubled.len() < replies.len());
    troubled.into_iter().for_each(check_trouble);
}

/// A warning is for those who are over a limit. Whoever cannot be counted would otherwise pass uncounted.
#[tokio::test]
async fn whoever_cannot_be_counted_is_not_let_pass_with_a_warning() {
    let full = MemorySettings { entries: 1, when_full: WhenFull::Refuse, snapshot: None };
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("10/h").on_limit(2, Duration::from_secs(60), None))
        .with(|policy| policy.store = StoreSettings::Memory(full));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    for at in 0..2_000 {
        let reply = client(&app, at).await;
        // Nobody has been here before, so nobody is over the limit.
        assert_eq!(reply.field("x-ratelimit-warning"), None, "{at}: {reply:?}");
    }
}

#[tokio::test]
async fn a_refusal_of_a_store_that_is_down_is_trouble() {
    let policy = PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit("10/h")).build().unwrap();
    let app = hello(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: None }).unwrap());
    for _ in 0..3 {
        check_trouble(&get(&app, "/").await);
    }
}

/// A store may say anything; nobody is told to come back in no time.
#[tokio::test]
async fn the_time_to_come_back_is_never_zero() {
    for (retry_after_ns, seconds) in [(0, 1), (1, 1), (S_NS, 1), (S_NS + 1, 2)] {
        let policy = PolicyBuilder::default().rule(rule("all").limit("10/h")).build().unwrap();
        let app = hello(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: Some(retry_after_ns) }).unwrap());
        assert_eq!(get(&app, "/").await.number("retry-after"), Some(seconds));
    }
}

/// What is not the client's fault is no violation either: nobody is blocked for it.
#[tokio::test]
async fn trouble_blocks_nobody() {
    let block = Some((1, Duration::from_secs(900)));
    let login = rule("login").limit("10/h").on_limit(1, Duration::from_secs(60), block);
    let policy = PolicyBuilder::default().rule(login).build().unwrap();
    let app = hello(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: None }).unwrap());
    for _ in 0..5 {
        check_trouble(&get(&app, "/").await);
    }
}

/// The road over which a store is waited for gives the same answers.
#[tokio::test]
async fn a_store_that_is_waited_for_is_obeyed() {
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
    clock.advance(30 * S_NS);
    assert_eq!(get(&app, "/").await.status, 200);
}
