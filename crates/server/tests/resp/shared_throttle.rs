//! `CL.THROTTLE` with counters on a shared Redis server. Time is that of the server,
//! so no test depends on fractions of a second.

use std::time::Duration;

use tollgate_testbed::{RedisServer, Reply as RedisReply};

use crate::resp_client::{Reply, RespClient, error, integers};
use crate::test_service::TestService;

const RULES: &str = "version: 1\nrules:\n  - { name: per-user, key: client_ip, limit: 60/h }\n";

fn service(server: &RedisServer, more: &str) -> TestService {
    let store = format!("store: {{ redis: {{ deadline: 2s, {more} nodes: [\"{}\"] }} }}\n", server.address());
    TestService::with_policy(&format!("{RULES}{store}"))
}

/// Returns a client, after the service has reached its server.
fn client(service: &TestService) -> RespClient {
    for _ in 0..5_000 {
        if service.check(r#"{"ip":"203.0.113.1","cost":0}"#)["source"] == "exact" {
            return RespClient::open(service.resp);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("the server was not reached within ten seconds");
}

/// A limit, and quantities with the expected replies.
type Case = (&'static str, &'static [(&'static str, [i64; 5])]);

/// The same steps as for the memory store, except those whose timing a busy machine may miss.
const CASES: [Case; 7] = [
    ("15 30 60", &[("1", [0, 16, 15, -1, 2]), ("15", [0, 16, 0, -1, 32])]),
    ("0 1 86400", &[("1", [0, 1, 0, -1, 86_400]), ("1", [1, 1, 0, 86_400, 86_400])]),
    ("3 7 77777", &[("4", [0, 4, 0, -1, 44_444]), ("2", [1, 4, 0, 22_222, 44_444])]),
    ("2 3 100000", &[("3", [0, 3, 0, -1, 100_000]), ("1", [1, 3, 0, 33_334, 100_000])]),
    ("4 1 1000", &[("0", [0, 5, 5, -1, 0]), ("2", [0, 5, 3, -1, 2_000]), ("0", [0, 5, 3, -1, 2_000])]),
    ("4 1 1000", &[("6", [1, 5, 5, -1, 0]), ("9223372036854775807", [1, 5, 5, -1, 0]), ("5", [0, 5, 0, -1, 5_000])]),
    ("999999999999 1000000000 1", &[("1000000000000", [0, 1_000_000_000_000, 0, -1, 1000])]),
];

#[test]
fn replies_equal_those_of_the_memory_store() {
    let server = RedisServer::start(&[]).unwrap();
    let service = service(&server, "");
    let mut client = client(&service);
    for (at, (limit, steps)) in CASES.iter().enumerate() {
        for (quantity, expected) in *steps {
            let reply = client.call(&format!("CL.THROTTLE case-{at} {limit} {quantity}"));
            assert_eq!(reply, integers(expected), "{quantity} of {limit}");
        }
    }
    assert_eq!(client.call("CL.THROTTLE k 15 0 60"), error("ERR count must be at least 1"));
}

#[test]
fn peeks_write_nothing_and_keys_are_separate_from_those_of_rules() {
    let server = RedisServer::start(&[]).unwrap();
    let service = service(&server, "");
    let mut client = client(&service);
    let keys = || server.command(&["KEYS", "tollgate:?throttle:*"]).unwrap();
    assert_eq!(client.call("CL.THROTTLE untouched 4 1 10 0"), integers(&[0, 5, 5, -1, 0]));
    assert_eq!(keys(), RedisReply::Array(Vec::new()));
    for key in ["203.0.113.9", "{203.0.113.9}", "per-user"] {
        client.call(&format!("CL.THROTTLE {key} 59 60 60 60"));
    }
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["remaining"], 59);
}

#[test]
fn usage_of_a_key_remains_under_another_quota() {
    let server = RedisServer::start(&[]).unwrap();
    let service = service(&server, "");
    let mut client = client(&service);
    assert_eq!(client.call("CL.THROTTLE k 9 10 60000 7"), integers(&[0, 10, 3, -1, 42_000]));
    assert_eq!(client.call("CL.THROTTLE k 19 20 60000 1"), integers(&[0, 20, 12, -1, 24_000]));
    assert_eq!(client.call("CL.THROTTLE k 2 1 60000 0"), integers(&[0, 3, 0, -1, 180_000]));
}

#[test]
fn two_services_together_allow_no_more_than_the_limit() {
    let server = RedisServer::start(&[]).unwrap();
    let services = [service(&server, ""), service(&server, "")];
    services.iter().for_each(|service| drop(client(service)));
    let allowed_of_20 = |service: &TestService| {
        let mut client = RespClient::open(service.resp);
        let is_allowed = |reply: Reply| matches!(&reply, Reply::List(parts) if parts[0] == Reply::Integer(0));
        (0..20).filter(|_| is_allowed(client.call("CL.THROTTLE k 59 1 86400"))).count()
    };
    let allowed: usize = std::thread::scope(|scope| {
        let four_each = services.iter().cycle().take(8);
        let threads: Vec<_> = four_each.map(|service| scope.spawn(move || allowed_of_20(service))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(allowed, 60);
}

#[test]
fn on_failure_of_the_store_applies_without_the_server() {
    let mut server = RedisServer::start(&[]).unwrap();
    let (closed, local) = (service(&server, "on_failure: closed,"), service(&server, "fallback_share: 1/2,"));
    let (mut closed_client, mut local_client) = (client(&closed), client(&local));
    server.kill().unwrap();
    assert_eq!(closed_client.call("CL.THROTTLE k 3 1 86400"), error("ERR the counter store does not answer"));
    // Half of 4 passes here, at a rate of at least 1, and the reply reports this share.
    assert_eq!(local_client.call("CL.THROTTLE k 3 1 86400 2"), integers(&[0, 2, 0, -1, 172_800]));
    assert_eq!(closed_client.call("PING"), Reply::Simple("PONG".to_owned()));
}
