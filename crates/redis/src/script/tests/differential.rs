//! Compares the core in Rust and the script over the same traces, bit by bit.

use tollgate_core::{Charged, Queue, Quota};
use tollgate_store::ChargeMode;
use tollgate_testbed::RedisServer;

use super::client::Client;
use super::model::{Expected, Model};
use super::trace::{Step, Trace};
use super::values::{charge, target};
use crate::call::{Answer, Call, ScriptOp, SlotCharge};
use crate::script::{decode, replay};

const STEPS_PER_TRACE: usize = 60;
const TRACES_PER_BATCH: u64 = 20;

/// Compares the traces of some seeds. Each step is one call of one to three operations.
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
            for ((op, answer), expected) in step.call.ops.iter().zip(&reply.answers).zip(&step.expected) {
                let actual = actual(op, answer, step.now).unwrap_or_else(|| panic!("{answer:?} {}", context()));
                assert_eq!(&actual, expected, "{}\nanswer {answer:?}", context());
            }
        }
        client.command(&[b"FLUSHALL"]);
        first = last;
    }
}

fn actual(op: &ScriptOp, answer: &Answer, now: u64) -> Option<Expected> {
    Some(match (op, answer) {
        (ScriptOp::Decide { times, charges }, Answer::Decided { passed, states_before }) => {
            Expected::Requests(replay(charges, *times, now, *passed, states_before).ok()?.requests(*times))
        }
        (ScriptOp::Force { .. }, Answer::Forced { unpaid }) => Expected::Unpaid(*unpaid),
        (ScriptOp::Refund { .. }, Answer::Refunded)
        | (ScriptOp::Credit { .. }, Answer::Credited)
        | (ScriptOp::Reset { .. }, Answer::Reset) => Expected::Nothing,
        (ScriptOp::Settle { .. }, Answer::Settled { overrun }) => Expected::Overrun(*overrun),
        (ScriptOp::Renew { .. }, Answer::Renewed { held }) => Expected::Held(*held),
        (ScriptOp::Lease(request), Answer::Leased(answer)) => {
            let charge = SlotCharge { target: request.target.clone(), cost: 1, mode: ChargeMode::Peek };
            let replayed = replay(&[charge], 1, now, 1, std::slice::from_ref(&answer.state)).ok()?;
            Expected::Leased {
                granted: answer.granted,
                generation: answer.generation,
                expires_in_us: answer.expires_in_us,
                outstanding: answer.outstanding,
                decision: *replayed.decisions(0).first()?,
            }
        }
        _ => return None,
    })
}

/// Applies operations at their times to the model and the script, and compares the results. Returns the last one.
fn agree(ops: Vec<(u64, ScriptOp)>) -> Expected {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let mut model = Model::default();
    let mut last = Expected::Nothing;
    for (now, op) in ops {
        let call = Call { ops: smallvec::smallvec![op] };
        last = model.op(&call.ops[0], now);
        model.end_call();
        let reply = client.call(&call, Some(now));
        assert_eq!(actual(&call.ops[0], &reply.answers[0], now).unwrap(), last, "{call:?} at {now}");
    }
    last
}

const TODAY: u64 = 1_787_500_000_123_456;

#[test]
fn tokens_are_counted_exactly_where_division_of_doubles_rounds_up() {
    // 36 years for 197 tokens: 76 tokens and all but a part of a microsecond of the next
    // are 77 to a division of doubles.
    let target = target("key", Quota::token_bucket("197 per 13140 days".parse().unwrap()).unwrap());
    let nearly_a_token = 13_140 * 86_400_000_000 / 197;
    let spent = ScriptOp::Decide { times: 1, charges: [charge(&target, 197 - 76)].into() };
    let ops = vec![(TODAY, spent), (TODAY + nearly_a_token, ScriptOp::Force { target, cost: 100 })];
    assert_eq!(agree(ops), Expected::Unpaid(24));
}

