//! A store that has no room for another client is its own trouble, and not the client's.

use serde_json::{Value, json};

use crate::client::{Connection, request};
use crate::running::Running;

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
store: { memory: { entries: 1, when_full: refuse } }
rules:
  - { name: per-ip, key: client_ip, limit: 10/h burst 4 }
";

/// More clients than the smallest store has room for.
fn checks(service: &Running) -> Vec<Value> {
    let address = |at: u32| std::net::Ipv4Addr::from(0xc612_0000 + at);
    (0..2_000).map(|at| service.check(&format!(r#"{{"ip":"{}"}}"#, address(at)))).collect()
}

fn metric(service: &Running, name: &str) -> String {
    let metrics = request(service.http, "GET", "/metrics", "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).to_owned()
}

#[test]
fn a_check_that_cannot_be_counted_says_so_and_when_to_come_back() {
    let service = Running::under(POLICY);
    let answers = checks(&service);
    let refused: Vec<&Value> = answers.iter().filter(|answer| answer["allowed"] == false).collect();
    assert!(!refused.is_empty() && refused.len() < answers.len());
    let expected = json!({
        "allowed": false, "action": "reject", "rule": "per-ip", "limit": 4, "remaining": 0,
        "reset_after_ms": 0, "retry_after_ms": 1000, "source": "fallback",
        "rules": [{
            "rule": "per-ip", "allowed": false, "limit": 4, "remaining": 0,
            "reset_after_ms": 0, "retry_after_ms": 1000, "shadow": false,
        }],
    });
    refused.iter().for_each(|answer| assert_eq!(**answer, expected));
    assert!(answers.iter().all(|answer| (answer["source"] == "exact") == (answer["allowed"] == true)));
}

#[test]
fn it_is_counted_as_that_and_as_no_refusal_of_a_rule() {
    let service = Running::under(POLICY);
    assert_eq!(metric(&service, "tollgate_uncounted_refusals_total"), "0");
    let refused = checks(&service).iter().filter(|answer| answer["allowed"] == false).count().to_string();
    assert_eq!(metric(&service, "tollgate_uncounted_refusals_total"), refused);
    assert_eq!(metric(&service, r#"tollgate_rule_refusals_total{rule="per-ip",mode="enforce"}"#), "0");
    // Nor is it told as anybody's who stands out.
    assert_eq!(service.engine.observer().refusals("per-ip"), 0);
}

#[test]
fn a_gateway_is_told_503() {
    let service = Running::under(POLICY);
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
fn a_limit_that_a_redis_client_brings_is_counted_too() {
    let service = Running::under(POLICY);
    let mut connection = Connection::open(service.resp);
    let answers = (0..2_000).map(|at| {
        connection.send(&format!("CL.THROTTLE k{at} 3 1 3600\r\n"));
        let first = connection.line();
        if first == "*5" {
            (0..5).for_each(|_| drop(connection.line()));
        }
        first
    });
    let refused = answers.filter(|answer| answer == "-ERR no room to count another key").count();
    assert!(refused > 0);
    assert_eq!(metric(&service, "tollgate_uncounted_refusals_total"), refused.to_string());
}
