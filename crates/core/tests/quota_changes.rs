//! A limit that changes on a live key takes over the used amount, without a free refill.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use common::cases;
use common::oracles::{Charges, TokenBucket, whole};
use common::quotas::{self, EXACT_UP_TO, token_denominator};
use common::traces::{Cost, Scale, Step, any_cost, any_start, any_step};
use num_rational::BigRational;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Algorithm, Bucket, BucketState, FixedWindow, Quota, Rate, SlidingCounter, SlidingLog, Tick};

/// A request under one of several quotas.
type Call = (Index, Step, Cost);

fn any_calls(longest: usize) -> impl Strategy<Value = Vec<Call>> {
    vec((any::<Index>(), any_step(), any_cost()), 1..=longest)
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn bucket_takes_over_used_tokens_rounded_up(
        quotas in vec(prop_oneof![quotas::any_bucket(), quotas::any_reserving_bucket()], 2..=3),
        (tick, start) in quotas::any_tick().prop_flat_map(|tick| (Just(tick), any_start(tick))),
        calls in any_calls(20),
    ) {
        prop_assume!(quotas.iter().all(|quota| token_denominator(quota, tick) <= EXACT_UP_TO));
        let buckets: Vec<_> = quotas.iter().map(|quota| Bucket::new(quota, tick).unwrap()).collect();
        let full: Vec<_> = quotas.iter().map(|quota| TokenBucket::full(quota, tick, start)).collect();
        let (mut writer, mut state, mut oracle) = (0, BucketState::default(), full[0].clone());
        let (mut now, mut last) = (start, None);
        for (index, step, cost) in calls {
            let reader = index.index(quotas.len());
            let scale = Scale::new(&quotas[reader], tick, quotas[reader].burst());
            now += scale.step(step, last);
            let cost = scale.cost(cost);
            if reader != writer {
                // A store does the same on the first check under another quota.
                state = buckets[reader].convert(&buckets[writer], state, now);
                // A bucket that differs only in the debt reads the state unchanged.
                if !buckets[reader].has_same_states_as(&buckets[writer]) {
                    oracle = oracle.taken_over_by(&full[reader], now);
                }
                writer = reader;
            }
            let decision = buckets[reader].reserve(&mut state, now, cost, u64::MAX);
            prop_assert_eq!(decision, oracle.request(now, cost, u64::MAX));
            last = Some(decision);
        }
    }

    #[test]
    fn converting_any_state_of_any_bucket_never_panics(
        from in prop_oneof![quotas::any_bucket(), quotas::any_reserving_bucket(), quotas::any_queue()],
        to in prop_oneof![quotas::any_bucket(), quotas::any_reserving_bucket(), quotas::any_queue()],
        tick in quotas::any_tick(),
        tat in any::<u64>(),
        now in any::<u64>(),
    ) {
        let (from, to) = (Bucket::new(&from, tick).unwrap(), Bucket::new(&to, tick).unwrap());
        prop_assume!(!to.has_same_states_as(&from));
        let written = BucketState { tat, part: 0 };
        let adopted = to.convert(&from, written, now);
        prop_assert!(adopted.tat >= now);
        if now < u64::MAX / 2 {
            // An unused state stays unused, and a used one stays used.
            let used = |bucket: &Bucket, state: &BucketState| bucket.peek(state, now, 0).reset_after > 0;
            prop_assert_eq!(used(&from, &written), used(&to, &adopted));
        }
    }
}

/// Computes the usage at a time from the list of charges.
type Counting = fn(&Charges, u64, u64) -> BigRational;

/// The usage that the list carries over into another window: everything that counts, rounded up, in the current window.
fn carried_over(charges: &Charges, counting: Counting, now: u64, window: u64, limit: u64) -> Charges {
    let used = common::oracles::to_u64(&counting(charges, now, window).ceil());
    Charges(vec![(now, used.min(limit))])
}

/// A window of the same length keeps its counts, each capped at the new limit.
fn clamped(charges: &Charges, now: u64, window: u64, limit: u64) -> Charges {
    let begun = now - now % window;
    let sum = |from: u64, to: u64| {
        let inside = charges.0.iter().filter(|(at, _)| (from..to).contains(at));
        inside.map(|(_, cost)| cost).sum::<u64>().min(limit)
    };
    Charges(vec![(begun - window, sum(begun - window, begun)), (now, sum(begun, begun + window))])
}

fn windows_take_over<A: Algorithm>(
    quotas: &[Quota],
    compile: impl Fn(&Quota, Tick) -> Option<A>,
    counting: Counting,
    (tick, start): (Tick, u64),
    calls: &[Call],
) -> TestCaseResult {
    let mut charges = Charges::default();
    let mut state = A::State::default();
    let mut writer = quotas[0];
    let (mut now, mut last) = (start, None);
    for (index, step, cost) in calls {
        let quota = index.get(quotas);
        let (limit, window) = (quota.amount(), quota.period_ns() / tick.ns());
        let scale = Scale::new(quota, tick, limit);
        now += scale.step(*step, last);
        let cost = scale.cost(*cost).max(1);
        if quota.period_ns() != writer.period_ns() {
            charges = carried_over(&charges, counting, now, writer.period_ns() / tick.ns(), limit);
        } else {
            charges = clamped(&charges, now, window, limit);
        }
        writer = *quota;
        let decision = compile(quota, tick).unwrap().check(&mut state, now, cost);
        let fits = counting(&charges, now, window) + whole(cost) <= whole(limit);
        prop_assert_eq!(decision.is_allowed(), fits);
        if fits {
            charges.0.push((now, cost));
        }
        let room = (whole(limit) - counting(&charges, now, window)).floor();
        prop_assert_eq!(whole(decision.remaining), room.max(whole(0)));
        last = Some(decision);
    }
    Ok(())
}

