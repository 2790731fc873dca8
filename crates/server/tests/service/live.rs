//! The status of the service, once and as a stream.

use serde_json::{Value, json};
use tollgate_server::Drained;

use crate::admin::{POLICY, admin_request};
use crate::client::Connection;
use crate::test_service::TestService;

/// The most subscribers of the stream.
const MAX_SUBSCRIBERS: usize = 48;

fn subscribe(service: &TestService) -> Connection {
    let mut stream = Connection::open(service.admin);
    stream.send(&format!("GET /api/live HTTP/1.1\r\nhost: {}\r\n\r\n", service.admin));
    stream
}

fn data(line: &str) -> Value {
    serde_json::from_str(line.strip_prefix("data: ").unwrap_or_else(|| panic!("{line}"))).unwrap()
}

#[test]
fn status_has_decisions_rules_clients_and_the_store() {
    let service = TestService::with_policy(POLICY);
    for _ in 0..5 {
        service.check(r#"{"identities":{"user":"alice"}}"#);
    }
    service.check(r#"{"identities":{"user":"alice"},"cost":0}"#);
    let status = admin_request(&service, "GET", "/api/status", "").json();
    // The clock is stopped, so there are totals and no rates.
    assert_eq!(status["interval_ms"], Value::Null);
    assert_eq!((&status["decisions"]["allowed"], &status["decisions"]["refused"]), (&json!(2), &json!(3)));
    let rules: Vec<Value> = status["rules"].as_array().unwrap().iter().map(|rule| rule["rule"].clone()).collect();
    assert_eq!(rules, ["per-user", "global"]);
    assert_eq!((&status["rules"][0]["allowed"], &status["rules"][0]["refused"]), (&json!(2), &json!(3)));
    assert_eq!((&status["rules"][1]["refused"], &status["omitted_rules"]), (&json!(0), &json!(0)));
    assert_eq!((&status["clients"][0]["rule"], &status["clients"][0]["count"]), (&json!("per-user"), &json!(3)));
    assert_eq!((&status["store"]["kind"], &status["store"]["state"]), (&json!("memory"), &json!("ok")));
    assert_eq!(status["policy"]["fingerprint"].as_str().unwrap().len(), 16);
    assert!(!status.to_string().contains("alice"), "{status}");
}

#[test]
fn live_stream_begins_with_the_history_and_follows_decisions() {
    let service = TestService::with_policy(POLICY);
    let mut stream = subscribe(&service);
    assert_eq!(stream.head_field("content-type").as_deref(), Some("text/event-stream"));
    stream.line_with("event: history");
    assert_eq!(data(&stream.line_with("data: "))["decisions"]["allowed"], json!([]));
    stream.line_with("event: status");
    assert_eq!(data(&stream.line_with("data: "))["decisions"]["allowed"], 0);
    service.check(r#"{"identities":{"user":"alice"}}"#);
    let mut lines = (0..50).map(|_| stream.line_with("data: "));
    assert!(lines.any(|line| data(&line)["decisions"]["allowed"] == 1));
    // An open stream does not delay shutdown.
    assert_eq!(service.shut_down(), Drained::Completely);
}

#[test]
fn subscribers_beyond_the_limit_are_refused_until_one_leaves() {
    let service = TestService::with_policy(POLICY);
    let mut streams: Vec<Connection> = (0..MAX_SUBSCRIBERS).map(|_| subscribe(&service)).collect();
    for stream in &mut streams {
        assert_eq!(stream.line(), "HTTP/1.1 200 OK");
    }
    for _ in 0..200 {
        let refused = subscribe(&service).response();
        assert_eq!((refused.status, refused.field("content-type")), (503, Some("application/problem+json")));
        assert!(refused.body.contains("all 48 event streams are in use"), "{}", refused.body);
    }
    // Decisions, and a single status, do not depend on the streams.
    service.check(r#"{"identities":{"user":"alice"}}"#);
    assert_eq!(admin_request(&service, "GET", "/api/status", "").status, 200);
    streams.pop();
    // The service notices the closed connection when it writes the next status.
    let is_accepted = |_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        subscribe(&service).line() == "HTTP/1.1 200 OK"
    };
    assert!((0..200).any(is_accepted));
}
