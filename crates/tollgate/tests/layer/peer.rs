//! The peer's address, and requests without one.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::Request;
use tollgate::tower::PeerAddress;
use tollgate::{Limiter, rule};
use tower::ServiceExt;

use crate::support::{App, clock, hello};

fn per_address() -> App {
    Limiter::builder().rule(rule("per-ip").per("client_ip").limit("1/h")).build_with_clock(clock()).unwrap()
}

async fn bare(app: &Router, request: Request<Body>) -> axum::response::Response {
    app.clone().oneshot(request).await.unwrap()
}

fn request() -> Request<Body> {
    Request::get("/").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn missing_peer_address_is_a_500_with_the_reason() {
    let app = hello(&per_address());
    for _ in 0..3 {
        let response = bare(&app, request()).await;
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["status"], 500);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("connect info") && detail.contains("PeerAddress"), "{detail}");
    }
}

/// gRPC clients read the status from a header field, which must not be OK.
#[tokio::test]
async fn missing_peer_address_is_grpc_internal() {
    let mut request = request();
    request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let response = bare(&hello(&per_address()), request).await;
    assert_eq!(response.headers()["grpc-status"], "13");
}

#[tokio::test]
async fn policy_without_addresses_needs_no_peer_address() {
    let limiter = Limiter::builder().rule(rule("all").limit("1/h")).build_with_clock(clock()).unwrap();
    let app = hello(&limiter);
    assert_eq!(bare(&app, request()).await.status(), 200);
    assert_eq!(bare(&app, request()).await.status(), 429);
}

#[tokio::test]
async fn address_list_needs_the_peer_address() {
    let limiter = Limiter::builder()
        .rule(rule("all").limit("9/h"))
        .with(|policy| policy.deny.client_ip = vec!["192.0.2.0/24".parse().unwrap()]);
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    assert_eq!(bare(&app, request()).await.status(), 500);
}

#[tokio::test]
async fn peer_address_is_found_in_axum_and_tonic_extensions() {
    let app = hello(&per_address());
    let mut from_axum = request();
    from_axum.extensions_mut().insert(ConnectInfo(SocketAddr::from(([198, 51, 100, 1], 4711))));
    assert_eq!(bare(&app, from_axum).await.status(), 200);

    // Another port, or our own extension, is the same client.
    for at in 0..2 {
        let mut again = request();
        match at {
            0 => again.extensions_mut().insert(ConnectInfo(SocketAddr::from(([198, 51, 100, 1], 5)))).is_some(),
            _ => again.extensions_mut().insert(PeerAddress(IpAddr::from([198, 51, 100, 1]))).is_some(),
        };
        assert_eq!(bare(&app, again).await.status(), 429);
    }
}

#[tokio::test]
async fn peer_address_function_is_used() {
    #[derive(Clone)]
    struct Somewhere(IpAddr);

    let layer = per_address().layer().peer_address(|extensions| Some(extensions.get::<Somewhere>()?.0));
    let app = Router::new().fallback(|| async { "hello" }).layer(layer);
    let from = |last: u8| {
        let mut request = request();
        request.extensions_mut().insert(Somewhere(IpAddr::from([198, 51, 100, last])));
        // An address in another place is ignored.
        request.extensions_mut().insert(PeerAddress(IpAddr::from([192, 0, 2, last])));
        request
    };
    assert_eq!(bare(&app, from(1)).await.status(), 200);
    assert_eq!(bare(&app, from(1)).await.status(), 429);
    assert_eq!(bare(&app, from(2)).await.status(), 200);
    assert_eq!(bare(&app, request()).await.status(), 500);
}
