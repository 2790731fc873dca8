//! A flood of refusals: the size of the log, and the offenders that are reported.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use tollgate_server::observe::{EventFormat, IdentityFormat};

use crate::observed_engine::ObservedEngine;

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 1/day }
  - { name: all, limit: 1000000/s, shadow: true }
";

/// The maximum rate of the log, as documented.
const LOG_BYTES_PER_SECOND: usize = 64 << 10;

const THREADS: u64 = 4;

/// The client of a request: one of 7 for every fourth request, else one of 100,000.
fn client(number: u64) -> Ipv4Addr {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let client = if number.is_multiple_of(4) { mixed % 7 } else { 1_000 + mixed % 100_000 };
    Ipv4Addr::from(0x0a00_0000 + u32::try_from(client).unwrap())
}

#[test]
fn flood_keeps_the_log_within_its_rate_and_counts_offenders() {
    let observed = ObservedEngine::with(POLICY, IdentityFormat::Plain, EventFormat::Json);
    let mut exact: HashMap<String, u64> = HashMap::new();
    let (each, seconds) = (5_000, 4);
    let mut written = 0;
    for second in 0..seconds {
        let refused = |thread: u64| {
            let numbers = (0..each).map(move |number| (second * THREADS + thread) * each + number);
            let refused = numbers.map(client).filter(|client| !observed.check_from(*client).is_allowed());
            refused.map(|client| client.to_string()).collect::<Vec<_>>()
        };
        let refused: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || refused(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        refused.into_iter().for_each(|client| *exact.entry(client).or_default() += 1);
        let now = observed.log().len();
        assert!(now - written <= LOG_BYTES_PER_SECOND, "{} bytes in a second", now - written);
        written = now;
        observed.clock.advance(Duration::from_secs(1));
    }
    let total: u64 = exact.values().sum();
    assert!(total > 10_000, "{total}");
    assert_eq!(observed.observer().refusals("per-ip"), total);
    let top = observed.observer().top("per-ip", 1_000);
    for offender in &top {
        let actual = exact[&*offender.client];
        assert!(offender.count - offender.error <= actual && actual <= offender.count, "{offender:?} is {actual}");
    }
    let mut heavy: Vec<&str> = top.iter().take(7).map(|offender| &*offender.client).collect();
    heavy.sort_unstable();
    assert_eq!(heavy, ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
    // Violations without a line are summed up.
    observed.clock.advance(Duration::from_secs(10));
    let lines = observed.violations().len() as u64;
    assert!(lines <= seconds * 50, "{lines}");
    observed.observer().run_periodic();
    let summary = observed.json_lines().pop().unwrap();
    assert_eq!((&summary["event"], summary["violations"].as_u64()), (&"left_out".into(), Some(total - lines)));
    assert_eq!(summary["by_rule"][0][0], "per-ip");
}

#[test]
fn longest_line_has_at_most_1024_bytes() {
    let name = "n".repeat(64);
    let route = format!("/{}", "%22%5c\"".repeat(40));
    let policy = format!(
        "version: 1\nidentity:\n  user: {{ given: true }}\n  other: {{ given: true }}\nrules:\n  - {{ name: {name}, key: [user, other], limit: 1/day, when: {{ path: '{route}/*' }} }}\n"
    );
    for format in [EventFormat::Json, EventFormat::Text] {
        let observed = ObservedEngine::with(&policy, IdentityFormat::Plain, format);
        let long = "\\\"|".repeat(2_000);
        let identities = [("user", long.as_str()), ("other", long.as_str())];
        let target = format!("{route}/x");
        let request = tollgate::Request {
            method: "DELETE",
            target: &target,
            identities: &identities,
            ..tollgate::Request::from_peer(None)
        };
        (0..3).for_each(|_| drop(observed.check(&request)));
        let log = observed.log();
        assert_eq!(log.lines().count(), 2);
        assert!(log.lines().all(|line| line.len() <= 1_024), "{}: {log}", log.len());
    }
}
