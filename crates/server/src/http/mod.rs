//! The HTTP front end: the only part that depends on HTTP and JSON.

mod admin;
mod check;
mod comparison_body;
mod connection;
mod explanation_body;
mod forward_auth;
mod limits_body;
mod openapi;
mod problem;
mod promise_body;
mod receipt;
mod reserved_response;
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
pub(crate) use admin::{AdminState, admin_routes};
#[cfg(fuzzing)]
pub(crate) use check::strict_body::assert_both_parsers_agree;
pub use comparison_body::ComparisonBody;
#[cfg(fuzzing)]
pub(crate) use connection::HttpCaller;
#[cfg(not(fuzzing))]
use connection::HttpCaller;
pub(crate) use connection::serve_connection;
pub use explanation_body::ExplanationBody;
pub use limits_body::LimitsBody;
use problem::ProblemDetails;
pub use promise_body::PromiseBody;
use reserved_response::ReservedResponse;
use routes::HttpRouter;

/// The content type of metrics.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

const METRICS_PATH: &str = "/metrics";

/// Returns the router of the public listener.
pub(crate) fn public(engine: &Arc<Engine>, access: CallerAccess) -> HttpRouter {
    let is_served = |path: &str| path != METRICS_PATH || access.has_metrics;
    let served = public_routes().into_iter().filter(|(path, _)| is_served(path));
    let routes = served.fold(Router::new(), |router, (path, route)| router.route(path, route));
    HttpRouter::new(finish(routes, engine), Some(access), engine)
}

/// A list, so that a test can compare it with the OpenAPI description.
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
        // Also on the public listener, so that scraping from another machine does not require an exposed admin
        // listener.
        (METRICS_PATH, get(public_metrics)),
    ]
}

fn finish(routes: Router<Arc<Engine>>, engine: &Arc<Engine>) -> Router {
    routes.fallback(no_such_path).method_not_allowed_fallback(wrong_method).with_state(Arc::clone(engine))
}

/// `GET /metrics` for callers, without rules that the policy does not publish.
async fn public_metrics(State(engine): State<Arc<Engine>>, Extension(caller): Extension<Arc<HttpCaller>>) -> Response {
    static LONGEST: AtomicUsize = AtomicUsize::new(0);
    ReservedResponse::of(&caller, &LONGEST, PROMETHEUS_TEXT, || engine.public_metrics_text().into_bytes()).await
}

async fn metrics(State(engine): State<Arc<Engine>>, Extension(caller): Extension<Arc<HttpCaller>>) -> Response {
    static LONGEST: AtomicUsize = AtomicUsize::new(0);
    ReservedResponse::of(&caller, &LONGEST, PROMETHEUS_TEXT, || engine.metrics_text().into_bytes()).await
}

/// `GET /readyz`: whether the instance should receive requests.
async fn ready(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<HttpCaller>>,
) -> (StatusCode, &'static str) {
    if caller.stopping.is_set() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else if engine.secret_key_differs() {
        (StatusCode::SERVICE_UNAVAILABLE, "other instances hash secret values under another key\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

/// `GET /v1/limits`: the published limits.
async fn limits(State(engine): State<Arc<Engine>>, Extension(caller): Extension<Arc<HttpCaller>>) -> Response {
    static LONGEST: AtomicUsize = AtomicUsize::new(0);
    let body = || engine.with_published(|published| LimitsBody::from(published));
    // Published limits are text and numbers, which always serialize.
    let json = || serde_json::to_vec(&body()).unwrap_or_default();
    ReservedResponse::of(&caller, &LONGEST, "application/json", json).await
}

async fn no_such_path(uri: Uri) -> ProblemDetails {
    ProblemDetails::no_such_path(uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> ProblemDetails {
    ProblemDetails::wrong_method(&method, uri.path())
}
