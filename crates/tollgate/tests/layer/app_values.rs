//! Identities, costs and limiters that the application provides to the layer.

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request as AxumRequest};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::any;
use http::{Request, StatusCode};
use tollgate::policy::model::{IdentitySource, Tier, TierSource};
use tollgate::tower::TrueCost;
use tollgate::{AsyncLimiter, Limiter, rule};

use crate::support::{App, Reply, ask_from, built, get};

/// What an authentication middleware stores in the request's extensions.
#[derive(Clone)]
struct User {
    id: u64,
    tier: &'static str,
}

/// A stand-in for an authentication middleware: the token is the user's number.
async fn authenticate(mut request: AxumRequest, next: Next) -> axum::response::Response {
    let token = request.headers().get("authorization").and_then(|token| token.to_str().ok()?.parse().ok());
    if let Some(id) = token {
        request.extensions_mut().insert(User { id, tier: if id >= 100 { "pro" } else { "free" } });
    }
    next.run(request).await
}

fn hello() -> Router {
    Router::new().fallback(any(|| async { "hello" }))
}

async fn send(app: &Router, path: &str, headers: &[(&str, &str)]) -> Reply {
    let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    ask_from(app, "203.0.113.9", request.body(Body::empty()).unwrap()).await
}

async fn send_as(app: &Router, user: u64) -> Reply {
    send(app, "/", &[("authorization", &user.to_string())]).await
}

fn per_user(limit: &str) -> App {
    built(Limiter::builder().rule(rule("per-user").per("user").limit(limit)))
}

#[tokio::test]
async fn identity_comes_from_the_extension_of_an_outer_middleware() {
    let layer = per_user("1/min").layer().identify_by("user", |user: &User| user.id.to_string());
    let app = hello().layer(layer).layer(from_fn(authenticate));
    assert_eq!(send_as(&app, 1).await.status, 200);
    assert_eq!(send_as(&app, 1).await.status, 429);
    assert_eq!(send_as(&app, 2).await.status, 200);
    // Without a user the rule does not apply.
    for _ in 0..3 {
        assert_eq!(get(&app, "/").await.status, 200);
    }
}

#[tokio::test]
async fn application_identity_replaces_the_one_a_client_sends() {
    let header = IdentitySource::Header("x-user".to_owned());
    let limiter = built(Limiter::builder().identity("user", header).rule(rule("per-user").per("user").limit("1/min")));
    let layer = limiter.layer().identify_by("user", |user: &User| user.id.to_string());
    let app = hello().layer(layer).layer(from_fn(authenticate));
    assert_eq!(send(&app, "/", &[("authorization", "1"), ("x-user", "a")]).await.status, 200);
    assert_eq!(send(&app, "/", &[("authorization", "1"), ("x-user", "b")]).await.status, 429);
    // Where the application has none, the declared source is read.
    assert_eq!(send(&app, "/", &[("x-user", "c")]).await.status, 200);
    assert_eq!(send(&app, "/", &[("x-user", "c")]).await.status, 429);
}

#[tokio::test]
async fn tier_comes_from_the_application() {
    let tiers = rule("per-user").per("user").tier("free", "1/min").tier("pro", "3/min");
    let limiter = built(Limiter::builder().rule(tiers).with(|policy| {
        let source = TierSource::Direct(IdentitySource::Given);
        policy.tier = Some(Tier { source, default: "free".to_owned(), trusted: true });
    }));
    let layer = limiter
        .layer()
        .identify_by("user", |user: &User| user.id.to_string())
        .identify("tier", |parts| Some(parts.extensions.get::<User>()?.tier.to_owned()));
    let app = hello().layer(layer).layer(from_fn(authenticate));
    let limit = async |user| send_as(&app, user).await.number("x-ratelimit-limit");
    assert_eq!((limit(1).await, limit(100).await), (Some(1), Some(3)));
}

#[tokio::test]
async fn client_ip_from_the_application_replaces_the_peer_address() {
    let limiter = built(Limiter::builder().rule(rule("per-ip").per("client_ip").limit("1/min")));
    let address = |parts: &http::request::Parts| Some(parts.headers.get("x-client")?.to_str().ok()?.to_owned());
    let app = hello().layer(limiter.layer().peer_address(|_| None).identify("client_ip", address));
    assert_eq!(send(&app, "/", &[("x-client", "198.51.100.7")]).await.status, 200);
    assert_eq!(send(&app, "/", &[("x-client", "198.51.100.7")]).await.status, 429);
    assert_eq!(send(&app, "/", &[("x-client", "198.51.100.8")]).await.status, 200);
    // Without an address the request cannot be counted, and must not pass.
    assert_eq!(send(&app, "/", &[("x-client", "not an address")]).await.status, 500);
    assert_eq!(get(&app, "/").await.status, 500);
}

