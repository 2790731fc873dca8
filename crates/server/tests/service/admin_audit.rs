//! What is written down of operators, and of those who are none.

use std::sync::Arc;

use tollgate_server::observe::{Event, WhyRefused};
use tollgate_server::{AccessToken, AdminAccess};

use crate::admin::{POLICY, TOKEN, ask, ask_as};
use crate::running::Running;

fn events(service: &Running) -> Vec<Arc<Event>> {
    service.engine.observer().recent_events()
}

fn changes(service: &Running) -> Vec<(&'static str, Option<String>, Option<String>, bool)> {
    let change = |event: Arc<Event>| match &*event {
        Event::Change(change) => Some((change.change.name(), change.rule.clone(), change.limit.clone(), change.done)),
        _ => None,
    };
    events(service).into_iter().filter_map(change).collect()
}

fn refused_metric(service: &Running, why: &str) -> u64 {
    let name = format!("tollgate_refused_calls_total{{listener=\"admin\",why=\"{why}\"}} ");
    let metrics = crate::client::request(service.http, "GET", "/metrics", "").body;
    metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
}

#[test]
fn every_change_that_was_tried_is_written_down() {
    let service = Running::under(POLICY);
    let rule = || Some("per-user".to_owned());
    for (method, path, body, status, written) in [
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
        assert_eq!(ask(&service, method, path, body).status, status, "{method} {path} {body}");
        let (kind, rule, limit, done) = written;
        assert_eq!(
            changes(&service)[before..],
            [(kind, rule, limit.map(str::to_owned), done)],
            "{method} {path} {body}"
        );
    }
}

#[test]
fn who_is_not_let_in_is_written_down_and_counted() {
    let access = AdminAccess { token: Some(AccessToken::new(TOKEN).unwrap()), ..AdminAccess::default() };
    let service = Running::open_to(POLICY, access);
    assert_eq!(refused_metric(&service, "wrong_token"), 0);
    let wrong = "authorization: Bearer not-the-token-at-all\r\n";
    let another = format!("authorization: Bearer {TOKEN}\r\norigin: http://evil.example\r\n");
    assert_eq!(ask_as(&service, wrong, "DELETE", "/api/keys/per-user/alice", "").status, 401);
    assert_eq!(ask_as(&service, "", "GET", "/api/rules", "").status, 401);
    assert_eq!(ask_as(&service, &another, "GET", "/api/rules", "").status, 403);
    let calls: Vec<(WhyRefused, &str)> = events(&service)
        .iter()
        .filter_map(|event| match &**event {
            Event::RefusedCall(call) => Some((call.why, call.method)),
            _ => None,
        })
        .collect();
    let expected = [(WhyRefused::WrongToken, "DELETE"), (WhyRefused::NoToken, "GET"), (WhyRefused::AnotherSite, "GET")];
    assert_eq!(calls, expected);
    let told: String = events(&service).iter().map(|event| event.to_json()).collect();
    assert!(told.contains(r#""event":"refused_call""#) && told.contains(r#""why":"wrong_token""#), "{told}");
    assert!(told.contains(r#""from":"127.0.0.1""#), "{told}");
    assert!(!told.contains("alice") && !told.contains("not-the-token") && !told.contains(TOKEN), "{told}");
    for why in ["wrong_token", "no_token", "another_site"] {
        assert_eq!(refused_metric(&service, why), 1, "{why}");
    }
    assert_eq!(refused_metric(&service, "called_by_name"), 0);
}

/// Somebody who tries out tokens fills no disk.
#[test]
fn a_flood_of_wrong_tokens_has_a_few_lines_a_second() {
    let access = AdminAccess { token: Some(AccessToken::new(TOKEN).unwrap()), ..AdminAccess::default() };
    let service = Running::open_to(POLICY, access);
    for _ in 0..20 {
        assert_eq!(ask_as(&service, "authorization: Bearer wrong\r\n", "GET", "/api/rules", "").status, 401);
    }
    // The clock of the service does not move by itself.
    assert_eq!(events(&service).iter().filter(|event| matches!(&***event, Event::RefusedCall(_))).count(), 5);
    assert_eq!(refused_metric(&service, "wrong_token"), 20);
}

#[test]
fn another_token_holds_from_when_it_is_read_again() {
    let token = AccessToken::new(TOKEN).unwrap();
    let access = AdminAccess { token: Some(token.clone()), ..AdminAccess::default() };
    let service = Running::open_to(POLICY, access);
    let ask_with = |token: &str| {
        let field = format!("authorization: Bearer {token}\r\n");
        ask_as(&service, &field, "GET", "/api/rules", "").status
    };
    assert_eq!(ask_with(TOKEN), 200);
    assert!(token.replace(&AccessToken::new("another-token-of-an-operator").unwrap()));
    assert_eq!((ask_with(TOKEN), ask_with("another-token-of-an-operator")), (401, 200));
}
