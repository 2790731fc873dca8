//! Pauses that a server asks for, and the spacing of requests by the fields of responses.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::client::{ClientError, ClientLayer};

use crate::server::{Client, Server, reply};

const URL: &str = "http://one.example/";

#[tokio::test(start_paused = true)]
async fn retry_after_pauses_the_whole_key_and_no_other() {
    let server = Server::first(429, &[("retry-after", "10")]);
    let client = Client::new(&ClientLayer::new().retries(0), &server);
    assert_eq!(client.status(URL).await, 429);
    let (same, other) = tokio::join!(client.status(URL), client.status("http://two.example/"));
    assert_eq!((same, other), (200, 200));
    let arrived = server.arrived_ms();
    // A random quarter of the pause is added, so that clients do not return together.
    assert!(arrived[..2] == [0, 0] && (10_000..=12_501).contains(&arrived[2]), "{arrived:?}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_may_be_a_date() {
    let fields = &[("date", "Tue, 14 Nov 2023 22:13:20 GMT"), ("retry-after", "Tue, 14 Nov 2023 22:13:28 GMT")];
    let server = Server::first(503, fields);
    let client = Client::new(&ClientLayer::new().retries(0), &server);
    assert_eq!((client.status(URL).await, client.status(URL).await), (503, 200));
    assert!((8_000..=10_001).contains(&server.arrived_ms()[1]), "{:?}", server.arrived_ms());
}

#[tokio::test(start_paused = true)]
async fn pause_longer_than_the_ceiling_fails_at_once_and_ends_with_it() {
    let server = Server::first(429, &[("retry-after", "86400")]);
    let layer = ClientLayer::new().longest_pause(Duration::from_secs(20)).max_wait(Duration::from_secs(90));
    let client = Client::new(&layer, &server);
    // There is a response, so it is the result.
    assert_eq!(client.status(URL).await, 429);
    let started = Instant::now();
    let error = client.get(URL).await.unwrap_err();
    let Some(ClientError::Paused { asked, .. }) = error.downcast_ref() else { panic!("{error}") };
    assert_eq!((asked.as_secs(), started.elapsed().as_secs()), (86_400, 0));
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(client.status(URL).await, 200);
}

#[tokio::test(start_paused = true)]
async fn pause_longer_than_the_wait_fails_at_once() {
    let server = Server::first(429, &[("retry-after", "10")]);
    let client = Client::new(&ClientLayer::new().max_wait(Duration::from_secs(5)), &server);
    assert_eq!(client.status(URL).await, 429);
    let started = Instant::now();
    let error = client.get(URL).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(ClientError::WaitTooLong { .. })), "{error}");
    assert_eq!(started.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_fail_when_a_new_pause_is_too_long() {
    // Every response takes two seconds, and the first is a long pause.
    let server = Server::first(429, &[("retry-after", "50")]);
    let client = Client::new(&ClientLayer::new().max_wait(Duration::from_secs(30)).retries(0), &server);
    let (first, second) = tokio::join!(client.get(URL), client.get(URL));
    assert_eq!(first.unwrap().status(), 429);
    assert!(matches!(second.unwrap_err().downcast_ref(), Some(ClientError::WaitTooLong { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_remains_is_spread_over_the_time_until_the_reset() {
    for fields in [
        &[("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", "9"), ("x-ratelimit-reset", "20")][..],
        &[("ratelimit-policy", "\"a\";q=100;w=60"), ("ratelimit", "\"a\";r=9;t=20")],
        &[("ratelimit-limit", "100"), ("ratelimit-remaining", "9"), ("ratelimit-reset", "20")],
    ] {
        let server = Server::new(move |number, _| {
            // The window of the server: nine more requests in twenty seconds.
            let mut fields: Vec<_> = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            for (_, value) in &mut fields {
                *value = value.replace("r=9", &format!("r={}", 9 - number.min(9)));
                if *value == "9" {
                    *value = (9 - number.min(9)).to_string();
                }
            }
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            reply(200, &fields)
        });
        let client = Client::new(&ClientLayer::new(), &server);
        for _ in 0..8 {
            assert_eq!(client.status(URL).await, 200);
        }
        let arrived = server.arrived_ms();
        assert!(arrived[7] > 8_000, "{fields:?}: {arrived:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_while_most_of_a_bucket_remains() {
    let fields = &[("ratelimit-policy", "\"a\";q=100;w=60"), ("ratelimit", "\"a\";r=90;t=1")];
    let server = Server::new(move |_, _| reply(200, fields));
    let client = Client::new(&ClientLayer::new(), &server);
    for _ in 0..50 {
        assert_eq!(client.status(URL).await, 200);
    }
    assert_eq!(server.arrived_ms(), [0; 50]);
}

#[tokio::test(start_paused = true)]
async fn server_that_refuses_without_fields_is_sent_less_and_later_more() {
    // The server takes ten requests in each second, and says nothing about it.
    let taken = std::sync::Mutex::new((0, 0));
    let started = Instant::now();
    let server = Server::new(move |_, _| {
        let second = started.elapsed().as_secs();
        let mut taken = taken.lock().unwrap();
        *taken = if taken.0 == second { (second, taken.1 + 1) } else { (second, 1) };
        reply(if taken.1 > 10 { 429 } else { 200 }, &[])
    });
    let client = Client::new(&ClientLayer::new().retries(0).max_wait(Duration::from_secs(60)), &server);
    let (mut accepted, mut refused) = (0, 0);
    let deadline = started + Duration::from_secs(120);
    while Instant::now() < deadline {
        let outcome = client.get(URL).await;
        let late = started.elapsed() > Duration::from_secs(20);
        match outcome {
            Ok(response) if late && response.status() == 200 => accepted += 1,
            Ok(_) if late => refused += 1,
            _ => {}
        }
        // A program that does something with each response.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(accepted > 650, "{accepted} of 1000 are accepted, {refused} refused");
    assert!(refused * 8 < accepted, "{refused} of {accepted} are refused");
}
