//! The same trace through the core in Rust and through the script: the same bits.

use tollgate_core::{Charged, Queue, Quota};
use tollgate_testbed::RedisServer;

use super::client::Client;
use super::model::{Expected, Model};
use super::trace::{Step, Trace};
use super::values::{charge, target};
use crate::call::{Answer, Call, Line};
use crate::script::{decode, replay};

const STEPS_PER_TRACE: usize = 60;
const TRACES_PER_BATCH: u64 = 20;

/// Each step is one call of one to three lines.
fn compare(seeds: std::ops::Range<u64>) {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let mut first = seeds.start;
    while first < seeds.end {
        let last = (first + TRACES_PER_BATCH).min(seeds.end);
        let steps: Vec<(u64, Step)> = (first..last)
            .flat_map(|seed| {
                let mut trace = Trace::new(seed);
                (0..STEPS_PER_TRACE).map(move |_| (seed, trace.step()))
            })
            .collect();
        let mut bytes = Vec::new();
        for (_, step) in &steps {
            client.write_call(&mut bytes, &step.call, Some(step.now));
        }
        client.send(&bytes);
        for (seed, step) in &steps {
            let value = client.receive();
            let context = || format!("seed {seed} at {}: {:?}", step.now, step.call);
            let reply =
                decode(&step.call, value.clone()).unwrap_or_else(|error| panic!("{error}: {value:?} {}", context()));
            assert_eq!(reply.now, step.now, "{}", context());
            for ((line, answer), expected) in step.call.lines.iter().zip(&reply.answers).zip(&step.expected) {
                let found = found(line, answer, step.now).unwrap_or_else(|| panic!("{answer:?} {}", context()));
                assert_eq!(&found, expected, "{}\nanswer {answer:?}", context());
            }
        }
        client.command(&[b"FLUSHALL"]);
        first = last;
    }
}

fn found(line: &Line, answer: &Answer, now: u64) -> Option<Expected> {
    Some(match (line, answer) {
        (Line::Decide { times, charges }, Answer::Decided { passed, views }) => {
            Expected::Requests(replay(charges, *times, now, *passed, views).ok()?.requests(*times))
        }
        (Line::Force { .. }, Answer::Forced { unpaid }) => Expected::Unpaid(*unpaid),
        (Line::GiveBack { .. }, Answer::GivenBack)
        | (Line::Credit { .. }, Answer::Credited)
        | (Line::Reset { .. }, Answer::Reset) => Expected::Nothing,
        (Line::Settle { .. }, Answer::Settled { overrun }) => Expected::Overrun(*overrun),
        (Line::Renew { .. }, Answer::Renewed { held }) => Expected::Held(*held),
        _ => return None,
    })
}

/// One line after the other at its time, through both. Returns what the last came to.
fn agree(lines: Vec<(u64, Line)>) -> Expected {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let mut model = Model::default();
    let mut last = Expected::Nothing;
    for (now, line) in lines {
        let call = Call { lines: smallvec::smallvec![line] };
        last = model.line(&call.lines[0], now);
        model.end_call();
        let reply = client.call(&call, Some(now));
        assert_eq!(found(&call.lines[0], &reply.answers[0], now).unwrap(), last, "{call:?} at {now}");
    }
    last
}

const TODAY: u64 = 1_787_500_000_123_456;

#[test]
fn tokens_are_counted_exactly_where_a_double_comes_out_too_large() {
    // 36 years for 197 tokens: 76 tokens and all but a part of a microsecond of the next
    // are 77 to a division of doubles.
    let target = target("key", Quota::token_bucket("197 per 13140 days".parse().unwrap()).unwrap());
    let nearly_a_token = 13_140 * 86_400_000_000 / 197;
    let spent = Line::Decide { times: 1, charges: [charge(&target, 197 - 76)].into() };
    let lines = vec![(TODAY, spent), (TODAY + nearly_a_token, Line::Force { target, cost: 100 })];
    assert_eq!(agree(lines), Expected::Unpaid(24));
}

