//! Rules that delay instead of refusing.

use std::time::Duration;

use axum::Router;
use tokio::time::{Instant, timeout};
use tollgate::{Limiter, rule};

use crate::support::{Client, Reply, Server, check_fields, clock, get, hello, hesitant};

/// One in a second, and two may wait.
fn queue() -> tollgate::policy::RuleBuilder {
    rule("upstream").limit("1/s").queue(3, Duration::from_secs(10))
}

/// What came back, and after how many whole seconds of tokio's time.
async fn timed(app: &Router) -> (u16, u64) {
    let begun = Instant::now();
    let reply: Reply = get(app, "/").await;
    check_fields(&reply);
    (reply.status, begun.elapsed().as_secs())
}

/// Four requests at once: one passes, two wait, one is too many. The order of polling decides which.
async fn check_four(app: &Router) {
    let (first, second, third, fourth) = tokio::join!(timed(app), timed(app), timed(app), timed(app));
    let mut outcomes = [first, second, third, fourth];
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(200, 0), (200, 1), (200, 2), (429, 0)]);
}

/// The limiter's clock does not move, so that all reservations are made at one time; tokio's clock advances by itself.
#[tokio::test(start_paused = true)]
async fn queue_delays_requests_above_the_rate() {
    check_four(&hello(&Limiter::builder().rule(queue()).build_with_clock(clock()).unwrap())).await;
}

#[tokio::test(start_paused = true)]
async fn queue_delays_requests_with_an_async_store() {
    check_four(&hello(&hesitant(queue()))).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_request_refunds_its_reservation() {
    let app = hello(&Limiter::builder().rule(queue()).build_with_clock(clock()).unwrap());
    assert_eq!(timed(&app).await, (200, 0));
    for _ in 0..1_000 {
        // Two requests make reservations and are dropped, the last one first, so that both are refunded.
        let mut second = Box::pin(get(&app, "/"));
        let mut third = Box::pin(get(&app, "/"));
        let patience = Duration::from_millis(100);
        assert!(timeout(patience, &mut second).await.is_err());
        assert!(timeout(patience, &mut third).await.is_err());
        drop(third);
        drop(second);
    }
    assert_eq!(timed(&app).await, (200, 1));
}

/// On a real server a client goes away by closing its connection.
#[tokio::test(flavor = "multi_thread")]
async fn closed_connection_refunds_its_reservation() {
    let slow = rule("upstream").limit("1/min").queue(2, Duration::from_secs(120));
    let limiter = Limiter::builder().rule(slow).build().unwrap();
    let server = Server::start(hello(&limiter)).await;
    assert_eq!(Client::connect(server.address).await.get("/").await.status, 200);
    for _ in 0..5 {
        let mut waiting = Client::connect(server.address).await;
        waiting.write("GET", "/", &[]).await;
        until(|| remaining(&limiter) == 0).await;
        drop(waiting);
        until(|| remaining(&limiter) == 1).await;
    }
}

fn remaining(limiter: &Limiter) -> u64 {
    let verdict = limiter.peek(&tollgate::Request { cost: 0, ..tollgate::Request::from_peer(None) });
    verdict.states()[0].decision.remaining
}

/// Waits, for a bounded time, until a real server has done something.
async fn until(done: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never happened");
}
