//! Tests the example over loopback.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::time::Duration;

use tokio::net::TcpListener;
use tollgate::client::ClientLayer;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_greeter::{greet, serve};
use tower_layer::Layer;

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

/// The channel with the client layer around it reads what remains from the reply, and does not call too early.
#[tokio::test(flavor = "multi_thread")]
async fn paced_channel_fails_without_a_call_where_the_wait_is_too_long() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener));
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let paced = ClientLayer::new().max_wait(Duration::from_secs(2)).layer(channel.clone());
    assert_eq!(greet(&paced, "you").await.unwrap().into_inner().message, "Hello, you!");
    // Two tokens remain, and another takes 20 s.
    let early = greet(&paced, "you").await.unwrap_err();
    assert!(early.message().contains("the request would wait"), "{early:?}");
    let reply = greet(&channel, "you").await.unwrap();
    assert_eq!(reply.metadata().get("x-ratelimit-remaining").unwrap(), "1");
}
