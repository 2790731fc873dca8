//! What a server keeps of a debt, and what programs see of it that know none.

use std::time::Duration;

use tollgate_core::{Charged, Quota, QuotaError, Rate};
use tollgate_testbed::RedisServer;

use super::client::Client;
use super::values::{decide, target};
use crate::call::{Answer, Call, Line, Target};
use crate::script::{Replayed, replay};

/// The start of an hour.
const TODAY: u64 = 1_787_500_800_000_000;
const H_US: u64 = 3_600_000_000;

type Make = fn(Rate) -> Result<Quota, QuotaError>;
const KINDS: [Make; 4] =
    [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window_counter, Quota::sliding_window_log];

fn ask(client: &mut Client, target: &Target, cost: u64, now: u64) -> Replayed {
    let call = decide(target, cost);
    let reply = client.call(&call, Some(now));
    let (Line::Decide { times, charges }, Answer::Decided { passed, views }) = (&call.lines[0], &reply.answers[0])
    else {
        panic!("no decision: {reply:?}");
    };
    replay(charges, *times, reply.now, *passed, views).unwrap().requests(1).remove(0)
}

/// Charges `estimate` and settles it at `true_cost`; `None` if it did not pass, else what could not be owed.
fn overdraw(client: &mut Client, target: &Target, estimate: u64, true_cost: u64, now: u64) -> Option<u64> {
    let charged: Charged = ask(client, target, estimate, now).charged[0]?;
    let line = Line::Settle { target: target.clone(), charged, true_cost };
    let reply = client.call(&Call { lines: smallvec::smallvec![line] }, Some(now));
    let Answer::Settled { overrun } = reply.answers[0] else { panic!("not settled: {reply:?}") };
    Some(overrun)
}

#[test]
fn costs_settled_above_their_estimate_do_not_leak_on_a_server() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, make) in KINDS.into_iter().enumerate() {
        let target = target(&format!("key {at}"), make("1000/h".parse().unwrap()).unwrap());
        let passed =
            (0..60_u64).filter_map(|minute| overdraw(&mut client, &target, 100, 5_000, TODAY + minute * 60_000_000));
        // 900 fit, and 1,000 may be owed.
        assert_eq!(passed.collect::<Vec<_>>(), [3_000], "{:?}", target.limit.quota());
    }
}

#[test]
fn refusals_of_an_indebted_key_say_when_it_has_paid() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, make) in KINDS.into_iter().enumerate() {
        let target = target(&format!("key {at}"), make("10/h".parse().unwrap()).unwrap());
        assert_eq!(overdraw(&mut client, &target, 5, 25, TODAY), Some(5));
        for cost in [1, 4, 10] {
            let told = ask(&mut client, &target, cost, TODAY).decisions[0].retry_after().unwrap() / 1_000;
            assert!(told >= H_US, "{told}");
            assert!(!ask(&mut client, &target, cost, TODAY + told - 1).passed);
        }
        let told = ask(&mut client, &target, 10, TODAY).decisions[0].retry_after().unwrap() / 1_000;
        assert!(ask(&mut client, &target, 10, TODAY + told).passed, "{:?}", target.limit.quota());
    }
}

#[test]
fn keys_live_until_their_debt_is_paid() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, make) in KINDS.into_iter().enumerate() {
        let key = format!("key {at}");
        let target = target(&key, make("10/h".parse().unwrap()).unwrap().with_max_debt(20).unwrap());
        let reply = client.call(&decide(&target, 5), None);
        let charged = Charged { at: reply.now, cost: 5, ..Charged::default() };
        client.call(&Call { lines: smallvec::smallvec![Line::Settle { target, charged, true_cost: 30 }] }, None);
        let lives = Duration::from_millis(u64::try_from(client.integer(&[b"PTTL", key.as_bytes()])).unwrap());
        assert!(lives > Duration::from_secs(2 * 3_600), "{lives:?}");
        assert!(lives <= Duration::from_secs(4 * 3_600), "{lives:?}");
    }
}

/// A number in groups of seven bits, as every version has read it.
fn varint(bytes: &mut &[u8]) -> u64 {
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
fn a_key_that_owes_is_fully_used_to_programs_that_know_no_debt() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    for (at, (make, period)) in KINDS[1..].iter().zip(["h"; 3]).chain(KINDS[1..].iter().zip(["7001ms"; 3])).enumerate()
    {
        let key = format!("key {at}");
        let target = target(&key, make(format!("10/{period}").parse().unwrap()).unwrap());
        for (now, cost) in [(TODAY, 2), (TODAY + 3, 3)] {
            assert!(ask(&mut client, &target, cost, now).passed);
        }
        assert_eq!(overdraw(&mut client, &target, 5, 9, TODAY + 5), Some(0));
        let value = client.get(key.as_bytes()).unwrap();
        let mut rest = &value[1..];
        match value[0] {
            tag @ (3 | 4) => {
                let _window_ms = varint(&mut rest);
                let _number = varint(&mut rest);
                if tag == 4 {
                    assert_eq!(varint(&mut rest), 0, "nothing in the window before");
                }
                assert_eq!(varint(&mut rest), 10);
                // Behind what they read.
                assert_eq!((varint(&mut rest), rest.len()), (4, 0));
            }
            5 => {
                rest = &rest[7..];
                assert_eq!((varint(&mut rest), varint(&mut rest)), (5, 10), "the span, and what is used");
                // They append behind the last entry, so nothing else may stand there.
                let mut entries = Vec::new();
                while !rest.is_empty() {
                    let head = varint(&mut rest);
                    entries.push((head >> 1, if head & 1 == 1 { varint(&mut rest) } else { 1 }));
                }
                assert_eq!(entries, [(4, 2), (3, 3), (2, 5)], "the first gap is void");
            }
            tag => panic!("a value that begins with {tag}"),
        }
    }
}

#[test]
fn a_log_on_a_server_pays_a_large_debt_without_going_through_all_its_windows() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let quota = Quota::sliding_window_log("1 per 1ms".parse().unwrap()).unwrap().with_max_debt(1_000_000_000).unwrap();
    let target = target("key", quota);
    assert_eq!(overdraw(&mut client, &target, 1, 1_000_000_001, TODAY), Some(0));
    let later = TODAY + 400_000_000 * 1_000;
    let told = ask(&mut client, &target, 1, later).decisions[0];
    assert_eq!(told.retry_after(), Some(600_000_001 * 1_000_000));
    assert!(!ask(&mut client, &target, 1, later + 600_000_001 * 1_000 - 1).passed);
    assert!(ask(&mut client, &target, 1, later + 600_000_001 * 1_000).passed);
}
