//! The lists that come before any rule.

use axum::body::Body;
use http::Request;
use tollgate::policy::PolicyBuilder;
use tollgate::policy::model::{Allowance, IdentitySource, Networks, OnInvalid, Rule, When};
use tollgate::{AsyncLimiter, Limiter, rule};

use crate::support::{App, Down, Reply, ask_from, check_fields, clock, hello};

fn listed() -> App {
    let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("1/h")).with(|policy| {
        policy.deny.client_ip = vec!["192.0.2.0/24".parse().unwrap()];
        policy.allow.client_ip = vec!["192.0.2.7/32".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
    });
    limiter.build_with_clock(clock()).unwrap()
}

async fn from(app: &axum::Router, peer: &str) -> Reply {
    let reply = ask_from(app, peer, Request::get("/").body(Body::empty()).unwrap()).await;
    check_fields(&reply);
    reply
}

#[tokio::test]
async fn denied_client_gets_403_without_limits() {
    let app = hello(&listed());
    // Deny comes before allow.
    for peer in ["192.0.2.1", "192.0.2.7"] {
        let reply = from(&app, peer).await;
        assert_eq!(reply.status, 403);
        assert_eq!(reply.field("content-type"), Some("application/problem+json"));
        let problem = reply.json();
        assert_eq!((&problem["type"], &problem["status"]), (&"about:blank".into(), &403.into()));
        let said = reply.everything();
        assert!(!said.contains("ratelimit") && !said.contains("retry") && !said.contains("per-ip"), "{said}");
    }
}

#[tokio::test]
async fn request_denied_by_a_rule_gets_403_with_its_name() {
    let outside = When {
        paths: vec!["/admin/*".to_owned()],
        network: Some(Networks::NotAmong(vec!["10.0.0.0/8".parse().unwrap()])),
        ..When::default()
    };
    let rule = Rule { when: outside, allowance: Allowance::Deny, ..Rule::new("admin-only-inside") };
    let limiter = Limiter::builder().with(|policy| policy.rules.push(rule)).build_with_clock(clock()).unwrap();
    let app = hello(&limiter);
    for (peer, path, status) in
        [("203.0.113.9", "/admin/users", 403), ("10.1.2.3", "/admin/users", 200), ("203.0.113.9", "/", 200)]
    {
        let reply = ask_from(&app, peer, Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, status, "{peer} {path}");
        if status == 403 {
            let problem = reply.json();
            assert_eq!((&problem["status"], &problem["rule"]), (&403.into(), &"admin-only-inside".into()));
            assert!(!reply.everything().contains("retry"), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn denying_rule_needs_no_store() {
    let policy = PolicyBuilder::default()
        .rule(rule("closed").path("/closed").deny())
        .rule(rule("all").limit("9/h"))
        .build()
        .unwrap();
    let app = hello(&AsyncLimiter::with_store(&policy, Down { retry_after_ns: None }).unwrap());
    for (path, status) in [("/closed", 403), ("/", 503)] {
        let reply = ask_from(&app, "203.0.113.9", Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, status, "{path}");
    }
}

#[tokio::test]
async fn allowed_client_passes_without_fields() {
    let app = hello(&listed());
    for _ in 0..5 {
        let reply = from(&app, "10.1.2.3").await;
        assert_eq!((reply.status, &*reply.body), (200, &b"hello"[..]));
        assert!(!reply.everything().contains("ratelimit"), "{reply:?}");
    }
}

#[tokio::test]
async fn other_clients_are_limited() {
    let app = hello(&listed());
    assert_eq!(from(&app, "198.51.100.1").await.status, 200);
    assert_eq!(from(&app, "198.51.100.1").await.status, 429);
    assert_eq!(from(&app, "198.51.100.2").await.status, 200);
}

/// Longer than any token is.
fn long_token() -> String {
    format!("Bearer {}", "x".repeat(17 << 10))
}

fn by_token(on_invalid: OnInvalid) -> App {
    let limiter = Limiter::builder()
        .rule(rule("per-token").per("token").limit("1/h"))
        .identity("token", IdentitySource::Bearer)
        .with(|policy| policy.identities[0].on_invalid = on_invalid);
    limiter.build_with_clock(clock()).unwrap()
}

async fn with_token(app: &axum::Router, peer: &str) -> Reply {
    let request = Request::get("/").header("authorization", long_token()).body(Body::empty()).unwrap();
    ask_from(app, peer, request).await
}

#[tokio::test]
async fn unusable_token_gets_401_under_on_invalid_refuse() {
    let app = hello(&by_token(OnInvalid::Refuse));
    let reply = with_token(&app, "203.0.113.9").await;
    assert_eq!((reply.status, reply.field("content-type")), (401, Some("application/problem+json")));
    assert_eq!(reply.field("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    assert_eq!(reply.json()["title"], "Unauthorized");
    assert!(!reply.everything().contains("per-token"), "{reply:?}");
    // Without any token no rule applies.
    assert_eq!(from(&app, "203.0.113.9").await.status, 200);
}

#[tokio::test]
async fn unusable_tokens_are_counted_by_address() {
    let app = hello(&by_token(OnInvalid::Count));
    let mut statuses = Vec::new();
    for peer in ["203.0.113.9", "203.0.113.9", "203.0.113.10"] {
        statuses.push(with_token(&app, peer).await.status);
    }
    assert_eq!(statuses, [200, 429, 200]);
}
