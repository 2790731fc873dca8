use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};

use super::answer_body::AnswerBody;
use super::body;
use super::check_body::CheckBody;
use super::connection::Caller;
use super::problem::Problem;
use crate::engine::Engine;
use crate::front_end::FrontEnd;

/// The largest body of a check. Most take a few hundred bytes.
const MAX_CHECK_BYTES: usize = 64 << 10;

/// The largest body of a batch: a kilobyte for each of its checks.
const MAX_BATCH_BYTES: usize = CheckBody::MAX_BATCH << 10;

/// `POST /v1/check`: one request, one decision.
pub(super) async fn check(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<AnswerBody>, Problem> {
    let check = CheckBody::parse(&body::read(body, MAX_CHECK_BYTES, caller).await?)?;
    Ok(Json(answer(&engine, &check).await))
}

/// `POST /v1/check/batch`: several requests, decided one after the other. If
/// one cannot be read, none is decided.
pub(super) async fn batch(
    State(engine): State<Arc<Engine>>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Json<Vec<AnswerBody>>, Problem> {
    let checks = CheckBody::parse_batch(&body::read(body, MAX_BATCH_BYTES, caller).await?)?;
    let mut answers = Vec::with_capacity(checks.len());
    for check in &checks {
        answers.push(answer(&engine, check).await);
    }
    Ok(Json(answers))
}

async fn answer(engine: &Engine, check: &CheckBody) -> AnswerBody {
    let identities = check.identities();
    let (verdict, receipt) = engine.check(FrontEnd::Http, &check.request(&identities), check.wants_receipt()).await;
    AnswerBody::new(&verdict, receipt)
}
