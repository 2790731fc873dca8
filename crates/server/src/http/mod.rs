//! The HTTP front end: the only part that knows HTTP and JSON.

mod admin;
mod check;
mod connection;
mod forward_auth;
mod held_answer;
mod limits_body;
mod openapi;
mod problem;
mod promise_body;
mod receipt;
mod routes;
mod strict_json;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, any, get, post};
use axum::{Extension, Router};

use crate::access::CallerAccess;
use crate::engine::Engine;
pub use admin::ReloadRequest;
pub(crate) use admin::{Admin, admin_routes};
#[cfg(fuzzing)]
pub(crate) use check::strict_body::assert_both_parsers_agree;
#[cfg(fuzzing)]
pub(crate) use connection::Caller as HttpCaller;
use connection::Caller;
pub(crate) use connection::serve_connection;
use held_answer::HeldAnswer;
pub use limits_body::LimitsBody;
use problem::Problem;
pub use promise_body::PromiseBody;
use routes::Routes;

/// The format in which metrics are written.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

const METRICS_PATH: &str = "/metrics";

/// What callers see.
pub(crate) fn public(engine: &Arc<Engine>, access: CallerAccess) -> Routes {
    let is_shown = |path: &str| path != METRICS_PATH || access.has_metrics;
    let shown = public_routes().into_iter().filter(|(path, _)| is_shown(path));
    let routes = shown.fold(Router::new(), |router, (path, route)| router.route(path, route));
    Routes::new(finish(routes, engine), Some(access), engine)
}

/// As a list, so that the description can be held to it.
fn public_routes() -> Vec<(&'static str, MethodRouter<Arc<Engine>>)> {
    vec![
        ("/healthz", get(async || "ok\n")),
        ("/readyz", get(ready)),
        (check::CHECK_PATH, post(check::check)),
        ("/v1/check/batch", post(check::batch::batch)),
        ("/v1/refund", post(receipt::refund)),
        ("/v1/settle", post(receipt::settle)),
        ("/v1/release", post(receipt::release)),
        (routes::FORWARD_AUTH_PATH, any(forward_auth::forward_auth)),
        ("/v1/limits", get(limits)),
        ("/openapi.json", get(openapi::openapi)),
        // Also here, so that a scrape from another machine needs no admin listener that is open to it.
        (METRICS_PATH, get(public_metrics)),
    ]
}

fn finish(routes: Router<Arc<Engine>>, engine: &Arc<Engine>) -> Router {
    routes.fallback(no_such_path).method_not_allowed_fallback(wrong_method).with_state(Arc::clone(engine))
}

/// `GET /metrics` for callers, who are not told of rules that the policy does not publish.
async fn public_metrics(State(engine): State<Arc<Engine>>, Extension(caller): Extension<Arc<Caller>>) -> Response {
    static LONGEST: AtomicUsize = AtomicUsize::new(0);
    HeldAnswer::of(&caller, &LONGEST, PROMETHEUS_TEXT, || engine.public_metrics_text().into_bytes()).await
}

async fn metrics(State(engine): State<Arc<Engine>>, Extension(caller): Extension<Arc<Caller>>) -> Response {
    static LONGEST: AtomicUsize = AtomicUsize::new(0);
    HeldAnswer::of(&caller, &LONGEST, PROMETHEUS_TEXT, || engine.metrics_text().into_bytes()).await
}

/// `GET /readyz`: whether new requests should be sent here.
async fn ready(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<Caller>>,
) -> (StatusCode, &'static str) {
    if caller.stopping.is_up() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else if engine.counts_apart() {
        (StatusCode::SERVICE_UNAVAILABLE, "other instances hash secret values under another key\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

/// `GET /v1/limits`: what clients may know.
async fn limits(State(engine): State<Arc<Engine>>, Extension(caller): Extension<Arc<Caller>>) -> Response {
    static LONGEST: AtomicUsize = AtomicUsize::new(0);
    let body = || engine.with_published(|published| LimitsBody::from(published));
    // What is published is plain text and numbers.
    let json = || serde_json::to_vec(&body()).unwrap_or_default();
    HeldAnswer::of(&caller, &LONGEST, "application/json", json).await
}

async fn no_such_path(uri: Uri) -> Problem {
    Problem::no_such_path(uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::wrong_method(&method, uri.path())
}
