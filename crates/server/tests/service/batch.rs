use serde_json::{Value, json};

use crate::client::request;
use crate::running::Running;

fn batch(service: &Running, checks: &Value) -> Value {
    let response = request(service.http, "POST", "/v1/check/batch", &checks.to_string());
    assert_eq!(response.status, 200, "{response:?}");
    response.json()
}

#[test]
fn checks_are_decided_in_order() {
    let service = Running::start();
    let check = |ip: &str, cost: u64| json!({ "ip": ip, "cost": cost });
    let answers = batch(
        &service,
        &json!([check("203.0.113.9", 59), check("203.0.113.9", 2), check("203.0.113.10", 1), check("203.0.113.9", 1)]),
    );
    let told: Vec<(&Value, &Value)> =
        answers.as_array().unwrap().iter().map(|answer| (&answer["allowed"], &answer["remaining"])).collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(told, [(&yes, &json!(1)), (&no, &json!(1)), (&yes, &json!(59)), (&yes, &json!(0))]);
    assert_eq!(batch(&service, &json!([])), json!([]));
}

#[test]
fn each_may_have_a_receipt() {
    let service = Running::start();
    let answers = batch(&service, &json!([{ "ip": "203.0.113.9", "receipt": true }, { "ip": "203.0.113.9" }]));
    let refund = json!({ "receipt": answers[0]["receipt"] });
    assert_eq!(answers[1].get("receipt"), None);
    assert_eq!(request(service.http, "POST", "/v1/refund", &refund.to_string()).status, 200);
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"], 59);
}

#[test]
fn one_that_cannot_be_read_is_named_and_none_is_decided() {
    let service = Running::start();
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
fn a_thousand_are_taken() {
    let service = Running::start();
    let answers = batch(&service, &json!(vec![json!({ "ip": "203.0.113.9" }); 1_000]));
    let allowed = answers.as_array().unwrap().iter().filter(|answer| answer["allowed"] == true).count();
    assert_eq!((answers.as_array().unwrap().len(), allowed), (1_000, 60));
}
