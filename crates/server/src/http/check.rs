use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};

use super::MAX_BODY_BYTES;
use super::answer_body::AnswerBody;
use super::body;
use super::check_body::CheckBody;
use super::connection::Caller;
use super::problem::Problem;
use crate::engine::Engine;
use crate::front_end::FrontEnd;

/// `POST /v1/check`: one request, one decision.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<AnswerBody>, Problem> {
    let check = CheckBody::parse(&body::read(body, MAX_BODY_BYTES, caller).await?)?;
    let verdict = engine.decide(FrontEnd::Http, &check.request(&check.identities())).await;
    Ok(Json(AnswerBody::from(&verdict)))
}
