//! A budget of tokens that are counted after the answer. See `main.rs` for how to try it.

mod model;

use std::io;

use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tollgate::policy::model::IdentitySource;
use tollgate::tower::TrueCost;
use tollgate::{Limiter, LimiterError, Request, Verdict, rule};

use model::answer_to;

/// What a request is taken to cost until its answer has been counted.
pub const ESTIMATE: u64 = 100;

/// A service that answers questions, for a thousand tokens an hour.
pub fn app() -> Result<Router, LimiterError> {
    let limiter = Limiter::builder()
        .identity("user", IdentitySource::Header("x-user-id".to_owned()))
        .rule(rule("tokens").per("user").limit("1000/h").estimate(ESTIMATE))
        .build()?;
    let metered = Router::new().route("/complete", post(complete)).layer(limiter.layer());
    // Looking at one's budget costs nothing, so it is not behind the layer.
    Ok(Router::new().route("/budget/{user}", get(budget)).with_state(limiter).merge(metered))
}

/// Answers, and says afterwards what the answer cost. The layer settles the difference to the estimate.
async fn complete(
    Extension(verdict): Extension<Verdict>,
    Extension(true_cost): Extension<TrueCost>,
    headers: HeaderMap,
    prompt: String,
) -> Result<Json<Value>, (StatusCode, &'static str)> {
    // A rule counts nobody whose key it does not find, so that whoever has a budget must be known.
    if !headers.contains_key("x-user-id") {
        return Err((StatusCode::UNAUTHORIZED, "say who you are with X-User-ID\n"));
    }
    let answer = answer_to(&prompt);
    let tokens = model::tokens(&prompt) + model::tokens(&answer);
    true_cost.set(tokens);
    let remaining = verdict.deciding().map(|state| state.decision.remaining);
    Ok(Json(json!({ "answer": answer, "tokens_used": tokens, "remaining_by_estimate": remaining })))
}

/// What remains of somebody's budget. A request without cost only asks.
async fn budget(State(limiter): State<Limiter>, Path(user): Path<String>) -> Json<Value> {
    let identities = [("user", user.as_str())];
    let verdict = limiter.peek(&Request { identities: &identities, cost: 0, ..Request::from_peer(None) });
    Json(json!({ "remaining": verdict.deciding().map(|state| state.decision.remaining) }))
}

/// Serves it.
pub async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    axum::serve(listener, app).await
}