fn a_few_rates() -> impl Strategy<Value = Vec<Rate>> {
    let related = (quotas::any_rate(), 1_u64..20, 1_u64..20).prop_map(|(rate, a, b)| {
        let with = |count: u64| Rate::new(count.min(rate.period_ns()), rate.period()).unwrap();
        vec![with(a), with(b)]
    });
    prop_oneof![related, vec(quotas::any_rate(), 2..=3)]
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn windows_take_over_usage_rounded_up(
        rates in a_few_rates(),
        fixed in any::<bool>(),
        setting in quotas::any_tick().prop_flat_map(|tick| (Just(tick), any_start(tick))),
        calls in any_calls(20),
    ) {
        if fixed {
            let quotas: Vec<_> = rates.iter().map(|rate| Quota::fixed_window(*rate).unwrap()).collect();
            windows_take_over(&quotas, FixedWindow::new, Charges::in_window, setting, &calls)?;
        } else {
            let quotas: Vec<_> = rates.iter().map(|rate| Quota::sliding_window_counter(*rate).unwrap()).collect();
            windows_take_over(&quotas, SlidingCounter::new, Charges::in_two_windows, setting, &calls)?;
        }
    }

    #[test]
    fn log_keeps_its_entries_under_another_limit(
        rates in a_few_rates(),
        (tick, start) in quotas::any_tick().prop_flat_map(|tick| (Just(tick), any_start(tick))),
        calls in any_calls(20),
    ) {
        let quotas: Vec<_> = rates
            .iter()
            .map(|rate| Rate::new(rate.count().min(Quota::MAX_LOG), rate.period()).unwrap())
            .map(|rate| Quota::sliding_window_log(rate).unwrap())
            .collect();
        let mut charges = Charges::default();
        let mut log = Default::default();
        let (mut now, mut last) = (start, None);
        for (index, step, cost) in calls {
            let quota = index.get(&quotas);
            let (limit, window) = (quota.amount(), quota.period_ns() / tick.ns());
            let scale = Scale::new(quota, tick, limit);
            now += scale.step(step, last);
            let cost = scale.cost(cost).max(1);
            // A shorter window drops charges that a longer one would still contain.
            charges.0.retain(|(at, _)| now - at < window);
            let decision = SlidingLog::new(quota, tick).unwrap().check(&mut log, now, cost);
            let used = charges.in_trailing(now, window);
            prop_assert_eq!(decision.is_allowed(), &used + whole(cost) <= whole(limit));
            if decision.is_allowed() {
                charges.0.push((now, cost));
            }
            if let Some(wait) = decision.retry_after() {
                prop_assert!(charges.in_trailing(now + wait, window) + whole(cost) <= whole(limit));
                prop_assert!(charges.in_trailing(now + wait - 1, window) + whole(cost) > whole(limit));
            }
            last = Some(decision);
        }
    }
}

#[test]
fn lower_limit_applies_at_once_and_higher_limit_adds_the_difference() {
    let tick = Tick::Nanosecond;
    let bucket = |text: &str| Bucket::new(&Quota::token_bucket(text.parse().unwrap()).unwrap(), tick).unwrap();
    let (ten, twenty, five) = (bucket("10/s burst 10"), bucket("20/s burst 20"), bucket("5/s burst 5"));
    let mut state = BucketState::default();
    assert!(ten.check(&mut state, 1 << 60, 10).is_allowed());
    // Emptied at 10/s and read at 20/s, the plain time would look half refilled.
    assert_eq!(twenty.peek(&twenty.convert(&ten, state, 1 << 60), 1 << 60, 0).remaining, 10);
    assert_eq!(five.peek(&five.convert(&ten, state, 1 << 60), 1 << 60, 0).remaining, 0);
}

#[test]
fn more_reserved_tokens_than_any_burst_are_taken_over() {
    // At these rates more tokens refill in an hour than the 10^12 of the largest burst.
    let reserving = |text: &str| {
        let quota = Quota::token_bucket(text.parse().unwrap()).unwrap();
        Bucket::new(&quota.with_reservations(std::time::Duration::from_secs(3_600)).unwrap(), Tick::Nanosecond).unwrap()
    };
    let (from, to) = (reserving("666666667/s burst 1000"), reserving("600000001/s burst 1000"));
    let now = 1 << 60;
    let hour = 3_600_000_000_000;
    // The bucket has reserved what refills within its hour: 2.4 * 10^12 tokens.
    let adopted = to.convert(&from, BucketState { tat: now + hour, part: 0 }, now);
    // At the slower rate the same tokens take 4,000 s, of which the bucket can reserve an hour plus its burst.
    let reset_after = to.peek(&adopted, now, 0).reset_after;
    assert!((hour..hour + 2_000).contains(&reset_after), "{reset_after}");
    let faster = from.convert(&to, BucketState { tat: now + hour, part: 0 }, now);
    let reset_after = from.peek(&faster, now, 0).reset_after;
    // 2,160,000,003,600 tokens at 666,666,667 a second
    assert!((3_239_999_000_000..3_240_001_000_000).contains(&reset_after), "{reset_after}");
}
