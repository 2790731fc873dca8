use std::time::Duration;

use crate::resp_client::{Reply, RespClient, error, integers};
use crate::test_service::TestService;

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000_000_000;

#[test]
fn replies_equal_those_of_redis_cell() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    for taken in 1..=16 {
        let reset = taken * 2;
        assert_eq!(client.call("CL.THROTTLE k 15 30 60"), integers(&[0, 16, 16 - taken, -1, reset]), "{taken}");
    }
    assert_eq!(client.call("CL.THROTTLE k 15 30 60"), integers(&[1, 16, 0, 2, 32]));
    assert_eq!(client.call("cl.Throttle k 15 30 60 1"), integers(&[1, 16, 0, 2, 32]));
    service.clock.advance(Duration::from_nanos(2 * S_NS - 1));
    assert_eq!(client.call("CL.THROTTLE k 15 30 60"), integers(&[1, 16, 0, 1, 31]));
    service.clock.advance(Duration::from_nanos(1));
    assert_eq!(client.call("CL.THROTTLE k 15 30 60"), integers(&[0, 16, 0, -1, 32]));
}

/// A limit, and steps: how far the clock advances, a quantity, and the expected reply.
type Case = (&'static str, &'static [(u64, &'static str, [i64; 5])]);

const CASES: [Case; 18] = [
    // 1 a day.
    ("0 1 86400", &[(0, "1", [0, 1, 0, -1, 86_400]), (1, "1", [1, 1, 0, 86_400, 86_400])]),
    ("0 1 86400", &[(0, "1", [0, 1, 0, -1, 86_400]), (S_NS, "1", [1, 1, 0, 86_399, 86_399])]),
    ("0 1 86400", &[(0, "1", [0, 1, 0, -1, 86_400]), (86_400 * S_NS, "1", [0, 1, 0, -1, 86_400])]),
    // 100 a day: one in 864 seconds.
    (
        "9 100 86400",
        &[
            (0, "10", [0, 10, 0, -1, 8640]),
            (0, "1", [1, 10, 0, 864, 8640]),
            (864 * S_NS - 1, "1", [1, 10, 0, 1, 7777]),
            (1, "1", [0, 10, 0, -1, 8640]),
        ],
    ),
    // 60 an hour.
    (
        "59 60 3600",
        &[
            (0, "60", [0, 60, 0, -1, 3600]),
            (0, "2", [1, 60, 0, 120, 3600]),
            (119 * S_NS, "2", [1, 60, 1, 1, 3481]),
            (S_NS, "2", [0, 60, 0, -1, 3600]),
        ],
    ),
    // 1 a second.
    ("0 1 1", &[(0, "1", [0, 1, 0, -1, 1]), (S_NS - 1, "1", [1, 1, 0, 1, 1]), (1, "1", [0, 1, 0, -1, 1])]),
    // 10 a second.
    ("9 10 1", &[(0, "10", [0, 10, 0, -1, 1]), (99_999_999, "1", [1, 10, 0, 1, 1]), (1, "1", [0, 10, 0, -1, 1])]),
    // 1,000 a second, with a capacity of 2,000.
    (
        "1999 1000 1",
        &[
            (0, "2000", [0, 2000, 0, -1, 2]),
            (0, "1500", [1, 2000, 0, 2, 2]),
            (500 * MS_NS, "1500", [1, 2000, 500, 1, 2]),
            (1000 * MS_NS, "1500", [0, 2000, 0, -1, 2]),
        ],
    ),
    // 100,000 a second.
    ("99 100000 1", &[(0, "100", [0, 100, 0, -1, 1]), (9_999, "1", [1, 100, 0, 1, 1]), (1, "1", [0, 100, 0, -1, 1])]),
    // A third of a second is not a whole number of nanoseconds.
    ("2 3 1", &[(0, "3", [0, 3, 0, -1, 1]), (0, "1", [1, 3, 0, 1, 1]), (333_333_333, "1", [1, 3, 0, 1, 1])]),
    ("2 3 1", &[(0, "3", [0, 3, 0, -1, 1]), (333_333_334, "1", [0, 3, 0, -1, 1])]),
    // 7 in 11 seconds with a capacity of 4.
    ("3 7 11", &[(0, "4", [0, 4, 0, -1, 7]), (0, "2", [1, 4, 0, 4, 7]), (3_142_857_143, "2", [0, 4, 0, -1, 7])]),
    // 1,000,000 a second.
    ("999999 1000000 1", &[(0, "1000000", [0, 1_000_000, 0, -1, 1]), (0, "1", [1, 1_000_000, 0, 1, 1])]),
    ("999999 1000000 1", &[(0, "1000000", [0, 1_000_000, 0, -1, 1]), (1000, "1", [0, 1_000_000, 0, -1, 1])]),
    ("0 1000000 1", &[(0, "1", [0, 1, 0, -1, 1]), (999, "1", [1, 1, 0, 1, 1]), (1, "1", [0, 1, 0, -1, 1])]),
    // A peek takes nothing, and reports what remains.
    ("4 1 10", &[(0, "0", [0, 5, 5, -1, 0]), (0, "2", [0, 5, 3, -1, 20]), (S_NS, "0", [0, 5, 3, -1, 19])]),
    // A quantity above the capacity never passes.
    (
        "4 1 10",
        &[(0, "6", [1, 5, 5, -1, 0]), (0, "9223372036854775807", [1, 5, 5, -1, 0]), (0, "5", [0, 5, 0, -1, 50])],
    ),
    // The maximum: 10^12 at 10^9 a second.
    ("999999999999 1000000000 1", &[(0, "1000000000000", [0, 1_000_000_000_000, 0, -1, 1000])]),
];

#[test]
fn rates_from_one_a_day_to_a_million_a_second_are_exact() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    for (at, (limit, steps)) in CASES.iter().enumerate() {
        for (step, (advance_ns, quantity, expected)) in steps.iter().enumerate() {
            service.clock.advance(Duration::from_nanos(*advance_ns));
            let reply = client.call(&format!("CL.THROTTLE case-{at} {limit} {quantity}"));
            assert_eq!(reply, integers(expected), "step {step} of {limit}");
        }
    }
}

#[test]
fn seconds_round_up() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    client.call("CL.THROTTLE k 1 1 2 2");
    for (advance_ns, retry, reset) in [(1, 2, 4), (S_NS - 2, 2, 4), (1, 1, 3), (1, 1, 3), (S_NS - 2, 1, 3)] {
        service.clock.advance(Duration::from_nanos(advance_ns));
        assert_eq!(client.call("CL.THROTTLE k 1 1 2"), integers(&[1, 2, 0, retry, reset]));
    }
}

#[test]
fn peeks_write_nothing() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    for _ in 0..3 {
        assert_eq!(client.call("CL.THROTTLE untouched 4 1 10 0"), integers(&[0, 5, 5, -1, 0]));
    }
    assert!(crate::metrics::text(&service).contains("\ntollgate_keys 0\n"));
}

