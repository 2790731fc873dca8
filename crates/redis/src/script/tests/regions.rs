//! Keys that regions divide: what a schedule refills on a server, against exact arithmetic.

use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;
use tollgate_core::Quota;
use tollgate_store::ChargeMode;
use tollgate_testbed::RedisServer;

use super::client::Client;
use super::random::TraceRng;
use super::values::{charge, target};
use crate::call::{Answer, Call, RefillSchedule, RefillSpan, ReportedState, ScriptOp, SlotCharge, Target};
use crate::resp_value::Value;
use crate::script::{decode, encode, stamp_ahead};

/// The start of an hour.
const TODAY: u64 = 1_787_500_800_000_000;
const S: u64 = 1_000_000;

/// A key on a server and what it should contain.
struct DividedKey {
    client: Client,
    target: Target,
    base: Instant,
    /// By how much the server's clock is ahead of the time since the base.
    ahead: i64,
    /// The time that one token takes at the whole rate, in thousandths of a microsecond.
    token: i128,
    capacity: i128,
    /// What is used, in the same unit, and when it was stored.
    used: i128,
    at: u64,
}

impl DividedKey {
    fn new(server: &RedisServer, rate: &str) -> DividedKey {
        let quota = Quota::token_bucket(rate.parse().unwrap()).unwrap();
        let token = i128::from(quota.period_ns() / quota.amount());
        assert!(
            quota.period_ns().is_multiple_of(quota.amount()) && token % 1_000 == 0,
            "a token takes whole microseconds"
        );
        let mut client = Client::connect(server);
        client.command(&[b"DEL", b"key"]);
        DividedKey {
            client,
            target: target("key", quota),
            base: Instant::now(),
            ahead: TODAY as i64 - 1_000_000_000,
            token,
            capacity: token * i128::from(quota.burst()),
            used: 0,
            at: TODAY,
        }
    }

    fn spans(&self, spans: &[(u64, u64, u32)]) -> SmallVec<[RefillSpan; 4]> {
        let own = |server_us: u64| server_us as i64 - self.ahead;
        spans.iter().map(|&(from, until, rate)| RefillSpan { from_us: own(from), until_us: own(until), rate }).collect()
    }

    /// Executes an operation after a refill, with these bounds of how much the server's clock is ahead.
    fn call(&mut self, spans: Option<&[(u64, u64, u32)]>, ahead: Option<(i64, i64)>, op: ScriptOp, now: u64) -> Answer {
        let mut ops = smallvec![op];
        if let Some(spans) = spans {
            let schedule = RefillSchedule { base: self.base, spans: self.spans(spans), least: 10 };
            ops.insert(0, ScriptOp::Refill { target: self.target.clone(), schedule: Box::new(schedule) });
        }
        let call = Call { ops };
        let mut encoded = encode(&call, Some(now));
        if let (Some(_), Some(ahead)) = (spans, ahead) {
            stamp_ahead(&mut encoded.args[0], ahead);
        }
        let reply = self.client.evalsha(&encoded);
        decode(&call, reply.clone()).unwrap_or_else(|error| panic!("{error}: {reply:?}")).answers.pop().unwrap()
    }

    /// Returns what is used at a time, if these spans refill.
    fn used_at(&self, spans: &[(u64, u64, u32)], now: u64) -> i128 {
        let refilled = spans.iter().map(|&(from, until, rate)| {
            i128::from(until.min(now).saturating_sub(from.max(self.at))) * i128::from(rate)
        });
        (self.used - refilled.sum::<i128>()).max(0)
    }

    fn exact(&self) -> Option<(i64, i64)> {
        Some((self.ahead, self.ahead))
    }

