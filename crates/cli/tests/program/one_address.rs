//! The shared resources that one address can use: memory, descriptors and receipts.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::attacker::{Senders, batch_of_a_thousand, connect, header_bomb, post};
use crate::client::{Connection, request};
use crate::rls_client::RlsClient;
use crate::running::Running;

/// The documented bound on the memory that one address can use.
const MAX_GROWTH_MB: u64 = 256;

/// The duration of an attack.
const ATTACK_TIME: Duration = Duration::from_secs(3);

fn serve() -> Running {
    Running::serve_with(&["--grpc", ":0", "--resp", ":0", "--threads", "2"])
}

/// Asserts that other clients are served on every front end, and that the peak of memory is below the bound.
#[allow(clippy::print_stdout, reason = "prints the measurement")]
fn assert_others_are_served(tollgate: &Running, idle_kb: u64) {
    let growth_mb = || tollgate.peak_resident_kb().saturating_sub(idle_kb) / 1024;
    assert!(growth_mb() < MAX_GROWTH_MB, "{} MB more than before", growth_mb());
    assert_eq!(request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).status, 200);
    let batch = batch_of_a_thousand(r#"{"ip":"203.0.113.9"}"#);
    assert_eq!(request(tollgate.http, "POST", "/v1/check/batch", &batch).status, 200);
    assert_eq!(request(tollgate.admin, "GET", "/metrics", "").status, 200);
    assert!(RlsClient::open(tollgate.grpc.unwrap()).call());
    println!("{} MB more than before", growth_mb());
    assert!(growth_mb() < MAX_GROWTH_MB, "{} MB more than before", growth_mb());
}

#[test]
fn grpc_header_bombs_of_one_address_take_bounded_memory() {
    for path in [
        "/grpc.health.v1.Health/Watch",
        "/grpc.health.v1.Health/Check",
        "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        let tollgate = serve();
        let idle_kb = tollgate.resident_kb();
        let mut bombs = Senders::open(tollgate.grpc.unwrap(), 60, header_bomb(path, 1_024, 400));
        bombs.send_for(ATTACK_TIME);
        assert_others_are_served(&tollgate, idle_kb);
    }
}

#[test]
fn many_grpc_streams_on_a_thousand_connections_take_bounded_memory() {
    let tollgate = serve();
    let idle_kb = tollgate.resident_kb();
    // The largest number of fields that is accepted.
    let bomb = header_bomb("/grpc.health.v1.Health/Watch", 128, 90);
    let mut bombs = Senders::open(tollgate.grpc.unwrap(), 995, bomb);
    bombs.send_for(ATTACK_TIME);
    assert_others_are_served(&tollgate, idle_kb);
}

#[test]
fn answers_that_one_address_does_not_read_take_bounded_memory() {
    let tollgate = serve();
    let idle_kb = tollgate.resident_kb();
    let batch = batch_of_a_thousand(r#"{"ip":"1.2.3.4"}"#);
    let batch = post("/v1/check/batch", batch.len(), batch.as_bytes());
    let mut unread = Senders::open(tollgate.http, 400, batch.repeat(4));
    unread.send_for(ATTACK_TIME);
    assert_others_are_served(&tollgate, idle_kb);
}

#[test]
fn batches_that_one_address_does_not_finish_take_bounded_memory() {
    let tollgate = serve();
    let idle_kb = tollgate.resident_kb();
    let half = post("/v1/check/batch", 1_000_000, &[b' '; 900_000]);
    let mut half_sent = Senders::open(tollgate.http, 995, half);
    half_sent.send_for(ATTACK_TIME);
    assert_others_are_served(&tollgate, idle_kb);
}

#[test]
fn commands_that_one_address_does_not_finish_take_bounded_memory() {
    let tollgate = serve();
    let idle_kb = tollgate.resident_kb();
    let long = format!("${}\r\n{}\r\n", 15_000, "x".repeat(15_000)).repeat(4);
    let command = format!("*6\r\n$11\r\nCL.THROTTLE\r\n{long}");
    let mut half_sent = Senders::open(tollgate.resp.unwrap(), 995, command.into_bytes());
    half_sent.send_for(ATTACK_TIME);
    assert_others_are_served(&tollgate, idle_kb);
}

#[test]
fn all_attacks_of_one_address_together_take_bounded_memory() {
    let tollgate = serve();
    let idle_kb = tollgate.resident_kb();
    let batch = batch_of_a_thousand(r#"{"ip":"1.2.3.4"}"#);
    let long = format!("${}\r\n{}\r\n", 15_000, "x".repeat(15_000)).repeat(4);
    let mut attacks = [
        Senders::open(tollgate.grpc.unwrap(), 700, header_bomb("/grpc.health.v1.Health/Watch", 128, 90)),
        Senders::open(tollgate.http, 300, post("/v1/check/batch", batch.len(), batch.as_bytes())),
        Senders::open(tollgate.http, 600, post("/v1/check/batch", 1_000_000, &[b' '; 900_000])),
        Senders::open(tollgate.resp.unwrap(), 700, format!("*6\r\n$11\r\nCL.THROTTLE\r\n{long}").into_bytes()),
    ];
    for _ in 0..4 {
        attacks.iter_mut().for_each(|attack| attack.send_for(ATTACK_TIME / 10));
    }
    assert_others_are_served(&tollgate, idle_kb);
}

#[test]
fn idle_connections_of_one_address_leave_descriptors_to_others() {
    let tollgate = Running::serve_with_files(1_024);
    let mut idle: Vec<TcpStream> = (0..990).map(|_| connect(tollgate.http)).collect();
    idle.extend((0..100).map(|_| connect(tollgate.admin)));
    let begun = Instant::now();
    assert_eq!(request(tollgate.http, "GET", "/healthz", "").status, 200);
    assert_eq!(request(tollgate.admin, "GET", "/metrics", "").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(5), "others waited {:?}", begun.elapsed());
    drop(idle);
}

#[test]
fn receipts_of_one_address_evict_none_of_others() {
    let tollgate = serve();
    let mut polite = Connection::open(tollgate.http);
    let check = r#"{"ip":"203.0.113.9","receipt":true}"#;
    let answer = polite.request("POST", "/v1/check", check);
    let receipt = answer.json()["receipt"].as_str().unwrap().to_owned();
    // Each check is for another address, so that all are allowed and have a receipt.
    for batch in 0..110 {
        let checks: Vec<String> =
            (0..1_000).map(|at| format!(r#"{{"ip":"10.{batch}.{}.{}","receipt":true}}"#, at / 250, at % 250)).collect();
        let body = format!("[{}]", checks.join(","));
        let stream = connect(tollgate.http);
        stream.set_nonblocking(false).unwrap();
        let answer = Connection::over(stream).request("POST", "/v1/check/batch", &body);
        assert_eq!(answer.status, 200);
    }
    let refund = format!(r#"{{"receipt":"{receipt}"}}"#);
    assert_eq!(polite.request("POST", "/v1/refund", &refund).status, 200);
}