#[test]
fn usage_of_a_key_remains_under_another_quota() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    assert_eq!(client.call("CL.THROTTLE k 9 10 60 7"), integers(&[0, 10, 3, -1, 42]));
    assert_eq!(client.call("CL.THROTTLE k 19 20 60 1"), integers(&[0, 20, 12, -1, 24]));
    assert_eq!(client.call("CL.THROTTLE k 2 1 60 0"), integers(&[0, 3, 0, -1, 180]));
}

#[test]
fn keys_of_any_bytes_are_separate() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    let long = vec![b'k'; 4096];
    let keys: [&[u8]; 8] = [b"", b"k", b"K", b"k\r\n", b"\r\n+OK\r\n", b"\xff\xfe\x00", b"k\0", &long];
    for remaining in [1, 0] {
        for key in keys {
            let arguments: [&[u8]; 5] = [b"CL.THROTTLE", key, b"1", b"1", b"60"];
            assert_eq!(client.call_with(&arguments), integers(&[0, 2, remaining, -1, 60 * (2 - remaining)]), "{key:?}");
        }
    }
    let longer = [long, vec![b'k']].concat();
    let arguments: [&[u8]; 5] = [b"CL.THROTTLE", &longer, b"1", b"1", b"60"];
    assert_eq!(client.call_with(&arguments), error("ERR key is longer than 4096 bytes"));
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
}