    fn decide(&mut self, spans: &[(u64, u64, u32)], times: u32, cost: u64, mode: ChargeMode, now: u64) -> (u32, u64) {
        let charges = [SlotCharge { mode, ..charge(&self.target, cost) }];
        let op = ScriptOp::Decide { times, charges: charges.into() };
        match self.call(Some(spans), self.exact(), op, now) {
            Answer::Decided { passed, states_before } => match states_before[0] {
                ReportedState::Bucket(state) => (passed, state.tat.saturating_sub(now)),
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn schedule_refills_by_its_rates_to_the_thousandth_of_a_microsecond() {
    let server = RedisServer::start(&[]).unwrap();
    let mut refused = 0;
    for seed in 0..40 {
        let mut rng = TraceRng::new(seed);
        let rate = *rng.pick(&["1000/s burst 50", "1000/min burst 300", "1/s burst 5", "100000/s burst 2000"]);
        let mut key = DividedKey::new(&server, rate);
        let token_us = (key.token / 1_000) as u64;
        let mut now = TODAY;
        // What the region enforced over time. All calls know all of it.
        let mut spans: Vec<(u64, u64, u32)> = vec![(TODAY, TODAY, 0)];
        for _ in 0..60 {
            let step = rng.magnitude(30 * token_us);
            let from = spans.last().unwrap().1;
            if rng.one_in(3) {
                let gap = rng.below(3) * rng.below(token_us);
                spans.push((from + gap, now + step, *rng.pick(&[0, 1, 10, 333, 500, 999, 1_000])));
            } else {
                spans.last_mut().unwrap().1 = from.max(now + step);
            }
            now += step;
            let known = &spans[spans.len().saturating_sub(6)..];
            // Older spans are not sent: that time refills nothing.
            let used = key.used_at(known, now);
            let (times, cost) = (1 + rng.below(3) as u32, 1 + rng.below(4));
            match rng.below(6) {
                0 => {
                    let (_, reported) = key.decide(known, times, cost, ChargeMode::Peek, now);
                    assert_eq!(i128::from(reported), (used + 999) / 1_000, "seed {seed}");
                }
                1 => {
                    let target = key.target.clone();
                    key.call(Some(known), key.exact(), ScriptOp::Force { target, cost }, now);
                    let room = (key.capacity - (used + 999) / 1_000 * 1_000).max(0) / key.token;
                    let charged = i128::from(cost).min(room) * key.token;
                    // What does not fit fills the bucket, to the microsecond.
                    let part = (used + 999) / 1_000 * 1_000 - used;
                    key.used = if i128::from(cost) <= room { used + charged } else { key.capacity - part };
                    key.at = now;
                }
                _ => {
                    let (passed, reported) = key.decide(known, times, cost, ChargeMode::Enforce, now);
                    assert_eq!(i128::from(reported), (used + 999) / 1_000, "seed {seed} {rate} at {now}");
                    let price = i128::from(cost) * key.token;
                    let fits = (key.capacity - (used + 999) / 1_000 * 1_000).max(0) / price;
                    assert_eq!(i128::from(passed), fits.min(times.into()), "seed {seed}");
                    refused += times - passed;
                    (key.used, key.at) = (used + i128::from(passed) * price, now);
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn time_that_is_uncertain_or_unknown_refills_nothing() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = DividedKey::new(&server, "1/s burst 100");
    let full = key.decide(&[], 1, 100, ChargeMode::Enforce, TODAY);
    assert_eq!(full, (1, 0));
    let used_s = |key: &mut DividedKey, spans: Option<&[(u64, u64, u32)]>, ahead, at: u64| {
        let peek = ScriptOp::Decide {
            times: 1,
            charges: [SlotCharge { mode: ChargeMode::Peek, ..charge(&key.target, 0) }].into(),
        };
        match key.call(spans, ahead, peek, TODAY + at * S) {
            Answer::Decided { states_before, .. } => match states_before[0] {
                ReportedState::Bucket(state) => (state.tat - TODAY - at * S) / S,
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let (always, ahead) = ([(TODAY, TODAY + 3_600 * S, 500)], key.ahead);
    assert_eq!(used_s(&mut key, Some(&always), Some((ahead, ahead)), 20), 90);
    // The span begins by the upper bound and ends by the lower one.
    let short = [(TODAY + 2 * S, TODAY + 12 * S, 500)];
    assert_eq!(used_s(&mut key, Some(&short), Some((ahead - 1_000_000, ahead + 1_000_000)), 20), 96);
    // The clock is not known, or the call has no schedule.
    assert_eq!(used_s(&mut key, Some(&always), None, 20), 100);
    assert_eq!(used_s(&mut key, None, None, 20), 100);
}

#[test]
fn operations_without_a_schedule_keep_the_wrapper_and_count_no_time() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = DividedKey::new(&server, "1/s burst 100");
    let always = [(TODAY, TODAY + 3_600 * S, 1_000)];
    key.decide(&always, 1, 60, ChargeMode::Enforce, TODAY);
    // An instance for which the limit is not regional.
    let charges = [charge(&key.target, 10)];
    key.call(None, None, ScriptOp::Decide { times: 1, charges: charges.into() }, TODAY + 20 * S);
    assert_eq!(key.client.get(b"key").unwrap()[0], 10);
    assert_eq!(key.decide(&always, 1, 0, ChargeMode::Peek, TODAY + 20 * S), (1, 70 * S));
    assert_eq!(key.decide(&always, 1, 0, ChargeMode::Peek, TODAY + 50 * S), (1, 40 * S));
    let target = key.target.clone();
    key.call(None, None, ScriptOp::Reset { target }, TODAY + 50 * S);
    assert_eq!(key.client.get(b"key"), None);
}

#[test]
fn refusal_stores_what_was_refilled() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = DividedKey::new(&server, "1/s burst 10");
    let now = TODAY + 4 * S;
    key.decide(&[], 1, 10, ChargeMode::Enforce, TODAY);
    assert_eq!(key.decide(&[(TODAY, now, 500)], 1, 9, ChargeMode::Enforce, now), (0, 8 * S));
    // A later call does not know that time any more.
    assert_eq!(key.decide(&[], 1, 0, ChargeMode::Peek, now + S), (1, 8 * S));
}

#[test]
fn key_expires_when_it_is_full_at_the_least_rate() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = DividedKey::new(&server, "1/s burst 100");
    let charges = [charge(&key.target, 3)];
    let schedule = RefillSchedule { base: key.base, spans: SmallVec::new(), least: 20 };
    let refill = ScriptOp::Refill { target: key.target.clone(), schedule: Box::new(schedule) };
    let ops = smallvec![refill, ScriptOp::Decide { times: 1, charges: charges.into() }];
    let reply = key.client.call(&Call { ops }, None);
    assert!(matches!(reply.answers[..], [Answer::Refilled, Answer::Decided { passed: 1, .. }]), "{reply:?}");
    let ttl_ms = key.client.integer(&[b"PTTL", b"key"]);
    // 3 s at the whole rate are 150 s at a fiftieth of it.
    assert!((140_000..=150_001).contains(&ttl_ms), "{ttl_ms}");
    assert!(matches!(key.client.command(&[b"TYPE", b"key"]), Value::Simple(kind) if kind == "string"));
}

#[test]
fn quota_of_another_rate_reads_what_was_used_in_tokens() {
    let server = RedisServer::start(&[]).unwrap();
    let mut key = DividedKey::new(&server, "1/s burst 100");
    key.decide(&[], 1, 60, ChargeMode::Enforce, TODAY);
    key.target = target("key", Quota::token_bucket("10/s burst 50".parse().unwrap()).unwrap());
    // In 20 s at half of the rate under which they were used, 10 tokens came back.
    let now = TODAY + 20 * S;
    assert_eq!(key.decide(&[(TODAY, now, 500)], 1, 0, ChargeMode::Peek, now), (1, 50 * S / 10));
}
