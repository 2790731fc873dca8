//! An axum router without a layer, with tower_governor's, and with ours, called in this process.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::post;
use axum::{Router, http};
use tollgate::Limiter;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;
use tower_layer::Layer;
use tower_service::Service;

use crate::limiters::{KEYS, at_once, with_rate};

/// A layer that passes every request on.
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

/// A router that is asked by as many clients as there are keys.
pub(crate) struct Routed {
    router: Router,
    fields: usize,
}

impl Routed {
    pub(crate) fn without_layer() -> Routed {
        Routed { router: hello(), fields: 0 }
    }

    pub(crate) fn idle() -> Routed {
        Routed { router: hello().layer(IdleLayer), fields: 0 }
    }

    /// tower_governor with its two headers.
    pub(crate) fn governor() -> Routed {
        let config = GovernorConfigBuilder::default()
            .per_second(1_000)
            .burst_size(1_000_000_000)
            .key_extractor(PeerIpKeyExtractor)
            .use_headers()
            .finish();
        let config = Arc::new(config.unwrap_or_else(|| unreachable!("a period and a burst are not 0")));
        Routed { router: hello().layer(GovernorLayer::new(config)), fields: 2 }
    }

    /// Ours with all five fields.
    pub(crate) fn tollgate(policy: &str) -> Routed {
        let limiter = Limiter::from_yaml(&with_rate(policy)).unwrap_or_else(|error| panic!("{error}"));
        Routed { router: hello().layer(limiter.layer()), fields: 5 }
    }

    /// Answers one request, and says whether it passed.
    pub(crate) fn answer(&mut self, key: usize) -> bool {
        self.response(key).status() == http::StatusCode::OK
    }

    /// Whether a response has as many fields about limits as it should.
    pub(crate) fn has_all_fields(&mut self, key: usize) -> bool {
        let response = self.response(key);
        response.headers().keys().filter(|name| name.as_str().contains("ratelimit")).count() == self.fields
    }

    fn response(&mut self, key: usize) -> http::Response<Body> {
        let response = at_once(self.router.call(request(key)));
        response.unwrap_or_else(|never: Infallible| match never {})
    }
}

fn hello() -> Router {
    Router::new().route("/auth/login", post(async || "hello"))
}

/// What hyper would hand to the router.
fn request(key: usize) -> http::Request<Body> {
    let peer = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + 7 * (key % KEYS) as u32), 40_000));
    let built = http::Request::post("/auth/login")
        .header("host", "localhost")
        .header("x-user", format!("user-{key:08}"))
        .extension(ConnectInfo(peer))
        .body(Body::empty());
    built.unwrap_or_else(|error| unreachable!("{error}"))
}
