//! Tests the example over loopback.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tokio::net::TcpListener;

/// Returns the whole response to `GET /`.
fn get(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn five_requests_pass_and_the_sixth_is_refused_with_retry_after() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum_hello::serve(listener, axum_hello::app().unwrap()));
    for remaining in (0..5).rev() {
        let response = get(address);
        assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("Hello!\n"), "{response}");
        assert!(response.contains(&format!("x-ratelimit-remaining: {remaining}\r\n")), "{response}");
    }
    let refused = get(address);
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    assert_eq!(refused.matches("retry-after: ").count(), 1, "{refused}");
    assert!(refused.contains("\"violated-policies\":[\"per-ip\"]"), "{refused}");
}
