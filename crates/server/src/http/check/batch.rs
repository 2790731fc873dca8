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
use crate::http::check::{self, ANSWER_BYTES};
use crate::http::connection::Caller;
use crate::http::held_answer::HeldAnswer;
use crate::http::problem::Problem;
use crate::listen::Resource;

/// The largest body of a batch: a kilobyte for each of its checks.
const MAX_BATCH_BYTES: usize = MAX_BATCH << 10;

/// What a byte of a batch takes once it is understood, and what a whole batch takes, which has a limited number of
/// values.
const UNDERSTOOD_BYTES: usize = 16;
const MAX_UNDERSTOOD_BYTES: usize = 4 << 20;

/// How many checks are decided before others may have something done.
const CHECKS_IN_A_ROW: usize = 32;

/// What an answer to one check took so far, at most: how many rules a policy has is not known before.
static LONGEST_ANSWER: AtomicUsize = AtomicUsize::new(ANSWER_BYTES);

/// `POST /v1/check/batch`: several requests, decided one after the other. If
/// one cannot be read, none is decided.
///
/// The answer may be a hundred times as long as the batch, and a client may not read it. So there must be room for
/// it before anything is decided.
pub(in crate::http) async fn batch(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Arc<Caller>>,
    body: Body,
) -> Result<impl IntoResponse, Problem> {
    let body = caller.read_body(body, MAX_BATCH_BYTES).await?;
    let reserved = caller.share.reserve(Resource::AnswerBytes, bytes_held(&body)).await;
    let mut turn = Some(caller.share.turn().await);
    let mut tree = Value::Null;
    let checks = parse_batch(&body, &mut tree)?;
    if engine.waits_for_store() {
        // The wait takes no processor from anybody.
        turn = None;
    }
    // Another answer may have been longer since there was room for this one.
    let expected = LONGEST_ANSWER.load(Relaxed) * checks.len() + 2;
    let mut json = Vec::with_capacity(expected.min(reserved.bytes()));
    json.push(b'[');
    for (at, check) in checks.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        check::answer(&engine, &caller, check, &mut json).await;
        if at % CHECKS_IN_A_ROW == CHECKS_IN_A_ROW - 1 {
            tokio::task::yield_now().await;
        }
    }
    drop(turn);
    json.push(b']');
    LONGEST_ANSWER.fetch_max(json.len().div_ceil(checks.len().max(1)), Relaxed);
    let json = HeldAnswer::bytes(json, reserved, caller.activity.begin_answer());
    Ok(([(header::CONTENT_TYPE, "application/json")], json))
}

/// What a batch and its answer take at most, by what can be seen of it before it is understood.
fn bytes_held(body: &[u8]) -> usize {
    let checks = memchr_iter(b'{', body).count().min(MAX_BATCH);
    let understood = (UNDERSTOOD_BYTES * body.len()).min(MAX_UNDERSTOOD_BYTES);
    LONGEST_ANSWER.load(Relaxed) * checks + understood
}
