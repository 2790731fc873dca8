use std::fmt::Display;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::check_body::CheckBody;
use super::connection::Caller;
use super::problem::Problem;
use super::response_body::ResponseBody;
use super::{answer_body, body};
use crate::engine::Engine;
use crate::front_end::FrontEnd;

/// The largest body of a check. Most take a few hundred bytes.
const MAX_CHECK_BYTES: usize = 64 << 10;

/// The largest body of a batch: a kilobyte for each of its checks.
const MAX_BATCH_BYTES: usize = CheckBody::MAX_BATCH << 10;

/// The bytes that an answer under a few rules takes.
const ANSWER_BYTES: usize = 512;

/// Where the busiest route is.
pub(super) const CHECK_PATH: &str = "/v1/check";

/// `POST /v1/check`: one request, one decision.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Response<Body> {
    answer_check(&engine, caller, body).await.map(Body::from)
}

/// The same, for who has not come through the router.
pub(super) async fn answer_check<B>(engine: &Engine, caller: Caller, body: B) -> Response<ResponseBody>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    match decide(engine, caller, body).await {
        Ok(json) => respond(json),
        Err(problem) => problem.into_response().map(ResponseBody::from),
    }
}

async fn decide<B>(engine: &Engine, caller: Caller, body: B) -> Result<Vec<u8>, Problem>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    let body = body::read(body, MAX_CHECK_BYTES, caller).await?;
    let check = CheckBody::parse(&body)?;
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    answer(engine, &check, &mut json).await;
    Ok(json)
}

/// `POST /v1/check/batch`: several requests, decided one after the other. If
/// one cannot be read, none is decided.
pub(super) async fn batch(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Response<Body>, Problem> {
    let checks = CheckBody::parse_batch(&body::read(body, MAX_BATCH_BYTES, caller).await?)?;
    let mut json = Vec::with_capacity(ANSWER_BYTES * checks.len() + 2);
    json.push(b'[');
    for (at, check) in checks.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        answer(&engine, check, &mut json).await;
    }
    json.push(b']');
    Ok(respond(json).map(Body::from))
}

/// Decides a check, and writes the answer behind what is there.
async fn answer(engine: &Engine, check: &CheckBody<'_>, json: &mut Vec<u8>) {
    let identities = check.identities();
    let (verdict, receipt) = engine.check(FrontEnd::Http, &check.request(&identities), check.wants_receipt()).await;
    answer_body::write(json, &verdict, receipt);
}

fn respond(json: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(json));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
