//! Debts on a server, and how versions without debts read them.

use std::time::Duration;

use tollgate_core::{Charged, Quota, QuotaError, Rate};
use tollgate_testbed::RedisServer;

use super::client::Client;
use super::values::{decide, target};
use crate::call::{Answer, Call, ScriptOp, Target};
use crate::script::{Replayed, replay};

/// The start of an hour.
const TODAY: u64 = 1_787_500_800_000_000;
const H_US: u64 = 3_600_000_000;

type Make = fn(Rate) -> Result<Quota, QuotaError>;
const KINDS: [Make; 4] =
    [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window_counter, Quota::sliding_window_log];

fn check(client: &mut Client, target: &Target, cost: u64, now: u64) -> Replayed {
    let call = decide(target, cost);
    let reply = client.call(&call, Some(now));
    let (ScriptOp::Decide { times, charges }, Answer::Decided { passed, states_before }) =
        (&call.ops[0], &reply.answers[0])
    else {
        panic!("no decision: {reply:?}");
    };
    replay(charges, *times, reply.now, *passed, states_before).unwrap().requests(1).remove(0)
}

/// Charges `estimate` and settles it at `true_cost`. Returns `None` if it was refused, else the part that exceeds the
/// maximum debt.
fn overdraw(client: &mut Client, target: &Target, estimate: u64, true_cost: u64, now: u64) -> Option<u64> {
    let charged: Charged = check(client, target, estimate, now).charged[0]?;
    let op = ScriptOp::Settle { target: target.clone(), charged, true_cost };
    let reply = client.call(&Call { ops: smallvec::smallvec![op] }, Some(now));
    let Answer::Settled { overrun } = reply.answers[0] else { panic!("not settled: {reply:?}") };
    Some(overrun)
}

#[test]
fn settled_costs_above_the_estimate_are_charged_up_to_the_maximum_debt() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, make) in KINDS.into_iter().enumerate() {
        let target = target(&format!("key {at}"), make("1000/h".parse().unwrap()).unwrap());
        let passed =
            (0..60_u64).filter_map(|minute| overdraw(&mut client, &target, 100, 5_000, TODAY + minute * 60_000_000));
        // 900 fit, and 1,000 become debt.
        assert_eq!(passed.collect::<Vec<_>>(), [3_000], "{:?}", target.limit.quota());
    }
}

#[test]
fn retry_after_of_an_indebted_key_includes_its_debt() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, make) in KINDS.into_iter().enumerate() {
        let target = target(&format!("key {at}"), make("10/h".parse().unwrap()).unwrap());
        assert_eq!(overdraw(&mut client, &target, 5, 25, TODAY), Some(5));
        for cost in [1, 4, 10] {
            let wait = check(&mut client, &target, cost, TODAY).decisions[0].retry_after().unwrap() / 1_000;
            assert!(wait >= H_US, "{wait}");
            assert!(!check(&mut client, &target, cost, TODAY + wait - 1).passed);
        }
        let wait = check(&mut client, &target, 10, TODAY).decisions[0].retry_after().unwrap() / 1_000;
        assert!(check(&mut client, &target, 10, TODAY + wait).passed, "{:?}", target.limit.quota());
    }
}

#[test]
fn keys_expire_when_their_debt_is_paid() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, make) in KINDS.into_iter().enumerate() {
        let key = format!("key {at}");
        let target = target(&key, make("10/h".parse().unwrap()).unwrap().with_max_debt(20).unwrap());
        let reply = client.call(&decide(&target, 5), None);
        let charged = Charged { at: reply.now, cost: 5, ..Charged::default() };
        client.call(&Call { ops: smallvec::smallvec![ScriptOp::Settle { target, charged, true_cost: 30 }] }, None);
        let lives = Duration::from_millis(u64::try_from(client.integer(&[b"PTTL", key.as_bytes()])).unwrap());
        assert!(lives > Duration::from_secs(2 * 3_600), "{lives:?}");
        assert!(lives <= Duration::from_secs(4 * 3_600), "{lives:?}");
    }
}

/// Reads a number in groups of seven bits, as every version does.
pub(super) fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (group, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(group & 0x7f) << shift;
        shift += 7;
        if group & 0x80 == 0 {
            return value;
        }
    }
}

#[test]
fn versions_without_debts_read_an_indebted_key_as_fully_used() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, (make, period)) in KINDS[1..].iter().zip(["h"; 3]).chain(KINDS[1..].iter().zip(["7001ms"; 3])).enumerate()
    {
        let key = format!("key {at}");
        let target = target(&key, make(format!("10/{period}").parse().unwrap()).unwrap());
        for (now, cost) in [(TODAY, 2), (TODAY + 3, 3)] {
            assert!(check(&mut client, &target, cost, now).passed);
        }
        assert_eq!(overdraw(&mut client, &target, 5, 9, TODAY + 5), Some(0));
        let value = client.get(key.as_bytes()).unwrap();
        let mut rest = &value[1..];
        match value[0] {
            tag @ (3 | 4) => {
                let _window_ms = varint(&mut rest);
                let _number = varint(&mut rest);
                if tag == 4 {
                    assert_eq!(varint(&mut rest), 0, "nothing in the previous window");
                }
                assert_eq!(varint(&mut rest), 10);
                // After the fields that older versions read.
                assert_eq!((varint(&mut rest), rest.len()), (4, 0));
            }
            5 => {
                rest = &rest[7..];
                assert_eq!((varint(&mut rest), varint(&mut rest)), (5, 10), "the span, and the usage");
                // Older versions append after the last entry, so nothing else may follow it.
                let mut entries = Vec::new();
                while !rest.is_empty() {
                    let head = varint(&mut rest);
                    entries.push((head >> 1, if head & 1 == 1 { varint(&mut rest) } else { 1 }));
                }
                assert_eq!(entries, [(4, 2), (3, 3), (2, 5)], "the first gap is the debt");
            }
            tag => panic!("a value that begins with {tag}"),
        }
    }
}

#[test]
fn log_pays_a_large_debt_without_iterating_over_all_windows() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let quota = Quota::sliding_window_log("1 per 1ms".parse().unwrap()).unwrap().with_max_debt(1_000_000_000).unwrap();
    let target = target("key", quota);
    assert_eq!(overdraw(&mut client, &target, 1, 1_000_000_001, TODAY), Some(0));
    let later = TODAY + 400_000_000 * 1_000;
    let wait = check(&mut client, &target, 1, later).decisions[0];
    assert_eq!(wait.retry_after(), Some(600_000_001 * 1_000_000));
    assert!(!check(&mut client, &target, 1, later + 600_000_001 * 1_000 - 1).passed);
    assert!(check(&mut client, &target, 1, later + 600_000_001 * 1_000).passed);
}
