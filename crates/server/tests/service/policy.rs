//! The rules of a policy, over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::test_service::TestService;

const S_NS: u64 = 1_000_000_000;

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [10.0.0.0/8] }
  user: { header: X-User-ID, trusted: true }
  tier: { header: X-Tier, default: free, trusted: true }
deny: { client_ip: [192.0.2.0/24] }
allow: { client_ip: [198.51.100.7] }
rules:
  - name: per-user
    key: user
    tiers: { free: 2/min, pro: 10/min, enterprise: unlimited }
  - name: login
    when: { method: POST, path: /auth/login }
    key: client_ip
    limit: 2/min
    algorithm: sliding-window-log
    on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 2 in 10min, action: block 15min } ]
  - name: pay
    when: { path: /pay/*, host: shop.example }
    limit: 1/s
    algorithm: leaky-bucket
    queue: { size: 3, max_wait: 2s }
  - name: watched
    when: { path: /watched }
    key: client_ip
    limit: 1/min
    shadow: true
  - name: reports
    when: { path: /reports }
    concurrency: 1
";

fn members<'a>(response: &'a Value, names: &[&str]) -> Vec<&'a Value> {
    names.iter().map(|name| &response[*name]).collect()
}

#[test]
fn tiers_have_their_own_limits() {
    let service = TestService::with_policy(POLICY);
    for (body, rule, limit) in [
        (r#"{"headers":{"x-user-id":"a"}}"#, json!("per-user"), json!(2)),
        (r#"{"headers":{"X-User-ID":["b"],"X-Tier":["pro"]}}"#, json!("per-user"), json!(10)),
        (r#"{"headers":{"X-User-ID":"c","X-Tier":"enterprise"}}"#, json!(null), json!(null)),
        (r#"{"headers":{"X-User-ID":"d","X-Tier":"no such tier"}}"#, json!("per-user"), json!(2)),
        (r#"{"headers":{"X-Tier":"pro"}}"#, json!(null), json!(null)),
    ] {
        assert_eq!(members(&service.check(body), &["rule", "limit"]), [&rule, &limit], "{body}");
    }
}

#[test]
fn identities_can_be_set_directly() {
    let service = TestService::with_policy(POLICY);
    let remaining = |body: &str| service.check(body)["remaining"].clone();
    assert_eq!(remaining(r#"{"identities":{"user":"a"}}"#), 1);
    assert_eq!(remaining(r#"{"headers":{"x-user-id":"a"}}"#), 0, "the same user");
    assert_eq!(remaining(r#"{"identities":{"user":"b","unknown":"x"}}"#), 1, "unknown identities are ignored");
}

#[test]
fn clients_on_the_deny_list_match_no_rule() {
    let expected = json!({
        "allowed": false, "action": "deny", "rule": null, "limit": null, "remaining": null,
        "reset_after_ms": null, "retry_after_ms": null, "source": "exact", "rules": [],
    });
    let service = TestService::with_policy(POLICY);
    assert_eq!(service.check(r#"{"ip":"192.0.2.1","identities":{"user":"a"}}"#), expected);
}

#[test]
fn clients_on_the_allow_list_match_no_rule() {
    let service = TestService::with_policy(POLICY);
    let body = r#"{"ip":"198.51.100.7","identities":{"user":"a"},"cost":1000}"#;
    assert_eq!(members(&service.check(body), &["action", "rule"]), [&json!("allow"), &json!(null)]);
}

#[test]
fn only_trusted_proxies_may_name_the_client() {
    let service = TestService::with_policy(POLICY);
    let action = |ip: &str| {
        let body = json!({ "ip": ip, "headers": { "x-forwarded-for": "192.0.2.1" } });
        service.check(&body.to_string())["action"].clone()
    };
    assert_eq!(action("10.0.0.1"), "deny");
    assert_eq!(action("203.0.113.1"), "allow", "X-Forwarded-For of an untrusted peer is ignored");
}

#[test]
fn repeated_violations_warn_then_reject_then_block() {
    let service = TestService::with_policy(POLICY);
    let body = r#"{"ip":"203.0.113.9","method":"POST","path":"/auth/login"}"#;
    let login = || service.check(body);
    let names = ["action", "allowed", "rule", "retry_after_ms"];
    let responses: Vec<Value> = (0..6).map(|_| login()).collect();
    let (minute, quarter) = (json!(60_000), json!(900_000));
    for (response, (action, allowed, retry)) in responses.iter().zip([
        ("allow", true, json!(null)),
        ("allow", true, json!(null)),
        ("warn", true, json!(null)),
        ("reject", false, minute),
        ("block", false, quarter.clone()),
        ("block", false, quarter),
    ]) {
        assert_eq!(members(response, &names), [&json!(action), &json!(allowed), &json!("login"), &retry]);
    }
    service.clock.advance(Duration::from_nanos(900 * S_NS - 1));
    assert_eq!(members(&login(), &["action", "retry_after_ms"]), [&json!("block"), &json!(1)]);
    service.clock.advance(Duration::from_nanos(1));
    assert_eq!(login()["action"], "allow");
    let other_path = r#"{"ip":"203.0.113.9","method":"GET","path":"/auth/login"}"#;
    assert_eq!(service.check(other_path)["rule"], json!(null));
}

#[test]
fn queued_checks_report_their_delay() {
    let service = TestService::with_policy(POLICY);
    let body = r#"{"host":"shop.example:443","path":"/pay/card"}"#;
    let names = ["action", "delay_ms", "retry_after_ms"];
    let first = service.check(body);
    assert_eq!(members(&first, &names), [&json!("allow"), &json!(null), &json!(null)]);
    assert!(first.get("delay_ms").is_none());
    for delay_ms in [1_000, 2_000] {
        assert_eq!(members(&service.check(body), &names), [&json!("delay"), &json!(delay_ms), &json!(null)]);
    }
    assert_eq!(members(&service.check(body), &names), [&json!("reject"), &json!(null), &json!(1_000)]);
    assert_eq!(service.check(r#"{"host":"other.example","path":"/pay/card"}"#)["rule"], json!(null));
}

#[test]
fn shadow_rules_are_listed_and_refuse_nothing() {
    let service = TestService::with_policy(POLICY);
    let body = r#"{"ip":"203.0.113.9","path":"/watched"}"#;
    service.check(body);
    let response = service.check(body);
    assert_eq!(members(&response, &["action", "rule"]), [&json!("allow"), &json!(null)]);
    assert_eq!(
        members(&response["rules"][0], &["rule", "allowed", "shadow"]),
        [&json!("watched"), &json!(false), &json!(true)]
    );
}

#[test]
fn all_matching_rules_are_listed_and_the_tightest_decides() {
    let service = TestService::with_policy(POLICY);
    let body = r#"{"ip":"203.0.113.9","method":"POST","path":"/auth/login/","identities":{"user":"a","tier":"pro"}}"#;
    let response = service.check(body);
    let rules: Vec<&Value> = response["rules"].as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
    assert_eq!(rules, ["per-user", "login"]);
    assert_eq!(response["rule"], "login");
}

#[test]
fn refusals_have_the_message_of_the_rule_and_the_tier() {
    let service = TestService::with_policy(
        "version: 1
identity: { tier: { header: X-Tier, default: free, trusted: true } }
rules:
  - { name: all, tiers: { free: 1/min, pro: 2/min }, message: 'Too \"many\". Süß.' }
",
    );
    let allowed = service.check("{}");
    assert_eq!((&allowed["allowed"], allowed.get("message")), (&json!(true), None));
    let refused = service.check("{}");
    assert_eq!((&refused["allowed"], &refused["message"]), (&json!(false), &json!("Too \"many\". Süß.")));
    let problem = crate::client::request(service.http, "GET", "/v1/forward-auth", "").json();
    assert_eq!((&problem["detail"], &problem["tier"]), (&json!("Too \"many\". Süß."), &json!("free")));
}
