//! Reloads of the policy while requests are decided.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};

use tollgate::policy::parse;
use tollgate_server::{Engine, Reload, ReloadError};

use crate::client::{Connection, request};
use crate::rls_client::RlsClient;
use crate::test_service::TestService;

fn per_ip(limit: u64, more: &str) -> String {
    format!("version: 1\nrules:\n  - {{ name: per-ip, key: client_ip, limit: {limit}/h }}\n{more}")
}

fn reload(engine: &Engine, policy: &str) -> Result<Reload, ReloadError> {
    engine.reload(&parse(policy, "policy.yaml", None).unwrap().policy)
}

#[test]
fn reload_updates_limits_and_metrics_and_keeps_counters() {
    let service = TestService::with_policy(&per_ip(100, ""));
    service.check(r#"{"ip":"203.0.113.9","cost":10}"#);
    reload(&service.engine, &per_ip(50, "  - { name: new, when: { path: /new }, limit: 5/h }\n")).unwrap();
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"], 40);
    service.check(r#"{"path":"/new"}"#);
    let metrics = request(service.admin, "GET", "/metrics", "").body;
    for line in [
        r#"tollgate_decisions_total{rule="new",outcome="allow",frontend="http"} 1"#,
        r#"tollgate_decisions_total{rule="per-ip",outcome="allow",frontend="http"} 1"#,
        r#"tollgate_config_reloads_total{outcome="success"} 1"#,
        "tollgate_config_last_reload_success_timestamp_seconds 1700000000",
    ] {
        assert!(metrics.lines().any(|other| other == line), "no {line} in\n{metrics}");
    }
    let limits = request(service.http, "GET", "/v1/limits", "").json();
    assert_eq!(
        (&limits["rules"][0]["grants"][0]["limits"][0]["limit"], &limits["rules"][1]["name"]),
        (&50.into(), &"new".into())
    );
    // A removed rule keeps its count.
    reload(&service.engine, &per_ip(50, "")).unwrap();
    assert!(
        request(service.admin, "GET", "/metrics", "").body.contains(r#"rule="new",outcome="allow",frontend="http"} 1"#)
    );
}

#[test]
fn reload_refuses_another_kind_of_store_and_keeps_store_settings() {
    let service = TestService::with_policy(&per_ip(100, ""));
    let redis = per_ip(50, "store: { redis: { nodes: [127.0.0.1:1] } }\n");
    assert!(matches!(reload(&service.engine, &redis), Err(ReloadError::OtherStore)));
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["limit"], 100);
    let smaller = per_ip(50, "store: { memory: { entries: 1000 } }\n");
    assert_eq!(
        reload(&service.engine, &smaller).unwrap(),
        Reload { store_stays: true, regions_stay: false, counter_changes: Vec::new() }
    );
    assert_eq!(
        reload(&service.engine, &per_ip(50, "")).unwrap(),
        Reload { store_stays: false, regions_stay: false, counter_changes: Vec::new() }
    );
}

#[test]
fn receipts_outlive_a_reload() {
    let service = TestService::with_policy(&per_ip(100, ""));
    let response = service.check(r#"{"ip":"203.0.113.9","cost":10,"receipt":true}"#);
    reload(&service.engine, &per_ip(50, "")).unwrap();
    let refund = serde_json::json!({ "receipt": response["receipt"] }).to_string();
    assert_eq!(request(service.http, "POST", "/v1/refund", &refund).status, 200);
    assert_eq!(service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"], 50);
}

/// Checks over RESP the address that the other clients check too.
fn check_over_resp(connection: &mut BufReader<TcpStream>) {
    const LINES_PER_REPLY: usize = 8;
    connection.get_mut().write_all(b"TOLL.CHECK ip 203.0.113.9\r\n").unwrap();
    let reply: Vec<String> = connection.lines().take(LINES_PER_REPLY).map(Result::unwrap).collect();
    assert_eq!(reply[..4], ["*6", ":1", "$6", "per-ip"]);
}

#[test]
fn a_hundred_reloads_under_load_fail_no_request_and_lose_no_count() {
    const LIMIT: u64 = 100_000;
    let service = TestService::with_policy(&per_ip(LIMIT, ""));
    let (http, grpc, resp) = (service.http, service.grpc, service.resp);
    let (done, sent): (AtomicBool, [AtomicU64; 3]) = Default::default();
    let until_done = |front_end: usize, check: &mut dyn FnMut()| {
        while !done.load(Ordering::Relaxed) {
            check();
            sent[front_end].fetch_add(1, Ordering::Relaxed);
        }
    };
    let sent_counts = || sent.each_ref().map(|sent| sent.load(Ordering::Relaxed));
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..2 {
            clients.push(scope.spawn(|| {
                let mut connection = Connection::open(http);
                until_done(0, &mut || {
                    let response = connection.request("POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#);
                    assert_eq!((response.status, &response.json()["rule"]), (200, &"per-ip".into()));
                });
            }));
            clients.push(scope.spawn(|| {
                let mut client = RlsClient::open(grpc);
                until_done(1, &mut || assert!(client.call()));
            }));
            clients.push(scope.spawn(|| {
                let mut connection = BufReader::new(TcpStream::connect(resp).unwrap());
                until_done(2, &mut || check_over_resp(&mut connection));
            }));
        }
        let more = ["", "  - { name: other, when: { path: /other }, limit: 5/h }\n"];
        for at in 0..100 {
            reload(&service.engine, &per_ip(LIMIT, more[at % 2])).unwrap();
            let before = sent_counts();
            // Each policy decides at least one request of each front end before the next reload.
            while sent_counts().iter().zip(before).any(|(now, before)| *now == before) {
                assert!(!clients.iter().any(ScopedJoinHandle::is_finished), "a client has failed");
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let remaining = service.check(r#"{"ip":"203.0.113.9","cost":0}"#)["remaining"].as_u64().unwrap();
    assert_eq!(remaining, LIMIT - sent_counts().iter().sum::<u64>());
}
