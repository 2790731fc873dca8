//! `/v1/check` and `/v1/check/batch`: request and response bodies.

pub(in crate::http) mod batch;
pub(in crate::http) mod check_body;
pub(in crate::http) mod strict_body;
pub(in crate::http) mod verdict_body;

use std::fmt::Display;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::Full;
use serde_json::Value;

use super::connection::{HttpCaller, ResponseBody};
use super::problem::ProblemDetails;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use crate::request_body::CompleteBody;
use check_body::CheckBody;

/// The largest body of a check. Most take a few hundred bytes.
const MAX_CHECK_BYTES: usize = 64 << 10;

/// The usual size of a response under a few rules.
const RESPONSE_BYTES: usize = 512;

/// The path of the busiest route.
pub(super) const CHECK_PATH: &str = "/v1/check";

/// `POST /v1/check`: decides one request.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    body: Body,
) -> Response<Body> {
    respond_to_check(&engine, &caller, body).await.map(Body::new)
}

/// The same for requests that bypass the router.
pub(super) async fn respond_to_check<B>(engine: &Engine, caller: &HttpCaller, body: B) -> Response<ResponseBody>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    let outcome = match caller.read_body(body, MAX_CHECK_BYTES).await {
        Ok(body) if !body.is_large() && !engine.waits_for_store() => decide_now(engine, caller, &body),
        // Boxed: it is rare or waits for a network, and all other futures would be moved with space for it.
        Ok(body) => Box::pin(decide(engine, caller, &body)).await,
        Err(problem) => Err(problem),
    };
    match outcome {
        Ok(json) => {
            let mut response = Response::new(ResponseBody::Left(Full::new(json.into())));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(problem) => problem.into_response().map(ResponseBody::Right),
    }
}

/// Decides a check without waiting.
fn decide_now(engine: &Engine, caller: &HttpCaller, body: &[u8]) -> Result<Vec<u8>, ProblemDetails> {
    let mut tree = Value::Null;
    let check = CheckBody::parse(body, &mut tree)?;
    let mut json = Vec::with_capacity(RESPONSE_BYTES);
    respond_now(engine, caller, &check, &mut json);
    Ok(json)
}

async fn decide(engine: &Engine, caller: &HttpCaller, body: &CompleteBody) -> Result<Vec<u8>, ProblemDetails> {
    // Parsing a large body takes long, so only other work of the same address waits for it.
    let turn = if body.is_large() { Some(caller.share.turn().await) } else { None };
    let mut tree = Value::Null;
    let check = CheckBody::parse(body, &mut tree)?;
    drop(turn);
    let mut json = Vec::with_capacity(RESPONSE_BYTES);
    respond(engine, caller, &check, &mut json).await;
    Ok(json)
}

/// Decides a check in memory and appends the response. `false` for a shared store.
fn respond_now(engine: &Engine, caller: &HttpCaller, check: &CheckBody<'_>, json: &mut Vec<u8>) -> bool {
    let checked =
        engine.check_with_receipt_now(FrontEnd::Http, &check.request(), check.wants_receipt(), caller.address);
    let is_decided = checked.is_some();
    if let Some((verdict, receipt)) = checked {
        verdict_body::write(json, &verdict, receipt);
    }
    is_decided
}

/// The same for every store.
async fn respond(engine: &Engine, caller: &HttpCaller, check: &CheckBody<'_>, json: &mut Vec<u8>) {
    if respond_now(engine, caller, check, json) {
        return;
    }
    let request = check.request();
    let (verdict, receipt) =
        engine.check_with_receipt(FrontEnd::Http, &request, check.wants_receipt(), caller.address).await;
    verdict_body::write(json, &verdict, receipt);
}
