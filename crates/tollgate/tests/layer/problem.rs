//! What a refused client can read.

use std::time::Duration;

use serde_json::json;
use tollgate::{Limiter, rule};

use crate::support::{check_fields, clock, get, hello};

const REGISTRY: &str = "https://iana.org/assignments/http-problem-types#";

#[tokio::test]
async fn refusal_body_is_problem_json() {
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
async fn problem_names_all_refusing_limits_like_the_fields() {
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
async fn shadow_and_unpublished_rules_do_not_appear() {
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
            // The body has the retry time and does not name the limit.
            assert_eq!(reply.json()["violated-policies"], json!([]));
            assert_eq!(reply.json().get("rule"), None);
            assert_eq!(reply.number("retry-after"), Some(30));
        }
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
}

#[tokio::test]
async fn block_is_abnormal_usage() {
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

#[tokio::test]
async fn message_of_the_deciding_rule_is_the_detail() {
    let limiter = Limiter::builder()
        .rule(rule("login").path("/login").limit("1/min").message("Too many \"logins\": try in a minute. Süß"))
        .rule(rule("everybody").limit("3/h"));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    get(&app, "/login").await;
    let problem = get(&app, "/login").await.json();
    assert_eq!((&problem["rule"], &problem["status"]), (&json!("login"), &json!(429)));
    assert_eq!(problem["detail"], "Too many \"logins\": try in a minute. Süß");
    assert_eq!(problem["retry_after_ms"], 60_000);
    // Another rule that refuses has its usual detail.
    get(&app, "/").await;
    get(&app, "/").await;
    let problem = get(&app, "/").await.json();
    assert_eq!(problem["rule"], "everybody");
    assert_eq!(problem["detail"], "the limit is reached; try again in 1200 seconds");
}

#[tokio::test]
async fn message_does_not_replace_the_detail_of_an_impossible_cost() {
    let limiter = Limiter::builder().rule(rule("heavy").limit("5/min").message("Too many.").cost_for_path("/large", 6));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    let problem = get(&app, "/large").await.json();
    assert_eq!(problem["rule"], "heavy");
    let detail = "the request costs more than the limit of 5 can ever let pass; ask for less at once";
    assert_eq!(problem["detail"], detail);
}

#[tokio::test]
async fn denying_rule_sends_its_message() {
    let limiter = Limiter::builder().rule(rule("closed").path("/admin/*").deny().message("Closed until Monday."));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    let reply = get(&app, "/admin/x").await;
    assert_eq!((reply.status, &reply.json()["detail"]), (403, &json!("Closed until Monday.")));
}

/// Tiers with equal limits are distinguished, and a tier that the rule does not name gets the default one.
#[tokio::test]
async fn tier_of_the_deciding_rule_is_in_the_body() {
    const POLICY: &str = "version: 1
identity: { tier: { header: X-Tier, default: free, trusted: true }, user: { header: X-User, trusted: true } }
rules:
  - name: per-user
    key: [tier, user]
    tiers: { free: 1/min, trial: 1/min, pro: [2/min, 3/h] }
  - { name: everybody, limit: 100/min }
";
    let limiter = Limiter::from_yaml(POLICY).unwrap();
    let refused = |tier: &str, user: &str| {
        let headers = [("x-tier", tier), ("x-user", user)];
        let request = tollgate::Request { headers: &headers, ..tollgate::Request::from_peer(None) };
        let verdict = (0..10).map(|_| limiter.check(&request)).find(|verdict| !verdict.is_allowed()).unwrap();
        serde_json::from_str::<serde_json::Value>(&verdict.problem_json()).unwrap()
    };
    for (sent, told) in [("free", "free"), ("trial", "trial"), ("pro", "pro"), ("gold", "free"), ("", "free")] {
        let problem = refused(sent, &format!("user of {sent}"));
        assert_eq!((&problem["rule"], &problem["tier"]), (&json!("per-user"), &json!(told)), "{sent}");
    }
}

#[tokio::test]
async fn unpublished_rule_sends_neither_tier_nor_message() {
    const POLICY: &str = "version: 1
identity: { tier: { header: X-Tier, default: free, trusted: true } }
rules: [{ name: sekrit, tiers: { free: 1/min }, publish: false }]
";
    let limiter = Limiter::from_yaml(POLICY).unwrap();
    let request = tollgate::Request::from_peer(None);
    assert!(limiter.check(&request).is_allowed());
    let verdict = limiter.check(&request);
    assert_eq!(verdict.message(), None);
    let problem = verdict.problem_json();
    assert!(!problem.contains("tier") && !problem.contains("sekrit"), "{problem}");
    let both = Limiter::builder().rule(rule("sekrit").limit("1/min").unpublished().message("No.")).build();
    assert!(both.unwrap_err().to_string().contains("`message` is sent to clients"));
}

#[tokio::test]
async fn handler_returns_a_refusal_as_the_layer_would() {
    let limiter = Limiter::builder().rule(rule("logins").limit("1/min").message("Too many logins.")).build().unwrap();
    let request = tollgate::Request::from_peer(None);
    assert!(limiter.check(&request).is_allowed());
    let handler = || -> Result<&'static str, tollgate::Refused> {
        limiter.check(&request).into_result()?;
        Ok("in")
    };
    let response = axum::response::IntoResponse::into_response(handler());
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert_eq!(response.headers()["x-ratelimit-limit"], "1");
    assert!(response.headers().contains_key("retry-after") && response.headers().contains_key("ratelimit"));
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    assert!(str::from_utf8(&body).unwrap().contains("Too many logins."));
}
