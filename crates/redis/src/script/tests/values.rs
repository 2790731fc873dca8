//! Sizes of values, expiry of keys, and the server's clock.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, Charged, Queue, Quota, Rate};
use tollgate_store::ChargeMode;
use tollgate_testbed::{Binary, RedisServer};

use super::client::Client;
use crate::call::{Answer, Call, ScriptOp, SlotCharge, Target};
use crate::resp_value::Value;
use crate::script::{SOURCE, encode, stamp};
use crate::store::{RedisLimitError, limit_of};

pub(super) fn target(key: &str, quota: Quota) -> Target {
    Target { key: key.as_bytes().into(), limit: limit_of(quota).unwrap() }
}

pub(super) fn charge(target: &Target, cost: u64) -> SlotCharge {
    SlotCharge { target: target.clone(), cost, mode: ChargeMode::Enforce }
}

pub(super) fn decide(target: &Target, cost: u64) -> Call {
    Call { ops: smallvec::smallvec![ScriptOp::Decide { times: 1, charges: [charge(target, cost)].into() }] }
}

fn passed(answer: &Answer) -> u32 {
    match answer {
        Answer::Decided { passed, .. } => *passed,
        other => panic!("no decision: {other:?}"),
    }
}

const TODAY: u64 = 1_787_500_000_123_456;

/// Returns the length of a key's value after `costs` were charged, `gap` microseconds apart.
fn length(client: &mut Client, quota: Quota, costs: &[u64], gap: u64) -> usize {
    let target = target("key", quota);
    client.command(&[b"DEL", b"key"]);
    for (at, cost) in costs.iter().enumerate() {
        client.call(&decide(&target, *cost), Some(TODAY + at as u64 * gap));
    }
    client.get(b"key").unwrap().len()
}

/// Returns whether the value is stored as a number, which takes 16 bytes less than the shortest string.
fn is_number(client: &mut Client) -> bool {
    let bulk = |text: &[u8]| Value::Bulk(Some(text.to_vec()));
    let encoding = client.command(&[b"OBJECT", b"ENCODING", b"key"]);
    if Binary::default() == Binary::Redis {
        return encoding == bulk(b"int");
    }
    // Valkey stores a number that a script writes as a string of digits.
    let Value::Bulk(Some(digits)) = client.command(&[b"GET", b"key"]) else { return false };
    encoding == bulk(b"embstr") && digits.iter().all(u8::is_ascii_digit) && digits.len() <= 19
}

/// The sizes up to which the server's allocator uses 32, 48 and 64 bytes for a value.
const IN_32: usize = 12;
const IN_48: usize = 28;
const IN_64: usize = 44;

#[test]
fn values_of_usual_quotas_fit_the_smallest_blocks() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for rate in ["100/s burst 200", "5/min", "60/min burst 100", "1000/day", "7/min burst 3", "999/hour", "1/day"] {
        let quota = Quota::token_bucket(rate.parse().unwrap()).unwrap();
        let length = length(&mut client, quota, &[1], 0);
        assert!(length <= IN_48, "bucket {rate}: {length}");
    }
    for rate in ["100/s burst 200", "10/s", "5/min", "60/min burst 100", "100/min burst 50"] {
        let quota = Quota::token_bucket(rate.parse().unwrap()).unwrap();
        let length = length(&mut client, quota, &[1], 0);
        assert!(length <= IN_32, "bucket {rate}: {length}");
    }
    let queue = Queue { size: 10, max_wait: Some(Duration::from_secs(2)) };
    let length_of_queue = length(&mut client, Quota::leaky_queue("7/s".parse().unwrap(), queue).unwrap(), &[1, 1], 0);
    assert!(length_of_queue <= IN_48, "queue: {length_of_queue}");
    for (rate, used) in
        [("100/s", 100), ("200/min", 200), ("5/min", 5), ("10000/hour", 10_000), ("100000/day", 100_000)]
    {
        let rate: Rate = rate.parse().unwrap();
        length(&mut client, Quota::fixed_window(rate).unwrap(), &[used], 0);
        assert!(is_number(&mut client), "fixed window {rate}");
        let gap = rate.period_ns() / 1_000;
        length(&mut client, Quota::sliding_window_counter(rate).unwrap(), &[used, used / 4], gap);
        assert!(is_number(&mut client), "sliding counter {rate}");
    }
    // Windows of unusual lengths, or counts that do not fit the digits of a number.
    for (rate, used) in [("70 per 1500ms", 70), ("1000000000/s", 123_456_789)] {
        let rate: Rate = rate.parse().unwrap();
        let fixed = length(&mut client, Quota::fixed_window(rate).unwrap(), &[used], 0);
        assert!(fixed <= IN_32, "fixed window {rate}: {fixed}");
        let gap = rate.period_ns() / 1_000;
        let counter = length(&mut client, Quota::sliding_window_counter(rate).unwrap(), &[used, used / 4], gap);
        assert!(counter <= IN_48, "sliding counter {rate}: {counter}");
    }
    let log = length(&mut client, Quota::sliding_window_log("5/min".parse().unwrap()).unwrap(), &[1; 5], 11_000_000);
    assert!(log <= IN_64, "log of 5: {log}");
    let log = length(&mut client, Quota::sliding_window_log("100/min".parse().unwrap()).unwrap(), &[1; 100], 590_000);
    assert!(log <= 16 + 300, "log of 100: {log}");
    let permits = Quota::concurrency(3, Some(Duration::from_secs(60))).unwrap();
    let leases = length(&mut client, permits, &[1; 3], 1_000_000);
    assert!(leases <= IN_64, "3 leases: {leases}");
}

