//! The client's own limiter: a queue in this process.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate::client::{ClientCharge, ClientError, ClientLayer};
use tollgate::{Limiter, ManualClock, Request, rule};

use crate::server::{Client, Server, reply};

/// One request a second for each host, and three may wait or leave.
fn queue() -> Limiter {
    let queue = rule("per-host").per("destination").limit("1/s").queue(3, Duration::from_secs(10));
    // The limiter's clock does not move, so that all reservations are made at one time; tokio's clock advances.
    Limiter::builder().rule(queue).build_with_clock(ManualClock::at(1_700_000_000_000_000_000)).unwrap()
}

fn always_ok() -> Server {
    Server::new(|_, _| reply(200, &[]))
}

fn free_places(limiter: &Limiter, host: &str) -> u64 {
    let request = Request { identities: &[("destination", host)], cost: 0, ..Request::from_peer(None) };
    limiter.peek(&request).states()[0].decision.remaining
}

#[tokio::test(start_paused = true)]
async fn requests_leave_at_the_rate_of_the_limiter_for_each_host() {
    let server = always_ok();
    let client = Client::new(&ClientLayer::new().limiter(queue()), &server);
    let (one, two) = ("http://one.example/", "http://two.example/");
    let all = tokio::join!(client.status(one), client.status(one), client.status(one), client.status(two));
    assert_eq!(all, (200, 200, 200, 200));
    let mut seconds: Vec<_> = server.arrived_ms().iter().map(|at_ms| at_ms / 1_000).collect();
    seconds.sort_unstable();
    assert_eq!(seconds, [0, 0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn request_fails_at_once_when_the_queue_of_the_limiter_is_full() {
    let client = Client::new(&ClientLayer::new().limiter(queue()), &always_ok());
    let url = "http://one.example/";
    let started = Instant::now();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let client = client.clone();
        waiting.push(tokio::spawn(async move { client.get(url).await.map_err(|error| error.to_string()) }));
        tokio::task::yield_now().await;
    }
    let error = client.get(url).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(ClientError::Limited(_))), "{error}");
    assert_eq!(started.elapsed(), Duration::ZERO);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn dropped_request_refunds_its_reservation() {
    let limiter = queue();
    let client = Client::new(&ClientLayer::new().limiter(limiter.clone()), &always_ok());
    assert_eq!(client.status("http://one.example/").await, 200);
    for _ in 0..100 {
        let waiting = client.get("http://one.example/");
        assert!(timeout(Duration::from_millis(100), waiting).await.is_err());
        assert_eq!(free_places(&limiter, "one.example"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn request_dropped_in_the_queue_of_its_key_refunds_the_limiter() {
    let limiter = queue();
    let server = Server::first(429, &[("retry-after", "10")]);
    let client = Client::new(&ClientLayer::new().limiter(limiter.clone()).retries(0), &server);
    assert_eq!(client.status("http://one.example/").await, 429);
    for _ in 0..5 {
        // The reservation has been reached, and the pause has not ended.
        let waiting = client.get("http://one.example/");
        assert!(timeout(Duration::from_secs(1) + Duration::from_millis(100), waiting).await.is_err());
        assert_eq!(free_places(&limiter, "one.example"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn estimated_cost_is_settled_after_the_response() {
    let clock = ManualClock::at(1_700_000_000_000_000_000);
    let limiter = Limiter::builder().rule(rule("tokens").limit("1000/h")).build_with_clock(clock).unwrap();
    let layer = ClientLayer::new().limiter(limiter.clone()).cost(|_| 300);
    let client = Client::new(&layer, &always_ok());
    let response = client.get("http://one.example/").await.unwrap();
    assert_eq!(free_places(&limiter, ""), 700);
    let charge = response.extensions().get::<ClientCharge>().unwrap();
    charge.settle(20).await;
    assert_eq!(free_places(&limiter, ""), 980);
    charge.settle(500).await;
    charge.refund();
    assert_eq!(free_places(&limiter, ""), 980);
}

#[tokio::test(start_paused = true)]
async fn concurrency_permit_is_held_until_the_response_is_dropped() {
    let limiter = Limiter::builder().rule(rule("few").concurrency(1)).build().unwrap();
    let layer = ClientLayer::new().limiter(limiter).max_wait(Duration::from_millis(10));
    let client = Client::new(&layer, &always_ok());
    let response = client.get("http://one.example/").await.unwrap();
    assert!(client.get("http://one.example/").await.is_err());
    drop(response);
    assert_eq!(client.status("http://one.example/").await, 200);
}
