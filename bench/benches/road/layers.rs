//! An axum router without a layer, with tower_governor's, and with ours, called in this process.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::post;
use axum::{Router, http};
use governor::middleware::StateInformationMiddleware;
use tollgate::Limiter;
use tollgate::tower::TollgateLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;
use tower_layer::Layer;
use tower_service::Service;

use crate::limiters::{KEYS, at_once, with_rate};

/// A service that only forwards requests.
#[derive(Clone)]
pub(crate) struct Idle<S>(S);

#[derive(Clone)]
pub(crate) struct IdleLayer;

impl<S> Layer<S> for IdleLayer {
    type Service = Idle<S>;

    fn layer(&self, inner: S) -> Idle<S> {
        Idle(inner)
    }
}

impl<S: Service<R>, R> Service<R> for Idle<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}

/// A router that serves requests of as many clients as there are keys.
pub(crate) trait Answering {
    /// Serves one request. Returns whether it passed.
    fn answer(&mut self, key: usize) -> bool;

    /// Whether a response has all expected rate limit headers.
    fn has_all_fields(&mut self, key: usize) -> bool;
}

struct Routed<S> {
    service: S,
    fields: usize,
}

impl<S, B> Answering for Routed<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
{
    fn answer(&mut self, key: usize) -> bool {
        self.response(key).status() == http::StatusCode::OK
    }

    fn has_all_fields(&mut self, key: usize) -> bool {
        let response = self.response(key);
        response.headers().keys().filter(|name| name.as_str().contains("ratelimit")).count() == self.fields
    }
}

impl<S, B> Routed<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
{
    fn response(&mut self, key: usize) -> http::Response<B> {
        let response = at_once(self.service.call(request(key)));
        response.unwrap_or_else(|never: Infallible| match never {})
    }
}

/// A router without a layer.
pub(crate) fn without_layer() -> Box<dyn Answering> {
    Box::new(Routed { service: hello(), fields: 0 })
}

/// A router with a layer that does nothing, by `Router::layer`.
pub(crate) fn idle_by_router() -> Box<dyn Answering> {
    Box::new(Routed { service: hello().layer(IdleLayer), fields: 0 })
}

/// tower_governor with its two headers around a router.
pub(crate) fn governor() -> Box<dyn Answering> {
    Box::new(Routed { service: governor_layer().layer(hello()), fields: 2 })
}

/// The same by `Router::layer`.
pub(crate) fn governor_by_router() -> Box<dyn Answering> {
    Box::new(Routed { service: hello().layer(governor_layer()), fields: 2 })
}

/// tollgate's layer with all five fields around a router.
pub(crate) fn tollgate(policy: &str) -> Box<dyn Answering> {
    Box::new(Routed { service: tollgate_layer(policy).layer(hello()), fields: 5 })
}

/// The same by `Router::layer`, which boxes the service and its responses.
pub(crate) fn tollgate_by_router(policy: &str) -> Box<dyn Answering> {
    Box::new(Routed { service: hello().layer(tollgate_layer(policy)), fields: 5 })
}

fn governor_layer() -> GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body> {
    let config = GovernorConfigBuilder::default()
        .per_second(1_000)
        .burst_size(1_000_000_000)
        .key_extractor(PeerIpKeyExtractor)
        .use_headers()
        .finish();
    GovernorLayer::new(Arc::new(config.unwrap_or_else(|| unreachable!("a period and a burst are not 0"))))
}

fn tollgate_layer(policy: &str) -> TollgateLayer {
    Limiter::from_yaml(&with_rate(policy)).unwrap_or_else(|error| panic!("{error}")).layer()
}

fn hello() -> Router {
    Router::new().route("/auth/login", post(async || "hello"))
}

/// A request as hyper passes it to the router.
fn request(key: usize) -> http::Request<Body> {
    let peer = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + 7 * (key % KEYS) as u32), 40_000));
    let built = http::Request::post("/auth/login")
        .header("host", "localhost")
        .header("x-user", format!("user-{key:08}"))
        .extension(ConnectInfo(peer))
        .body(Body::empty());
    built.unwrap_or_else(|error| unreachable!("{error}"))
}
