use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;

use super::MAX_BODY_BYTES;
use super::answer_body::AnswerBody;
use super::check_body::CheckBody;
use super::problem::Problem;
use crate::engine::Engine;
use crate::front_end::FrontEnd;

/// `POST /v1/check`: one request, one decision.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<AnswerBody>, Problem> {
    let body = body.map_err(|rejection| unread(&rejection))?;
    let check = CheckBody::parse(&body)?;
    let verdict = engine.decide(FrontEnd::Http, &check.request(&check.identities())).await;
    Ok(Json(AnswerBody::from(&verdict)))
}

fn unread(rejection: &BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::body_too_large(MAX_BODY_BYTES),
        _ => Problem::bad_body(&rejection.body_text()),
    }
}
