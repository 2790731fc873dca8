//! The HTTP front end: the only part that knows HTTP and JSON.

mod answer_body;
mod body;
mod check;
mod check_body;
mod connection;
mod limits_body;
mod problem;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};

use crate::engine::Engine;
use connection::Caller;
pub(crate) use connection::serve_connection;
pub use limits_body::LimitsBody;
use problem::Problem;

/// The largest body of a request. A check takes a few hundred bytes.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The format in which metrics are written.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What callers see.
pub(crate) fn public_router(engine: &Arc<Engine>) -> Router {
    let routes = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/v1/check", post(check::check))
        .route("/v1/limits", get(limits))
        // Also here, so that a scrape from another machine needs no admin listener that is open to it.
        .route("/metrics", get(metrics));
    finish(routes, engine)
}

/// What operators see.
pub(crate) fn admin_router(engine: &Arc<Engine>) -> Router {
    finish(Router::new().route("/metrics", get(metrics)), engine)
}

fn finish(routes: Router<Arc<Engine>>, engine: &Arc<Engine>) -> Router {
    routes.fallback(no_such_path).method_not_allowed_fallback(wrong_method).with_state(Arc::clone(engine))
}

async fn metrics(State(engine): State<Arc<Engine>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], engine.metrics_text())
}

/// `GET /readyz`: whether new requests should be sent here.
async fn ready(Extension(caller): Extension<Caller>) -> (StatusCode, &'static str) {
    if caller.is_stopping { (StatusCode::SERVICE_UNAVAILABLE, "stopping\n") } else { (StatusCode::OK, "ready\n") }
}

/// `GET /v1/limits`: what clients may know.
async fn limits(State(engine): State<Arc<Engine>>) -> Json<LimitsBody> {
    Json(LimitsBody::from(engine.published()))
}

async fn no_such_path(uri: Uri) -> Problem {
    Problem::no_such_path(uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::wrong_method(&method, uri.path())
}
