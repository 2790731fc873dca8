use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;

use super::answer_body::AnswerBody;
use super::problem::Problem;
use super::{MAX_BODY_BYTES, check_body};
use crate::engine::Engine;
use crate::front_end::FrontEnd;

/// `POST /v1/check`: one request, one decision.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<AnswerBody>, Problem> {
    let body = body.map_err(|rejection| unread(&rejection))?;
    let request = check_body::parse(&body)?;
    Ok(Json(AnswerBody::from(engine.decide(FrontEnd::Http, &request))))
}

fn unread(rejection: &BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::body_too_large(MAX_BODY_BYTES),
        _ => Problem::bad_body(&rejection.body_text()),
    }
}
