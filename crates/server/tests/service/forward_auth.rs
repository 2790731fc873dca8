//! Gateways that ask before they forward a request.

use std::time::Instant;

use crate::client::{Connection, Response};
use crate::running::Running;

/// Where the tests come from is a trusted proxy, or it is not.
fn policy(trusted: &str) -> String {
    format!(
        "version: 1
identity:
  client_ip: {{ trusted_proxies: [{trusted}] }}
deny: {{ client_ip: 192.0.2.0/24 }}
rules:
  - {{ name: per-ip, key: client_ip, limit: 2/h }}
  - {{ name: login, when: {{ method: POST, path: /auth/login, host: shop.example }}, key: client_ip, limit: 1/h }}
  - {{ name: pay, when: {{ path: /pay }}, limit: 10/s, algorithm: leaky-bucket, queue: {{ size: 3 }} }}
  - {{ name: reports, when: {{ path: /reports }}, concurrency: 1 }}
"
    )
}

const TRUSTED: &str = "127.0.0.1";
const NOBODY: &str = "198.51.100.1";

fn ask(service: &Running, query: &str, fields: &[(&str, &str)]) -> Response {
    let mut connection = Connection::open(service.http);
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    connection.send(&format!("GET /v1/forward-auth{query} HTTP/1.1\r\nhost: tollgate\r\n{fields}\r\n"));
    connection.response()
}

