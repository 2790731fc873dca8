//! The audit log of the admin API: changes and refused calls.

use std::sync::Arc;

use tollgate_server::observe::{CallRefusal, Event};
use tollgate_server::{AccessToken, AdminAccess};

use crate::admin::{POLICY, TOKEN, admin_request, admin_request_with};
use crate::test_service::TestService;

fn events(service: &TestService) -> Vec<Arc<Event>> {
    service.engine.observer().recent_events()
}

fn changes(service: &TestService) -> Vec<(&'static str, Option<String>, Option<String>, bool)> {
    let change = |event: Arc<Event>| match &*event {
        Event::Change(change) => Some((change.change.name(), change.rule.clone(), change.limit.clone(), change.done)),
        _ => None,
    };
    events(service).into_iter().filter_map(change).collect()
}

fn refused_metric(service: &TestService, why: &str) -> u64 {
    let name = format!("tollgate_refused_calls_total{{listener=\"admin\",why=\"{why}\"}} ");
    let metrics = crate::client::request(service.http, "GET", "/metrics", "").body;
    metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
}

#[test]
fn every_attempted_change_is_logged() {
    let service = TestService::with_policy(POLICY);
    let rule = || Some("per-user".to_owned());
    for (method, path, body, status, logged) in [
        (
            "PUT",
            "/api/keys/per-user/alice",
            r#"{"limit":"9/min","for":"1h"}"#,
            200,
            ("override", rule(), Some("9/min"), true),
        ),
        (
            "PUT",
            "/api/keys/per-user/alice",
            r#"{"limit":"9/min","for":"x"}"#,
            400,
            ("override", rule(), Some("9/min"), false),
        ),
        ("PUT", "/api/keys/per-user/alice", r#"{"limit":"x","for":"1h"}"#, 400, ("override", rule(), Some("x"), false)),
        ("PUT", "/api/keys/per-user/alice", "nonsense", 400, ("override", rule(), None, false)),
        ("PUT", "/api/keys/per-user/%ff", "", 400, ("override", None, None, false)),
        (
            "PUT",
            "/api/keys/none/alice",
            r#"{"limit":"9/min","for":"1h"}"#,
            404,
            ("override", None, Some("9/min"), false),
        ),
        ("DELETE", "/api/keys/per-user/alice", "", 200, ("reset", rule(), None, true)),
        ("DELETE", "/api/keys/per-user/a%7Cb", "", 400, ("reset", rule(), None, false)),
        ("DELETE", "/api/keys/per-user/%ff", "", 400, ("reset", None, None, false)),
        ("DELETE", "/api/overrides/per-user/alice", "", 200, ("end_override", rule(), None, true)),
        ("DELETE", "/api/overrides/per-user/alice", "", 404, ("end_override", rule(), None, false)),
        ("DELETE", "/api/overrides/per-user/%ff", "", 400, ("end_override", None, None, false)),
    ] {
        let before = changes(&service).len();
        assert_eq!(admin_request(&service, method, path, body).status, status, "{method} {path} {body}");
        let (kind, rule, limit, done) = logged;
        assert_eq!(
            changes(&service)[before..],
            [(kind, rule, limit.map(str::to_owned), done)],
            "{method} {path} {body}"
        );
    }
}

#[test]
fn refused_calls_are_logged_and_counted() {
    let access = AdminAccess { token: Some(AccessToken::new(TOKEN).unwrap()), ..AdminAccess::default() };
    let service = TestService::with_admin_access(POLICY, access);
    assert_eq!(refused_metric(&service, "wrong_token"), 0);
    let wrong = "authorization: Bearer not-the-token-at-all\r\n";
    let another = format!("authorization: Bearer {TOKEN}\r\norigin: http://evil.example\r\n");
    assert_eq!(admin_request_with(&service, wrong, "DELETE", "/api/keys/per-user/alice", "").status, 401);
    assert_eq!(admin_request_with(&service, "", "GET", "/api/rules", "").status, 401);
    assert_eq!(admin_request_with(&service, &another, "GET", "/api/rules", "").status, 403);
    let calls: Vec<(CallRefusal, &str)> = events(&service)
        .iter()
        .filter_map(|event| match &**event {
            Event::RefusedCall(call) => Some((call.why, call.method)),
            _ => None,
        })
        .collect();
    let expected =
        [(CallRefusal::WrongToken, "DELETE"), (CallRefusal::NoToken, "GET"), (CallRefusal::AnotherSite, "GET")];
    assert_eq!(calls, expected);
    let log: String = events(&service).iter().map(|event| event.to_json()).collect();
    assert!(log.contains(r#""event":"refused_call""#) && log.contains(r#""why":"wrong_token""#), "{log}");
    assert!(log.contains(r#""from":"127.0.0.1""#), "{log}");
    assert!(!log.contains("alice") && !log.contains("not-the-token") && !log.contains(TOKEN), "{log}");
    for why in ["wrong_token", "no_token", "another_site"] {
        assert_eq!(refused_metric(&service, why), 1, "{why}");
    }
    assert_eq!(refused_metric(&service, "called_by_name"), 0);
}

/// Guessing tokens must not fill the disk.
#[test]
fn wrong_tokens_are_logged_at_most_5_times_per_second() {
    let access = AdminAccess { token: Some(AccessToken::new(TOKEN).unwrap()), ..AdminAccess::default() };
    let service = TestService::with_admin_access(POLICY, access);
    for _ in 0..20 {
        assert_eq!(
            admin_request_with(&service, "authorization: Bearer wrong\r\n", "GET", "/api/rules", "").status,
            401
        );
    }
    // The clock is stopped, so all calls are within one second.
    assert_eq!(events(&service).iter().filter(|event| matches!(&***event, Event::RefusedCall(_))).count(), 5);
    assert_eq!(refused_metric(&service, "wrong_token"), 20);
}

#[test]
fn replaced_token_applies_at_once() {
    let token = AccessToken::new(TOKEN).unwrap();
    let access = AdminAccess { token: Some(token.clone()), ..AdminAccess::default() };
    let service = TestService::with_admin_access(POLICY, access);
    let status_with = |token: &str| {
        let field = format!("authorization: Bearer {token}\r\n");
        admin_request_with(&service, &field, "GET", "/api/rules", "").status
    };
    assert_eq!(status_with(TOKEN), 200);
    assert!(token.replace(&AccessToken::new("another-token-of-an-operator").unwrap()));
    assert_eq!((status_with(TOKEN), status_with("another-token-of-an-operator")), (401, 200));
}
