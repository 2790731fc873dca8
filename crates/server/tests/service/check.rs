use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::client::Connection;
use crate::test_service::TestService;

const MS_NS: u64 = 1_000_000;

#[test]
fn allowed_check_reports_what_remains() {
    let expected = json!({
        "allowed": true, "action": "allow", "rule": "per-ip", "limit": 60, "remaining": 59,
        "reset_after_ms": 1000, "retry_after_ms": null, "source": "exact",
        "rules": [{
            "rule": "per-ip", "allowed": true, "limit": 60, "remaining": 59,
            "reset_after_ms": 1000, "retry_after_ms": null, "shadow": false,
        }],
    });
    assert_eq!(TestService::start().check(r#"{"ip":"203.0.113.9"}"#), expected);
}

#[test]
fn refused_check_reports_when_to_retry() {
    let service = TestService::start();
    service.check(r#"{"ip":"203.0.113.9","cost":60}"#);
    let expected = json!({
        "allowed": false, "action": "reject", "rule": "per-ip", "limit": 60, "remaining": 0,
        "reset_after_ms": 60000, "retry_after_ms": 3000, "source": "exact",
        "rules": [{
            "rule": "per-ip", "allowed": false, "limit": 60, "remaining": 0,
            "reset_after_ms": 60000, "retry_after_ms": 3000, "shadow": false,
        }],
    });
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":3}"#), expected);
    service.clock.advance(Duration::from_nanos(3_000 * MS_NS - 1));
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":3}"#)["allowed"], false);
    service.clock.advance(Duration::from_nanos(1));
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":3}"#)["allowed"], true);
}

#[test]
fn milliseconds_round_up() {
    let service = TestService::start();
    service.check(r#"{"ip":"203.0.113.9","cost":60}"#);
    for (advance_ns, expected_ms) in [(1, 1000), (MS_NS - 1, 999), (998 * MS_NS, 1), (MS_NS - 1, 1)] {
        service.clock.advance(Duration::from_nanos(advance_ns));
        assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["retry_after_ms"], expected_ms);
    }
}

#[test]
fn cost_of_0_takes_nothing() {
    let service = TestService::start();
    for _ in 0..3 {
        let response = service.check(r#"{"ip":"203.0.113.9","cost":0}"#);
        assert_eq!((&response["allowed"], &response["remaining"]), (&json!(true), &json!(60)));
    }
}

#[test]
fn cost_above_the_limit_has_no_retry_after() {
    let service = TestService::start();
    for cost in ["61", "18446744073709551615"] {
        let response = service.check(&format!(r#"{{"ip":"203.0.113.9","cost":{cost}}}"#));
        assert_eq!((&response["action"], &response["retry_after_ms"]), (&json!("reject"), &json!(null)));
    }
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["remaining"], 59);
}

#[test]
fn without_an_address_no_rule_applies() {
    let expected = json!({
        "allowed": true, "action": "allow", "rule": null, "limit": null, "remaining": null,
        "reset_after_ms": null, "retry_after_ms": null, "source": "exact", "rules": [],
    });
    let service = TestService::start();
    for body in ["{}", r#"{"cost":1000}"#, r#"{"ip":null,"cost":null}"#] {
        assert_eq!(service.check(body), expected, "{body}");
    }
}

#[test]
fn clients_are_counted_separately() {
    let service = TestService::start();
    let remaining = |ip: &str| service.check(&format!(r#"{{"ip":"{ip}"}}"#))["remaining"].clone();
    assert_eq!(remaining("203.0.113.9"), 59);
    assert_eq!(remaining("203.0.113.10"), 59);
    assert_eq!(remaining("::ffff:203.0.113.9"), 58);
    assert_eq!(remaining("2001:db8::1"), 59);
    assert_eq!(remaining("2001:db8::2"), 58);
    assert_eq!(remaining("2001:db8:0:1::1"), 59);
}

#[test]
fn every_member_is_accepted() {
    let body = r#"{"ip":"203.0.113.9","method":"POST","host":"shop.example","path":"/auth/login",
        "headers":{"x-tier":"pro","accept":["text/html","*/*"],"x-none":[]},
        "identities":{"user":"42"},"cost":2,"receipt":true}"#;
    assert_eq!(TestService::start().check(body)["remaining"], 58);
}

#[test]
fn concurrent_clients_get_no_more_than_the_limit() {
    let service = TestService::start();
    let allowed_of_20 = || {
        let mut connection = Connection::open(service.http);
        let mut check = || connection.request("POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).json();
        (0..20).filter(|_| check()["allowed"] == true).count()
    };
    let allowed: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(allowed_of_20)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(allowed, 60);
}
