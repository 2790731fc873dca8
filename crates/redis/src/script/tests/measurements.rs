//! Measurements beside common layouts: memory per key, and calls per second. Run in release, alone.

use std::time::{Duration, Instant};

use tollgate_core::Quota;
use tollgate_testbed::RedisServer;

use super::client::{Client, write_command};
use super::random::TraceRng;
use super::values::{charge, decide, target};
use crate::call::{Call, LeaseRequest, ScriptOp, Target};
use crate::resp_value::Value;

/// Returns the number of clients from the environment, or a million.
fn clients() -> u64 {
    std::env::var("TOLLGATE_CLIENTS").ok().and_then(|clients| clients.parse().ok()).unwrap_or(1_000_000)
}

const BATCH: u64 = 10_000;
const TODAY: u64 = 1_787_500_000_123_456;

fn used_memory(client: &mut Client) -> u64 {
    let Value::Bulk(Some(info)) = client.command(&[b"INFO", b"memory"]) else {
        panic!("no figures");
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let figure = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    figure.and_then(|figure| figure.parse().ok()).unwrap()
}

fn key_of(client: u64) -> String {
    format!("tollgate:per-user:{{user-{client:07}}}")
}

/// Returns the average memory of a key by `MEMORY USAGE`, and including the table of keys by `used_memory_dataset`.
fn measure(clients: u64, write: impl Fn(&Client, &mut Vec<u8>, u64) -> u64) -> (u64, u64) {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let before = used_memory(&mut client);
    let batch = BATCH.min(clients);
    for first in (0..clients).step_by(batch as usize) {
        let mut bytes = Vec::new();
        let replies: u64 = (first..first + batch).map(|number| write(&client, &mut bytes, number)).sum();
        client.send(&bytes);
        for _ in 0..replies {
            let reply = client.receive();
            assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        }
    }
    assert_eq!(client.integer(&[b"DBSIZE"]), clients as i64);
    let total = used_memory(&mut client) - before;
    let mut random = TraceRng::new(1);
    let sample = 1_000;
    let usage: i64 =
        (0..sample).map(|_| client.integer(&[b"MEMORY", b"USAGE", key_of(random.below(clients)).as_bytes()])).sum();
    (usage as u64 / sample, total / clients)
}

fn ours(quota: Quota, clients: u64, entries: u64, gap: u64) -> (u64, u64) {
    measure(clients, |client, bytes, number| {
        let target = target(&key_of(number), quota);
        let mut now = TODAY + number * 7;
        for _ in 0..entries {
            client.write_call(bytes, &decide(&target, 1), Some(now));
            now += gap;
        }
        entries
    })
}

fn lease(target: &Target, wanted: u64) -> Call {
    let (target, settlements) = (target.clone(), smallvec::SmallVec::new());
    let request = LeaseRequest { target, wanted, max_outstanding: 1_000_000, generation_ms: 1_000, settlements };
    Call { ops: smallvec::smallvec![ScriptOp::Lease(Box::new(request))] }
}

fn report(what: &str, factor: (u64, u64), ours: (u64, u64), theirs: (u64, u64)) {
    let ratio = |theirs: u64, ours: u64| format!("{}.{:02}", theirs / ours, theirs * 100 / ours % 100);
    eprintln!(
        "{what:32} ours {:5} bytes a key, usual {:5}: {} times (with the table of keys {} and {}: {} times)",
        ours.0,
        theirs.0,
        ratio(theirs.0, ours.0),
        ours.1,
        theirs.1,
        ratio(theirs.1, ours.1)
    );
    assert!(theirs.0 * factor.1 >= ours.0 * factor.0, "{what}");
}

/// Returns the memory of a key of this length without its value.
fn bare_key() -> u64 {
    let (with_a_number, _) = measure(1_000, |_, bytes, number| {
        write_command(bytes, &[b"SET", key_of(number).as_bytes(), b"12345678", b"PX", b"100000000"]);
        1
    });
    with_a_number - 16
}

/// Sets a time to live, which every common layout has.
fn expire(bytes: &mut Vec<u8>, key: &str) {
    write_command(bytes, &[b"PEXPIRE", key.as_bytes(), b"100000000"]);
}

#[test]
#[ignore = "a million keys ten times: in release"]
fn memory_of_a_million_clients_beside_the_usual_layouts() {
    let bucket = ours(Quota::token_bucket("100/min burst 50".parse().unwrap()).unwrap(), clients(), 1, 0);
    let hash = measure(clients(), |_, bytes, number| {
        let key = key_of(number);
        let time = format!("{}.{:06}", 1_787_500_000 + number / 1_000, number % 1_000_000);
        write_command(bytes, &[b"HSET", key.as_bytes(), b"tokens", b"49", b"last_refill", time.as_bytes()]);
        expire(bytes, &key);
        2
    });
    report("bucket: hash", (13, 10), bucket, hash);

    let counter_quota = Quota::sliding_window_counter("100/min".parse().unwrap()).unwrap();
    let counter = ours(counter_quota, clients(), 2, 60_000_000);
    let hash = measure(clients(), |_, bytes, number| {
        let key = key_of(number);
        let window = format!("{}", 1_787_500_000 / 60);
        let fields: [&[u8]; 8] =
            [b"HSET", key.as_bytes(), b"window", window.as_bytes(), b"current", b"17", b"previous", b"80"];
        write_command(bytes, &fields);
        expire(bytes, &key);
        2
    });
    report("sliding counter: hash", (15, 10), counter, hash);
    let two_counters = measure(2 * clients(), |_, bytes, number| {
        let key = key_of(number);
        write_command(bytes, &[b"INCR", key.as_bytes()]);
        expire(bytes, &key);
        2
    });
    report("sliding counter: two counters", (15, 10), counter, (2 * two_counters.0, 2 * two_counters.1));

    let fixed = ours(Quota::fixed_window("100/min".parse().unwrap()).unwrap(), clients(), 1, 0);
    let incremented = measure(clients(), |_, bytes, number| {
        let key = key_of(number);
        write_command(bytes, &[b"INCR", key.as_bytes()]);
        expire(bytes, &key);
        2
    });
    // The common layout has the number of the window in its key; ours does not need it.
    report("fixed window: INCR, same key", (1, 1), fixed, incremented);

    let quota = Quota::token_bucket("100/min burst 50".parse().unwrap()).unwrap();
    let leased = measure(clients(), |client, bytes, number| {
        let target = target(&key_of(number), quota);
        let mut now = TODAY + number * 7;
        client.write_call(bytes, &decide(&target, 1), Some(now));
        for _ in 0..2 {
            client.write_call(bytes, &lease(&target, 10), Some(now));
            now += 1_000_000;
        }
        3
    });
    eprintln!("bucket with tokens of two leases: {} bytes a key, without {}", leased.0, bucket.0);
}

#[test]
#[ignore = "hundreds of thousands of sorted sets: in release"]
fn memory_of_logs_beside_sorted_sets() {
    for (entries, clients, factor) in [(5_u64, clients() / 5, (3, 1)), (100, clients() / 50, (8, 1))] {
        let gap = 59_000_000 / entries;
        let rate = format!("{entries}/min").parse().unwrap();
        let log = ours(Quota::sliding_window_log(rate).unwrap(), clients, entries, gap);
        let sorted_set = measure(clients, |_, bytes, number| {
            let key = key_of(number);
            let mut now = TODAY + number * 7;
            for entry in 0..entries {
                let score = now.to_string();
                // A member must be distinct: the time and a number of the request.
                let member = format!("{now}:{:08x}", number.wrapping_mul(0x9e37_79b9).wrapping_add(entry) as u32);
                write_command(bytes, &[b"ZADD", key.as_bytes(), score.as_bytes(), member.as_bytes()]);
                now += gap;
            }
            expire(bytes, &key);
            entries + 1
        });
        report(&format!("log of {entries}: sorted set"), (2, 1), log, sorted_set);
        let key = bare_key();
        let without_key = |(usage, total): (u64, u64)| (usage - key, total);
        report(&format!("log of {entries}, without its key"), factor, without_key(log), without_key(sorted_set));
    }
}

/// Returns calls per second: pipelined in batches of 64 with one batch always in flight, so that the server and not the
/// client is measured.
fn calls_per_second(client: &mut Client, calls: &[Call]) -> u64 {
    const WAVES: usize = 300;
    let mut waves: Vec<Vec<u8>> = Vec::new();
    for wave in calls.chunks(64) {
        let mut bytes = Vec::new();
        wave.iter().for_each(|call| client.write_call(&mut bytes, call, None));
        waves.push(bytes);
    }
    let mut best = Duration::MAX;
    let mut done = 0;
    for _ in 0..5 {
        let started = Instant::now();
        done = 0;
        // One batch is always in flight while the replies of another are read.
        client.send(&waves[0]);
        for wave in 1..=WAVES {
            if wave < WAVES {
                client.send(&waves[wave % waves.len()]);
            }
            for _ in 0..calls.len().min(64) {
                let reply = client.receive();
                assert!(matches!(reply, Value::Array(_)), "{reply:?}");
                done += 1;
            }
        }
        best = best.min(started.elapsed());
    }
    u64::try_from(done * 1_000_000 / best.as_micros()).unwrap()
}

#[test]
#[ignore = "a benchmark: in release"]
fn calls_in_a_second() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let quota = Quota::token_bucket("1000000/s burst 1000000".parse().unwrap()).unwrap();
    let limit = target("", quota).limit;
    let keyed = |rule: &str, number: usize| {
        let mut target = target(&format!("tollgate:{rule}:{{user-{number:04}}}"), quota);
        target.limit = limit.clone();
        charge(&target, 1)
    };
    let op = |times: u32, rules: &[&str], number: usize| {
        let charges = rules.iter().map(|rule| keyed(rule, number)).collect();
        Call { ops: smallvec::smallvec![ScriptOp::Decide { times, charges }] }
    };
    let calls = |times: u32, rules: &[&str]| (0..1024).map(|number| op(times, rules, number)).collect::<Vec<_>>();
    let empty: Vec<Call> = (0..64).map(|_| Call { ops: smallvec::SmallVec::new() }).collect();
    let empty_calls = calls_per_second(&mut client, &empty);
    let one = calls_per_second(&mut client, &calls(1, &["a"]));
    let three = calls_per_second(&mut client, &calls(1, &["a", "b", "c"]));
    let hundred = calls_per_second(&mut client, &calls(100, &["a"]));
    eprintln!("only the time            {empty_calls:8} calls/s");
    eprintln!("one bucket               {one:8} calls/s");
    eprintln!("three buckets            {three:8} calls/s, {} % of the time of one", one * 100 / three);
    eprintln!(
        "one bucket, 100 requests {hundred:8} calls/s, {} decisions/s, {} times one each",
        hundred * 100,
        hundred * 100 / one
    );
    let others = [
        ("fixed window", Quota::fixed_window("1000000/s".parse().unwrap()).unwrap()),
        ("sliding counter", Quota::sliding_window_counter("1000000/s".parse().unwrap()).unwrap()),
        ("log of 100, full", Quota::sliding_window_log("100/day".parse().unwrap()).unwrap()),
        ("permits", Quota::concurrency(10, Some(Duration::from_millis(1))).unwrap()),
        ("bucket with a fraction", Quota::token_bucket("700001/s burst 1000000".parse().unwrap()).unwrap()),
    ];
    for (name, quota) in others {
        let calls: Vec<Call> = (0..1024).map(|number| decide(&target(&format!("{name} {number}"), quota), 1)).collect();
        let rate = calls_per_second(&mut client, &calls);
        eprintln!("{name:24} {rate:8} calls/s");
    }
    let mut shadow = keyed("a", 1);
    shadow.mode = tollgate_store::ChargeMode::Shadow;
    let mixed: Vec<Call> = (0..1024)
        .map(|number| Call {
            ops: smallvec::smallvec![ScriptOp::Decide {
                times: 1,
                charges: [keyed("a", number), shadow.clone()].into()
            }],
        })
        .collect();
    eprintln!("one bucket and a shadow  {:8} calls/s", calls_per_second(&mut client, &mixed));
    for (name, quota) in [("bucket", quota), others[1]] {
        let targets: Vec<_> = (0..1024).map(|number| target(&format!("leased {name} {number}"), quota)).collect();
        let leases: Vec<Call> = targets.iter().map(|target| lease(target, 1)).collect();
        eprintln!("lease, {name:17} {:8} calls/s", calls_per_second(&mut client, &leases));
        let exact: Vec<Call> = targets.iter().map(|target| decide(target, 1)).collect();
        eprintln!("leased, {name:16} {:8} calls/s", calls_per_second(&mut client, &exact));
    }
}