#[test]
#[should_panic(expected = "the policy has no identity `usr`")]
fn identity_that_the_policy_does_not_have_panics() {
    drop(per_user("1/min").layer().identify("usr", |_| None));
}

#[test]
#[should_panic(expected = "the policy has no identity `path`")]
fn identity_that_callers_cannot_set_panics() {
    drop(per_user("1/min").layer().identify("path", |_| None));
}

#[tokio::test]
async fn cost_comes_from_the_application() {
    let limiter = built(Limiter::builder().rule(rule("everything").limit("10/min")));
    let layer = limiter.layer().cost(|parts| if parts.uri.path() == "/export" { 8 } else { 1 });
    let app = hello().layer(layer);
    assert_eq!(get(&app, "/").await.number("x-ratelimit-remaining"), Some(9));
    assert_eq!(get(&app, "/export").await.number("x-ratelimit-remaining"), Some(1));
    assert_eq!(get(&app, "/export").await.status, 429);
    assert_eq!(get(&app, "/").await.number("x-ratelimit-remaining"), Some(0));
}

#[tokio::test]
async fn estimated_cost_of_the_application_is_settled_by_the_handler() {
    let limiter = built(Limiter::builder().rule(rule("everything").limit("10/min")));
    let handler = any(|request: AxumRequest| async move {
        request.extensions().get::<TrueCost>().unwrap().set(2);
        "done"
    });
    let app = Router::new().fallback(handler).layer(limiter.layer().cost(|_| 8));
    assert_eq!(get(&app, "/").await.number("x-ratelimit-remaining"), Some(2));
    // 8 of 10 were charged and 6 refunded, so that another 8 fit.
    assert_eq!(get(&app, "/").await.number("x-ratelimit-remaining"), Some(0));
}

#[tokio::test]
async fn selected_limiter_replaces_the_one_of_the_layer() {
    let strict = AsyncLimiter::from(built(Limiter::builder().rule(rule("login").limit("1/min"))));
    let select = move |parts: &http::request::Parts| {
        let is_login = parts.extensions.get::<MatchedPath>().is_some_and(|path| path.as_str() == "/login");
        is_login.then(|| strict.clone())
    };
    let limiter = built(Limiter::builder().rule(rule("everything").limit("5/min")));
    let app = Router::new()
        .route("/login", any(|| async { "hello" }))
        .route("/", any(|| async { "hello" }))
        .layer(limiter.layer().select(select));
    let login = get(&app, "/login").await;
    assert_eq!((login.status, login.number("x-ratelimit-limit")), (200, Some(1)));
    assert_eq!(get(&app, "/login").await.status, 429);
    // The requests to the other route were not counted with it.
    assert_eq!(get(&app, "/").await.number("x-ratelimit-remaining"), Some(4));
}

#[tokio::test]
async fn on_refused_changes_the_response_of_the_layer() {
    let layer =
        built(Limiter::builder().rule(rule("everything").limit("1/min"))).layer().on_refused(|_, mut response| {
            response.headers_mut().insert("x-support", "mail".parse().unwrap());
            response
        });
    let app = hello().layer(layer);
    get(&app, "/").await;
    let refused = get(&app, "/").await;
    assert_eq!((refused.status, refused.field("x-support")), (429, Some("mail")));
    assert_eq!(refused.field("content-type"), Some("application/problem+json"));
    assert!(refused.body.starts_with(b"{\"type\":"));
    assert_eq!(refused.number("retry-after"), Some(60));
}

#[tokio::test]
async fn on_refused_returns_an_axum_response() {
    let layer = built(Limiter::builder().rule(rule("everything").limit("1/min"))).layer().on_refused(|verdict, _| {
        (StatusCode::IM_A_TEAPOT, verdict.rule().unwrap_or_default().to_owned()).into_response()
    });
    let app = hello().layer(layer);
    get(&app, "/").await;
    let refused = get(&app, "/").await;
    assert_eq!((refused.status, &*refused.body), (418, &b"everything"[..]));
    assert_eq!(refused.number("retry-after"), Some(60));
}
