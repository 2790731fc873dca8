//! Compares replayed decisions with a memory store.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{ChargeVerdict, Decision, Quota, Rate};
use tollgate_store::{Charge, ChargeMode, LimitOptions, ManualClock, MemoryOptions, MemoryStore, Store};

use super::shard::Shard;
use crate::call::{Answer, Call, ScriptOp, SlotCharge, Target};
use crate::script::replay;
use crate::store::limit_of;
use crate::store::random::Random;

const NOW_US: u64 = 1_700_000_000_000_000;

fn quota(random: &mut Random) -> Quota {
    let period = std::time::Duration::from_millis(u64::from(1 + random.below(100)));
    let rate = Rate::new(1 + u64::from(random.below(9)), period).unwrap();
    match random.below(5) {
        0 => Quota::token_bucket(rate),
        1 => Quota::fixed_window(rate),
        2 => Quota::sliding_window_counter(rate),
        3 => Quota::sliding_window_log(rate),
        _ => Quota::concurrency(rate.count(), Some(period)),
    }
    .unwrap()
}

fn charge(random: &mut Random, targets: &[Target]) -> SlotCharge {
    let modes = [
        ChargeMode::Enforce,
        ChargeMode::Enforce,
        ChargeMode::Guard,
        ChargeMode::Shadow,
        ChargeMode::ShadowJoined,
        ChargeMode::Peek,
    ];
    let mode = modes[random.below(6) as usize];
    let target = targets[random.below(targets.len() as u32) as usize].clone();
    SlotCharge { target, cost: u64::from(random.below(4)), mode }
}

/// The same requests go to a model of a server, several at a time, and to a memory store, one after the other. The
/// decisions replayed from the states reported by the model must equal those of the memory store.
#[test]
fn replayed_decisions_equal_those_of_a_memory_store() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let clock = ManualClock::at(NOW_US * 1_000);
        let memory = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
        // One charge to a key in a request: two charges to one log do not both return when they fit.
        let quotas: Vec<Quota> = (0..3).map(|_| quota(&mut random)).collect();
        let target = |(at, quota): (usize, &Quota)| Target {
            key: format!("key-{at}").into_bytes().into(),
            limit: limit_of(*quota).unwrap(),
        };
        let targets: Vec<Target> = quotas.iter().enumerate().map(target).collect();
        let limits: Vec<_> =
            quotas.iter().map(|quota| Store::limit(&memory, "a", *quota, LimitOptions::default()).unwrap()).collect();
        let mut shard = Shard::default();
        let mut now = NOW_US;
        for _ in 0..40 {
            let elapsed_us = u64::from(random.below(20_000));
            now += elapsed_us;
            clock.advance(Duration::from_micros(elapsed_us));
            let mut charges: SmallVec<[SlotCharge; 4]> = SmallVec::new();
            for _ in 0..1 + random.below(3) {
                let charge = charge(&mut random, &targets);
                if charges.iter().all(|other| other.target.key != charge.target.key) {
                    charges.push(charge);
                }
            }
            let times = 1 + random.below(4);
            let call = Call {
                ops: smallvec::smallvec![ScriptOp::Decide { times, charges: charges.iter().cloned().collect() }],
            };
            let reply = shard.execute(&call, now, &mut Vec::new());
            let [Answer::Decided { passed, states_before }] = &reply.answers[..] else { panic!("{reply:?}") };
            let replayed = replay(&charges, times, now, *passed, states_before).unwrap().requests(times);
            let keyed: Vec<Charge<'_>> = charges
                .iter()
                .map(|charge| {
                    let at = targets.iter().position(|target| target.key == charge.target.key).unwrap();
                    let SlotCharge { target, cost, mode } = charge;
                    Charge { limit: &limits[at], key: &*target.key, cost: *cost, mode: *mode, receipt: true }
                })
                .collect();
            for (nth, replayed) in (0..times).zip(replayed) {
                let outcome = memory.check_all_now(&keyed);
                assert_eq!(outcome.passed, nth < *passed, "seed {seed}");
                let decisions: Vec<Decision> = replayed.decisions.to_vec();
                let expected: Vec<Decision> = outcome.decisions.iter().map(rounded_up).collect();
                assert_eq!(decisions, expected, "seed {seed}, {charges:?}");
                let charged = replayed.charged.iter().enumerate();
                let made: Vec<(usize, u64)> =
                    charged.filter_map(|(at, charged)| Some((at, (*charged)?.cost))).collect();
                let receipts = outcome.receipts.iter().map(|(at, receipt)| (*at, receipt.cost()));
                assert_eq!(made, receipts.collect::<Vec<_>>(), "seed {seed}");
            }
        }
    }
}

/// Rounds a decision up to microseconds.
fn rounded_up(decision: &Decision) -> Decision {
    let us = |ns: u64| ns.div_ceil(1_000) * 1_000;
    let verdict = match decision.verdict {
        ChargeVerdict::Refused { retry_after } => ChargeVerdict::Refused { retry_after: retry_after.map(us) },
        other => other,
    };
    Decision { verdict, next_after: us(decision.next_after), reset_after: us(decision.reset_after), ..*decision }
}
