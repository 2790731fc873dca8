//! A client that suddenly asks far more than it used to.

use std::net::Ipv4Addr;

use serde_json::Value;
use tollgate_server::observe::{Identities, LogFormat};

use crate::observed::{Observed, S_NS};

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 1000000/s }
";

#[test]
fn a_surge_is_one_event_and_one_count() {
    let observed = Observed::with(POLICY, Identities::Hashed, LogFormat::Json);
    let (steady, sudden) = (Ipv4Addr::new(203, 0, 113, 1), Ipv4Addr::new(203, 0, 113, 2));
    let window = |of_steady: usize, of_sudden: usize| {
        (0..of_steady).for_each(|_| drop(observed.ask(steady)));
        (0..of_sudden).for_each(|_| drop(observed.ask(sudden)));
        observed.clock.advance(10 * S_NS);
        observed.observer().look_around();
    };
    for _ in 0..12 {
        window(8_000, 400);
    }
    let bursts = || observed.json_lines().into_iter().filter(|line| line["event"] == "burst").collect::<Vec<Value>>();
    assert_eq!(bursts(), Vec::<Value>::new());
    window(8_000, 16_000);
    window(8_000, 16_000);
    let seen = bursts();
    assert_eq!(seen.len(), 1, "{seen:?}");
    // A sample of one in 16 says it within a few percent.
    let number = |name: &str| seen[0][name].as_u64().unwrap();
    assert!((12_000..20_000).contains(&number("requests")), "{seen:?}");
    assert!((150..800).contains(&number("usual")), "{seen:?}");
    assert_eq!((&seen[0]["rule"], number("window_s")), (&"per-ip".into(), 10));
    assert!(observed.engine.metrics_text().contains("\ntollgate_bursts_total{rule=\"per-ip\"} 1\n"));
}
