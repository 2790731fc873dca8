//! Tests the limits of the example over loopback.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use tokio::net::TcpListener;

async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum_policy::serve(listener, axum_policy::app().unwrap()));
    address
}

/// Sends a request and returns the whole response.
fn send(address: SocketAddr, request_line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "{request_line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tier_has_its_own_limit() {
    let address = start().await;
    let passes = |headers: &str| (0..8).filter(|_| status(&send(address, "GET /", headers)) == "200").count();
    assert_eq!(passes("x-user-id: ann\r\n"), 5);
    assert_eq!(passes("x-user-id: ben\r\nx-tier: pro\r\n"), 8);
    assert_eq!(passes("x-user-id: eve\r\nx-tier: enterprise\r\n"), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_logins_are_warned_rejected_and_blocked() {
    let address = start().await;
    let outcome = |_| {
        let response = send(address, "POST /auth/login", "");
        let is_warned = response.contains("x-ratelimit-warning: login\r\n");
        let is_blocked = response.contains("abnormal-usage-detected");
        match (status(&response), is_warned, is_blocked) {
            ("200", false, false) => "passed",
            ("200", true, false) => "warned",
            ("429", false, false) => "rejected",
            ("429", false, true) => "blocked",
            _ => panic!("{response}"),
        }
    };
    let outcomes: Vec<&str> = (0..8).map(outcome).collect();
    assert_eq!(outcomes, ["passed", "passed", "passed", "warned", "rejected", "rejected", "blocked", "blocked"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn third_concurrent_report_is_refused() {
    let address = start().await;
    let request = move || send(address, "GET /reports/2026", "x-user-id: ann\r\n");
    let all: Vec<_> = (0..3).map(|_| thread::spawn(request)).collect();
    let mut statuses: Vec<String> = all.into_iter().map(|one| status(&one.join().unwrap()).to_owned()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["200", "200", "429"]);
    // Both have ended and released their permits.
    assert_eq!(status(&request()), "200");
}

/// axum serves these paths as reports, although they are other paths if escaped slashes are decoded.
#[tokio::test(flavor = "multi_thread")]
async fn report_with_escaped_slashes_counts_as_report() {
    let address = start().await;
    let request = move |at: usize| send(address, &format!("GET /reports/2026%2f..%2f..%2fx{at}"), "x-user-id: ann\r\n");
    let all: Vec<_> = (0..3).map(|at| thread::spawn(move || request(at))).collect();
    let mut statuses: Vec<String> = all.into_iter().map(|one| status(&one.join().unwrap()).to_owned()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["200", "200", "429"]);
}
