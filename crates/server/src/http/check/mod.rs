//! `/v1/check` and `/v1/check/batch`: their bodies, and their answers.

pub(in crate::http) mod answer_body;
pub(in crate::http) mod batch;
pub(in crate::http) mod check_body;
pub(in crate::http) mod fast_body;

use std::fmt::Display;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::body;
use super::connection::{Caller, ConnectionShare};
use super::problem::Problem;
use super::response_body::ResponseBody;
use crate::engine::Engine;
use crate::front_end::FrontEnd;
use crate::whole_body::WholeBody;
use check_body::CheckBody;

/// The largest body of a check. Most take a few hundred bytes.
const MAX_CHECK_BYTES: usize = 64 << 10;

/// The bytes that an answer under a few rules takes.
pub(super) const ANSWER_BYTES: usize = 512;

/// Where the busiest route is.
pub(super) const CHECK_PATH: &str = "/v1/check";

/// `POST /v1/check`: one request, one decision.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Caller>,
    Extension(connection): Extension<Arc<ConnectionShare>>,
    body: Body,
) -> Response<Body> {
    answer_check(&engine, caller, &connection, body).await.map(Body::from)
}

/// The same, for who has not come through the router.
pub(super) async fn answer_check<B>(
    engine: &Engine,
    caller: Caller,
    connection: &ConnectionShare,
    body: B,
) -> Response<ResponseBody>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    let answer = match body::read_large(body, MAX_CHECK_BYTES, caller, &connection.share).await {
        Ok(body) if !body.is_large() && !engine.waits_for_store() => decide_now(engine, caller, &body),
        // On the heap: it is rare or waits for a network, and all others would be moved about with the room for it.
        Ok(body) => Box::pin(decide(engine, caller, connection, &body)).await,
        Err(problem) => Err(problem),
    };
    match answer {
        Ok(json) => respond(ResponseBody::from(json)),
        Err(problem) => problem.into_response().map(ResponseBody::from),
    }
}

/// Decides a check where nothing has to be waited for.
fn decide_now(engine: &Engine, caller: Caller, body: &[u8]) -> Result<Vec<u8>, Problem> {
    let check = CheckBody::parse(body)?;
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    answer_now(engine, caller, &check, &mut json);
    Ok(json)
}

async fn decide(
    engine: &Engine,
    caller: Caller,
    connection: &ConnectionShare,
    body: &WholeBody,
) -> Result<Vec<u8>, Problem> {
    // A large one takes long to understand, so that others of the same address wait for it and nobody else.
    let turn = if body.is_large() { Some(connection.share.turn().await) } else { None };
    let check = CheckBody::parse(body)?;
    drop(turn);
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    answer(engine, caller, &check, &mut json).await;
    Ok(json)
}

/// Decides a check in memory, and writes the answer behind what is there. `false` if the store is shared.
fn answer_now(engine: &Engine, caller: Caller, check: &CheckBody<'_>, json: &mut Vec<u8>) -> bool {
    let identities = check.identities();
    let request = check.request(&identities);
    let checked = engine.check_now(FrontEnd::Http, &request, check.wants_receipt(), caller.address);
    let is_decided = checked.is_some();
    if let Some((verdict, receipt)) = checked {
        answer_body::write(json, &verdict, receipt);
    }
    is_decided
}

/// The same wherever the store is.
pub(super) async fn answer(engine: &Engine, caller: Caller, check: &CheckBody<'_>, json: &mut Vec<u8>) {
    if answer_now(engine, caller, check, json) {
        return;
    }
    let identities = check.identities();
    let request = check.request(&identities);
    let (verdict, receipt) = engine.check(FrontEnd::Http, &request, check.wants_receipt(), caller.address).await;
    answer_body::write(json, &verdict, receipt);
}

pub(super) fn respond(json: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(json);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
