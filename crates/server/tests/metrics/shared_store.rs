//! The metrics of a shared store, with its server and without.

use tollgate_testbed::RedisServer;

use crate::test_service::TestService;

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
fn store_calls_are_timed_and_refusals_cached() {
    let redis = RedisServer::start(&[]).unwrap();
    // Long enough for a busy machine: no decision may be a fallback.
    let service = TestService::with_policy(&policy(&redis, "deadline: 30s"));
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
    for gauge in ["tollgate_debts", "tollgate_sync_lag_seconds", "tollgate_fallback_active"] {
        assert_eq!(scrape.value(gauge), 0.0, "{gauge}");
    }
    assert_eq!(scrape.value("tollgate_store_servers"), 1.0);
}

#[test]
fn leases_are_counted() {
    let redis = RedisServer::start(&[]).unwrap();
    let policy = policy(&redis, "deadline: 30s, consistency: leased, lease: 60s").replace("2/h", "1000/s");
    let service = TestService::with_policy(&policy);
    let mut sent = 0;
    let mut leased = 0;
    while leased < 50 {
        leased += u64::from(service.post("/v1/check", r#"{"ip":"203.0.113.1"}"#)["source"] == "leased");
        sent += 1;
        assert!(sent < 10_000, "the key is not leased");
    }
    let scrape = service.scrape();
    assert_eq!(scrape.count("tollgate_store_leased_decisions_total"), leased);
    assert!(scrape.count("tollgate_store_calls_total") <= sent - leased);
    assert!(scrape.count("tollgate_store_lease_calls_total") > 0);
    assert!(scrape.count("tollgate_leased_tokens_total") >= leased);
    assert_eq!(scrape.count("tollgate_stranded_tokens_total"), 0);
    assert_eq!(scrape.count("tollgate_leased_keys"), 1);
    assert!(scrape.count("tollgate_leased_tokens_held") <= scrape.count("tollgate_leased_tokens_total") - leased);
}

#[test]
fn requests_allowed_without_the_store_become_debt() {
    let mut redis = RedisServer::start(&[]).unwrap();
    let service = TestService::with_policy(&policy(&redis, "deadline: 50ms, on_failure: open"));
    redis.kill().unwrap();
    for _ in 0..3 {
        let response = service.post("/v1/check", r#"{"ip":"203.0.113.1"}"#);
        assert_eq!((&response["action"], &response["source"]), (&"allow".into(), &"fallback".into()));
    }
    let scrape = service.scrape();
    assert_eq!(scrape.value("tollgate_fallback_decisions_total{mode=\"open\"}"), 3.0);
    assert_eq!(scrape.value("tollgate_debts"), 1.0);
    assert!(scrape.value("tollgate_sync_lag_seconds") > 0.0);
    // Without the store, what remains of the limit is unknown.
    assert!(!scrape.names().contains("tollgate_headroom_ratio_count"));
}

#[test]
fn different_policies_have_different_fingerprints() {
    let redis = RedisServer::start(&[]).unwrap();
    let fingerprint = |more: &str| {
        let text = TestService::with_policy(&policy(&redis, more)).metrics_text();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("tollgate_policy_info{")).collect();
        assert_eq!(lines.len(), 1);
        lines[0].to_owned()
    };
    assert_eq!(fingerprint("deadline: 1s"), fingerprint("deadline: 1s"));
    assert_ne!(fingerprint("deadline: 1s"), fingerprint("deadline: 2s"));
}
