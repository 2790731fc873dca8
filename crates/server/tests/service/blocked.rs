//! Responses to blocked clients, which are the same on every front end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Connection, Response};
use crate::test_service::TestService;

const S_NS: u64 = 1_000_000_000;

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
rules:
  - { name: per-ip, key: client_ip, limit: 200/h }
  - name: login
    when: { path: /auth/login }
    key: client_ip
    limit: 2/min
    algorithm: sliding-window-log
    on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 2 in 10min, action: block 15min } ]
";

const LOGIN: &str = r#"{"ip":"203.0.113.9","path":"/auth/login"}"#;

/// Blocks a client, and returns the service and the last response.
fn blocked() -> (TestService, Value) {
    let service = TestService::with_policy(POLICY);
    let [.., last] = [(); 5].map(|()| service.check(LOGIN));
    assert_eq!(last["action"], "block");
    (service, last)
}

fn forward_auth(service: &TestService) -> Response {
    let mut connection = Connection::open(service.http);
    connection.send(
        "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-for: 203.0.113.9\r\n\
         x-forwarded-method: GET\r\nx-forwarded-uri: /auth/login\r\n\r\n",
    );
    connection.response()
}

/// Asserts that a response reports the block for `left_ms`, at the top and in the list of rules.
fn assert_blocked(response: &Value, left_ms: u64) {
    let expected = json!({ "limit": 2, "remaining": 0, "reset_after_ms": left_ms, "retry_after_ms": left_ms });
    let quota_members = |source: &Value| {
        let members = ["limit", "remaining", "reset_after_ms", "retry_after_ms"];
        Value::Object(members.into_iter().map(|member| (member.to_owned(), source[member].clone())).collect())
    };
    assert_eq!((&response["action"], &response["rule"]), (&json!("block"), &json!("login")), "{response}");
    assert_eq!(quota_members(response), expected);
    let rules = response["rules"].as_array().unwrap();
    assert_eq!(rules.iter().map(|rule| &rule["rule"]).collect::<Vec<_>>(), ["per-ip", "login"]);
    assert_eq!((quota_members(&rules[1]), &rules[1]["allowed"]), (expected, &json!(false)));
    assert_eq!(rules[0]["allowed"], true);
}

#[test]
fn check_reports_the_block_from_its_beginning_to_its_end() {
    let (service, first) = blocked();
    assert_blocked(&first, 900_000);
    // The limit alone would allow the request by now.
    service.clock.advance(Duration::from_secs(60));
    assert_blocked(&service.check(LOGIN), 840_000);
    service.clock.advance(Duration::from_nanos(840 * S_NS - 1));
    assert_blocked(&service.check(LOGIN), 1);
    service.clock.advance(Duration::from_nanos(1));
    assert_eq!(service.check(LOGIN)["action"], "allow");
}

#[test]
fn forward_auth_reports_the_block_in_headers_and_problem() {
    let (service, _) = blocked();
    service.clock.advance(Duration::from_secs(60));
    let refused = forward_auth(&service);
    // The clock of the tests begins at 1,700,000,000.
    for (field, value) in [
        ("retry-after", "840"),
        ("x-ratelimit-limit", "2"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1700000900"),
        ("ratelimit", r#""per-ip";r=200, "login";r=0;t=840"#),
    ] {
        assert_eq!(refused.field(field), Some(value), "{field}");
    }
    let problem = refused.json();
    assert_eq!((refused.status, &problem["retry_after_ms"]), (429, &json!(840_000)));
    assert_eq!(problem["reset_at"], "2023-11-14T22:28:20Z");
    assert_eq!(problem["violated-policies"], json!(["login"]));
}

#[test]
fn resp_reports_the_block() {
    let (service, _) = blocked();
    service.clock.advance(Duration::from_secs(60));
    let mut connection = Connection::open(service.resp);
    connection.send("TOLL.CHECK ip 203.0.113.9 path /auth/login\r\n");
    let response: Vec<String> = (0..8).map(|_| connection.line()).collect();
    assert_eq!(response, ["*6", ":0", "$5", "login", ":2", ":0", ":840000", ":840000"]);
}

#[test]
fn warnings_keep_the_order_of_the_rules() {
    let service = TestService::with_policy(POLICY);
    for action in ["allow", "allow", "warn"] {
        let response = service.check(LOGIN);
        assert_eq!(response["action"], action);
        let rules: Vec<&Value> = response["rules"].as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
        assert_eq!(rules, ["per-ip", "login"], "{action}");
    }
}
