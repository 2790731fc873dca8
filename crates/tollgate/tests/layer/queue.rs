//! Rules that delay instead of refusing.

use std::time::Duration;

use axum::Router;
use tokio::time::{Instant, timeout};
use tollgate::{Limiter, rule};

use crate::support::{Client, Reply, Server, check_fields, clock, get, hello, hesitant};

/// One in a second, and two may wait.
fn queue() -> tollgate::RuleBuilder {
    rule("upstream").limit("1/s").queue(3, Duration::from_secs(10))
}

/// What came back, and after how many whole seconds of tokio's time.
async fn timed(app: &Router) -> (u16, u64) {
    let begun = Instant::now();
    let reply: Reply = get(app, "/").await;
    check_fields(&reply);
    (reply.status, begun.elapsed().as_secs())
}

/// Four at once: one goes through, two wait, one is too many. Which is which depends on who is polled first.
async fn check_four(app: &Router) {
    let (first, second, third, fourth) = tokio::join!(timed(app), timed(app), timed(app), timed(app));
    let mut outcomes = [first, second, third, fourth];
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(200, 0), (200, 1), (200, 2), (429, 0)]);
}

/// The limiter's clock stands still, so that places are promised as of one moment; tokio's runs ahead by itself.
#[tokio::test(start_paused = true)]
async fn what_comes_too_fast_waits() {
    check_four(&hello(&Limiter::builder().rule(queue()).build_with_clock(clock()).unwrap())).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_holds_for_a_store_that_is_waited_for() {
    check_four(&hello(&hesitant(queue()))).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_gives_the_place_back() {
    let app = hello(&Limiter::builder().rule(queue()).build_with_clock(clock()).unwrap());
    assert_eq!(timed(&app).await, (200, 0));
    for _ in 0..1_000 {
        // Two take the places, lose patience, and leave: the last first, so that both places come back.
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
async fn a_connection_that_closes_while_it_waits_gives_its_place_back() {
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
