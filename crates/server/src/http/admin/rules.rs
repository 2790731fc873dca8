use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::engine::Engine;
use crate::http::promise_body::PromiseBody;

#[derive(Serialize)]
pub(super) struct RulesBody {
    rules: Vec<PromiseBody>,
}

/// `GET /api/rules`: the rules in force, with what each promises.
pub(super) async fn rules(State(engine): State<Arc<Engine>>) -> Json<RulesBody> {
    Json(RulesBody { rules: engine.with_promises(|promises| promises.iter().map(PromiseBody::from).collect()) })
}