#[test]
fn a_receipt_never_takes_the_last_place_of_another_quota() {
    let queue = |rate: &str| Quota::leaky_queue(rate.parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
    let (old, new) = (target("key", queue("1/s")), target("key", queue("2/s")));
    let once = |target| Line::Decide { times: 3, charges: [charge(target, 1)].into() };
    // By chance what the old one noted is where the new one's line ends now.
    let charged = Charged { at: TODAY, cost: 1, mark: TODAY + 3_000_000, part: 0 };
    let lines = vec![
        (TODAY, once(&old)),
        (TODAY, once(&new)),
        (TODAY, Line::GiveBack { target: old, charged, amount: 1 }),
        (TODAY, Line::Decide { times: 1, charges: [charge(&new, 1)].into() }),
    ];
    let Expected::Requests(answers) = agree(lines) else {
        panic!("a decision was asked for");
    };
    assert_eq!(answers[0].decisions[0].delay(), 3_000_000_000);
}

#[test]
fn a_place_is_found_again_where_fractions_add_up_to_a_whole() {
    let queue = Quota::leaky_queue("3/s".parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
    let target = target("key", queue);
    let places = Line::Decide { times: 3, charges: [charge(&target, 1)].into() };
    // Three tokens of a third of a second are a second.
    let charged = Charged { at: TODAY + 666_666, cost: 1, mark: TODAY + 1_000_000, part: 0 };
    let lines = vec![
        (TODAY, places),
        (TODAY, Line::GiveBack { target: target.clone(), charged, amount: 1 }),
        (TODAY, Line::Decide { times: 1, charges: [charge(&target, 1)].into() }),
    ];
    let Expected::Requests(answers) = agree(lines) else {
        panic!("a decision was asked for");
    };
    assert_eq!(answers[0].decisions[0].delay(), 666_667_000);
}

#[test]
fn a_log_keeps_nothing_of_a_request_that_failed_after_others_had_passed() {
    let log = target("log", Quota::sliding_window_log("3/min".parse().unwrap()).unwrap());
    let bucket = target("bucket", Quota::token_bucket("3/day".parse().unwrap()).unwrap());
    // The second request finds room for one token, twice.
    let both = Line::Decide { times: 2, charges: [charge(&log, 1), charge(&bucket, 1), charge(&bucket, 1)].into() };
    let one = Line::Decide { times: 1, charges: [charge(&log, 1)].into() };
    let two = Line::Decide { times: 1, charges: [charge(&log, 2)].into() };
    let lines =
        vec![(TODAY, both), (TODAY + 10_000_000, one), (TODAY + 20_000_000, two.clone()), (TODAY + 65_000_000, two)];
    agree(lines);
}

#[test]
fn one_call_may_read_a_key_under_two_families() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let rate = || "10/h".parse().unwrap();
    let (window, log) = (
        target("key", Quota::fixed_window(rate()).unwrap()),
        target("key", Quota::sliding_window_log(rate()).unwrap()),
    );
    let decide = |target, cost| Line::Decide { times: 1, charges: [charge(target, cost)].into() };
    client.call(&Call { lines: smallvec::smallvec![decide(&window, 3)] }, Some(TODAY));
    let both = Call { lines: smallvec::smallvec![decide(&window, 0), decide(&log, 1), decide(&window, 1)] };
    let reply = client.call(&both, Some(TODAY));
    for (at, remaining) in [7, 6, 5].into_iter().enumerate() {
        let answer = found(&both.lines[at], &reply.answers[at], TODAY);
        let Some(Expected::Requests(answers)) = answer else { panic!("a decision was asked for") };
        assert_eq!(answers[0].decisions[0].remaining, remaining);
    }
}

#[test]
fn the_script_gives_the_answers_of_the_pure_functions() {
    compare(0..1_700);
}

/// For when something in it has changed: a million calls, other ones for every seed in the environment.
#[test]
#[ignore = "takes minutes"]
fn the_script_gives_the_answers_of_the_pure_functions_for_long() {
    let first = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_000_000);
    compare(first..first + 20_000);
}
