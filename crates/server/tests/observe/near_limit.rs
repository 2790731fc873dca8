//! Clients that are near a limit, and clients that are refused.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::observed_engine::ObservedEngine;

const POLICY: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 20/min }
";

const ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

#[test]
fn clients_with_a_tenth_left_are_near_the_limit() {
    let observed = ObservedEngine::with_policy(POLICY);
    for _ in 0..17 {
        observed.check_from(ADDRESS);
    }
    assert_eq!(observed.observer().near_limit("per-ip", 10), []);
    // 2, 1 and 0 of 20 remain; the fourth is refused.
    for _ in 0..4 {
        observed.check_from(ADDRESS);
    }
    let near = observed.observer().near_limit("per-ip", 10);
    assert_eq!((near.len(), &*near[0].client, near[0].count, near[0].error), (1, "203.0.113.9", 3, 0));
    let refused = observed.observer().top("per-ip", 10);
    assert_eq!((refused[0].count, refused[0].error), (1, 0));
    assert_eq!(observed.observer().top("unknown", 10), []);
}

#[test]
fn offenders_expire_after_a_minute() {
    let observed = ObservedEngine::with_policy(POLICY);
    for _ in 0..30 {
        observed.check_from(ADDRESS);
    }
    assert_eq!(observed.observer().top("per-ip", 10)[0].count, 10);
    observed.clock.advance(Duration::from_secs(30));
    assert_eq!(observed.observer().refusals("per-ip"), 10);
    observed.clock.advance(Duration::from_secs(30));
    assert_eq!(observed.observer().top("per-ip", 10), []);
    assert_eq!(observed.observer().refusals("per-ip"), 0);
}

#[test]
fn top_client_share_is_a_metric_without_the_name_of_the_client() {
    let observed = ObservedEngine::with_policy(POLICY);
    let share = |name: &str| {
        let metrics = observed.engine.metrics_text();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{metrics}")).trim().parse::<f64>().unwrap()
    };
    for _ in 0..20 + 30 {
        observed.check_from(ADDRESS);
    }
    for last in 0..10 {
        (0..21).for_each(|_| drop(observed.check_from(Ipv4Addr::new(198, 51, 100, last))));
    }
    assert_eq!(share("tollgate_top_client_share{rule=\"per-ip\"}"), 0.75);
    assert_eq!(share("tollgate_log_lines_dropped_total"), 0.0);
    observed.clock.advance(Duration::from_secs(60));
    assert_eq!(share("tollgate_top_client_share{rule=\"per-ip\"}"), 0.0);
    assert!(!observed.engine.metrics_text().contains("203.0.113"));
}

#[test]
fn reload_keeps_the_client_lists_of_rules() {
    let observed = ObservedEngine::with_policy(POLICY);
    for _ in 0..25 {
        observed.check_from(ADDRESS);
    }
    let policy =
        "version: 1\nrules:\n  - { name: all, limit: 1000/s }\n  - { name: per-ip, key: client_ip, limit: 20/min }\n";
    let loaded = tollgate::policy::parse(policy, "policy.yaml", None).unwrap();
    observed.engine.reload(&loaded.policy).unwrap();
    observed.check_from(ADDRESS);
    let top = observed.observer().top("per-ip", 10);
    assert_eq!((top.len(), top[0].count), (1, 6));
}
