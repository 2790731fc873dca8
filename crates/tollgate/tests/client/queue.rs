//! The queue of a key: first in, first out, bounded, and left by futures that are dropped.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate::client::{ClientError, ClientLayer};

use crate::server::{Client, Server, reply};

/// A server whose first answer pauses the client for ten seconds. Afterwards its limit permits one request a second.
fn pausing() -> Server {
    Server::new(|number, _| match number {
        0 => reply(429, &[("retry-after", "10")]),
        _ => reply(200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")]),
    })
}

fn url(number: usize) -> String {
    format!("http://one.example/{number}")
}

/// Starts a request, and lets it join the queue. Its result is the status, or the error.
async fn start(client: &Client, number: usize) -> JoinHandle<Result<u16, String>> {
    let client = client.clone();
    let call = tokio::spawn(async move {
        let response = client.get(&url(number)).await;
        response.map(|response| response.status().as_u16()).map_err(|error| error.to_string())
    });
    tokio::task::yield_now().await;
    call
}

#[tokio::test(start_paused = true)]
async fn requests_leave_in_the_order_of_their_calls() {
    let server = pausing();
    let client = Client::new(&ClientLayer::new().retries(0).max_wait(Duration::from_secs(600)), &server);
    assert_eq!(client.status(&url(0)).await, 429);
    let mut calls = Vec::new();
    for number in 1..=20 {
        calls.push(start(&client, number).await);
    }
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(200));
    }
    let paths: Vec<_> = server.arrived().into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, (0..=20).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn number_of_waiting_requests_is_bounded() {
    let server = pausing();
    let client = Client::new(&ClientLayer::new().retries(0).max_waiting(2), &server);
    assert_eq!(client.status(&url(0)).await, 429);
    let waiting = [start(&client, 1).await, start(&client, 2).await];
    let error = client.get(&url(3)).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(ClientError::QueueFull { waiting: 2 })), "{error}");
    for call in waiting {
        assert_eq!(call.await.unwrap(), Ok(200));
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_request_leaves_the_queue_and_wakes_the_next() {
    let server = pausing();
    let client = Client::new(&ClientLayer::new().retries(0).max_waiting(2), &server);
    assert_eq!(client.status(&url(0)).await, 429);
    for number in 1..100 {
        // The first and the second leave the queue in turn.
        let waiting = [start(&client, number).await, start(&client, number).await];
        waiting[number % 2].abort();
        tokio::task::yield_now().await;
        waiting[1 - number % 2].abort();
        tokio::task::yield_now().await;
    }
    let (first, second) = (start(&client, 101).await, start(&client, 102).await);
    first.abort();
    assert_eq!(second.await.unwrap(), Ok(200));
    assert_eq!(server.arrived()[1..].iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>(), ["/102"]);
}

#[tokio::test(start_paused = true)]
async fn request_that_would_wait_too_long_fails_at_once() {
    // Four more requests in fifty seconds: one every ten.
    let server = Server::new(|_, _| reply(200, &[("x-ratelimit-remaining", "4"), ("x-ratelimit-reset", "50")]));
    let client = Client::new(&ClientLayer::new().max_wait(Duration::from_secs(200)), &server);
    // The credit of an idle client, and the share that it has not measured yet.
    for number in 0..10 {
        assert_eq!(client.status(&url(number)).await, 200);
    }
    let started = Instant::now();
    let mut failed = 0;
    for number in 0..100 {
        let call = start(&client, number).await;
        failed += usize::from(call.is_finished());
    }
    assert!(failed >= 75 && started.elapsed() < Duration::from_secs(1), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn first_request_to_a_server_goes_alone() {
    // The first response tells that there is nothing more for five seconds.
    let server = Server::new(|_, _| reply(200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")]));
    let client = Client::new(&ClientLayer::new(), &server);
    let calls = [start(&client, 0).await, start(&client, 1).await, start(&client, 2).await];
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(server.arrived().len(), 1);
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(200));
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_answer_delays_others_by_a_second_only() {
    let server = Server::new(|_, _| reply(200, &[]));
    let slow = tower::service_fn({
        let server = server.clone();
        move |request| {
            let mut server = server.clone();
            async move {
                let outcome = tower::Service::call(&mut server, request).await;
                tokio::time::sleep(Duration::from_secs(20)).await;
                outcome
            }
        }
    });
    let client = Client::of(&ClientLayer::new(), slow);
    let calls = [start(&client, 0).await, start(&client, 1).await, start(&client, 2).await];
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(200));
    }
    let arrived = server.arrived_ms();
    assert!(arrived[0] == 0 && arrived[1..].iter().all(|at_ms| (1_000..1_010).contains(at_ms)), "{arrived:?}");
}
