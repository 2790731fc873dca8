//! The rule that refused is the same in the response, the log and the metrics, on every front end.

use serde_json::{Value, json};
use tollgate_server::observe::{EventFormat, IdentityFormat};

use crate::messages::OVER_LIMIT;
use crate::resp_client::{Reply, bulk};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
  user: { header: X-User, trusted: true }
rules:
  - { name: per-ip, key: client_ip, limit: 100/min }
  - { name: login, when: { method: POST, path: /auth/* }, key: client_ip, limit: 1/h }
  - { name: per-user, key: user, limit: 50/min }
";

/// The log lines of a front end.
fn logged(service: &TestService, front_end: &str) -> Vec<Value> {
    let log = service.log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["front_end"] == front_end).collect()
}

/// The refusal counts of a front end that are not 0, as lines of the metrics.
fn counted(service: &TestService, front_end: &str) -> String {
    let metrics = service.engine.metrics_text();
    let is_refusal = |line: &&str| {
        line.starts_with("tollgate_decisions_total{")
            && line.contains("\"reject\"")
            && line.contains(&format!("\"{front_end}\""))
    };
    let refusals: Vec<&str> = metrics.lines().filter(is_refusal).filter(|line| !line.ends_with(" 0")).collect();
    refusals.join("\n")
}

fn assert_log_and_metrics_agree(service: &TestService, front_end: &str, refusals: usize) {
    let lines = logged(service, front_end);
    assert_eq!(lines.len(), refusals, "{front_end}: {lines:?}");
    for line in &lines {
        let logged = (&line["rule"], &line["action"], &line["limit"], &line["route"], &line["method"]);
        assert_eq!(
            logged,
            (&json!("login"), &json!("reject"), &json!(1), &json!("/auth/*"), &json!("POST")),
            "{front_end}"
        );
    }
    let counted = counted(service, front_end);
    assert!(counted.contains("rule=\"login\"") && counted.ends_with(&format!(" {refusals}")), "{counted}");
    assert_eq!(counted.lines().count(), 1, "{counted}");
}

#[test]
fn response_log_and_metrics_name_the_same_rule() {
    let service = TestService::with_policy(POLICY, IdentityFormat::Hashed, EventFormat::Json);
    let body = |ip: &str| format!(r#"{{"ip":"{ip}","method":"POST","path":"/auth/login","headers":{{"X-User":"u"}}}}"#);

    service.post("/v1/check", &body("203.0.113.1"));
    let response = service.post("/v1/check", &body("203.0.113.1")).json();
    assert_eq!((&response["rule"], &response["action"]), (&json!("login"), &json!("reject")));
    let batch = service.post("/v1/check/batch", &format!("[{0},{0}]", body("203.0.113.2"))).json();
    assert_eq!((&batch[1]["rule"], &batch[1]["action"]), (&json!("login"), &json!("reject")));
    assert_log_and_metrics_agree(&service, "http", 2);

    let fields =
        [("X-Forwarded-For", "203.0.113.3"), ("X-Forwarded-Method", "POST"), ("X-Forwarded-Uri", "/auth/login")];
    service.forward_auth(&fields);
    let rejected = service.forward_auth(&fields);
    assert_eq!((rejected.status, &rejected.json()["rule"]), (429, &json!("login")));
    assert_log_and_metrics_agree(&service, "forward-auth", 1);

    let command = "TOLL.CHECK ip 203.0.113.4 method POST path /auth/login user u";
    service.resp(command);
    match service.resp(command) {
        Reply::List(parts) => assert_eq!(parts[..2], [Reply::Integer(0), bulk("login")]),
        other => panic!("{other:?}"),
    }
    assert_log_and_metrics_agree(&service, "resp", 1);

    let entries = [("remote_address", "203.0.113.5"), ("method", "POST"), ("path", "/auth/login")];
    service.grpc(&entries);
    let refused = service.grpc(&entries);
    assert_eq!(refused.overall_code, OVER_LIMIT);
    assert_eq!(refused.statuses[0].current_limit.as_ref().unwrap().name, "login");
    assert_log_and_metrics_agree(&service, "grpc", 1);

    let top = service.engine.observer().top("login", 10);
    assert_eq!(top.iter().map(|offender| offender.count).collect::<Vec<_>>(), [1; 5]);
    let in_log: Vec<Value> =
        ["http", "forward-auth", "resp", "grpc"].iter().flat_map(|name| logged(&service, name)).collect();
    assert!(top.iter().all(|offender| in_log.iter().any(|line| line["client"] == *offender.client)));
}