#[test]
fn keys_are_separate_from_those_of_rules() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    for key in ["203.0.113.9", "client_ip=203.0.113.9", "per-ip"] {
        client.call(&format!("CL.THROTTLE {key} 59 60 60 60"));
    }
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["remaining"], 59);
}

#[test]
fn invalid_arguments_are_errors_and_charge_nothing() {
    let service = TestService::start();
    let mut client = RespClient::open(service.resp);
    const ARITY: &str = "ERR wrong number of arguments for 'cl.throttle' command";
    for (arguments, expected) in [
        ("", ARITY),
        (" k", ARITY),
        (" k 15 30", ARITY),
        (" k 15 30 60 1 1", ARITY),
        (" k x 30 60", "ERR max_burst is not an integer or out of range"),
        (" k 15 1.5 60", "ERR count is not an integer or out of range"),
        (" k 15 30 60s", "ERR period is not an integer or out of range"),
        (" k 15 30 60 +1", "ERR quantity is not an integer or out of range"),
        (" k 15 30 9223372036854775808", "ERR period is not an integer or out of range"),
        (" k -1 30 60", "ERR max_burst must be at least 0"),
        (" k 15 0 60", "ERR count must be at least 1"),
        (" k 15 -30 60", "ERR count must be at least 1"),
        (" k 15 30 0", "ERR period must be at least 1"),
        (" k 15 30 -60", "ERR period must be at least 1"),
        (" k 15 30 60 -1", "ERR quantity must be 0 or more"),
        (" k 1000000000000 30 60", "ERR max_burst must be less than 1000000000000 (10^12)"),
        (" k 9223372036854775807 30 60", "ERR max_burst must be less than 1000000000000 (10^12)"),
        (" k 15 1000000000001 60", "ERR count must be at most 1000000000000 (10^12)"),
        (" k 15 30 9223372036854775807", "ERR period must be at most 36 years"),
        (" k 15 1000000001 1", "ERR a rate must be at most 1000000000 (10^9) per second"),
        (" k 999999999999 1 60", "ERR a burst must refill within 36 years at its rate"),
    ] {
        assert_eq!(client.call(&format!("CL.THROTTLE{arguments}")), error(expected), "{arguments}");
    }
    assert_eq!(client.call("CL.THROTTLE k 15 30 60 0"), integers(&[0, 16, 16, -1, 0]));
}

#[test]
fn concurrent_clients_get_no_more_than_the_limit() {
    let service = TestService::start();
    let allowed_of_20 = || {
        let mut client = RespClient::open(service.resp);
        (0..20).filter(|_| matches!(&client.call("CL.THROTTLE k 59 1 60"), Reply::List(parts) if parts[0] == Reply::Integer(0))).count()
    };
    let allowed: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(allowed_of_20)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(allowed, 60);
}

#[test]
fn full_store_is_an_error_until_keys_expire() {
    let service = TestService::with_policy(
        "version: 1\nstore: { memory: { entries: 1, when_full: refuse } }\nrules:\n  - { name: a, limit: 1/s }\n",
    );
    let mut client = RespClient::open(service.resp);
    let replies: Vec<Reply> = (0..200).map(|key| client.call(&format!("CL.THROTTLE {key} 0 1 60"))).collect();
    assert!(replies.contains(&error("ERR the store is full")));
    service.clock.advance(Duration::from_secs(60));
    assert_eq!(client.call("CL.THROTTLE another 0 1 60"), integers(&[0, 1, 0, -1, 60]));
}
