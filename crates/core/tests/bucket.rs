//! Buckets decide exactly like an oracle that uses fractions.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::cases;
use common::oracles::{Line, TokenBucket, whole};
use common::quotas::{self, EXACT_UP_TO, token_denominator};
use common::traces::{Cost, Scale, Step, any_start, any_step, any_trace};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::{Algorithm, Bucket, BucketState, ChargeVerdict, Decision, Queue, Quota, Rate, Tick};

/// Runs a trace through the bucket and passes every request and decision to `compare`.
fn run(
    (quota, tick, start): (Quota, Tick, u64),
    trace: &[(Step, Cost)],
    mut compare: impl FnMut(u64, u64, Decision) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let bucket = Bucket::new(&quota, tick).unwrap();
    let scale = Scale::new(&quota, tick, quota.burst());
    let mut state = BucketState::default();
    let (mut now, mut last) = (start, None);
    for (step, cost) in trace {
        now += scale.step(*step, last);
        let cost = scale.cost(*cost);
        let decision = bucket.check(&mut state, now, cost);
        compare(now, cost, decision)?;
        last = Some(decision);
    }
    Ok(())
}

fn started(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = (Quota, Tick, u64)> {
    (quota, quotas::any_tick()).prop_flat_map(|(quota, tick)| (Just(quota), Just(tick), any_start(tick)))
}

proptest! {
    #![proptest_config(cases(2500))]

    #[test]
    fn bucket_decides_like_the_fraction_oracle(setting in started(quotas::any_bucket()), trace in any_trace(24)) {
        let (quota, tick, start) = setting;
        prop_assume!(token_denominator(&quota, tick) <= EXACT_UP_TO);
        let mut oracle = TokenBucket::full(&quota, tick, start);
        run(setting, &trace, |now, cost, decision| {
            prop_assert_eq!(decision, oracle.request(now, cost, 0));
            Ok(())
        })?;
    }
}

/// Rates whose token is not a short fraction of ticks.
fn approximated_bucket() -> impl Strategy<Value = Quota> + Clone {
    let count = prop_oneof![
        Just(999_999_937_u64),
        Just(999_999_999_989),
        Just(2_000_003),
        (EXACT_UP_TO + 1)..=1_000_000_000,
        quotas::any_magnitude(1_000_000_000_000),
    ];
    (count, quotas::any_magnitude(1_000_000_000), quotas::any_magnitude(1_000_000_000_000))
        .prop_map(|(count, ms, burst)| (count, ms.max(count.div_ceil(1_000_000)), burst))
        .prop_filter_map("refills in time", |(count, ms, burst)| {
            let rate = Rate::new(count, Duration::from_millis(ms)).unwrap().with_burst(burst).ok()?;
            Quota::token_bucket(rate).ok()
        })
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn approximated_rates_never_admit_more(setting in started(approximated_bucket()), trace in any_trace(24)) {
        let (quota, tick, start) = setting;
        // The oracle admits everything that the bucket admitted, and must never run out of tokens.
        let mut oracle = TokenBucket::full(&quota, tick, start);
        run(setting, &trace, |now, cost, decision| {
            oracle.advance(now);
            if decision.is_allowed() {
                oracle.level -= whole(cost);
            }
            prop_assert!(oracle.level >= whole(0), "overdrawn to {}", oracle.level);
            prop_assert!(whole(decision.remaining) <= oracle.level);
            Ok(())
        })?;
    }

    #[test]
    fn approximated_rates_are_slow_by_less_than_a_millionth(setting in started(approximated_bucket())) {
        let (quota, tick, start) = setting;
        prop_assume!(quota.burst() > 1);
        let bucket = Bucket::new(&quota, tick).unwrap();
        let mut state = BucketState::default();
        let emptied = bucket.check(&mut state, start, quota.burst());
        prop_assert!(emptied.is_allowed());
        // The time of a full refill: exactly, and as reported, which is rounded up to a tick.
        let exact = whole(quota.burst()) * whole(quota.period_ns() / tick.ns()) / whole(quota.amount());
        let answered = whole(emptied.reset_after);
        prop_assert!(answered >= exact);
        let millionth = &exact / BigRational::from_integer(BigInt::from(1_000_000));
        prop_assert!(answered - whole(1) < exact + millionth);
    }

    #[test]
    fn reservations_decide_like_the_oracle_with_negative_levels(
        setting in started(quotas::any_reserving_bucket()),
        trace in vec((any_step(), common::traces::any_cost(), prop_oneof![Just(0), Just(u64::MAX), quotas::any_magnitude(1 << 60)]), 1..24),
    ) {
        let (quota, tick, start) = setting;
        prop_assume!(token_denominator(&quota, tick) <= EXACT_UP_TO);
        let bucket = Bucket::new(&quota, tick).unwrap();
        let scale = Scale::new(&quota, tick, quota.burst());
        let mut oracle = TokenBucket::full(&quota, tick, start);
        let mut state = BucketState::default();
        let (mut now, mut last, mut departed) = (start, None, 0);
        for (step, cost, max_wait) in trace {
            now += scale.step(step, last);
            let cost = scale.cost(cost);
            let decision = bucket.reserve(&mut state, now, cost, max_wait);
            prop_assert_eq!(decision, oracle.request(now, cost, max_wait));
            prop_assert!(decision.delay() <= max_wait);
            prop_assert!(decision.delay() <= quota.ahead_ns() / tick.ns());
            if decision.is_allowed() && cost > 0 {
                prop_assert!(now + decision.delay() >= departed, "one behind overtakes");
                departed = now + decision.delay();
            }
            last = Some(decision);
        }
    }
}

/// Queues that a list of slots can represent.
fn short_queue() -> impl Strategy<Value = Quota> + Clone {
    let wait = prop_oneof![Just(None), (0_u64..400).prop_map(Some)];
    (quotas::any_rate(), 1_u64..=8, wait).prop_filter_map("lies within reach", |(rate, size, percent_of_token)| {
        let token_ns = u128::from(rate.period_ns()) / u128::from(rate.count());
        let max_wait =
            percent_of_token.map(|percent| Duration::from_nanos((token_ns * u128::from(percent) / 100) as u64));
        Quota::leaky_queue(rate, Queue { size, max_wait }).ok()
    })
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn queue_decides_like_a_list_of_slots(setting in started(short_queue()), trace in any_trace(20)) {
        let (quota, tick, start) = setting;
        prop_assume!(token_denominator(&quota, tick) <= EXACT_UP_TO);
        let bucket = Bucket::new(&quota, tick).unwrap();
        let mut line = Line::empty(&quota, tick);
        let limit = line.remaining(0);
        let scale = Scale::new(&quota, tick, limit);
        let mut state = BucketState::default();
        let (mut now, mut last) = (start, None);
        for (step, cost) in trace {
            now += scale.step(step, last);
            let cost = scale.cost(cost);
            let decision = bucket.check(&mut state, now, cost);
            prop_assert_eq!(decision.limit, limit);
            match decision.verdict {
                _ if cost == 0 => prop_assert!(decision.is_allowed()),
                ChargeVerdict::Allowed { delay } => prop_assert_eq!(line.request(now, cost), Some(delay)),
                ChargeVerdict::Refused { retry_after } => {
                    let wait = retry_after.unwrap();
                    prop_assert!(line.is_possible(cost));
                    prop_assert_eq!(line.clone().request(now, cost), None);
                    prop_assert_eq!(line.clone().request(now + wait - 1, cost), None);
                    prop_assert!(line.clone().request(now + wait, cost).is_some());
                }
                verdict => prop_assert!(verdict == ChargeVerdict::Impossible && cost > limit && !line.is_possible(cost)),
            }
            prop_assert_eq!(decision.remaining, line.remaining(now));
            prop_assert_eq!(decision.reset_after, line.reset_after(now));
            last = Some(decision);
        }
    }

    #[test]
    fn queue_releases_units_one_token_apart(setting in started(quotas::any_queue()), steps in vec(any_step(), 2..40)) {
        let (quota, tick, start) = setting;
        let bucket = Bucket::new(&quota, tick).unwrap();
        let scale = Scale::new(&quota, tick, 1);
        let mut state = BucketState::default();
        let (mut now, mut last) = (start, None);
        let mut departures = Vec::new();
        for step in steps {
            now += scale.step(step, last);
            let decision = bucket.check(&mut state, now, 1);
            if decision.is_allowed() {
                prop_assert!(decision.delay() <= quota.ahead_ns() / tick.ns());
                departures.push(now + decision.delay());
            }
            last = Some(decision);
        }
        prop_assert!(departures.is_sorted(), "first come, first served");
        let token = whole(quota.period_ns() / tick.ns()) / whole(quota.amount());
        for (i, first) in departures.iter().enumerate() {
            for (between, later) in departures[i..].iter().enumerate() {
                // Each departure is rounded up to its tick, so a span can look one tick short.
                prop_assert!(whole(later - first + 1) > &token * whole(between as u64));
            }
        }
    }
}

#[test]
fn queue_with_max_wait_0_admits_only_when_idle() {
    let queue = Queue { size: 5, max_wait: Some(Duration::ZERO) };
    let quota = Quota::leaky_queue("10/s".parse().unwrap(), queue).unwrap();
    let bucket = Bucket::new(&quota, Tick::Nanosecond).unwrap();
    let mut state = BucketState::default();
    assert_eq!(bucket.check(&mut state, 7, 1).verdict, ChargeVerdict::Allowed { delay: 0 });
    assert_eq!(bucket.check(&mut state, 7, 1).verdict, ChargeVerdict::Refused { retry_after: Some(100_000_000) });
    assert_eq!(bucket.check(&mut state, 7, 2).verdict, ChargeVerdict::Impossible);
}

#[test]
fn fastest_rate_is_exact_in_microseconds() {
    let quota = Quota::token_bucket("1000000000/s burst 3000".parse().unwrap()).unwrap();
    let bucket = Bucket::new(&quota, Tick::Microsecond).unwrap();
    let mut state = BucketState::default();
    assert!(bucket.check(&mut state, 1_000, 3_000).is_allowed());
    for micros in 1_001..1_100 {
        assert!(bucket.check(&mut state, micros, 1_000).is_allowed());
        assert!(!bucket.check(&mut state, micros, 1).is_allowed());
    }
}

#[test]
fn queue_of_10_admits_10_of_15_simultaneous_requests() {
    let quota = Quota::leaky_queue("5/s".parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
    let bucket = Bucket::new(&quota, Tick::Microsecond).unwrap();
    let mut state = BucketState::default();
    let answers: Vec<Decision> = (0..15).map(|_| bucket.check(&mut state, 5_000_000, 1)).collect();
    let delays: Vec<u64> = answers.iter().filter(|answer| answer.is_allowed()).map(Decision::delay).collect();
    let expected: Vec<u64> = (0..10).map(|at| at * 200_000).collect();
    assert_eq!(delays, expected);
    assert_eq!((answers[0].limit, answers[0].remaining, answers[9].remaining), (10, 9, 0));
    assert!(answers[10..].iter().all(|answer| answer.retry_after() == Some(200_000)), "{answers:?}");
    // A position is free again when the next request can depart.
    assert!(!bucket.check(&mut state, 5_199_999, 1).is_allowed());
    assert_eq!(bucket.check(&mut state, 5_200_000, 1).delay(), 1_800_000);
}
