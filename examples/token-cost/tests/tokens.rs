//! Tests the example over loopback.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use tokio::net::TcpListener;

async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(token_cost::serve(listener, token_cost::app().unwrap()));
    address
}

/// Sends a request of a user. Returns the status and the body.
fn send(address: SocketAddr, request_line: &str, body: &str) -> (u16, Value) {
    let (status, body) = send_as("x-user-id: ann\r\n", address, request_line, body);
    (status, serde_json::from_str(&body).unwrap())
}

fn send_as(user: &str, address: SocketAddr, request_line: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{request_line} HTTP/1.1\r\nhost: localhost\r\n{user}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn remaining(address: SocketAddr) -> u64 {
    send(address, "GET /budget/ann", "").1["remaining"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn true_cost_replaces_the_estimate() {
    let address = start().await;
    assert_eq!(remaining(address), 1_000);
    let (status, answer) = send(address, "POST /complete", "why is the sky blue");
    assert_eq!((status, &answer["tokens_used"]), (200, &20.into()));
    assert_eq!(answer["remaining_by_estimate"], 1_000 - token_cost::ESTIMATE);
    assert_eq!(remaining(address), 980);
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_beyond_the_budget_delays_the_next_request() {
    let address = start().await;
    let long = vec!["ninechars"; 150].join(" ");
    let (status, answer) = send(address, "POST /complete", &long);
    assert_eq!((status, &answer["tokens_used"]), (200, &1_500.into()));
    assert_eq!(remaining(address), 0);
    let (status, problem) = send(address, "POST /complete", "and now");
    assert_eq!((status, &problem["rule"]), (429, &"tokens".into()));
    // The debt is 500, and the next estimate needs 100 more, at 1,000 an hour.
    let seconds = problem["retry_after_ms"].as_u64().unwrap() / 1_000;
    assert!((2_130..=2_160).contains(&seconds), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_user_gets_401() {
    assert_eq!(send_as("", start().await, "POST /complete", "why").0, 401);
}
