//! Bursts: a client that suddenly sends far more requests than usual.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use tollgate_server::observe::{EventFormat, IdentityFormat};

use crate::observed_engine::ObservedEngine;

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 1000000/s }
";

#[test]
fn burst_is_one_event_and_one_count() {
    let observed = ObservedEngine::with(POLICY, IdentityFormat::Hashed, EventFormat::Json);
    let (steady, sudden) = (Ipv4Addr::new(203, 0, 113, 1), Ipv4Addr::new(203, 0, 113, 2));
    let window = |steady_requests: usize, sudden_requests: usize| {
        (0..steady_requests).for_each(|_| drop(observed.check_from(steady)));
        (0..sudden_requests).for_each(|_| drop(observed.check_from(sudden)));
        observed.clock.advance(Duration::from_secs(10));
        observed.observer().run_periodic();
    };
    for _ in 0..12 {
        window(8_000, 400);
    }
    let bursts = || observed.json_lines().into_iter().filter(|line| line["event"] == "burst").collect::<Vec<Value>>();
    assert_eq!(bursts(), Vec::<Value>::new());
    window(8_000, 16_000);
    window(8_000, 16_000);
    let bursts = bursts();
    assert_eq!(bursts.len(), 1, "{bursts:?}");
    // A sample of 1 in 16 estimates it within a few percent.
    let number = |name: &str| bursts[0][name].as_u64().unwrap();
    assert!((12_000..20_000).contains(&number("requests")), "{bursts:?}");
    assert!((150..800).contains(&number("usual")), "{bursts:?}");
    assert_eq!((&bursts[0]["rule"], number("window_s")), (&"per-ip".into(), 10));
    assert!(observed.engine.metrics_text().contains("\ntollgate_bursts_total{rule=\"per-ip\"} 1\n"));
}
