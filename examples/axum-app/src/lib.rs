//! An assistant API behind one limiter: limits by user and tier, a login that escalates, cost by path, a background
//! job that waits for its turn, concurrency permits, and tokens that are settled after the response.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use tollgate::clock::{Clock, Timer};
use tollgate::policy::model::IdentitySource;
use tollgate::tower::TrueCost;
use tollgate::{AlgorithmKind, Limiter, LimiterError, Refused, rule};

const MINUTE: Duration = Duration::from_secs(60);

/// The authenticated user, in the extensions of each request that has a valid token.
#[derive(Clone, Debug)]
pub struct User {
    id: u64,
    tier: &'static str,
}

type Tokens = Arc<HashMap<&'static str, User>>;

/// The application: its HTTP routes and its background job share one limiter.
#[derive(Clone, Debug)]
pub struct App {
    limiter: Limiter,
}

impl App {
    /// Creates the application. Tests pass a manual clock.
    pub fn new(clock: impl Clock + 'static) -> Result<App, LimiterError> {
        let limiter = Limiter::builder()
            // The layer sets the tier, so that clients cannot choose it.
            .tier_from(IdentitySource::Given, "free")
            // Requests without a valid token have no user. This rule limits them, and so attempts to guess a token.
            .rule(rule("per-ip").per("client_ip").limit("100/min"))
            .rule(
                rule("per-user").per("user").tier("free", "20/min").tier("pro", "60/min").cost_for_path("/export", 10),
            )
            // A log allows exactly 3 logins in any minute; a bucket would allow up to 6. The first violation passes
            // with a warning, the next two are rejected, and a fourth within 10 minutes blocks the address.
            .rule(
                rule("login")
                    .per("client_ip")
                    .method("POST")
                    .path("/login")
                    .limit("3/min")
                    .algorithm(AlgorithmKind::SlidingWindowLog)
                    .on_limit(1, 10 * MINUTE, Some((3, 15 * MINUTE)))
                    .message("Too many logins from this address."),
            )
            // Without a key: 2 reports at once among all users and jobs.
            .rule(rule("reports").path("/report").concurrency(2))
            // Only the program sets the identity `job`, so no client can use up the turns of the job.
            .rule(rule("digests").per("job").limit("1/min"))
            // The number of tokens is known only after the response: 100 are charged first.
            .rule(rule("tokens").per("user").path("/chat").tier("free", "1000/h").tier("pro", "10000/h").estimate(100))
            .build_with_clock(clock)?;
        Ok(App { limiter })
    }

    /// Returns the limiter, for its warnings.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Returns the HTTP routes.
    pub fn router(&self) -> Router {
        let users = [("token-ann", User { id: 1, tier: "free" }), ("token-bob", User { id: 2, tier: "pro" })];
        let tokens: Tokens = Arc::new(HashMap::from(users));
        let limits = self
            .limiter
            .layer()
            .identify_by("user", |user: &User| user.id.to_string())
            .identify_by("tier", |user: &User| user.tier.to_owned())
            .on_refused(|verdict, mut response| {
                if verdict.rule() == Some("login") {
                    let help = HeaderValue::from_static("<https://example.com/locked-out>; rel=\"help\"");
                    response.headers_mut().insert("link", help);
                }
                response
            });
        Router::new()
            .route("/login", post(login))
            .route("/me", get(me))
            .route("/export", get(export))
            .route("/report", get(report))
            .route("/chat", post(chat))
            // The last layer runs first: the limits need the user.
            .layer(limits)
            .layer(from_fn_with_state(tokens, authenticate))
    }

    /// Writes a digest in the background. For at most `max_wait` it waits until the last digest is a minute old and
    /// fewer than two reports are in flight.
    pub async fn digest(&self, max_wait: Duration, timer: impl Timer) -> Result<String, Refused> {
        let turn = tollgate::Request {
            method: "GET",
            target: "/report",
            identities: &[("job", "digest")],
            ..tollgate::Request::from_peer(None)
        };
        // Held until the digest is written. A job of more than a minute, the lease, calls `Permit::renew` meanwhile.
        let _permit = self.limiter.acquire(&turn, max_wait, timer).await?;
        Ok("a digest".to_owned())
    }
}

/// Finds the user. It refuses no request: invalid tokens have to reach the limits too.
async fn authenticate(State(tokens): State<Tokens>, mut request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let user = header.and_then(|value| value.strip_prefix("Bearer ")).and_then(|token| tokens.get(token)).cloned();
    if let Some(user) = user {
        request.extensions_mut().insert(user);
    }
    next.run(request).await
}

/// A handler with a `User` among its arguments requires one.
impl<S: Send + Sync> FromRequestParts<S> for User {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<User, StatusCode> {
        parts.extensions.get().cloned().ok_or(StatusCode::UNAUTHORIZED)
    }
}

async fn login() -> &'static str {
    "logged in"
}

async fn me(user: User) -> Json<Value> {
    Json(json!({ "id": user.id, "tier": user.tier }))
}

async fn export(_: User) -> &'static str {
    "id,question,answer\n"
}

async fn report(_: User) -> &'static str {
    "a report"
}

/// Each word costs a token. The layer adds `TrueCost` where the cost is an estimate.
async fn chat(_: User, Extension(cost): Extension<TrueCost>, prompt: String) -> Json<Value> {
    let tokens = prompt.split_whitespace().count() as u64;
    cost.set(tokens);
    Json(json!({ "reply": "Certainly.", "tokens": tokens }))
}
