//! What the service and the program learn of a decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::routing::get as route;
use axum::{Extension, Router};
use bytes::Bytes;
use http::Response;
use tollgate::{Action, Limiter, Verdict, rule};
use tower::Layer;

use crate::support::{App, behind, check_fields, clock, get, hello};

fn limited(rate: &str) -> App {
    Limiter::builder().rule(rule("per-ip").per("client_ip").limit(rate)).build_with_clock(clock()).unwrap()
}

#[tokio::test]
async fn verdict_is_in_the_request_extensions() {
    let told = |Extension(verdict): Extension<Verdict>| async move {
        let state = verdict.deciding().unwrap();
        format!("{} {} {}", verdict.action().name(), verdict.rule().unwrap(), state.decision.remaining)
    };
    let app = behind(&limited("5/min"), Router::new().route("/", route(told)));
    assert_eq!(&*get(&app, "/").await.body, b"allow per-ip 4");
    assert_eq!(&*get(&app, "/").await.body, b"allow per-ip 3");
}

#[tokio::test]
async fn refused_request_does_not_reach_the_service() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counting = {
        let calls = Arc::clone(&calls);
        move || async move { calls.fetch_add(1, Ordering::SeqCst).to_string() }
    };
    let app = behind(&limited("2/min"), Router::new().route("/", route(counting)));
    for _ in 0..10 {
        get(&app, "/").await;
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

fn answering(limiter: &App) -> Router {
    let layer = limiter.layer().on_refused(|verdict, _| {
        assert_eq!(verdict.action(), Action::Reject);
        Response::builder()
            .status(420)
            .header("content-type", "text/plain")
            .header("x-ratelimit-limit", "mine")
            .header("x-own", "kept")
            .body(format!("calm down: {}", verdict.rule().unwrap()))
            .unwrap()
    });
    Router::new().route("/", route(|| async { "hello" })).layer(layer)
}

#[tokio::test]
async fn application_builds_the_refusal_response() {
    let app = answering(&limited("1/min"));
    assert_eq!(get(&app, "/").await.status, 200);
    let refused = get(&app, "/").await;
    assert_eq!((refused.status, &*refused.body), (420, &b"calm down: per-ip"[..]));
    assert_eq!((refused.field("content-type"), refused.field("x-own")), (Some("text/plain"), Some("kept")));
    // The layer's fields are there all the same, and each of them once.
    assert_eq!((refused.number("x-ratelimit-limit"), refused.number("retry-after")), (Some(1), Some(60)));
}

/// One layer may be put around several services; they share what it counts.
#[tokio::test]
async fn one_layer_around_two_services_counts_once() {
    let layer = limited("2/min").layer();
    let app = |text: &'static str| Router::new().route("/", route(move || async move { text })).layer(layer.clone());
    let (one, other) = (app("one"), app("other"));
    assert_eq!(get(&one, "/").await.status, 200);
    assert_eq!(get(&other, "/").await.status, 200);
    assert_eq!(get(&one, "/").await.status, 429);
    assert_eq!(get(&other, "/").await.status, 429);
}

/// The layer works with any tower service, without axum.
#[tokio::test]
async fn layer_works_with_any_http_service() {
    use http_body_util::{BodyExt, Full};
    use tower::ServiceExt;

    let limiter = Limiter::builder().rule(rule("all").limit("1/min")).build_with_clock(clock()).unwrap();
    let echo = |request: http::Request<String>| async move {
        Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(request.into_body()))))
    };
    let service = limiter.layer().layer(tower::service_fn(echo));
    let ask = || service.clone().oneshot(http::Request::new("hello".to_owned()));
    let first = ask().await.unwrap();
    assert_eq!(first.status(), 200);
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert_eq!(ask().await.unwrap().status(), 429);
}

#[tokio::test]
async fn body_size_hint_and_end_are_passed_on() {
    use http_body::Body;

    let app = hello(&limited("1/min"));
    let ask = || {
        let mut request = http::Request::get("/").body(axum::body::Body::empty()).unwrap();
        request.extensions_mut().insert(tollgate::tower::PeerAddress("203.0.113.9".parse().unwrap()));
        tower::ServiceExt::oneshot(app.clone(), request)
    };
    let passed = ask().await.unwrap().into_body();
    assert_eq!(passed.size_hint().exact(), Some(5));
    let refused = ask().await.unwrap();
    let length = refused.body().size_hint().exact().unwrap();
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(length, reply.body.len() as u64);
}
