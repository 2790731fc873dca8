use std::time::Duration;

use serde_json::{Value, json};

use crate::client::request;
use crate::test_service::TestService;

const S_NS: u64 = 1_000_000_000;

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 10/h }
  - name: reports
    when: { path: /reports }
    concurrency: { permits: 2, lease: 30s }
";

fn post(service: &TestService, path: &str, body: &Value) -> (u16, Value) {
    let response = request(service.http, "POST", path, &body.to_string());
    (response.status, response.json())
}

/// Returns the receipt of an allowed check.
fn receipt(response: &Value) -> String {
    assert_eq!(response["allowed"], true, "{response}");
    response["receipt"].as_str().unwrap_or_else(|| panic!("no receipt in {response}")).to_owned()
}

fn remaining(service: &TestService) -> Value {
    service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"].clone()
}

#[test]
fn receipts_are_refunded_once() {
    let service = TestService::with_policy(POLICY);
    let response = service.check(r#"{"ip":"203.0.113.9","cost":4,"receipt":true}"#);
    assert_eq!(remaining(&service), 6);
    let refund = json!({ "receipt": receipt(&response) });
    assert_eq!(post(&service, "/v1/refund", &refund), (200, json!({ "refunded": true })));
    assert_eq!(remaining(&service), 10);
    for path in ["/v1/refund", "/v1/release"] {
        let (status, problem) = post(&service, path, &refund);
        assert_eq!((status, &problem["status"]), (404, &json!(404)), "{problem}");
    }
    assert_eq!(remaining(&service), 10);
}

#[test]
fn settlement_replaces_the_estimated_cost() {
    let service = TestService::with_policy(POLICY);
    for (cost, true_cost, remains) in [(4, 1, 9), (1, 3, 6), (1, 7, 0)] {
        let response = service.check(&json!({ "ip": "203.0.113.9", "cost": cost, "receipt": true }).to_string());
        let settlement = json!({ "receipt": receipt(&response), "cost": true_cost });
        let (status, settled) = post(&service, "/v1/settle", &settlement);
        assert_eq!((status, &settled["settled"]), (200, &json!(true)), "{settled}");
        assert_eq!(remaining(&service), remains);
    }
}

#[test]
fn permits_are_held_until_released() {
    let service = TestService::with_policy(POLICY);
    let check = || service.check(r#"{"path":"/reports"}"#);
    let first = receipt(&check());
    let second = receipt(&check());
    assert_ne!(first, second);
    let refused = check();
    assert_eq!(
        (&refused["allowed"], &refused["rule"], refused.get("receipt")),
        (&json!(false), &json!("reports"), None)
    );
    assert_eq!(post(&service, "/v1/release", &json!({ "receipt": first })), (200, json!({ "released": true })));
    assert_eq!(check()["allowed"], true);
    assert_eq!(check()["allowed"], false);
}

#[test]
fn unreleased_permits_expire_with_their_lease() {
    let service = TestService::with_policy(POLICY);
    let check = || service.check(r#"{"path":"/reports"}"#)["allowed"].clone();
    assert_eq!([check(), check(), check()], [true, true, false]);
    service.clock.advance(Duration::from_secs(30));
    assert_eq!([check(), check(), check()], [true, true, false]);
}

/// When the lease ends, another request may take the permit, so there is nothing left to release.
#[test]
fn receipts_of_permits_expire_with_their_lease() {
    let service = TestService::with_policy(POLICY);
    let metrics = || request(service.http, "GET", "/metrics", "").body;
    let is_counted = |count: u32| metrics().lines().any(|line| line == format!("tollgate_receipts {count}"));
    for path in ["/v1/release", "/v1/refund"] {
        let [in_time, too_late] = [(); 2].map(|()| receipt(&service.check(r#"{"path":"/reports","receipt":true}"#)));
        assert!(is_counted(2));
        service.clock.advance(Duration::from_nanos(30 * S_NS - 1));
        assert_eq!(post(&service, path, &json!({ "receipt": in_time })).0, 200);
        assert!(is_counted(1));
        service.clock.advance(Duration::from_nanos(1));
        assert!(is_counted(0));
        assert_eq!(post(&service, path, &json!({ "receipt": too_late })).0, 404);
    }
}

/// Cost beyond the limit becomes debt, up to the capacity of the limit. The rest is reported and counted as overrun.
#[test]
fn settlement_beyond_the_limit_becomes_debt_and_the_rest_is_overrun() {
    let service = TestService::with_policy(POLICY);
    let response = service.check(r#"{"ip":"203.0.113.9","cost":4,"receipt":true}"#);
    let settlement = json!({ "receipt": receipt(&response), "cost": 1_000 });
    assert_eq!(post(&service, "/v1/settle", &settlement), (200, json!({ "settled": true, "overrun": 980 })));
    let refused = service.check(r#"{"ip":"203.0.113.9"}"#);
    // At 10 an hour, the 10 owed and 1 more take 66 minutes, and a full refill takes 2 hours.
    assert_eq!((&refused["retry_after_ms"], &refused["reset_after_ms"]), (&json!(3_960_000), &json!(7_200_000)));
    let metrics = request(service.http, "GET", "/metrics", "").body;
    assert!(metrics.lines().any(|line| line == "tollgate_settle_overrun_total 980"), "{metrics}");
}

#[test]
fn peeks_hold_no_permits() {
    let service = TestService::with_policy(POLICY);
    for _ in 0..3 {
        let response = service.check(r#"{"path":"/reports","cost":0,"receipt":true}"#);
        assert_eq!(
            (&response["allowed"], &response["remaining"], response.get("receipt")),
            (&json!(true), &json!(2), None)
        );
    }
}

#[test]
fn receipts_are_issued_on_request_only() {
    let service = TestService::with_policy(POLICY);
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#).get("receipt"), None);
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","receipt":false}"#).get("receipt"), None);
    service.check(r#"{"ip":"203.0.113.9","cost":8}"#);
    // A refused check has nothing to refund.
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","receipt":true}"#).get("receipt"), None);
}

#[test]
fn receipts_expire() {
    let service = TestService::with_policy(POLICY);
    let response = service.check(r#"{"ip":"203.0.113.9","cost":4,"receipt":true}"#);
    service.clock.advance(Duration::from_secs(600));
    assert_eq!(post(&service, "/v1/refund", &json!({ "receipt": receipt(&response) })).0, 404);
}

#[test]
fn unknown_receipts_get_404_and_invalid_bodies_400() {
    let service = TestService::with_policy(POLICY);
    for (path, body, status, member) in [
        ("/v1/refund", json!({ "receipt": "00000000000000000000000000000000" }), 404, json!(null)),
        ("/v1/refund", json!({ "receipt": "x" }), 404, json!(null)),
        ("/v1/refund", json!({ "receipt": 1 }), 400, json!("receipt")),
        ("/v1/refund", json!({}), 400, json!("receipt")),
        ("/v1/release", json!({ "receipt": "x", "cost": 1 }), 400, json!("cost")),
        ("/v1/settle", json!({ "receipt": "x" }), 404, json!(null)),
        ("/v1/settle", json!({ "receipt": "00000000000000000000000000000000", "cost": -1 }), 400, json!("cost")),
        ("/v1/settle", json!([]), 400, json!(null)),
    ] {
        let (actual, problem) = post(&service, path, &body);
        assert_eq!((actual, &problem["member"]), (status, &member), "{path} {body} {problem}");
    }
}
