//! The admin API.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_server::{AccessToken, AdminAccess};

use crate::client::{Connection, Response};
use crate::test_service::TestService;

pub(crate) const POLICY: &str = "
version: 1
identity:
  user: { header: x-user, trusted: true }
rules:
  - name: per-user
    key: user
    limit: 2/day
  - name: global
    limit: 100/s
";

pub(crate) const TOKEN: &str = "a-token-of-an-operator";

pub(crate) fn admin_request_with(
    service: &TestService,
    fields: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Response {
    let mut connection = Connection::open(service.admin);
    connection.send(&format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\n{fields}content-length: {}\r\n\r\n{body}",
        service.admin,
        body.len()
    ));
    connection.response()
}

pub(crate) fn admin_request(service: &TestService, method: &str, path: &str, body: &str) -> Response {
    admin_request_with(service, "", method, path, body)
}

/// Checks a request of a user, and returns whether it is allowed.
fn spend(service: &TestService, user: &str) -> bool {
    service.check(&format!(r#"{{"identities":{{"user":"{user}"}}}}"#))["allowed"] == true
}

fn remaining(service: &TestService, path: &str) -> Value {
    let response = admin_request(service, "GET", path, "");
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["counters"][0]["remaining"].clone()
}

#[test]
fn rules_are_listed_with_their_promises() {
    let service = TestService::with_policy(POLICY);
    let response = admin_request(&service, "GET", "/api/rules", "");
    assert_eq!((response.status, response.field("cache-control")), (200, Some("no-store")));
    let rules = response.json();
    assert_eq!(rules["rules"][0]["rule"], "per-user");
    assert_eq!(rules["rules"][0]["grants"][0]["limits"][0]["most_in_period"]["charged"], 4);
    assert_eq!(rules["rules"][1]["rule"], "global");
}

#[test]
fn reading_a_key_charges_nothing() {
    let service = TestService::with_policy(POLICY);
    assert_eq!(remaining(&service, "/api/keys/per-user/alice"), 2);
    assert!(spend(&service, "alice"));
    for _ in 0..3 {
        assert_eq!(remaining(&service, "/api/keys/per-user/alice"), 1);
    }
    let key = admin_request(&service, "GET", "/api/keys/per-user/alice", "").json();
    assert_eq!(
        (&key["rule"], &key["key"], &key["counters"][0]["used"]),
        (&json!("per-user"), &json!("alice"), &json!(1))
    );
    assert_eq!(remaining(&service, "/api/keys/global"), 200 - 1);
}

#[test]
fn reset_key_has_its_full_limit_at_once() {
    let service = TestService::with_policy(POLICY);
    assert!(spend(&service, "alice") && spend(&service, "alice") && !spend(&service, "alice"));
    let response = admin_request(&service, "DELETE", "/api/keys/per-user/alice", "");
    assert_eq!((response.status, response.body.as_str()), (200, r#"{"done":true}"#));
    assert!(spend(&service, "alice") && spend(&service, "alice") && !spend(&service, "alice"));
}

#[test]
fn override_replaces_the_limit_until_it_ends() {
    let service = TestService::with_policy(POLICY);
    assert!(spend(&service, "alice") && spend(&service, "alice") && !spend(&service, "alice"));
    let set = admin_request(&service, "PUT", "/api/keys/per-user/alice", r#"{"limit":"4/day","for":"1h"}"#);
    assert_eq!((set.status, &set.json()["limit"]), (200, &json!("4/day")), "{set:?}");
    assert!(spend(&service, "alice") && spend(&service, "alice") && !spend(&service, "alice"));
    assert_eq!(admin_request(&service, "GET", "/api/overrides", "").json()["overrides"][0]["key"], "alice");
    assert_eq!(admin_request(&service, "GET", "/api/keys/per-user/alice", "").json()["counters"][0]["of"], "hand");
    // Other keys have the limit of the policy.
    assert!(spend(&service, "bob") && spend(&service, "bob") && !spend(&service, "bob"));
    assert_eq!(admin_request(&service, "DELETE", "/api/overrides/per-user/alice", "").status, 200);
    assert_eq!(admin_request(&service, "GET", "/api/overrides", "").json()["overrides"], json!([]));
    admin_request(&service, "PUT", "/api/keys/per-user/bob", r#"{"limit":"unlimited","for":"1h"}"#);
    assert!((0..10).all(|_| spend(&service, "bob")));
    service.clock.advance(Duration::from_secs(3_600));
    assert!(!spend(&service, "bob"));
}

#[test]
fn invalid_admin_requests_get_a_reason() {
    let service = TestService::with_policy(POLICY);
    let long = "a".repeat(20_000);
    for (method, path, body, status, reason) in [
        ("GET", "/api/keys/none/alice", "", 404, "there is no rule `none`"),
        ("GET", "/api/keys/per-user/a%7Cb", "", 400, "not a key of this rule"),
        ("GET", "/api/keys/per-user/%0d%0aset-cookie:%20a=b", "", 400, "not a key of this rule"),
        ("GET", "/api/keys/per-user/%ff", "", 400, "percent-encoded"),
        ("DELETE", "/api/keys/per-user", "", 400, "not a key of this rule"),
        ("GET", &format!("/api/keys/per-user/{long}"), "", 400, "not a key of this rule"),
        ("PUT", "/api/keys/per-user/alice", "", 400, "JSON object with limit and for"),
        ("PUT", "/api/keys/per-user/alice", r#"{"limit":"2/min"}"#, 400, "`for` must be"),
        ("PUT", "/api/keys/per-user/alice", r#"{"limit":"2","for":"1h"}"#, 400, "not a rate"),
        ("PUT", "/api/keys/per-user/alice", r#"{"limit":"2/min","for":"1h","x":1}"#, 400, "unknown member `x`"),
        ("POST", "/api/keys/per-user/alice", "", 405, "does not support POST"),
        ("GET", "/api/top?rule=none", "", 404, "there is no rule `none`"),
        ("GET", "/api/top?n=0", "", 400, "from 1 to 100"),
        ("POST", "/api/reload", "", 409, "no policy file"),
        ("GET", "/api/none", "", 404, "no resource at /api/none"),
    ] {
        let response = admin_request(&service, method, path, body);
        assert_eq!(response.status, status, "{method} {path} {response:?}");
        assert_eq!(response.field("content-type"), Some("application/problem+json"), "{method} {path}");
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(reason), "{method} {path}: {detail}");
    }
}

#[test]
fn offenders_are_listed_by_their_name_in_the_log() {
    let service = TestService::with_policy(POLICY);
    for user in ["alice", "alice", "alice", "alice", "alice", "bob", "bob", "bob"] {
        spend(&service, user);
    }
    let top = admin_request(&service, "GET", "/api/top?rule=per-user&n=5", "").json();
    let offenders = top["rules"][0]["offenders"].as_array().unwrap().clone();
    let alice = admin_request(&service, "GET", "/api/keys/per-user/alice", "").json()["client"].clone();
    assert_eq!(offenders.len(), 2);
    assert_eq!((&offenders[0]["client"], &offenders[0]["count"]), (&alice, &json!(3)));
    assert_eq!(top["rules"][0]["refusals"], 4);
    assert!(!top.to_string().contains("alice"), "{top}");
}

#[test]
fn event_stream_has_violations_and_changes() {
    let service = TestService::with_policy(POLICY);
    while spend(&service, "alice") {}
    let mut events = Connection::open(service.admin);
    events.send(&format!("GET /api/events HTTP/1.1\r\nhost: {}\r\n\r\n", service.admin));
    assert_eq!(events.head_field("content-type").as_deref(), Some("text/event-stream"));
    let violation = events.line_with("data: ");
    assert!(violation.contains(r#""rule":"per-user","action":"reject""#), "{violation}");
    admin_request(&service, "DELETE", "/api/keys/per-user/alice", "");
    let change = events.line_with("\"event\":\"change\"");
    assert!(change.contains(r#""change":"reset","rule":"per-user""#) && change.contains(r#""done":true"#), "{change}");
    assert!(!violation.contains("alice") && !change.contains("alice"));
    // An open event stream does not delay shutdown.
    assert_eq!(service.shut_down(), tollgate_server::Drained::Completely);
}

#[test]
fn configured_admin_token_is_required() {
    let access = AdminAccess { token: Some(AccessToken::new(TOKEN).unwrap()), ..AdminAccess::default() };
    let service = TestService::with_admin_access(POLICY, access);
    for (fields, status) in [
        ("", 401),
        ("authorization: Bearer wrong\r\n", 401),
        (&*format!("authorization: Bearer {TOKEN}x\r\n"), 401),
        (&*format!("authorization: Bearer {TOKEN}\r\norigin: http://evil.example\r\n"), 403),
        (&*format!("authorization: Bearer {TOKEN}\r\n"), 200),
    ] {
        for (method, path) in [("GET", "/api/rules"), ("GET", "/metrics"), ("DELETE", "/api/keys/per-user/alice")] {
            let response = admin_request_with(&service, fields, method, path, "");
            assert_eq!(response.status, status, "{fields} {path} {response:?}");
            assert_eq!(response.field("www-authenticate").is_some(), status == 401);
        }
    }
}

#[test]
fn cross_site_requests_are_refused() {
    let service = TestService::with_policy(POLICY);
    while spend(&service, "alice") {}
    for fields in ["origin: http://evil.example\r\n", "sec-fetch-site: cross-site\r\n"] {
        assert_eq!(admin_request_with(&service, fields, "DELETE", "/api/keys/per-user/alice", "").status, 403);
        assert_eq!(admin_request_with(&service, fields, "GET", "/api/rules", "").status, 403);
    }
    assert!(!spend(&service, "alice"));
}
