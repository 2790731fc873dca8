//! The example obeys its policy, over loopback.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

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

/// The whole response, as it came.
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
async fn tiers_have_limits_of_their_own() {
    let address = start().await;
    let passes = |headers: &str| (0..8).filter(|_| status(&send(address, "GET /", headers)) == "200").count();
    assert_eq!(passes("x-user-id: ann\r\n"), 5);
    assert_eq!(passes("x-user-id: ben\r\nx-tier: pro\r\n"), 8);
    assert_eq!(passes("x-user-id: eve\r\nx-tier: enterprise\r\n"), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn logging_in_over_and_over_is_warned_of_rejected_and_blocked() {
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
async fn two_reports_at_once_are_made_and_a_third_is_refused() {
    let address = start().await;
    let ask = move || send(address, "GET /reports/2026", "x-user-id: ann\r\n");
    let all: Vec<_> = (0..3).map(|_| thread::spawn(ask)).collect();
    let mut statuses: Vec<String> = all.into_iter().map(|one| status(&one.join().unwrap()).to_owned()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["200", "200", "429"]);
    // They are done, and their permits are back.
    assert_eq!(status(&ask()), "200");
}

/// What axum serves as a report is a report, whatever it would be if an escaped slash were one.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_spelled_in_another_way_is_a_report() {
    let address = start().await;
    let ask = move |at: usize| send(address, &format!("GET /reports/2026%2f..%2f..%2fx{at}"), "x-user-id: ann\r\n");
    let all: Vec<_> = (0..3).map(|at| thread::spawn(move || ask(at))).collect();
    let mut statuses: Vec<String> = all.into_iter().map(|one| status(&one.join().unwrap()).to_owned()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["200", "200", "429"]);
}
