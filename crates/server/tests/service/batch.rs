use serde_json::{Value, json};

use crate::client::request;
use crate::test_service::TestService;

fn batch(service: &TestService, checks: &Value) -> Value {
    let response = request(service.http, "POST", "/v1/check/batch", &checks.to_string());
    assert_eq!(response.status, 200, "{response:?}");
    response.json()
}

#[test]
fn batch_checks_are_decided_in_order() {
    let service = TestService::start();
    let check = |ip: &str, cost: u64| json!({ "ip": ip, "cost": cost });
    let responses = batch(
        &service,
        &json!([check("203.0.113.9", 59), check("203.0.113.9", 2), check("203.0.113.10", 1), check("203.0.113.9", 1)]),
    );
    let decisions: Vec<(&Value, &Value)> =
        responses.as_array().unwrap().iter().map(|response| (&response["allowed"], &response["remaining"])).collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(decisions, [(&yes, &json!(1)), (&no, &json!(1)), (&yes, &json!(59)), (&yes, &json!(0))]);
    assert_eq!(batch(&service, &json!([])), json!([]));
}

#[test]
fn each_check_of_a_batch_may_have_a_receipt() {
    let service = TestService::start();
    let responses = batch(&service, &json!([{ "ip": "203.0.113.9", "receipt": true }, { "ip": "203.0.113.9" }]));
    let refund = json!({ "receipt": responses[0]["receipt"] });
    assert_eq!(responses[1].get("receipt"), None);
    assert_eq!(request(service.http, "POST", "/v1/refund", &refund.to_string()).status, 200);
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"], 59);
}

#[test]
fn invalid_check_of_a_batch_is_named_and_none_is_decided() {
    let service = TestService::start();
    for (checks, member) in [
        (json!([{ "ip": "203.0.113.9" }, { "ip": "203.0.113.9", "cost": -1 }]), json!("[1].cost")),
        (json!([{ "ip": "203.0.113.9" }, { "kost": 1 }]), json!("[1].kost")),
        (json!([{ "ip": "203.0.113.9" }, 7]), json!("[1]")),
        (json!({ "ip": "203.0.113.9" }), json!(null)),
        (json!(vec![json!({}); 1_001]), json!(null)),
    ] {
        let response = request(service.http, "POST", "/v1/check/batch", &checks.to_string());
        assert_eq!((response.status, &response.json()["member"]), (400, &member));
    }
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"], 60);
}

#[test]
fn batch_of_1000_checks_is_decided() {
    let service = TestService::start();
    let responses = batch(&service, &json!(vec![json!({ "ip": "203.0.113.9" }); 1_000]));
    let allowed = responses.as_array().unwrap().iter().filter(|response| response["allowed"] == true).count();
    assert_eq!((responses.as_array().unwrap().len(), allowed), (1_000, 60));
}
