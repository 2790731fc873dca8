use std::net::IpAddr;

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use http::Request;
use http_body_util::BodyExt;
use tollgate::policy::model::Rule;
use tollgate::policy::{Policy, PolicyBuilder, RuleBuilder};
use tollgate::tower::PeerAddress;
use tollgate::{AsyncLimiter, Limiter, LimiterBuilder, ManualClock};
use tower::ServiceExt;

use super::Reply;

pub(crate) const S_NS: u64 = 1_000_000_000;

/// An address that is not a trusted proxy.
const STRANGER: &str = "203.0.113.9";

/// The limiter of a test that moves the clock.
pub(crate) type App = Limiter;

/// A clock that begins at a whole second, some time in 2027.
pub(crate) fn clock() -> ManualClock {
    ManualClock::at(1_800_000_000 * S_NS)
}

/// A limiter whose clock does not move.
pub(crate) fn built(limiter: LimiterBuilder) -> App {
    limiter.build_with_clock(clock()).unwrap()
}

/// A limiter with one rule and a change of the policy that the builder has no method for.
pub(crate) fn changed(rule: RuleBuilder, change: impl FnOnce(&mut Rule)) -> App {
    let mut policy = Policy::clone(&PolicyBuilder::default().rule(rule).build().unwrap());
    change(&mut policy.rules[0]);
    Limiter::with_clock(&policy.check().unwrap(), clock()).unwrap()
}

/// A service that responds to every path, with the layer.
pub(crate) fn hello(limiter: &AsyncLimiter) -> Router {
    behind(limiter, Router::new().fallback(any(|| async { "hello" })))
}

/// Any service behind a limiter.
pub(crate) fn behind(limiter: &AsyncLimiter, service: Router) -> Router {
    service.layer(limiter.layer())
}

/// A request from the stranger, without a server in between.
pub(crate) async fn get(app: &Router, path: &str) -> Reply {
    ask_from(app, STRANGER, Request::get(path).body(Body::empty()).unwrap()).await
}

/// Any request from any address.
pub(crate) async fn ask_from(app: &Router, peer: &str, mut request: Request<Body>) -> Reply {
    let peer: IpAddr = peer.parse().unwrap();
    request.extensions_mut().insert(PeerAddress(peer));
    let (parts, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply { status: parts.status.as_u16(), headers: parts.headers, body }
}
