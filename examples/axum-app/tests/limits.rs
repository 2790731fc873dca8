//! The limits of the application, in process and on a manual clock: no test sleeps.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum_app::App;
use tokio::task::{JoinHandle, yield_now};
use tollgate::{ManualClock, Refused};
use tower::ServiceExt;

const OK: StatusCode = StatusCode::OK;
const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;

/// A free and a pro user.
const ANN: &str = "token-ann";
const BOB: &str = "token-bob";

struct Test {
    app: App,
    router: Router,
    clock: ManualClock,
}

/// A response whose body was read to its end, which is when permits are released and costs settled.
struct Ended {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Test {
    fn new() -> Test {
        let clock = ManualClock::at(1_800_000_000_000_000_000);
        let app = App::new(clock.clone()).expect("a valid policy");
        Test { router: app.router(), app, clock }
    }

    /// Sends a request, and returns the response with its body unread: the request is still in flight.
    async fn send(&self, method: &str, path: &str, token: &str, body: String) -> Response<Body> {
        let peer: SocketAddr = "203.0.113.9:40000".parse().expect("an address");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {token}"))
            // `into_make_service_with_connect_info` inserts it into the requests of a connection.
            .extension(ConnectInfo(peer))
            .body(Body::from(body))
            .expect("a valid request");
        self.router.clone().oneshot(request).await.expect("a router never fails")
    }

    async fn get(&self, path: &str, token: &str) -> Ended {
        Ended::from(self.send("GET", path, token, String::new()).await).await
    }

    async fn login(&self) -> Ended {
        Ended::from(self.send("POST", "/login", "", String::new()).await).await
    }

    /// Sends a prompt of this many words, each of which costs a token.
    async fn chat(&self, words: usize) -> Ended {
        Ended::from(self.send("POST", "/chat", ANN, "word ".repeat(words)).await).await
    }

    /// Starts a digest, and lets it run until it waits or has ended.
    async fn start_digest(&self, max_wait_s: u64) -> JoinHandle<Result<String, Refused>> {
        let (app, timer) = (self.app.clone(), self.clock.clone());
        let job = tokio::spawn(async move { app.digest(Duration::from_secs(max_wait_s), timer).await });
        run_jobs().await;
        job
    }

    async fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        run_jobs().await;
    }
}

