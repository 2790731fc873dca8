//! What a refused client can read.

use std::time::Duration;

use serde_json::json;
use tollgate::{Limiter, rule};

use crate::support::{check_fields, clock, get, hello};

const REGISTRY: &str = "https://iana.org/assignments/http-problem-types#";

#[tokio::test]
async fn a_refusal_is_a_problem_with_what_a_program_needs() {
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("1 per 30s"))
        .rule(rule("everybody").limit("100/h"));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    get(&app, "/").await;
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(reply.status, 429);
    assert_eq!(reply.field("content-type"), Some("application/problem+json"));
    assert_eq!(
        reply.json(),
        json!({
            "type": format!("{REGISTRY}quota-exceeded"),
            "title": "Too many requests",
            "status": 429,
            "detail": "the limit is reached; try again in 30 seconds",
            "violated-policies": ["per-ip"],
            "rule": "per-ip",
            "limit": 1,
            "retry_after_ms": 30_000,
            "reset_at": "2027-01-15T08:00:30Z",
        })
    );
}

#[tokio::test]
async fn all_limits_that_refuse_are_named_as_the_fields_name_them() {
    let limiter = Limiter::builder()
        .rule(rule("api").limit("1 per 30s").limit("1/h"))
        .rule(rule("user").limit("1/min"))
        .rule(rule("wide").limit("9/min"));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    get(&app, "/").await;
    let problem = get(&app, "/").await.json();
    assert_eq!(problem["violated-policies"], json!(["api", "api/1h", "user"]));
    assert_eq!(problem["rule"], "api");
    assert_eq!(problem["retry_after_ms"], 3_600_000);
}

#[tokio::test]
async fn shadows_and_unpublished_rules_are_mentioned_nowhere() {
    let limiter = Limiter::builder()
        .rule(rule("public").limit("3/min"))
        .rule(rule("sekrit").limit("2/min").unpublished())
        .rule(rule("shady").limit("1/min").shadow());
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let reply = get(&app, "/").await;
        check_fields(&reply);
        statuses.push(reply.status);
        let said = reply.everything();
        assert!(!said.contains("sekrit") && !said.contains("shady"), "{said}");
        assert!(said.contains("public"), "{said}");
        if reply.status == 429 {
            // When to come back is told; whose limit it is, is not.
            assert_eq!(reply.json()["violated-policies"], json!([]));
            assert_eq!(reply.json().get("rule"), None);
            assert_eq!(reply.number("retry-after"), Some(30));
        }
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}

#[tokio::test]
async fn a_block_is_told_as_unusual() {
    let graduated =
        rule("login").limit("1/min").on_limit(0, Duration::from_secs(60), Some((1, Duration::from_secs(900))));
    let app = hello(&Limiter::builder().rule(graduated).build_with_clock(clock()).unwrap());
    get(&app, "/").await;
    get(&app, "/").await;
    let reply = get(&app, "/").await;
    check_fields(&reply);
    let problem = reply.json();
    assert_eq!(reply.status, 429);
    assert_eq!(problem["type"], format!("{REGISTRY}abnormal-usage-detected"));
    assert_eq!(problem["violated-policies"], json!(["login"]));
    assert_eq!(problem["retry_after_ms"], 900_000);
    assert_eq!(reply.number("retry-after"), Some(900));
}
