//! Requests that the store could not count: the log says so, and accuses nobody.

use std::net::Ipv4Addr;

use crate::observed::{Observed, S_NS};

const POLICY: &str = "version: 1
store: { memory: { entries: 1, when_full: refuse } }
rules:
  - { name: per-ip, key: client_ip, limit: 10/h }
";

/// How many of so many new clients were refused.
fn refused(observed: &Observed, from: u32, clients: u32) -> usize {
    let ask = |at: u32| observed.ask(Ipv4Addr::from(0xc612_0000 + at));
    (from..from + clients).filter(|at| !ask(*at).is_allowed()).count()
}

#[test]
fn there_is_a_notice_now_and_then_and_no_violation() {
    let observed = Observed::under(POLICY);
    let first = refused(&observed, 0, 2_000);
    assert!(first > 10);
    observed.clock.advance(60 * S_NS);
    refused(&observed, 2_000, 100);
    let lines = observed.json_lines();
    let notices: Vec<&serde_json::Value> = lines.iter().filter(|line| line["event"] == "notice").collect();
    assert_eq!((lines.len(), notices.len()), (2, 2), "{lines:?}");
    for (notice, so_many) in notices.iter().zip(["1 request was".to_owned(), format!("{first} requests were")]) {
        assert_eq!(notice["level"], "warning");
        let message = notice["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{so_many} refused because the store could not count")), "{message}");
    }
    assert!(observed.observer().top("per-ip", 10).is_empty());
}