impl Ended {
    async fn from(response: Response<Body>) -> Ended {
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a complete body");
        Ended { status: parts.status, headers: parts.headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header of text"))
    }

    /// What remains under a rule, of the header `RateLimit: "per-ip";r=99;t=1, "per-user";r=19;t=3`.
    fn remaining(&self, rule: &str) -> Option<u64> {
        let (_, after) = self.header("ratelimit")?.split_once(&format!("\"{rule}\";r="))?;
        after.split(';').next()?.parse().ok()
    }
}

/// Lets spawned jobs run. Tests have one thread, so a job runs only while the test yields.
async fn run_jobs() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[test]
fn policy_has_no_warnings() {
    let warnings = Test::new().app.limiter().warnings();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn users_have_the_limit_of_their_tier() {
    let test = Test::new();
    for left in (0..20).rev() {
        let response = test.get("/me", ANN).await;
        assert_eq!((response.status, response.remaining("per-user")), (OK, Some(left)));
    }
    let refused = test.get("/me", ANN).await;
    assert_eq!(refused.status, TOO_MANY);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("x-ratelimit-limit"), Some("20"));
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(refused.header("retry-after"), Some("3"));
    assert!(refused.body.contains(r#""tier":"free""#), "{}", refused.body);

    // Another user, of another tier.
    let other = test.get("/me", BOB).await;
    assert_eq!((other.status, other.remaining("per-user")), (OK, Some(59)));

    test.advance(3).await;
    assert_eq!(test.get("/me", ANN).await.status, OK);
}

#[tokio::test]
async fn requests_with_invalid_tokens_are_limited_by_address() {
    let test = Test::new();
    for left in (0..100).rev() {
        let response = test.get("/me", "guess").await;
        assert_eq!((response.status, response.remaining("per-ip")), (StatusCode::UNAUTHORIZED, Some(left)));
        assert_eq!(response.remaining("per-user"), None);
    }
    assert_eq!(test.get("/me", "guess").await.status, TOO_MANY);
}

#[tokio::test]
async fn logins_are_warned_rejected_and_blocked() {
    let test = Test::new();
    for _ in 0..3 {
        let response = test.login().await;
        assert_eq!((response.status, response.header("x-ratelimit-warning")), (OK, None));
    }
    let warned = test.login().await;
    assert_eq!((warned.status, warned.header("x-ratelimit-warning")), (OK, Some("login")));

    for _ in 0..2 {
        let rejected = test.login().await;
        assert_eq!((rejected.status, rejected.header("retry-after")), (TOO_MANY, Some("60")));
        assert!(rejected.body.contains(r#""detail":"Too many logins from this address.""#), "{}", rejected.body);
        assert!(rejected.header("link").is_some());
    }
    let blocked = test.login().await;
    assert_eq!((blocked.status, blocked.header("retry-after")), (TOO_MANY, Some("900")));

    // The limit would allow the next login; the block does not.
    test.advance(899).await;
    let blocked = test.login().await;
    assert_eq!((blocked.status, blocked.header("retry-after")), (TOO_MANY, Some("1")));
    test.advance(1).await;
    assert_eq!(test.login().await.status, OK);
}

#[tokio::test]
async fn exports_cost_ten_requests() {
    let test = Test::new();
    assert_eq!(test.get("/export", ANN).await.remaining("per-user"), Some(10));
    assert_eq!(test.get("/me", ANN).await.remaining("per-user"), Some(9));
    assert_eq!(test.get("/export", ANN).await.status, TOO_MANY);
    // A refused request is not charged.
    assert_eq!(test.get("/me", ANN).await.remaining("per-user"), Some(8));
}

#[tokio::test]
async fn third_report_is_refused_until_a_report_has_ended() {
    let test = Test::new();
    let first = test.send("GET", "/report", ANN, String::new()).await;
    let second = test.send("GET", "/report", BOB, String::new()).await;
    assert_eq!((first.status(), second.status()), (OK, OK));
    let refused = test.get("/report", BOB).await;
    assert_eq!((refused.status, refused.remaining("reports")), (TOO_MANY, Some(0)));

    assert_eq!(Ended::from(first).await.body, "a report");
    assert_eq!(test.get("/report", BOB).await.status, OK);
}

#[tokio::test]
async fn digest_waits_until_the_last_one_is_a_minute_old() {
    let test = Test::new();
    assert!(test.start_digest(300).await.is_finished());
    let job = test.start_digest(300).await;
    test.advance(59).await;
    assert!(!job.is_finished());
    test.advance(1).await;
    assert!(job.is_finished());
    assert!(job.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn digest_waits_until_a_report_has_ended() {
    let test = Test::new();
    let first = test.send("GET", "/report", ANN, String::new()).await;
    let _second = test.send("GET", "/report", BOB, String::new()).await;
    let job = test.start_digest(300).await;
    assert!(!job.is_finished());
    Ended::from(first).await;
    run_jobs().await;
    assert!(job.is_finished());
    assert!(job.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn digest_is_refused_after_its_maximum_wait() {
    let test = Test::new();
    let _first = test.send("GET", "/report", ANN, String::new()).await;
    let _second = test.send("GET", "/report", BOB, String::new()).await;
    let job = test.start_digest(30).await;
    test.advance(29).await;
    assert!(!job.is_finished());
    test.advance(1).await;
    assert!(job.is_finished());
    let refused = job.await.expect("no panic").expect_err("refused");
    assert_eq!(refused.rule(), Some("reports"));
}

#[tokio::test]
async fn digest_that_would_wait_too_long_is_refused_at_once() {
    let test = Test::new();
    assert!(test.start_digest(30).await.is_finished());
    let job = test.start_digest(30).await;
    assert!(job.is_finished());
    let refused = job.await.expect("no panic").expect_err("refused");
    assert_eq!((refused.rule(), refused.retry_after()), (Some("digests"), Some(Duration::from_secs(60))));
}

#[tokio::test]
async fn chats_are_settled_to_their_tokens() {
    let test = Test::new();
    let first = test.chat(30).await;
    assert_eq!((first.status, first.remaining("tokens")), (OK, Some(900)));
    // 70 of the estimated 100 are returned; the other rules count requests, not tokens.
    let second = test.chat(30).await;
    assert_eq!(second.remaining("tokens"), Some(870));
    assert_eq!((second.remaining("per-user"), second.remaining("per-ip")), (Some(18), Some(98)));
}

#[tokio::test]
async fn chats_above_their_estimate_leave_a_debt() {
    let test = Test::new();
    assert_eq!(test.chat(1500).await.status, OK);
    // 1000 an hour: the debt of 500 and the next estimate of 100 take 36 minutes.
    let refused = test.chat(1).await;
    assert_eq!((refused.status, refused.header("retry-after")), (TOO_MANY, Some("2160")));
    test.advance(2159).await;
    assert_eq!(test.chat(1).await.status, TOO_MANY);
    test.advance(1).await;
    assert_eq!(test.chat(1).await.status, OK);
}
