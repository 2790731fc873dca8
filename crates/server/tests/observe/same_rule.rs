//! Which rule refused is the same in the answer, in the log and in the metrics, on every front end.

use serde_json::{Value, json};
use tollgate_server::observe::{Identities, LogFormat};

use crate::every_front_end::Served;
use crate::messages::OVER_LIMIT;
use crate::resp_client::{Answer, bulk};

const POLICY: &str = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
  user: { header: X-User, trusted: true }
rules:
  - { name: per-ip, key: client_ip, limit: 100/min }
  - { name: login, when: { method: POST, path: /auth/* }, key: client_ip, limit: 1/h }
  - { name: per-user, key: user, limit: 50/min }
";

/// The lines of the log that came by this front end, and what the metrics say of it.
fn logged(served: &Served, front_end: &str) -> Vec<Value> {
    let log = served.log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["front_end"] == front_end).collect()
}

fn counted(served: &Served, front_end: &str) -> String {
    let metrics = served.engine.metrics_text();
    let is_refusal = |line: &&str| {
        line.starts_with("tollgate_decisions_total{")
            && line.contains("\"reject\"")
            && line.contains(&format!("\"{front_end}\""))
    };
    let refusals: Vec<&str> = metrics.lines().filter(is_refusal).filter(|line| !line.ends_with(" 0")).collect();
    refusals.join("\n")
}

fn assert_alike(served: &Served, front_end: &str, refusals: usize) {
    let lines = logged(served, front_end);
    assert_eq!(lines.len(), refusals, "{front_end}: {lines:?}");
    for line in &lines {
        let said = (&line["rule"], &line["action"], &line["limit"], &line["route"], &line["method"]);
        assert_eq!(
            said,
            (&json!("login"), &json!("reject"), &json!(1), &json!("/auth/*"), &json!("POST")),
            "{front_end}"
        );
    }
    let counted = counted(served, front_end);
    assert!(counted.contains("rule=\"login\"") && counted.ends_with(&format!(" {refusals}")), "{counted}");
    assert_eq!(counted.lines().count(), 1, "{counted}");
}

#[test]
fn the_answer_the_log_and_the_metrics_agree() {
    let served = Served::under(POLICY, Identities::Hashed, LogFormat::Json);
    let body = |ip: &str| format!(r#"{{"ip":"{ip}","method":"POST","path":"/auth/login","headers":{{"X-User":"u"}}}}"#);

    served.post("/v1/check", &body("203.0.113.1"));
    let answer = served.post("/v1/check", &body("203.0.113.1")).json();
    assert_eq!((&answer["rule"], &answer["action"]), (&json!("login"), &json!("reject")));
    let batch = served.post("/v1/check/batch", &format!("[{0},{0}]", body("203.0.113.2"))).json();
    assert_eq!((&batch[1]["rule"], &batch[1]["action"]), (&json!("login"), &json!("reject")));
    assert_alike(&served, "http", 2);

    let fields =
        [("X-Forwarded-For", "203.0.113.3"), ("X-Forwarded-Method", "POST"), ("X-Forwarded-Uri", "/auth/login")];
    served.forward_auth(&fields);
    let refused = served.forward_auth(&fields);
    assert_eq!((refused.status, &refused.json()["rule"]), (429, &json!("login")));
    assert_alike(&served, "forward-auth", 1);

    let command = "TOLL.CHECK ip 203.0.113.4 method POST path /auth/login user u";
    served.resp(command);
    match served.resp(command) {
        Answer::List(told) => assert_eq!(told[..2], [Answer::Integer(0), bulk("login")]),
        other => panic!("{other:?}"),
    }
    assert_alike(&served, "resp", 1);

    let entries = [("remote_address", "203.0.113.5"), ("method", "POST"), ("path", "/auth/login")];
    served.grpc(&entries);
    let told = served.grpc(&entries);
    assert_eq!(told.overall_code, OVER_LIMIT);
    assert_eq!(told.statuses[0].current_limit.as_ref().unwrap().name, "login");
    assert_alike(&served, "grpc", 1);

    let top = served.engine.observer().top("login", 10);
    assert_eq!(top.iter().map(|offender| offender.count).collect::<Vec<_>>(), [1; 5]);
    let in_log: Vec<Value> =
        ["http", "forward-auth", "resp", "grpc"].iter().flat_map(|name| logged(&served, name)).collect();
    assert!(top.iter().all(|offender| in_log.iter().any(|line| line["client"] == *offender.client)));
}