#[test]
fn keys_expire_when_their_state_is_as_unused() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let rate = "6/min".parse().unwrap();
    let quotas = [
        ("bucket", Quota::token_bucket(rate).unwrap(), 1_000..=10_000),
        // Its only boundary for decades is in 2035, so that none occurs while the test runs.
        ("window", Quota::fixed_window("6 per 12000 days".parse().unwrap()).unwrap(), 1_000..=1_036_800_000_000),
        ("counter", Quota::sliding_window_counter(rate).unwrap(), 51_000..=120_000),
        ("log", Quota::sliding_window_log(rate).unwrap(), 51_000..=60_000),
        ("leases", Quota::concurrency(3, Some(Duration::from_secs(60))).unwrap(), 51_000..=60_000),
    ];
    for (key, quota, lives_ms) in quotas {
        let target = target(key, quota);
        let reply = client.call(&decide(&target, 1), None);
        assert_eq!(passed(&reply.answers[0]), 1, "{key}");
        let ttl_ms = client.integer(&[b"PTTL", key.as_bytes()]);
        assert!(lives_ms.contains(&ttl_ms), "{key}: {ttl_ms} ms");
    }
}

#[test]
fn expired_key_is_removed_by_the_server() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let target = target("key", Quota::token_bucket("1000/s burst 1".parse().unwrap()).unwrap());
    let reply = client.call(&decide(&target, 1), None);
    assert_eq!(passed(&reply.answers[0]), 1);
    // The server's time passes by itself; a bounded number of requests takes longer than a millisecond or two.
    let is_gone = (0..100_000).any(|_| client.get(b"key").is_none());
    assert!(is_gone);
}

#[test]
fn time_is_that_of_the_server() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let server_time = |client: &mut Client| match client.command(&[b"TIME"]) {
        Value::Array(Some(parts)) => {
            let number = |part: &Value| match part {
                Value::Bulk(Some(digits)) => String::from_utf8_lossy(digits).parse::<u64>().unwrap(),
                other => panic!("no digits: {other:?}"),
            };
            number(&parts[0]) * 1_000_000 + number(&parts[1])
        }
        other => panic!("no time: {other:?}"),
    };
    let before = server_time(&mut client);
    // A call without operations only returns the time, and touches no key.
    let reply = client.call(&Call { ops: smallvec::SmallVec::new() }, None);
    let after = server_time(&mut client);
    assert!((before..=after).contains(&reply.now), "{before} {} {after}", reply.now);
    assert!(reply.answers.is_empty());
    assert_eq!(client.integer(&[b"DBSIZE"]), 0);
}

#[test]
fn refusals_and_peeks_write_nothing() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let rate = "5/day".parse().unwrap();
    let quotas = [
        Quota::token_bucket(rate).unwrap(),
        Quota::fixed_window(rate).unwrap(),
        Quota::sliding_window_counter(rate).unwrap(),
        Quota::sliding_window_log(rate).unwrap(),
        Quota::concurrency(5, Some(Duration::from_secs(60))).unwrap(),
    ];
    for quota in quotas {
        // A log is written again if its time to live has become shorter than its entries need. The server's time passes
        // meanwhile, so on a busy machine a refusal may cause this, but not every time.
        let attempts = if quota.kind() == AlgorithmKind::SlidingWindowLog { 10 } else { 1 };
        let writes_nothing = (0..attempts).any(|attempt| {
            let target = target(&format!("{:?} {attempt}", quota.kind()), quota);
            assert_eq!(passed(&client.call(&decide(&target, 5), Some(TODAY)).answers[0]), 1);
            let mut guard = charge(&target, 1);
            guard.mode = ChargeMode::Guard;
            let calls = [decide(&target, 1), decide(&target, 0), decide(&target, 6)];
            let guarded = Call { ops: smallvec::smallvec![ScriptOp::Decide { times: 1, charges: [guard].into() }] };
            let before = writes(&mut client);
            for call in calls.iter().chain([&guarded]) {
                client.call(call, Some(TODAY));
            }
            writes(&mut client) == before
        });
        assert!(writes_nothing, "{quota:?}");
    }
}

