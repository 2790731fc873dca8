//! Tests the example over loopback.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_greeter::{greet, serve};

#[tokio::test(flavor = "multi_thread")]
async fn three_calls_pass_and_the_fourth_is_refused_with_retry_after() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener));
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    for remaining in ["2", "1", "0"] {
        let reply = greet(&channel, "you").await.unwrap();
        assert_eq!(reply.metadata().get("x-ratelimit-remaining").unwrap(), remaining);
        assert_eq!(reply.into_inner().message, "Hello, you!");
    }
    let refused = greet(&channel, "you").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let seconds: u64 = refused.metadata().get("retry-after").unwrap().to_str().unwrap().parse().unwrap();
    // A token refills in 20 s, of which a slow machine may have spent some.
    assert!((1..=20).contains(&seconds), "{seconds}");
}
