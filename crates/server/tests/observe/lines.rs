//! The content of log lines.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::json;
use tollgate::Request;
use tollgate_server::observe::{Event, EventFormat, IdentityFormat, Level};

use crate::observed_engine::ObservedEngine;

const POLICY: &str = "version: 1
identity:
  user: { given: true }
deny: { client_ip: 192.0.2.0/24 }
rules:
  - name: login
    when: { method: POST, path: /auth/* }
    key: [user, client_ip]
    limit: 1/min
    algorithm: sliding-window-log
    on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 2 in 10min, action: block 15min } ]
  - { name: tight, shadow: true, key: user, limit: 2/min }
  - { name: pay, when: { path: /pay }, limit: 1/s, algorithm: leaky-bucket, queue: { size: 6 } }
";

fn login<'a>(identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request {
        method: "post",
        target: "/auth/login?token=secret",
        identities,
        ..Request::from_peer(Some(Ipv4Addr::new(203, 0, 113, 9).into()))
    }
}

#[test]
fn violation_lines_have_rule_action_and_client() {
    let observed = ObservedEngine::with_policy(POLICY);
    let actions: Vec<&str> = (0..5).map(|_| observed.check(&login(&[("user", "a|b c")])).action().name()).collect();
    assert_eq!(actions, ["allow", "warn", "reject", "block", "block"]);
    let lines = observed.violations();
    let of_login: Vec<_> = lines.iter().filter(|line| line["rule"] == "login").collect();
    assert_eq!(of_login.iter().map(|line| line["action"].as_str().unwrap()).collect::<Vec<_>>(), actions[1..]);
    assert_eq!(
        *of_login[1],
        json!({
            "event": "violation", "time": "2023-11-14T22:14:00.000Z", "rule": "login", "action": "reject",
            "shadow": false, "limit": 1, "algorithm": "sliding-window-log", "front_end": "http", "method": "POST",
            "route": "/auth/*", "retry_after_ms": 60_000, "client": r"a\x7cb c|203.0.113.9",
        })
    );
    assert_eq!(of_login[2]["retry_after_ms"], 900_000);
}

#[test]
fn denial_lines_have_rule_and_client() {
    let observed = ObservedEngine::with_policy(
        "version: 1
rules:
  - { name: admin-only-inside, when: { path: /admin/*, network: { not: [10.0.0.0/8] } }, deny: true }
  - { name: no-trace, when: { method: TRACE }, deny: true, shadow: true }
  - { name: per-ip, key: client_ip, limit: 5/min }
",
    );
    let action = |method, target| {
        let peer = Some(Ipv4Addr::new(203, 0, 113, 9).into());
        observed.check(&Request { method, target, ..Request::from_peer(peer) }).action().name()
    };
    assert_eq!((action("GET", "/admin/users?token=secret"), action("TRACE", "/")), ("deny", "allow"));
    let line = |rule: &str, shadow: bool, method: &str, route: Option<&str>| {
        json!({
            "event": "violation", "time": "2023-11-14T22:14:00.000Z", "rule": rule, "action": "deny",
            "shadow": shadow, "limit": null, "algorithm": null, "front_end": "http", "method": method,
            "route": route, "retry_after_ms": null, "client": "203.0.113.9",
        })
    };
    let expected = [line("admin-only-inside", false, "GET", Some("/admin/*")), line("no-trace", true, "TRACE", None)];
    assert_eq!(observed.violations(), expected);
    assert_eq!((observed.observer().refusals("admin-only-inside"), observed.observer().refusals("no-trace")), (1, 1));
    assert_eq!(&*observed.observer().top("admin-only-inside", 9)[0].client, "203.0.113.9");
}

#[test]
fn refusals_by_shadow_rules_are_logged_as_shadow() {
    let observed = ObservedEngine::with_policy(POLICY);
    for _ in 0..4 {
        let request = Request { identities: &[("user", "ann")], ..Request::from_peer(None) };
        assert!(observed.check(&request).is_allowed());
    }
    let lines = observed.violations();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(
            (&line["rule"], &line["shadow"], &line["action"]),
            (&json!("tight"), &json!(true), &json!("reject"))
        );
        assert_eq!((&line["client"], &line["retry_after_ms"]), (&json!("ann"), &json!(30_000)));
    }
    assert_eq!(observed.observer().top("tight", 10)[0].count, 2);
}

#[test]
fn denials_and_delays_are_logged_and_peeks_are_not() {
    let observed = ObservedEngine::with_policy(POLICY);
    observed.check_from(Ipv4Addr::new(192, 0, 2, 1));
    let pay = |cost| Request { target: "/pay", method: "CHARGE", cost, ..Request::from_peer(None) };
    (0..3).for_each(|_| drop(observed.check(&pay(1))));
    (0..3).for_each(|_| drop(observed.check(&pay(0))));
    let lines = observed.violations();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((&lines[0]["action"], &lines[0]["rule"]), (&json!("deny"), &json!(null)));
    assert_eq!(lines[0]["client"], "192.0.2.1");
    assert_eq!(
        (&lines[1]["action"], &lines[1]["rule"], &lines[1]["method"]),
        (&json!("delay"), &json!("pay"), &json!("other"))
    );
    assert_eq!(lines[1]["client"], "*");
}

#[test]
fn client_input_cannot_forge_log_lines() {
    for format in [EventFormat::Text, EventFormat::Json] {
        let observed = ObservedEngine::with(POLICY, IdentityFormat::Plain, format);
        let user = "x\r\ntollgate: violation rule=forged \u{1b}[31m\u{2028}\" action=allow";
        (0..3).for_each(|_| drop(observed.check(&login(&[("user", user)]))));
        let log = observed.log();
        assert_eq!(log.lines().count(), observed.observer().recent_events().len(), "{log}");
        assert!(log.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{log:?}");
        assert!(!log.contains(" rule=forged ") || log.contains("\"x"), "{log}");
    }
}

#[test]
fn text_format_quotes_values_with_special_characters() {
    let observed = ObservedEngine::with(POLICY, IdentityFormat::Plain, EventFormat::Text);
    (0..2).for_each(|_| drop(observed.check(&login(&[("user", "a b\" rule=x")]))));
    let log = observed.log();
    let line = log.lines().find(|line| line.contains("rule=login")).unwrap();
    assert_eq!(
        line,
        r#"tollgate: violation time=2023-11-14T22:14:00.000Z rule=login action=warn limit=1 algorithm=sliding-window-log front_end=http method=POST route=/auth/* client="a b\" rule=x|203.0.113.9""#
    );
}

#[test]
fn notices_are_single_json_lines() {
    let observed = ObservedEngine::with_policy(POLICY);
    observed.observer().say(Level::Info, "a\nb");
    let line = &observed.json_lines()[0];
    assert_eq!((&line["event"], &line["level"], &line["message"]), (&json!("notice"), &json!("info"), &json!("a\nb")));
    assert!(matches!(&*observed.observer().recent_events()[0], Event::Notice(notice) if notice.message == "a\nb"));
}

#[test]
fn store_notices_are_limited_to_5_per_second() {
    let observed = ObservedEngine::with_policy(POLICY);
    for _ in 0..3 {
        (0..1_000).for_each(|_| observed.observer().log_store_notice(Level::Error, "the store fails"));
        observed.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(observed.json_lines().len(), 15);
    observed.clock.advance(Duration::from_secs(10));
    observed.observer().run_periodic();
    let left_out = observed.json_lines().pop().unwrap();
    assert_eq!((&left_out["event"], &left_out["violations"]), (&json!("left_out"), &json!(2_985)));
}
