//! The example does what it says, over loopback.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_greeter::{greet, serve};

#[tokio::test(flavor = "multi_thread")]
async fn three_are_greeted_and_the_fourth_is_told_when_to_come_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener));
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    for left in ["2", "1", "0"] {
        let reply = greet(&channel, "you").await.unwrap();
        assert_eq!(reply.metadata().get("x-ratelimit-remaining").unwrap(), left);
        assert_eq!(reply.into_inner().message, "Hello, you!");
    }
    let refused = greet(&channel, "you").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let seconds: u64 = refused.metadata().get("retry-after").unwrap().to_str().unwrap().parse().unwrap();
    // A token takes 20 s, of which a slow machine has spent some.
    assert!((1..=20).contains(&seconds), "{seconds}");
}
