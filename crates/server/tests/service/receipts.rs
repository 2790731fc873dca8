use serde_json::{Value, json};

use crate::client::request;
use crate::running::Running;

const S_NS: u64 = 1_000_000_000;

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 10/h }
  - name: reports
    when: { path: /reports }
    concurrency: { permits: 2, lease: 30s }
";

fn post(service: &Running, path: &str, body: &Value) -> (u16, Value) {
    let response = request(service.http, "POST", path, &body.to_string());
    (response.status, response.json())
}

/// The receipt of an allowed check.
fn receipt(answer: &Value) -> String {
    assert_eq!(answer["allowed"], true, "{answer}");
    answer["receipt"].as_str().unwrap_or_else(|| panic!("no receipt in {answer}")).to_owned()
}

fn remaining(service: &Running) -> Value {
    service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"].clone()
}

#[test]
fn what_is_refunded_is_there_again_once() {
    let service = Running::under(POLICY);
    let answer = service.check(r#"{"ip":"203.0.113.9","cost":4,"receipt":true}"#);
    assert_eq!(remaining(&service), 6);
    let refund = json!({ "receipt": receipt(&answer) });
    assert_eq!(post(&service, "/v1/refund", &refund), (200, json!({ "refunded": true })));
    assert_eq!(remaining(&service), 10);
    for path in ["/v1/refund", "/v1/release"] {
        let (status, problem) = post(&service, path, &refund);
        assert_eq!((status, &problem["status"]), (404, &json!(404)), "{problem}");
    }
    assert_eq!(remaining(&service), 10);
}

#[test]
fn the_true_cost_takes_the_place_of_the_estimate() {
    let service = Running::under(POLICY);
    for (cost, true_cost, remains) in [(4, 1, 9), (1, 3, 6), (1, 7, 0)] {
        let answer = service.check(&json!({ "ip": "203.0.113.9", "cost": cost, "receipt": true }).to_string());
        let settlement = json!({ "receipt": receipt(&answer), "cost": true_cost });
        let (status, settled) = post(&service, "/v1/settle", &settlement);
        assert_eq!((status, &settled["settled"]), (200, &json!(true)), "{settled}");
        assert_eq!(remaining(&service), remains);
    }
}

#[test]
fn a_permit_is_held_until_it_is_released() {
    let service = Running::under(POLICY);
    let ask = || service.check(r#"{"path":"/reports"}"#);
    let first = receipt(&ask());
    let second = receipt(&ask());
    assert_ne!(first, second);
    let refused = ask();
    assert_eq!(
        (&refused["allowed"], &refused["rule"], refused.get("receipt")),
        (&json!(false), &json!("reports"), None)
    );
    assert_eq!(post(&service, "/v1/release", &json!({ "receipt": first })), (200, json!({ "released": true })));
    assert_eq!(ask()["allowed"], true);
    assert_eq!(ask()["allowed"], false);
}

#[test]
fn a_permit_that_nobody_releases_runs_out_with_its_lease() {
    let service = Running::under(POLICY);
    let ask = || service.check(r#"{"path":"/reports"}"#)["allowed"].clone();
    assert_eq!([ask(), ask(), ask()], [true, true, false]);
    service.clock.advance(30 * S_NS);
    assert_eq!([ask(), ask(), ask()], [true, true, false]);
}

/// With the lease the permit is somebody else's, and there is nothing left to bring back.
#[test]
fn a_receipt_of_permits_ends_with_their_lease() {
    let service = Running::under(POLICY);
    let metrics = || request(service.http, "GET", "/metrics", "").body;
    let is_counted = |so_many: u32| metrics().lines().any(|line| line == format!("tollgate_receipts {so_many}"));
    for path in ["/v1/release", "/v1/refund"] {
        let [in_time, too_late] = [(); 2].map(|()| receipt(&service.check(r#"{"path":"/reports","receipt":true}"#)));
        assert!(is_counted(2));
        service.clock.advance(30 * S_NS - 1);
        assert_eq!(post(&service, path, &json!({ "receipt": in_time })).0, 200);
        assert!(is_counted(1));
        service.clock.advance(1);
        assert!(is_counted(0));
        assert_eq!(post(&service, path, &json!({ "receipt": too_late })).0, 404);
    }
}

/// What goes beyond the limit is owed, as much as the limit holds; what goes beyond that is told and counted.
#[test]
fn what_went_beyond_the_limit_is_waited_for_and_the_rest_is_told() {
    let service = Running::under(POLICY);
    let answer = service.check(r#"{"ip":"203.0.113.9","cost":4,"receipt":true}"#);
    let settlement = json!({ "receipt": receipt(&answer), "cost": 1_000 });
    assert_eq!(post(&service, "/v1/settle", &settlement), (200, json!({ "settled": true, "overrun": 980 })));
    let refused = service.check(r#"{"ip":"203.0.113.9"}"#);
    // Ten an hour: ten that are owed and one more, and all of them within two hours.
    assert_eq!((&refused["retry_after_ms"], &refused["reset_after_ms"]), (&json!(3_960_000), &json!(7_200_000)));
    let metrics = request(service.http, "GET", "/metrics", "").body;
    assert!(metrics.lines().any(|line| line == "tollgate_settle_overrun_total 980"), "{metrics}");
}

#[test]
fn who_only_asks_holds_nothing() {
    let service = Running::under(POLICY);
    for _ in 0..3 {
        let answer = service.check(r#"{"path":"/reports","cost":0,"receipt":true}"#);
        assert_eq!((&answer["allowed"], &answer["remaining"], answer.get("receipt")), (&json!(true), &json!(2), None));
    }
}

#[test]
fn a_receipt_that_was_not_asked_for_is_not_given() {
    let service = Running::under(POLICY);
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#).get("receipt"), None);
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","receipt":false}"#).get("receipt"), None);
    service.check(r#"{"ip":"203.0.113.9","cost":8}"#);
    // Refused, so there is nothing to give back.
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","receipt":true}"#).get("receipt"), None);
}

#[test]
fn a_receipt_ends() {
    let service = Running::under(POLICY);
    let answer = service.check(r#"{"ip":"203.0.113.9","cost":4,"receipt":true}"#);
    service.clock.advance(600 * S_NS);
    assert_eq!(post(&service, "/v1/refund", &json!({ "receipt": receipt(&answer) })).0, 404);
}

#[test]
fn what_is_no_receipt_is_told() {
    let service = Running::under(POLICY);
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
        let (told, problem) = post(&service, path, &body);
        assert_eq!((told, &problem["member"]), (status, &member), "{path} {body} {problem}");
    }
}
