//! `/v1/check` and `/v1/check/batch`: their bodies, and their answers.

pub(in crate::http) mod answer_body;
pub(in crate::http) mod batch;
mod check_body;
pub(in crate::http) mod strict_body;

use std::fmt::Display;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::Full;
use serde_json::Value;

use super::connection::{Caller, ResponseBody};
use super::problem::Problem;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use crate::whole_body::WholeBody;
use check_body::CheckBody;

/// The largest body of a check. Most take a few hundred bytes.
const MAX_CHECK_BYTES: usize = 64 << 10;

/// The bytes that an answer under a few rules takes.
const ANSWER_BYTES: usize = 512;

/// Where the busiest route is.
pub(super) const CHECK_PATH: &str = "/v1/check";

/// `POST /v1/check`: one request, one decision.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<Caller>>,
    body: Body,
) -> Response<Body> {
    answer_check(&engine, &caller, body).await.map(Body::new)
}

/// The same, for who has not come through the router.
pub(super) async fn answer_check<B>(engine: &Engine, caller: &Caller, body: B) -> Response<ResponseBody>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    let answer = match caller.read_body(body, MAX_CHECK_BYTES).await {
        Ok(body) if !body.is_large() && !engine.waits_for_store() => decide_now(engine, caller, &body),
        // On the heap: it is rare or waits for a network, and all others would be moved about with the room for it.
        Ok(body) => Box::pin(decide(engine, caller, &body)).await,
        Err(problem) => Err(problem),
    };
    match answer {
        Ok(json) => {
            let mut response = Response::new(ResponseBody::Left(Full::new(json.into())));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(problem) => problem.into_response().map(ResponseBody::Right),
    }
}

/// Decides a check where nothing has to be waited for.
fn decide_now(engine: &Engine, caller: &Caller, body: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut tree = Value::Null;
    let check = CheckBody::parse(body, &mut tree)?;
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    answer_now(engine, caller, &check, &mut json);
    Ok(json)
}

async fn decide(engine: &Engine, caller: &Caller, body: &WholeBody) -> Result<Vec<u8>, Problem> {
    // A large one takes long to understand, so that others of the same address wait for it and nobody else.
    let turn = if body.is_large() { Some(caller.share.turn().await) } else { None };
    let mut tree = Value::Null;
    let check = CheckBody::parse(body, &mut tree)?;
    drop(turn);
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    answer(engine, caller, &check, &mut json).await;
    Ok(json)
}

/// Decides a check in memory, and writes the answer behind what is there. `false` if the store is shared.
fn answer_now(engine: &Engine, caller: &Caller, check: &CheckBody<'_>, json: &mut Vec<u8>) -> bool {
    let checked = engine.check_now(FrontEnd::Http, &check.request(), check.wants_receipt(), caller.address);
    let is_decided = checked.is_some();
    if let Some((verdict, receipt)) = checked {
        answer_body::write(json, &verdict, receipt);
    }
    is_decided
}

/// The same wherever the store is.
async fn answer(engine: &Engine, caller: &Caller, check: &CheckBody<'_>, json: &mut Vec<u8>) {
    if answer_now(engine, caller, check, json) {
        return;
    }
    let request = check.request();
    let (verdict, receipt) = engine.check(FrontEnd::Http, &request, check.wants_receipt(), caller.address).await;
    answer_body::write(json, &verdict, receipt);
}
