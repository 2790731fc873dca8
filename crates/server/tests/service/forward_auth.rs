//! Forward auth: gateways check a request before they forward it.

use std::time::Instant;

use crate::client::{Connection, Response};
use crate::test_service::TestService;

/// A policy with this trusted proxy. The tests connect from 127.0.0.1.
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
const UNRELATED: &str = "198.51.100.1";

fn forward_auth(service: &TestService, query: &str, fields: &[(&str, &str)]) -> Response {
    let mut connection = Connection::open(service.http);
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    connection.send(&format!("GET /v1/forward-auth{query} HTTP/1.1\r\nhost: tollgate\r\n{fields}\r\n"));
    connection.response()
}

#[test]
fn headers_of_a_trusted_gateway_describe_the_request() {
    let service = TestService::with_policy(&policy(TRUSTED));
    let traefik = |ip: &str, method: &str, uri: &str| {
        let fields = [
            ("X-Forwarded-For", ip),
            ("X-Forwarded-Method", method),
            ("X-Forwarded-Uri", uri),
            ("X-Forwarded-Host", "shop.example"),
        ];
        forward_auth(&service, "", &fields)
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
fn headers_of_nginx_describe_the_request() {
    let service = TestService::with_policy(&policy(TRUSTED));
    let nginx = |ip: &str| {
        let fields = [
            ("X-Original-Method", "POST"),
            ("X-Original-URI", "/auth/login"),
            ("X-Real-IP", ip),
            // Sent by the client, and passed on by nginx.
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
fn x_forwarded_for_takes_precedence_over_x_real_ip() {
    let service = TestService::with_policy(&policy(TRUSTED));
    let caddy = |real_ip: &str| {
        let fields =
            [("X-Forwarded-Uri", "/"), ("X-Forwarded-For", "203.0.113.5, 203.0.113.9"), ("X-Real-IP", real_ip)];
        forward_auth(&service, "", &fields).status
    };
    // The client is the address that the gateway saw, whatever X-Real-IP contains.
    assert_eq!([caddy("203.0.113.1"), caddy("203.0.113.2"), caddy("203.0.113.3")], [200, 200, 429]);
}

#[test]
fn cancelled_delayed_requests_are_refunded() {
    let service = TestService::with_policy(&policy(TRUSTED).replace("10/s", "1/min"));
    let pay = "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nX-Forwarded-Uri: /pay\r\n\r\n";
    let peek = || service.check(r#"{"path":"/pay","cost":0}"#)["remaining"].clone();
    assert_eq!(forward_auth(&service, "", &[("X-Forwarded-Uri", "/pay")]).status, 200);
    let before = peek();
    let mut waiting = Connection::open(service.http);
    waiting.send(pay);
    let begun = Instant::now();
    while peek() == before {
        assert!(begun.elapsed().as_secs() < 20, "the request is not queued");
    }
    drop(waiting);
    while peek() != before {
        assert!(begun.elapsed().as_secs() < 20, "the charge is not refunded");
    }
}

#[test]
fn untrusted_peers_cannot_describe_other_clients() {
    // The list of addresses, which the policy reads, and the single address, which only this endpoint reads.
    for field in ["X-Forwarded-For", "X-Real-IP"] {
        let service = TestService::with_policy(&policy(UNRELATED));
        let status_for = |ip: &str| forward_auth(&service, "", &[(field, ip), ("X-Forwarded-Uri", "/")]).status;
        // All three count for the address of the peer.
        assert_eq!(
            [status_for("203.0.113.9"), status_for("203.0.113.10"), status_for("203.0.113.11")],
            [200, 200, 429]
        );
    }
    let service = TestService::with_policy(&policy(UNRELATED));
    let login =
        [("X-Forwarded-Method", "POST"), ("X-Forwarded-Uri", "/auth/login"), ("X-Forwarded-Host", "shop.example")];
    assert_eq!(forward_auth(&service, "", &login).field("ratelimit-policy"), Some(r#""per-ip";q=2;w=3600"#));
}

#[test]
fn ambiguous_and_invalid_headers_get_400() {
    let service = TestService::with_policy(&policy(TRUSTED));
    for fields in [
        &[("X-Forwarded-Uri", "/a"), ("X-Original-URI", "/b")][..],
        &[("X-Forwarded-Uri", "/a"), ("X-Forwarded-Uri", "/b")],
        &[("X-Original-URI", "/a"), ("X-Real-IP", "nowhere")],
    ] {
        assert_eq!(forward_auth(&service, "", fields).status, 400, "{fields:?}");
    }
}

#[test]
fn clients_on_the_deny_list_get_403() {
    let service = TestService::with_policy(&policy(TRUSTED));
    let denied = forward_auth(&service, "", &[("X-Forwarded-For", "192.0.2.1")]);
    assert_eq!((denied.status, denied.field("content-type")), (403, Some("application/problem+json")));
    assert_eq!(forward_auth(&service, "?deny_status=401", &[("X-Forwarded-For", "192.0.2.1")]).status, 401);
}

#[test]
fn replaced_status_is_sent_in_headers_with_its_problem() {
    let service = TestService::with_policy(&policy(TRUSTED));
    let request_from = |ip: &str, query: &str| forward_auth(&service, query, &[("X-Forwarded-For", ip)]);
    assert_eq!([(); 2].map(|()| request_from("203.0.113.9", "").status), [200, 200]);
    let limited = request_from("203.0.113.9", "?deny_status=403");
    let denied = request_from("192.0.2.1", "?deny_status=401");
    for (refused, status, original) in [(limited, 403, "429"), (denied, 401, "403")] {
        assert_eq!((refused.status, refused.field("tollgate-status")), (status, Some(original)));
        assert_eq!(refused.json()["status"].to_string(), original);
        assert_eq!(refused.field("tollgate-problem"), Some(refused.body.as_str()));
    }
    // Without `deny_status`, and for allowed requests, these headers are absent.
    let unreplaced = request_from("203.0.113.9", "");
    let allowed = request_from("203.0.113.10", "?deny_status=403");
    for (response, status) in [(unreplaced, 429), (allowed, 200)] {
        assert_eq!((response.status, response.field("tollgate-status")), (status, None));
        assert_eq!(response.field("tollgate-problem"), None);
    }
}

#[test]
fn invalid_parameters_get_400() {
    let service = TestService::with_policy(&policy(TRUSTED));
    for query in ["?deny_status=200", "?deny_status=x", "?deny_status=", "?deny=403"] {
        assert_eq!(forward_auth(&service, query, &[]).status, 400, "{query}");
    }
    // A misspelt parameter is named with the right ones; its value may be a token.
    let misspelt = forward_auth(&service, "?tokn=SECRET", &[]);
    let detail = misspelt.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(misspelt.status, 400);
    for part in ["`tokn`", "deny_status and token", "X-Forwarded-Uri"] {
        assert!(detail.contains(part) && !detail.contains("SECRET"), "{detail}");
    }
}

#[test]
fn rules_that_delay_delay_the_response() {
    let service = TestService::with_policy(&policy(TRUSTED));
    let pay = || forward_auth(&service, "", &[("X-Forwarded-Uri", "/pay")]).status;
    assert_eq!(pay(), 200);
    let begun = Instant::now();
    assert_eq!(pay(), 200);
    // The limiter's clock is stopped, but the response is delayed in real time.
    assert!(begun.elapsed().as_millis() >= 100, "{:?}", begun.elapsed());
}

#[test]
fn concurrency_rules_do_not_apply() {
    let service = TestService::with_policy(&policy(TRUSTED));
    assert_eq!(service.check(r#"{"path":"/reports"}"#)["allowed"], true);
    assert_eq!(service.check(r#"{"path":"/reports"}"#)["allowed"], false);
    for _ in 0..2 {
        assert_eq!(forward_auth(&service, "", &[("X-Forwarded-Uri", "/reports")]).status, 200);
    }
}

#[test]
fn any_method_is_accepted_and_decisions_count_as_forward_auth() {
    let service = TestService::with_policy(&policy(TRUSTED));
    for method in ["GET", "POST", "DELETE", "OPTIONS"] {
        let response = crate::client::request(service.http, method, "/v1/forward-auth", "");
        assert!([200, 429].contains(&response.status), "{method}");
    }
    let metrics = crate::client::request(service.admin, "GET", "/metrics", "").body;
    let line = r#"tollgate_decisions_total{rule="per-ip",outcome="allow",frontend="forward-auth"} 2"#;
    assert!(metrics.lines().any(|other| other == line), "{metrics}");
}
