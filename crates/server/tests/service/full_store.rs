//! A full store is a fault of the service, and not a violation by the client.

use serde_json::{Value, json};

use crate::client::{Connection, request};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
store: { memory: { entries: 1, when_full: refuse } }
rules:
  - { name: per-ip, key: client_ip, limit: 10/h burst 4 }
";

/// Checks more clients than the smallest store holds.
fn checks(service: &TestService) -> Vec<Value> {
    let address = |at: u32| std::net::Ipv4Addr::from(0xc612_0000 + at);
    (0..2_000).map(|at| service.check(&format!(r#"{{"ip":"{}"}}"#, address(at)))).collect()
}

fn metric(service: &TestService, name: &str) -> String {
    let metrics = request(service.http, "GET", "/metrics", "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).to_owned()
}

#[test]
fn uncounted_checks_report_fallback_and_when_to_retry() {
    let service = TestService::with_policy(POLICY);
    let responses = checks(&service);
    let refused: Vec<&Value> = responses.iter().filter(|response| response["allowed"] == false).collect();
    assert!(!refused.is_empty() && refused.len() < responses.len());
    let expected = json!({
        "allowed": false, "action": "reject", "rule": "per-ip", "limit": 4, "remaining": 0,
        "reset_after_ms": 0, "retry_after_ms": 1000, "source": "fallback",
        "rules": [{
            "rule": "per-ip", "allowed": false, "limit": 4, "remaining": 0,
            "reset_after_ms": 0, "retry_after_ms": 1000, "shadow": false,
        }],
    });
    refused.iter().for_each(|response| assert_eq!(**response, expected));
    assert!(responses.iter().all(|response| (response["source"] == "exact") == (response["allowed"] == true)));
}

#[test]
fn uncounted_refusals_have_their_own_metric() {
    let service = TestService::with_policy(POLICY);
    assert_eq!(metric(&service, "tollgate_uncounted_refusals_total"), "0");
    let refused = checks(&service).iter().filter(|response| response["allowed"] == false).count().to_string();
    assert_eq!(metric(&service, "tollgate_uncounted_refusals_total"), refused);
    assert_eq!(metric(&service, r#"tollgate_rule_refusals_total{rule="per-ip",mode="enforce"}"#), "0");
    // They do not count for offenders either.
    assert_eq!(service.engine.observer().refusals("per-ip"), 0);
}

#[test]
fn forward_auth_gets_503() {
    let service = TestService::with_policy(POLICY);
    checks(&service);
    let mut connection = Connection::open(service.http);
    let refused = (0..200).map(|at| {
        connection.send(&format!(
            "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-for: 203.0.113.{at}\r\n\r\n"
        ));
        connection.response()
    });
    let refused = refused.into_iter().find(|response| response.status != 200).unwrap();
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert_eq!(refused.json()["retry_after_ms"], 1000);
    assert_eq!(refused.json()["detail"], "the request could not be counted; try again in 1 second");
}

#[test]
fn uncounted_throttle_commands_are_counted_too() {
    let service = TestService::with_policy(POLICY);
    let mut connection = Connection::open(service.resp);
    let responses = (0..2_000).map(|at| {
        connection.send(&format!("CL.THROTTLE k{at} 3 1 3600\r\n"));
        let first = connection.line();
        if first == "*5" {
            (0..5).for_each(|_| drop(connection.line()));
        }
        first
    });
    let refused = responses.filter(|response| response == "-ERR the store is full").count();
    assert!(refused > 0);
    assert_eq!(metric(&service, "tollgate_uncounted_refusals_total"), refused.to_string());
}
