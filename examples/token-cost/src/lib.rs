//! A token limit whose cost is known only after the response. See `main.rs` for how to try it.

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

/// The estimated cost of a request, charged until the true cost is known.
pub const ESTIMATE: u64 = 100;

/// Creates a service that completes prompts, for a thousand tokens an hour.
pub fn app() -> Result<Router, LimiterError> {
    let limiter = Limiter::builder()
        .identity("user", IdentitySource::Header("x-user-id".to_owned()))
        .rule(rule("tokens").per("user").limit("1000/h").estimate(ESTIMATE))
        .build()?;
    let metered = Router::new().route("/complete", post(complete)).layer(limiter.layer());
    // Reading the budget costs nothing, so this route is not behind the layer.
    Ok(Router::new().route("/budget/{user}", get(budget)).with_state(limiter).merge(metered))
}

/// Completes a prompt and sets the true cost. The layer settles the difference to the estimate.
async fn complete(
    Extension(verdict): Extension<Verdict>,
    Extension(true_cost): Extension<TrueCost>,
    headers: HeaderMap,
    prompt: String,
) -> Result<Json<Value>, (StatusCode, &'static str)> {
    // A rule does not apply to a request without its key, so requests without a user must be refused here.
    if !headers.contains_key("x-user-id") {
        return Err((StatusCode::UNAUTHORIZED, "the header X-User-ID is missing\n"));
    }
    let answer = answer_to(&prompt);
    let tokens = model::tokens(&prompt) + model::tokens(&answer);
    true_cost.set(tokens);
    let remaining = verdict.deciding().map(|state| state.decision.remaining);
    Ok(Json(json!({ "answer": answer, "tokens_used": tokens, "remaining_by_estimate": remaining })))
}

/// Returns the remaining tokens of a user. A request with cost 0 is a peek.
async fn budget(State(limiter): State<Limiter>, Path(user): Path<String>) -> Json<Value> {
    let identities = [("user", user.as_str())];
    let verdict = limiter.peek(&Request { identities: &identities, cost: 0, ..Request::from_peer(None) });
    Json(json!({ "remaining": verdict.deciding().map(|state| state.decision.remaining) }))
}

/// Serves the app.
pub async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    axum::serve(listener, app).await
}
