//! What somebody is told who is blocked: the same everywhere.

use serde_json::{Value, json};

use crate::client::{Connection, Response};
use crate::running::Running;

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

/// Somebody who was blocked a moment ago.
fn blocked() -> (Running, Value) {
    let service = Running::under(POLICY);
    let [.., last] = [(); 5].map(|()| service.check(LOGIN));
    assert_eq!(last["action"], "block");
    (service, last)
}

fn gateway(service: &Running) -> Response {
    let mut connection = Connection::open(service.http);
    connection.send(
        "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-for: 203.0.113.9\r\n\
         x-forwarded-method: GET\r\nx-forwarded-uri: /auth/login\r\n\r\n",
    );
    connection.response()
}

/// An answer that says of the rule at the top and in the list that nothing passes for so long.
fn assert_says(answer: &Value, left_ms: u64) {
    let told = json!({ "limit": 2, "remaining": 0, "reset_after_ms": left_ms, "retry_after_ms": left_ms });
    let of = |of: &Value| {
        let members = ["limit", "remaining", "reset_after_ms", "retry_after_ms"];
        Value::Object(members.into_iter().map(|member| (member.to_owned(), of[member].clone())).collect())
    };
    assert_eq!((&answer["action"], &answer["rule"]), (&json!("block"), &json!("login")), "{answer}");
    assert_eq!(of(answer), told);
    let rules = answer["rules"].as_array().unwrap();
    assert_eq!(rules.iter().map(|rule| &rule["rule"]).collect::<Vec<_>>(), ["per-ip", "login"]);
    assert_eq!((of(&rules[1]), &rules[1]["allowed"]), (told, &json!(false)));
    assert_eq!(rules[0]["allowed"], true);
}

#[test]
fn a_check_is_told_of_the_block_when_it_begins_and_until_it_ends() {
    let (service, first) = blocked();
    assert_says(&first, 900_000);
    // By now the limit itself would let it pass.
    service.clock.advance(60 * S_NS);
    assert_says(&service.check(LOGIN), 840_000);
    service.clock.advance(840 * S_NS - 1);
    assert_says(&service.check(LOGIN), 1);
    service.clock.advance(1);
    assert_eq!(service.check(LOGIN)["action"], "allow");
}

#[test]
fn a_gateway_and_its_client_are_told_the_same() {
    let (service, _) = blocked();
    service.clock.advance(60 * S_NS);
    let refused = gateway(&service);
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
fn a_redis_client_is_told_the_same() {
    let (service, _) = blocked();
    service.clock.advance(60 * S_NS);
    let mut connection = Connection::open(service.resp);
    connection.send("TOLL.CHECK ip 203.0.113.9 path /auth/login\r\n");
    let answer: Vec<String> = (0..8).map(|_| connection.line()).collect();
    assert_eq!(answer, ["*6", ":0", "$5", "login", ":2", ":0", ":840000", ":840000"]);
}

#[test]
fn a_warning_leaves_the_rules_in_their_order() {
    let service = Running::under(POLICY);
    for action in ["allow", "allow", "warn"] {
        let answer = service.check(LOGIN);
        assert_eq!(answer["action"], action);
        let rules: Vec<&Value> = answer["rules"].as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
        assert_eq!(rules, ["per-ip", "login"], "{action}");
    }
}
