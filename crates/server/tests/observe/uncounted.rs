//! Requests that the store could not count are logged as notices, not as violations.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::observed_engine::ObservedEngine;

const POLICY: &str = "version: 1
store: { memory: { entries: 1, when_full: refuse } }
rules:
  - { name: per-ip, key: client_ip, limit: 10/h }
";

/// Checks new clients, and returns how many were refused.
fn refused(observed: &ObservedEngine, from: u32, clients: u32) -> usize {
    let check = |at: u32| observed.check_from(Ipv4Addr::from(0xc612_0000 + at));
    (from..from + clients).filter(|at| !check(*at).is_allowed()).count()
}

#[test]
fn uncounted_requests_are_logged_as_occasional_notices() {
    let observed = ObservedEngine::with_policy(POLICY);
    let first = refused(&observed, 0, 2_000);
    assert!(first > 10);
    observed.clock.advance(Duration::from_secs(60));
    refused(&observed, 2_000, 100);
    let lines = observed.json_lines();
    let notices: Vec<&serde_json::Value> = lines.iter().filter(|line| line["event"] == "notice").collect();
    assert_eq!((lines.len(), notices.len()), (2, 2), "{lines:?}");
    for (notice, count) in notices.iter().zip(["1 request was".to_owned(), format!("{first} requests were")]) {
        assert_eq!(notice["level"], "warning");
        let message = notice["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{count} refused because the store could not count")), "{message}");
    }
    assert!(observed.observer().top("per-ip", 10).is_empty());
}
