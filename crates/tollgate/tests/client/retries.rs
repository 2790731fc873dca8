//! Which requests are sent again, how often, and what the caller gets in the end.

use std::time::Duration;

use http::Request;
use tollgate::client::{ClientLayer, CloneBody};
use tollgate::tower::BoxError;

use crate::server::{Body, Client, Server, reply};

const URL: &str = "http://one.example/";

fn post(fields: &[(&str, &str)], body: &'static str) -> Request<Body> {
    let mut request = Request::post(URL);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn idempotent_request_is_retried_after_the_pause() {
    let server = Server::first(429, &[("retry-after", "2")]);
    let client = Client::new(&ClientLayer::new(), &server);
    assert_eq!(client.status(URL).await, 200);
    let arrived = server.arrived_ms();
    assert!(arrived.len() == 2 && arrived[1] >= 2_000, "{arrived:?}");
}

#[tokio::test(start_paused = true)]
async fn refusal_is_returned_as_the_response_when_retries_are_spent() {
    let server = Server::new(|_, _| reply(429, &[]));
    let client = Client::new(&ClientLayer::new().retries(2), &server);
    assert_eq!(client.status(URL).await, 429);
    assert_eq!(server.arrived().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn refusal_is_returned_as_the_response_when_the_next_attempt_cannot_take_place() {
    let server = Server::first(429, &[("retry-after", "300")]);
    let client = Client::new(&ClientLayer::new(), &server);
    assert_eq!(client.status(URL).await, 429);
    assert_eq!(server.arrived().len(), 1);
}

/// Returns how often a request is sent, if its first attempt is refused.
async fn attempts<C: CloneBody<Body> + Clone + Send + Sync + 'static>(
    layer: &ClientLayer<C>,
    request: Request<Body>,
) -> usize {
    let server = Server::first(503, &[]);
    let _ = Client::new(layer, &server).send(request).await;
    server.arrived().len()
}

#[tokio::test(start_paused = true)]
async fn other_methods_are_retried_only_if_the_application_says_so() {
    let layer = ClientLayer::new();
    assert_eq!(attempts(&layer, post(&[], "")).await, 1);
    assert_eq!(attempts(&layer, post(&[("idempotency-key", "\"a\"")], "")).await, 2);
    assert_eq!(attempts(&layer.clone().retry_if(|_| true), post(&[], "")).await, 2);
    let get = Request::get(URL).body(Body::default()).unwrap();
    assert_eq!(attempts(&layer.retry_if(|_| false), get).await, 1);
}

#[tokio::test(start_paused = true)]
async fn request_with_a_body_is_retried_only_if_it_can_be_cloned() {
    let layer = ClientLayer::new().retry_if(|_| true);
    assert_eq!(attempts(&layer, post(&[], "text")).await, 1);
    assert_eq!(attempts(&layer.clone().clone_body(|body: &Body| Some(body.clone())), post(&[], "text")).await, 2);
    assert_eq!(attempts(&layer.clone_body(|_: &Body| None), post(&[], "text")).await, 1);
}

#[tokio::test(start_paused = true)]
async fn retries_are_at_most_a_tenth_of_the_requests() {
    let server = Server::new(|_, _| reply(502, &[]));
    let client = Client::new(&ClientLayer::new(), &server);
    for _ in 0..1_000 {
        assert_eq!(client.status(URL).await, 502);
    }
    // The budget begins with ten retries.
    let sent = server.arrived().len();
    assert!((1_050..=1_110).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn failed_connection_is_retried_and_its_error_returned_unchanged() {
    let server = Server::new(|number, _| match number {
        0 => Err(BoxError::from("connection reset")),
        _ => reply(200, &[]),
    });
    assert_eq!(Client::new(&ClientLayer::new(), &server).status(URL).await, 200);
    let failing = Server::new(|_, _| Err(BoxError::from("connection reset")));
    let client = Client::new(&ClientLayer::new().retries(1), &failing);
    assert_eq!(client.get(URL).await.unwrap_err().to_string(), "connection reset");
    assert_eq!(failing.arrived().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_are_dropped_while_a_server_refuses_nearly_all() {
    let server = Server::new(|_, _| reply(503, &[]));
    let client = Client::new(&ClientLayer::new().retries(0).max_wait(Duration::from_secs(600)), &server);
    let mut dropped = 0;
    for _ in 0..200 {
        dropped += usize::from(client.get(URL).await.is_err());
    }
    assert!(dropped > 20, "{dropped}");
    assert_eq!(server.arrived().len(), 200 - dropped);
}
