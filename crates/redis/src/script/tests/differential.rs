//! The same trace through the core in Rust and through the script: the same bits.

use tollgate_testbed::RedisServer;

use super::client::Client;
use super::model::Expected;
use super::trace::{Step, Trace};
use crate::call::{Answer, Line};
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
            Expected::Requests(replay(charges, *times, now, *passed, views).ok()?)
        }
        (Line::Force { .. }, Answer::Forced { unpaid }) => Expected::Unpaid(*unpaid),
        (Line::GiveBack { .. }, Answer::GivenBack) | (Line::Reset { .. }, Answer::Reset) => Expected::Nothing,
        (Line::Settle { .. }, Answer::Settled { overrun }) => Expected::Overrun(*overrun),
        (Line::Renew { .. }, Answer::Renewed { held }) => Expected::Held(*held),
        _ => return None,
    })
}

#[test]
fn the_script_gives_the_answers_of_the_pure_functions() {
    compare(0..2_000);
}

/// For when something in it has changed: a million calls, other ones for every seed in the environment.
#[test]
#[ignore = "takes minutes"]
fn the_script_gives_the_answers_of_the_pure_functions_for_long() {
    let first = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_000_000);
    compare(first..first + 20_000);
}
