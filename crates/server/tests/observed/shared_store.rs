//! What a service on a shared store says of it, while all is well and when its server is gone.

use tollgate_testbed::RedisServer;

use crate::running::Running;

fn policy(redis: &RedisServer, more: &str) -> String {
    format!(
        "version: 1
store: {{ redis: {{ nodes: ['{}'], {more} }} }}
rules: [ {{ name: per-ip, key: client_ip, limit: 2/h }} ]
",
        redis.address()
    )
}

#[test]
fn calls_are_timed_and_refusals_remembered() {
    let redis = RedisServer::start(&[]).unwrap();
    // Long enough for the busiest machine: none of these may fall back.
    let service = Running::under(&policy(&redis, "deadline: 30s"));
    let actions: Vec<String> = (0..4)
        .map(|_| service.post("/v1/check", r#"{"ip":"203.0.113.1"}"#)["action"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(actions, ["allow", "allow", "reject", "reject"]);
    let scrape = service.scrape();
    let calls = scrape.count("tollgate_store_calls_total");
    assert!((2..=4).contains(&calls), "{calls}");
    assert_eq!(scrape.count("tollgate_store_duration_seconds_count"), calls);
    assert_eq!(scrape.count("tollgate_store_duration_seconds_bucket{le=\"+Inf\"}"), calls);
    assert_eq!(scrape.count("tollgate_store_cached_refusals_total"), 4 - calls);
    for nothing in ["tollgate_debts", "tollgate_sync_lag_seconds", "tollgate_fallback_active"] {
        assert_eq!(scrape.value(nothing), 0.0, "{nothing}");
    }
    assert_eq!(scrape.value("tollgate_store_servers"), 1.0);
}

#[test]
fn what_passes_without_the_server_is_owed() {
    let mut redis = RedisServer::start(&[]).unwrap();
    let service = Running::under(&policy(&redis, "deadline: 50ms, on_failure: open"));
    redis.kill().unwrap();
    for _ in 0..3 {
        let answer = service.post("/v1/check", r#"{"ip":"203.0.113.1"}"#);
        assert_eq!((&answer["action"], &answer["source"]), (&"allow".into(), &"fallback".into()));
    }
    let scrape = service.scrape();
    assert_eq!(scrape.value("tollgate_fallback_decisions_total{mode=\"open\"}"), 3.0);
    assert_eq!(scrape.value("tollgate_debts"), 1.0);
    assert!(scrape.value("tollgate_sync_lag_seconds") > 0.0);
    // Nobody knows how much of the limit is left.
    assert!(!scrape.names().contains("tollgate_headroom_ratio_count"));
}

#[test]
fn another_policy_has_another_fingerprint() {
    let redis = RedisServer::start(&[]).unwrap();
    let fingerprint = |more: &str| {
        let text = Running::under(&policy(&redis, more)).metrics_text();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("tollgate_policy_info{")).collect();
        assert_eq!(lines.len(), 1);
        lines[0].to_owned()
    };
    assert_eq!(fingerprint("deadline: 1s"), fingerprint("deadline: 1s"));
    assert_ne!(fingerprint("deadline: 1s"), fingerprint("deadline: 2s"));
}
