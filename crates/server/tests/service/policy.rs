//! A policy's rules, as a caller over HTTP meets them.

use serde_json::{Value, json};

use crate::running::Running;

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

fn of<'a>(answer: &'a Value, members: &[&str]) -> Vec<&'a Value> {
    members.iter().map(|member| &answer[*member]).collect()
}

#[test]
fn a_tier_has_its_own_limit() {
    let service = Running::under(POLICY);
    for (body, rule, limit) in [
        (r#"{"headers":{"x-user-id":"a"}}"#, json!("per-user"), json!(2)),
        (r#"{"headers":{"X-User-ID":["b"],"X-Tier":["pro"]}}"#, json!("per-user"), json!(10)),
        (r#"{"headers":{"X-User-ID":"c","X-Tier":"enterprise"}}"#, json!(null), json!(null)),
        (r#"{"headers":{"X-User-ID":"d","X-Tier":"no such tier"}}"#, json!("per-user"), json!(2)),
        (r#"{"headers":{"X-Tier":"pro"}}"#, json!(null), json!(null)),
    ] {
        assert_eq!(of(&service.check(body), &["rule", "limit"]), [&rule, &limit], "{body}");
    }
}

#[test]
fn an_identity_can_be_set_directly() {
    let service = Running::under(POLICY);
    let remaining = |body: &str| service.check(body)["remaining"].clone();
    assert_eq!(remaining(r#"{"identities":{"user":"a"}}"#), 1);
    assert_eq!(remaining(r#"{"headers":{"x-user-id":"a"}}"#), 0, "the same user");
    assert_eq!(remaining(r#"{"identities":{"user":"b","nobody_knows":"it"}}"#), 1, "a gateway may tell more");
}

#[test]
fn who_is_denied_meets_no_rule() {
    let expected = json!({
        "allowed": false, "action": "deny", "rule": null, "limit": null, "remaining": null,
        "reset_after_ms": null, "retry_after_ms": null, "source": "exact", "rules": [],
    });
    let service = Running::under(POLICY);
    assert_eq!(service.check(r#"{"ip":"192.0.2.1","identities":{"user":"a"}}"#), expected);
}

#[test]
fn who_is_allowed_meets_no_rule() {
    let service = Running::under(POLICY);
    let body = r#"{"ip":"198.51.100.7","identities":{"user":"a"},"cost":1000}"#;
    assert_eq!(of(&service.check(body), &["action", "rule"]), [&json!("allow"), &json!(null)]);
}

#[test]
fn a_trusted_proxy_speaks_for_its_clients() {
    let service = Running::under(POLICY);
    let action = |ip: &str| {
        let body = json!({ "ip": ip, "headers": { "x-forwarded-for": "192.0.2.1" } });
        service.check(&body.to_string())["action"].clone()
    };
    assert_eq!(action("10.0.0.1"), "deny");
    assert_eq!(action("203.0.113.1"), "allow", "anybody can say for whom they speak");
}

#[test]
fn whoever_goes_on_is_warned_then_refused_then_blocked() {
    let service = Running::under(POLICY);
    let body = r#"{"ip":"203.0.113.9","method":"POST","path":"/auth/login"}"#;
    let login = || service.check(body);
    let told = ["action", "allowed", "rule", "retry_after_ms"];
    let answers: Vec<Value> = (0..6).map(|_| login()).collect();
    let (minute, quarter) = (json!(60_000), json!(900_000));
    for (answer, (action, allowed, retry)) in answers.iter().zip([
        ("allow", true, json!(null)),
        ("allow", true, json!(null)),
        ("warn", true, json!(null)),
        ("reject", false, minute),
        ("block", false, quarter.clone()),
        ("block", false, quarter),
    ]) {
        assert_eq!(of(answer, &told), [&json!(action), &json!(allowed), &json!("login"), &retry]);
    }
    service.clock.advance(900 * S_NS - 1);
    assert_eq!(of(&login(), &["action", "retry_after_ms"]), [&json!("block"), &json!(1)]);
    service.clock.advance(1);
    assert_eq!(login()["action"], "allow");
    let other_path = r#"{"ip":"203.0.113.9","method":"GET","path":"/auth/login"}"#;
    assert_eq!(service.check(other_path)["rule"], json!(null));
}

#[test]
fn a_queue_tells_how_long_to_wait() {
    let service = Running::under(POLICY);
    let body = r#"{"host":"shop.example:443","path":"/pay/card"}"#;
    let told = ["action", "delay_ms", "retry_after_ms"];
    let first = service.check(body);
    assert_eq!(of(&first, &told), [&json!("allow"), &json!(null), &json!(null)]);
    assert!(first.get("delay_ms").is_none());
    for delay_ms in [1_000, 2_000] {
        assert_eq!(of(&service.check(body), &told), [&json!("delay"), &json!(delay_ms), &json!(null)]);
    }
    assert_eq!(of(&service.check(body), &told), [&json!("reject"), &json!(null), &json!(1_000)]);
    assert_eq!(service.check(r#"{"host":"other.example","path":"/pay/card"}"#)["rule"], json!(null));
}

#[test]
fn a_shadow_is_told_and_refuses_nobody() {
    let service = Running::under(POLICY);
    let body = r#"{"ip":"203.0.113.9","path":"/watched"}"#;
    service.check(body);
    let answer = service.check(body);
    assert_eq!(of(&answer, &["action", "rule"]), [&json!("allow"), &json!(null)]);
    assert_eq!(
        of(&answer["rules"][0], &["rule", "allowed", "shadow"]),
        [&json!("watched"), &json!(false), &json!(true)]
    );
}

#[test]
fn all_rules_that_apply_are_told_and_the_tightest_decides() {
    let service = Running::under(POLICY);
    let body = r#"{"ip":"203.0.113.9","method":"POST","path":"/auth/login/","identities":{"user":"a","tier":"pro"}}"#;
    let answer = service.check(body);
    let rules: Vec<&Value> = answer["rules"].as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
    assert_eq!(rules, ["per-user", "login"]);
    assert_eq!(answer["rule"], "login");
}