#[test]
fn a_trusted_gateway_is_believed() {
    let service = Running::under(&policy(TRUSTED));
    let traefik = |ip: &str, method: &str, uri: &str| {
        let fields = [
            ("X-Forwarded-For", ip),
            ("X-Forwarded-Method", method),
            ("X-Forwarded-Uri", uri),
            ("X-Forwarded-Host", "shop.example"),
        ];
        ask(&service, "", &fields)
    };
    let passed = traefik("203.0.113.9", "POST", "/auth/login?next=/");
    assert_eq!((passed.status, passed.body.as_str()), (200, ""));
    assert_eq!(passed.field("x-ratelimit-remaining"), Some("0"));
    assert_eq!(passed.field("ratelimit-policy"), Some(r#""per-ip";q=2;w=3600, "login";q=1;w=3600"#));
    let refused = traefik("203.0.113.9", "POST", "/auth/login");
    assert_eq!((refused.status, refused.field("content-type")), (429, Some("application/problem+json")));
    assert_eq!(refused.field("retry-after"), Some("3600"));
    let problem = refused.json();
    assert_eq!((&problem["rule"], &problem["violated-policies"][0]), (&"login".into(), &"login".into()));
    // Another path, and another client.
    assert_eq!(traefik("203.0.113.9", "POST", "/").status, 200);
    assert_eq!(traefik("203.0.113.10", "POST", "/auth/login").status, 200);
}

#[test]
fn nginx_is_understood() {
    let service = Running::under(&policy(TRUSTED));
    let nginx = |ip: &str| {
        let fields = [
            ("X-Original-Method", "POST"),
            ("X-Original-URI", "/auth/login"),
            ("X-Real-IP", ip),
            // What the client sent itself, and nginx has passed on.
            ("X-Forwarded-For", "203.0.113.77"),
            ("Host", "shop.example"),
        ];
        let mut connection = Connection::open(service.http);
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        connection.send(&format!("GET /v1/forward-auth?deny_status=403 HTTP/1.1\r\n{fields}\r\n"));
        connection.response().status
    };
    assert_eq!([nginx("203.0.113.9"), nginx("203.0.113.9"), nginx("203.0.113.10")], [200, 403, 200]);
}

#[test]
fn a_list_of_addresses_comes_before_one_that_a_client_may_have_sent() {
    let service = Running::under(&policy(TRUSTED));
    let caddy = |real_ip: &str| {
        let fields =
            [("X-Forwarded-Uri", "/"), ("X-Forwarded-For", "203.0.113.5, 203.0.113.9"), ("X-Real-IP", real_ip)];
        ask(&service, "", &fields).status
    };
    // Whatever the client says, it is the one whom the gateway saw.
    assert_eq!([caddy("203.0.113.1"), caddy("203.0.113.2"), caddy("203.0.113.3")], [200, 200, 429]);
}

#[test]
fn who_leaves_a_queue_gives_the_place_back() {
    let service = Running::under(&policy(TRUSTED).replace("10/s", "1/min"));
    let pay = "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nX-Forwarded-Uri: /pay\r\n\r\n";
    let peek = || service.check(r#"{"path":"/pay","cost":0}"#)["remaining"].clone();
    assert_eq!(ask(&service, "", &[("X-Forwarded-Uri", "/pay")]).status, 200);
    let before = peek();
    let mut waiting = Connection::open(service.http);
    waiting.send(pay);
    let begun = Instant::now();
    while peek() == before {
        assert!(begun.elapsed().as_secs() < 20, "it does not queue");
    }
    drop(waiting);
    while peek() != before {
        assert!(begun.elapsed().as_secs() < 20, "the place is not given back");
    }
}

#[test]
fn who_is_not_trusted_speaks_for_nobody_else() {
    // An address in a list, which the policy reads, and one alone, which only this endpoint reads.
    for field in ["X-Forwarded-For", "X-Real-IP"] {
        let service = Running::under(&policy(NOBODY));
        let ask_for = |ip: &str| ask(&service, "", &[(field, ip), ("X-Forwarded-Uri", "/")]).status;
        // All three are the one who really asks.
        assert_eq!([ask_for("203.0.113.9"), ask_for("203.0.113.10"), ask_for("203.0.113.11")], [200, 200, 429]);
    }
    let service = Running::under(&policy(NOBODY));
    let login =
        [("X-Forwarded-Method", "POST"), ("X-Forwarded-Uri", "/auth/login"), ("X-Forwarded-Host", "shop.example")];
    assert_eq!(ask(&service, "", &login).field("ratelimit-policy"), Some(r#""per-ip";q=2;w=3600"#));
}

#[test]
fn a_request_that_is_described_twice_is_refused() {
    let service = Running::under(&policy(TRUSTED));
    for fields in [
        &[("X-Forwarded-Uri", "/a"), ("X-Original-URI", "/b")][..],
        &[("X-Forwarded-Uri", "/a"), ("X-Forwarded-Uri", "/b")],
        &[("X-Original-URI", "/a"), ("X-Real-IP", "nowhere")],
    ] {
        assert_eq!(ask(&service, "", fields).status, 400, "{fields:?}");
    }
}

#[test]
fn a_client_on_the_deny_list_is_forbidden() {
    let service = Running::under(&policy(TRUSTED));
    let denied = ask(&service, "", &[("X-Forwarded-For", "192.0.2.1")]);
    assert_eq!((denied.status, denied.field("content-type")), (403, Some("application/problem+json")));
    assert_eq!(ask(&service, "?deny_status=401", &[("X-Forwarded-For", "192.0.2.1")]).status, 401);
}

#[test]
fn a_status_that_was_replaced_is_told_with_its_problem() {
    let service = Running::under(&policy(TRUSTED));
    let ask_as = |ip: &str, query: &str| ask(&service, query, &[("X-Forwarded-For", ip)]);
    assert_eq!([(); 2].map(|()| ask_as("203.0.113.9", "").status), [200, 200]);
    let limited = ask_as("203.0.113.9", "?deny_status=403");
    let denied = ask_as("192.0.2.1", "?deny_status=401");
    for (refused, status, meant) in [(limited, 403, "429"), (denied, 401, "403")] {
        assert_eq!((refused.status, refused.field("tollgate-status")), (status, Some(meant)));
        assert_eq!(refused.json()["status"].to_string(), meant);
        assert_eq!(refused.field("tollgate-problem"), Some(refused.body.as_str()));
    }
    // Who understands the status needs no second one, and who is allowed none at all.
    let untouched = ask_as("203.0.113.9", "");
    let allowed = ask_as("203.0.113.10", "?deny_status=403");
    for (answer, status) in [(untouched, 429), (allowed, 200)] {
        assert_eq!((answer.status, answer.field("tollgate-status")), (status, None));
        assert_eq!(answer.field("tollgate-problem"), None);
    }
}

#[test]
fn a_wrong_parameter_is_told() {
    let service = Running::under(&policy(TRUSTED));
    for query in ["?deny_status=200", "?deny_status=x", "?deny_status=", "?deny=403"] {
        assert_eq!(ask(&service, query, &[]).status, 400, "{query}");
    }
}

#[test]
fn a_rule_that_delays_holds_the_answer() {
    let service = Running::under(&policy(TRUSTED));
    let pay = || ask(&service, "", &[("X-Forwarded-Uri", "/pay")]).status;
    assert_eq!(pay(), 200);
    let begun = Instant::now();
    assert_eq!(pay(), 200);
    // The limiter's clock stands still, but the answer is held in real time.
    assert!(begun.elapsed().as_millis() >= 100, "{:?}", begun.elapsed());
}

#[test]
fn how_many_are_under_way_is_not_asked() {
    let service = Running::under(&policy(TRUSTED));
    assert_eq!(service.check(r#"{"path":"/reports"}"#)["allowed"], true);
    assert_eq!(service.check(r#"{"path":"/reports"}"#)["allowed"], false);
    for _ in 0..2 {
        assert_eq!(ask(&service, "", &[("X-Forwarded-Uri", "/reports")]).status, 200);
    }
}

#[test]
fn any_method_will_do_and_decisions_are_counted_apart() {
    let service = Running::under(&policy(TRUSTED));
    for method in ["GET", "POST", "DELETE", "OPTIONS"] {
        let answer = crate::client::request(service.http, method, "/v1/forward-auth", "");
        assert!([200, 429].contains(&answer.status), "{method}");
    }
    let metrics = crate::client::request(service.admin, "GET", "/metrics", "").body;
    let line = r#"tollgate_decisions_total{rule="per-ip",outcome="allow",frontend="forward-auth"} 2"#;
    assert!(metrics.lines().any(|other| other == line), "{metrics}");
}