#[test]
fn receipt_of_another_quota_never_refunds_the_last_position() {
    let queue = |rate: &str| Quota::leaky_queue(rate.parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
    let (old, new) = (target("key", queue("1/s")), target("key", queue("2/s")));
    let once = |target| ScriptOp::Decide { times: 3, charges: [charge(target, 1)].into() };
    // The mark of the old receipt happens to equal the end of the new quota's queue.
    let charged = Charged { at: TODAY, cost: 1, mark: TODAY + 3_000_000, part: 0 };
    let ops = vec![
        (TODAY, once(&old)),
        (TODAY, once(&new)),
        (TODAY, ScriptOp::Refund { target: old, charged, amount: 1 }),
        (TODAY, ScriptOp::Decide { times: 1, charges: [charge(&new, 1)].into() }),
    ];
    let Expected::Requests(answers) = agree(ops) else {
        panic!("not a decision");
    };
    assert_eq!(answers[0].decisions[0].delay(), 3_000_000_000);
}

#[test]
fn queue_position_is_refunded_where_fractions_add_up_to_a_whole() {
    let queue = Quota::leaky_queue("3/s".parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
    let target = target("key", queue);
    let places = ScriptOp::Decide { times: 3, charges: [charge(&target, 1)].into() };
    // Three tokens of a third of a second each take one second.
    let charged = Charged { at: TODAY + 666_666, cost: 1, mark: TODAY + 1_000_000, part: 0 };
    let ops = vec![
        (TODAY, places),
        (TODAY, ScriptOp::Refund { target: target.clone(), charged, amount: 1 }),
        (TODAY, ScriptOp::Decide { times: 1, charges: [charge(&target, 1)].into() }),
    ];
    let Expected::Requests(answers) = agree(ops) else {
        panic!("not a decision");
    };
    assert_eq!(answers[0].decisions[0].delay(), 666_667_000);
}

#[test]
fn log_is_rolled_back_for_a_request_refused_after_others_passed() {
    let log = target("log", Quota::sliding_window_log("3/min".parse().unwrap()).unwrap());
    let bucket = target("bucket", Quota::token_bucket("3/day".parse().unwrap()).unwrap());
    // The second request needs two tokens of the bucket, and one is left.
    let both = ScriptOp::Decide { times: 2, charges: [charge(&log, 1), charge(&bucket, 1), charge(&bucket, 1)].into() };
    let one = ScriptOp::Decide { times: 1, charges: [charge(&log, 1)].into() };
    let two = ScriptOp::Decide { times: 1, charges: [charge(&log, 2)].into() };
    let ops =
        vec![(TODAY, both), (TODAY + 10_000_000, one), (TODAY + 20_000_000, two.clone()), (TODAY + 65_000_000, two)];
    agree(ops);
}

#[test]
fn one_call_can_read_a_key_under_two_families() {
    let server = RedisServer::start(&[]).unwrap();
    let mut client = Client::connect(&server);
    let rate = || "10/h".parse().unwrap();
    let (window, log) = (
        target("key", Quota::fixed_window(rate()).unwrap()),
        target("key", Quota::sliding_window_log(rate()).unwrap()),
    );
    let decide = |target, cost| ScriptOp::Decide { times: 1, charges: [charge(target, cost)].into() };
    client.call(&Call { ops: smallvec::smallvec![decide(&window, 3)] }, Some(TODAY));
    let both = Call { ops: smallvec::smallvec![decide(&window, 0), decide(&log, 1), decide(&window, 1)] };
    let reply = client.call(&both, Some(TODAY));
    for (at, remaining) in [7, 6, 5].into_iter().enumerate() {
        let answer = actual(&both.ops[at], &reply.answers[at], TODAY);
        let Some(Expected::Requests(answers)) = answer else { panic!("not a decision") };
        assert_eq!(answers[0].decisions[0].remaining, remaining);
    }
}

#[test]
fn script_matches_the_core() {
    compare(0..1_700);
}

/// For changes of the script: a million calls, different for each seed in the environment.
#[test]
#[ignore = "takes minutes"]
fn script_matches_the_core_for_a_million_calls() {
    let first = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_000_000);
    compare(first..first + 20_000);
}
