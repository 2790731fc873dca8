use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use memchr::memchr_iter;
use serde_json::Value;

use super::strict_body::{MAX_BATCH, parse_batch};
use crate::engine::Engine;
use crate::http::check::{self, RESPONSE_BYTES};
use crate::http::connection::HttpCaller;
use crate::http::problem::ProblemDetails;
use crate::http::reserved_response::ReservedResponse;
use crate::listen::Resource;

/// The largest body of a batch: a kilobyte for each of its checks.
const MAX_BATCH_BYTES: usize = MAX_BATCH << 10;

/// The memory of a parsed batch, per byte and at most: the number of its values is limited.
const PARSED_BYTES_PER_BYTE: usize = 16;
const MAX_PARSED_BYTES: usize = 4 << 20;

/// How many checks are decided before the task yields.
const CHECKS_BETWEEN_YIELDS: usize = 32;

/// The longest response to one check so far: the number of rules in a policy is not known in advance.
static LONGEST_RESPONSE: AtomicUsize = AtomicUsize::new(RESPONSE_BYTES);

/// `POST /v1/check/batch`: decides several requests in order. If one cannot be parsed, none is decided.
///
/// The response may be a hundred times as long as the batch, and a client may not read it. So memory for it is
/// reserved before anything is decided.
pub(in crate::http) async fn batch(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    body: Body,
) -> Result<impl IntoResponse, ProblemDetails> {
    let body = caller.read_body(body, MAX_BATCH_BYTES).await?;
    let reserved = caller.share.reserve(Resource::ResponseBytes, estimated_bytes(&body)).await;
    let mut turn = Some(caller.share.turn().await);
    let mut tree = Value::Null;
    let checks = parse_batch(&body, &mut tree)?;
    if engine.waits_for_store() {
        // Waiting for the store uses no processor.
        turn = None;
    }
    // Another response may have been longer since the reservation.
    let expected = LONGEST_RESPONSE.load(Relaxed) * checks.len() + 2;
    let mut json = Vec::with_capacity(expected.min(reserved.bytes()));
    json.push(b'[');
    for (at, check) in checks.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        check::respond(&engine, &caller, check, &mut json).await;
        if at % CHECKS_BETWEEN_YIELDS == CHECKS_BETWEEN_YIELDS - 1 {
            tokio::task::yield_now().await;
        }
    }
    drop(turn);
    json.push(b']');
    LONGEST_RESPONSE.fetch_max(json.len().div_ceil(checks.len().max(1)), Relaxed);
    let json = ReservedResponse::bytes(json, reserved, caller.activity.begin_response());
    Ok(([(header::CONTENT_TYPE, "application/json")], json))
}

/// Estimates the memory of a batch and its response before it is parsed.
fn estimated_bytes(body: &[u8]) -> usize {
    let checks = memchr_iter(b'{', body).count().min(MAX_BATCH);
    let parsed = (PARSED_BYTES_PER_BYTE * body.len()).min(MAX_PARSED_BYTES);
    LONGEST_RESPONSE.load(Relaxed) * checks + parsed
}