/// Returns the statistics of the commands that write.
pub(super) fn writes(client: &mut Client) -> String {
    let Value::Bulk(Some(info)) = client.command(&[b"INFO", b"commandstats"]) else {
        panic!("no statistics");
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let calls = |line: &&str| line.starts_with("cmdstat_set:") || line.starts_with("cmdstat_del:");
    info.lines().filter(calls).filter_map(|line| line.split(',').next()).collect()
}

#[test]
fn call_reads_and_writes_each_key_once() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let target = target("key", Quota::token_bucket("100/s burst 1000".parse().unwrap()).unwrap());
    let op = ScriptOp::Decide { times: 100, charges: [charge(&target, 1), charge(&target, 2)].into() };
    let reply =
        client.call(&Call { ops: smallvec::smallvec![op.clone(), op, ScriptOp::Force { target, cost: 3 }] }, None);
    assert_eq!((passed(&reply.answers[0]), passed(&reply.answers[1])), (100, 100));
    let Value::Bulk(Some(info)) = client.command(&[b"INFO", b"commandstats"]) else {
        panic!("no statistics");
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    assert!(info.contains("cmdstat_get:calls=1,"), "{info}");
    assert!(info.contains("cmdstat_set:calls=1,"), "{info}");
}

#[test]
fn key_of_another_type_is_an_error_and_nothing_is_written() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    client.command(&[b"LPUSH", b"list", b"entry"]);
    let quota = Quota::token_bucket("5/s".parse().unwrap()).unwrap();
    let (good, bad) = (target("good", quota), target("list", quota));
    let op = ScriptOp::Decide { times: 1, charges: [charge(&good, 1), charge(&bad, 1)].into() };
    let mut bytes = Vec::new();
    client.write_call(&mut bytes, &Call { ops: smallvec::smallvec![op] }, None);
    client.send(&bytes);
    assert!(matches!(client.receive(), Value::Error(message) if message.contains("WRONGTYPE")));
    assert_eq!(client.get(b"good"), None);
}

#[test]
fn expired_call_changes_nothing_and_returns_the_time() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let rate = "5/day".parse().unwrap();
    // Both paths of the script: the fast path of plain buckets, and the general one.
    for quota in [Quota::token_bucket(rate).unwrap(), Quota::fixed_window(rate).unwrap()] {
        let target = target("key", quota);
        let now = client.call(&Call { ops: smallvec::SmallVec::new() }, None).now;
        let mut until = |expiry: u64| {
            let mut encoded = encode(&decide(&target, 1), None);
            stamp(&mut encoded.args[0], expiry);
            client.evalsha(&encoded)
        };
        assert!(matches!(until(now), Value::Integer(later) if later as u64 > now));
        assert!(matches!(until(now + 60_000_000), Value::Array(Some(_))));
        assert_eq!(passed(&client.call(&decide(&target, 4), None).answers[0]), 1, "{quota:?}");
        client.command(&[b"DEL", b"key"]);
    }
}

#[test]
fn permits_without_a_lease_and_too_long_reservations_are_rejected() {
    let endless = Quota::concurrency(3, None).unwrap();
    assert_eq!(limit_of(endless), Err(RedisLimitError::NoLease));
    let fast = Quota::token_bucket("1000000000/s".parse().unwrap()).unwrap();
    let far = fast.with_reservations(Duration::from_secs(60 * 86_400)).unwrap();
    assert_eq!(limit_of(far), Err(RedisLimitError::TooManyTokens));
    assert!(limit_of(fast.with_reservations(Duration::from_secs(40 * 86_400)).unwrap()).is_ok());
}

#[test]
fn receipt_of_an_absent_key_refunds_nothing() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let target = target("key", Quota::sliding_window_log("5/min".parse().unwrap()).unwrap());
    let charged = Charged { at: TODAY, cost: 1, mark: TODAY, part: 0 };
    client.call(&Call { ops: smallvec::smallvec![ScriptOp::Refund { target, charged, amount: 1 }] }, Some(TODAY));
    assert_eq!(client.integer(&[b"DBSIZE"]), 0);
}

#[test]
fn script_size_is_bounded() {
    // It is sent only if a server does not have it; a few packets are cheap.
    assert!(SOURCE.len() < 90_000, "{}", SOURCE.len());
}

#[test]
fn refusal_under_a_longer_window_extends_the_expiry_of_a_log() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let log = |rate: &str| target("log", Quota::sliding_window_log(rate.parse().unwrap()).unwrap());
    let decide = |target: &Target, times| Call {
        ops: smallvec::smallvec![ScriptOp::Decide { times, charges: [charge(target, 1)].into() }],
    };
    client.call(&decide(&log("3/min"), 3), None);
    assert!(client.integer(&[b"PTTL", b"log"]) <= 60_000);
    client.call(&decide(&log("3/h"), 1), None);
    assert!(client.integer(&[b"PTTL", b"log"]) > 3_500_000, "all three count for an hour now");
}
