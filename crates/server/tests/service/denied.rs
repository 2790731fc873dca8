//! Rules that deny, over HTTP and in the admin API.

use serde_json::{Value, json};

use crate::client::{Connection, Response, request};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
identity: { client_ip: { trusted_proxies: [127.0.0.1] } }
rules:
  - { name: admin-only-inside, when: { path: /admin/*, network: { not: [10.0.0.0/8] } }, deny: true }
  - { name: no-trace, when: { method: TRACE }, deny: true, shadow: true }
  - { name: per-ip, key: client_ip, limit: 5/min }
";

const OUTSIDE: &str = r#"{"ip":"203.0.113.9","path":"/admin/users"}"#;

fn denial(shadow: bool, rule: &str) -> Value {
    json!({
        "rule": rule, "allowed": false, "limit": null, "remaining": null, "reset_after_ms": null,
        "retry_after_ms": null, "shadow": shadow,
    })
}

fn forward_auth(service: &TestService, query: &str, ip: &str) -> Response {
    let mut connection = Connection::open(service.http);
    let fields = format!("X-Forwarded-For: {ip}\r\nX-Forwarded-Uri: /admin/users\r\nX-Forwarded-Method: GET\r\n");
    connection.send(&format!("GET /v1/forward-auth{query} HTTP/1.1\r\nhost: tollgate\r\n{fields}\r\n"));
    connection.response()
}

#[test]
fn denied_check_names_the_rule_and_takes_nothing() {
    let service = TestService::with_policy(POLICY);
    let expected = json!({
        "allowed": false, "action": "deny", "rule": "admin-only-inside", "limit": null, "remaining": null,
        "reset_after_ms": null, "retry_after_ms": null, "source": "exact",
        "rules": [denial(false, "admin-only-inside")],
    });
    for _ in 0..9 {
        assert_eq!(service.check(OUTSIDE), expected);
    }
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["remaining"], 4, "nothing was charged before");
    assert_eq!(service.check(r#"{"ip":"10.1.2.3","path":"/admin/users"}"#)["action"], "allow");
    assert_eq!(service.check(r#"{"path":"/admin/users"}"#)["action"], "deny", "an unknown address is not inside");
}

#[test]
fn shadow_rule_that_denies_is_listed_and_refuses_nothing() {
    let service = TestService::with_policy(POLICY);
    let response = service.check(r#"{"ip":"203.0.113.9","method":"TRACE"}"#);
    assert_eq!((&response["action"], &response["rule"]), (&json!("allow"), &json!("per-ip")));
    assert_eq!(response["rules"][1], denial(true, "no-trace"));
}

#[test]
fn batch_decides_each_check_separately() {
    let service = TestService::with_policy(POLICY);
    let body = format!(r#"[{OUTSIDE},{{"ip":"203.0.113.9"}}]"#);
    let responses = request(service.http, "POST", "/v1/check/batch", &body).json();
    assert_eq!((&responses[0]["rule"], &responses[1]["remaining"]), (&json!("admin-only-inside"), &json!(4)));
}

#[test]
fn forward_auth_returns_403_or_the_requested_deny_status() {
    let service = TestService::with_policy(POLICY);
    let denied = forward_auth(&service, "", "203.0.113.9");
    assert_eq!((denied.status, denied.field("retry-after"), denied.field("ratelimit-policy")), (403, None, None));
    let problem = denied.json();
    assert_eq!((&problem["status"], &problem["rule"]), (&json!(403), &json!("admin-only-inside")));
    let replaced = forward_auth(&service, "?deny_status=401", "203.0.113.9");
    assert_eq!((replaced.status, replaced.field("tollgate-status")), (401, Some("403")));
    assert_eq!(forward_auth(&service, "", "10.1.2.3").status, 200);
}

#[test]
fn denials_are_counted_under_their_rule() {
    let service = TestService::with_policy(POLICY);
    let metrics = || request(service.admin, "GET", "/metrics", "").body;
    let series = |metrics: &str, rule: &str| {
        let named = format!(r#"rule="{rule}""#);
        metrics.lines().filter(|line| line.contains(&named)).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = series(&metrics(), "admin-only-inside");
    let initial = r#"tollgate_decisions_total{rule="admin-only-inside",outcome="deny",frontend="http"} 0"#;
    assert!(before.iter().any(|line| line == initial), "{before:?}");
    assert!(
        !before.iter().any(|line| line.contains(r#"outcome="allow""#)),
        "a rule that denies allows nothing: {before:?}"
    );
    service.check(OUTSIDE);
    service.check(OUTSIDE);
    service.check(r#"{"ip":"203.0.113.9","method":"TRACE"}"#);
    let after = metrics();
    for line in [
        r#"tollgate_decisions_total{rule="admin-only-inside",outcome="deny",frontend="http"} 2"#,
        r#"tollgate_decisions_total{rule="",outcome="deny",frontend="http"} 0"#,
        r#"tollgate_rule_refusals_total{rule="admin-only-inside",mode="enforce"} 2"#,
        r#"tollgate_rule_refusals_total{rule="no-trace",mode="shadow"} 1"#,
        r#"tollgate_endpoint_decisions_total{endpoint="/admin/*",rule="admin-only-inside",outcome="refused"} 2"#,
    ] {
        assert!(after.lines().any(|other| other == line), "no line {line} in\n{after}");
    }
}

#[test]
fn admin_api_lists_denied_clients_and_rules_that_deny() {
    let service = TestService::with_policy(POLICY);
    for _ in 0..3 {
        service.check(OUTSIDE);
    }
    let top = request(service.admin, "GET", "/api/top?rule=admin-only-inside", "").json();
    assert_eq!((&top["rules"][0]["refusals"], &top["rules"][0]["offenders"][0]["count"]), (&json!(3), &json!(3)));
    let rules = request(service.admin, "GET", "/api/rules", "").json();
    assert_eq!((&rules["rules"][0]["deny"], &rules["rules"][0]["grants"]), (&json!(true), &json!([])));
    assert_eq!(rules["rules"][2]["deny"], false);
}

#[test]
fn published_limits_include_rules_that_deny() {
    let service = TestService::with_policy(POLICY);
    let limits = request(service.http, "GET", "/v1/limits", "").json();
    let denying = &limits["rules"][0];
    assert_eq!((&denying["name"], &denying["denies"]), (&json!("admin-only-inside"), &json!(true)));
    assert_eq!(denying["applies_to"], "some requests to everything below `/admin/`");
    assert_eq!((limits["rules"].as_array().unwrap().len(), &limits["rules"][1]["denies"]), (2, &json!(false)));
}
