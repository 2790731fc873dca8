//! `POST /api/explain`: which rules apply to a request, and what they would decide now.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::AdminState;
use crate::http::check::check_body::CheckBody;
use crate::http::check::verdict_body;
use crate::http::connection::HttpCaller;
use crate::http::explanation_body::ExplanationBody;
use crate::http::problem::ProblemDetails;

/// The largest description of a request, the same as of a check.
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// Explains the request in the body, which has the members of a check. Nothing is charged or counted.
pub(super) async fn explain(
    State(admin): State<AdminState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    body: Body,
) -> Result<Json<Value>, ProblemDetails> {
    let body = caller.read_body(body, MAX_REQUEST_BYTES).await?;
    let mut tree = Value::Null;
    let check = CheckBody::parse(&body, &mut tree)?;
    let request = check.request();
    let limiter = admin.engine.limiter();
    let policy = limiter.policy();
    let explanation = policy.explain(&request);
    let verdict = limiter.peek(&request).await;
    let mut written = Vec::new();
    verdict_body::write(&mut written, &verdict, None);
    let verdict: Value = serde_json::from_slice(&written).unwrap_or_default();
    Ok(Json(json!({ "explanation": ExplanationBody::new(&policy, &explanation), "now": verdict })))
}
