//! A refund returns what was charged, without creating quota.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::oracles::{Charges, TokenBucket, whole};
use common::quotas::{self, EXACT_UP_TO, token_denominator};
use common::traces::{Cost, Scale, Step, any_cost, any_start, any_step, any_trace};
use common::{Property, cases, for_algorithm_of};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{
    Algorithm, Bucket, BucketState, FixedWindow, LogState, Queue, Quota, SlidingCounter, SlidingLog, Tick,
};

type Setting = (Quota, Tick, u64);

fn started(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Setting> {
    (quota, quotas::any_tick()).prop_flat_map(|(quota, tick)| (Just(quota), Just(tick), any_start(tick)))
}

/// The observable behaviour of a state: its decisions now and for a while.
fn answers<A: Algorithm>(algorithm: &A, state: &A::State, now: u64, scale: &Scale) -> Vec<tollgate_core::Decision> {
    let times = [0, 10, 50, 99, 100, 101, 150, 200, 250].map(|percent| now + scale.step(Step::OfPeriod(percent), None));
    let costs = [Cost::Units(0), Cost::Units(1), Cost::OfLimit(50), Cost::OfLimit(100)].map(|cost| scale.cost(cost));
    times.iter().flat_map(|time| costs.map(|cost| algorithm.peek(state, *time, cost))).collect()
}

/// Runs a trace, and refunds its last charge at once.
struct RefundedAtOnce<'a> {
    setting: Setting,
    trace: &'a [(Step, Cost)],
    last: (Step, Cost),
    /// The percentage of the cost that stays charged.
    true_cost: u64,
}

impl Property for RefundedAtOnce<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let (quota, tick, start) = self.setting;
        let mut state = A::State::default();
        let limit = algorithm.peek(&state, start, 0).limit;
        let scale = Scale::new(&quota, tick, limit);
        let (mut now, mut last) = (start, None);
        for (step, cost) in self.trace {
            now += scale.step(*step, last);
            last = Some(algorithm.check(&mut state, now, scale.cost(*cost)));
        }
        now += scale.step(self.last.0, last);
        let cost = scale.cost(self.last.1);
        let mut without = state.clone();
        if cost == 0 || !algorithm.check(&mut state, now, cost).is_allowed() {
            return Ok(());
        }
        let charged = algorithm.charged(&state, now, cost);
        prop_assert_eq!(charged.cost, cost);
        let true_cost = (u128::from(cost) * u128::from(self.true_cost) / 100) as u64;
        let settled = algorithm.settle(&mut state, now, &charged, true_cost);
        prop_assert_eq!(settled.overrun, 0);
        if true_cost > 0 {
            prop_assert!(algorithm.check(&mut without, now, true_cost).is_allowed());
        }
        prop_assert_eq!(answers(algorithm, &state, now, &scale), answers(algorithm, &without, now, &scale));
        Ok(())
    }
}

/// Runs a trace, and settles its last charge above the estimate.
struct SettledAbove<'a> {
    setting: Setting,
    trace: &'a [(Step, Cost)],
    more: u64,
    later: Step,
}

impl Property for SettledAbove<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let (quota, tick, start) = self.setting;
        let mut state = A::State::default();
        let scale = Scale::new(&quota, tick, algorithm.peek(&state, start, 0).limit);
        let (mut now, mut last) = (start, None);
        for (step, cost) in self.trace {
            now += scale.step(*step, last);
            last = Some(algorithm.check(&mut state, now, scale.cost(*cost)));
        }
        if !algorithm.check(&mut state, now, 1).is_allowed() {
            return Ok(());
        }
        let charged = algorithm.charged(&state, now, 1);
        now += scale.step(self.later, last);
        let before = algorithm.peek(&state, now, 0);
        let room = before.remaining;
        let settled = algorithm.settle(&mut state, now, &charged, self.more.saturating_add(1));
        let may_owe = quota.max_debt();
        let lost = self.more.saturating_sub(room).saturating_sub(may_owe);
        // Two fractions of a token, one below the brim and one of the debt, can add up to a whole token.
        prop_assert!(settled.overrun == lost || settled.overrun + 1 == lost, "{} of {lost}", settled.overrun);
        let after = algorithm.peek(&state, now, 0);
        prop_assert_eq!(after.remaining, room.saturating_sub(self.more));
        prop_assert!(after.reset_after >= before.reset_after);
        Ok(())
    }
}

fn instant_quota() -> impl Strategy<Value = Quota> + Clone {
    prop_oneof![
        quotas::any_bucket(),
        quotas::any_queue(),
        quotas::any_fixed_window(),
        quotas::any_counter(),
        quotas::any_log(),
        quotas::any_concurrency(),
    ]
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn immediate_refund_restores_the_state_before_the_charge(
        setting in started(instant_quota()),
        trace in any_trace(12),
        last in (any_step(), any_cost()),
        true_cost in prop_oneof![Just(0), Just(100), 0_u64..=100],
    ) {
        for_algorithm_of(&setting.0, setting.1, &RefundedAtOnce { setting, trace: &trace, last, true_cost })?;
    }

    #[test]
    fn settling_above_the_estimate_charges_up_to_max_debt_and_returns_the_overrun(
        setting in started(prop_oneof![quotas::any_bucket(), quotas::any_fixed_window(), quotas::any_counter(), quotas::any_log()]),
        trace in any_trace(12),
        more in prop_oneof![1_u64..10, quotas::any_magnitude(u64::MAX)],
        later in any_step(),
    ) {
        for_algorithm_of(&setting.0, setting.1, &SettledAbove { setting, trace: &trace, more, later })?;
    }

    #[test]
    fn bucket_refunds_what_time_has_not_refilled(
        setting in started(quotas::any_bucket()),
        trace in any_trace(10),
        cost in any_cost(),
        after in proptest::collection::vec((any_step(), any_cost()), 0..4),
    ) {
        let (quota, tick, start) = setting;
        prop_assume!(token_denominator(&quota, tick) <= EXACT_UP_TO);
        let bucket = Bucket::new(&quota, tick).unwrap();
        let scale = Scale::new(&quota, tick, quota.burst());
        let (mut state, mut oracle) = (BucketState::default(), TokenBucket::full(&quota, tick, start));
        let (mut now, mut last) = (start, None);
        for (step, cost) in trace {
            now += scale.step(step, last);
            last = Some(bucket.check(&mut state, now, scale.cost(cost)));
            oracle.request(now, scale.cost(cost), 0);
        }
        let cost = scale.cost(cost);
        prop_assume!(cost > 0 && bucket.check(&mut state, now, cost).is_allowed());
        oracle.request(now, cost, 0);
        let (charged, charged_at) = (bucket.charged(&state, now, cost), now);
        for (step, cost) in after {
            now += scale.step(step, last);
            last = Some(bucket.check(&mut state, now, scale.cost(cost)));
            oracle.request(now, scale.cost(cost), 0);
        }
        bucket.refund(&mut state, now, &charged, cost);
        oracle.advance(now);
        let refilled = whole(now - charged_at) * &oracle.tokens_per_tick;
        let given = (whole(cost) - refilled).max(whole(0));
        oracle.level = (&oracle.level + given).min(oracle.burst.clone());
        prop_assert_eq!(bucket.peek(&state, now, 0), oracle.request(now, 0, 0));
        // The fraction of a token that a peek does not show.
        let probe = quota.burst();
        prop_assert_eq!(bucket.peek(&state, now, probe), oracle.request(now, probe, 0));
    }

    #[test]
    fn forced_charge_empties_a_bucket_and_no_more(
        setting in started(quotas::any_bucket()),
        trace in any_trace(10),
        cost in any_cost(),
    ) {
        let (quota, tick, start) = setting;
        prop_assume!(token_denominator(&quota, tick) <= EXACT_UP_TO);
        let bucket = Bucket::new(&quota, tick).unwrap();
        let scale = Scale::new(&quota, tick, quota.burst());
        let (mut state, mut oracle) = (BucketState::default(), TokenBucket::full(&quota, tick, start));
        let (mut now, mut last) = (start, None);
        for (step, cost) in trace {
            now += scale.step(step, last);
            last = Some(bucket.check(&mut state, now, scale.cost(cost)));
            oracle.request(now, scale.cost(cost), 0);
        }
        let cost = scale.cost(cost);
        let overrun = bucket.force(&mut state, now, cost);
        prop_assert_eq!(whole(cost - overrun), oracle.level.floor().min(whole(cost)));
        // The remaining fraction of a token goes too: the charge was larger.
        oracle.level = (&oracle.level - whole(cost)).max(whole(0));
        prop_assert_eq!(bucket.peek(&state, now, quota.burst()), oracle.request(now, quota.burst(), 0));
    }

    #[test]
    fn windows_refund_while_the_charged_window_counts(
        setting in started(prop_oneof![quotas::any_fixed_window(), quotas::any_counter(), quotas::any_log()]),
        before in any_cost(),
        cost in any_cost(),
        later in any_step(),
        between in any_cost(),
    ) {
        let (quota, tick, start) = setting;
        let (limit, window) = (quota.amount(), quota.period_ns() / tick.ns());
        let scale = Scale::new(&quota, tick, limit);
        struct Scenario { start: u64, later: u64, costs: [u64; 3] }
        /// The list of what counts after the middle charge was refunded, and the decisions then.
        fn run_scenario<A: Algorithm>(algorithm: &A, scenario: &Scenario) -> Option<(Charges, u64, u64)> {
            let mut state = A::State::default();
            let mut charges = Charges::default();
            let [before, cost, between] = scenario.costs;
            if before > 0 && algorithm.check(&mut state, scenario.start, before).is_allowed() {
                charges.0.push((scenario.start, before));
            }
            if cost == 0 || !algorithm.check(&mut state, scenario.start, cost).is_allowed() {
                return None;
            }
            let charged = algorithm.charged(&state, scenario.start, cost);
            let now = scenario.start + scenario.later;
            if between > 0 && algorithm.check(&mut state, now, between).is_allowed() {
                charges.0.push((now, between));
            }
            algorithm.refund(&mut state, now, &charged, cost);
            Some((charges, now, algorithm.peek(&state, now, 0).remaining))
        }
        let costs = [before, cost, between].map(|cost| scale.cost(cost));
        let scenario = Scenario { start, later: scale.step(later, None), costs };
        let decided = if let Some(fixed) = FixedWindow::new(&quota, tick) {
            run_scenario(&fixed, &scenario).map(|(charges, now, remaining)| (charges.in_window(now, window), remaining))
        } else if let Some(counter) = SlidingCounter::new(&quota, tick) {
            run_scenario(&counter, &scenario).map(|(charges, now, remaining)| (charges.in_two_windows(now, window), remaining))
        } else {
            let log = SlidingLog::new(&quota, tick).unwrap();
            run_scenario(&log, &scenario).map(|(charges, now, remaining)| (charges.in_trailing(now, window), remaining))
        };
        if let Some((counted, remaining)) = decided {
            prop_assert_eq!(whole(remaining), (whole(limit) - counted).floor());
        }
    }
}

#[test]
fn log_refunds_its_own_entry_and_no_other() {
    let log = SlidingLog::new(&Quota::sliding_window_log("10/s".parse().unwrap()).unwrap(), Tick::Microsecond).unwrap();
    let mut state = LogState::default();
    let mut receipts = Vec::new();
    for (now, cost) in [(5_000_000, 1), (5_000_100, 3), (5_000_200, 2)] {
        assert!(log.check(&mut state, now, cost).is_allowed());
        receipts.push(log.charged(&state, now, cost));
    }
    log.settle(&mut state, 5_000_300, &receipts[1], 1);
    assert_eq!(state.entries().collect::<Vec<_>>(), [(5_000_000, 1), (5_000_100, 1), (5_000_200, 2)]);
    log.refund(&mut state, 5_000_300, &receipts[0], 1);
    assert_eq!(state.entries().collect::<Vec<_>>(), [(5_000_100, 1), (5_000_200, 2)]);
    // Expired long ago: nothing is refunded.
    log.refund(&mut state, 6_000_150, &receipts[1], 3);
    assert_eq!(state.entries().collect::<Vec<_>>(), [(5_000_200, 2)]);
}

#[test]
fn window_refunds_nothing_after_its_end() {
    let window = FixedWindow::new(&Quota::fixed_window("10/s".parse().unwrap()).unwrap(), Tick::Microsecond).unwrap();
    let mut state = Default::default();
    assert!(window.check(&mut state, 5_999_999, 4).is_allowed());
    let charged = window.charged(&state, 5_999_999, 4);
    assert!(window.check(&mut state, 6_000_000, 10).is_allowed());
    window.refund(&mut state, 6_000_000, &charged, 4);
    assert_eq!(window.peek(&state, 6_000_000, 0).remaining, 0);
}

#[test]
fn counter_refunds_from_the_previous_window() {
    let quota = Quota::sliding_window_counter("10/s".parse().unwrap()).unwrap();
    let counter = SlidingCounter::new(&quota, Tick::Microsecond).unwrap();
    let mut state = Default::default();
    assert!(counter.check(&mut state, 5_500_000, 8).is_allowed());
    let charged = counter.charged(&state, 5_500_000, 8);
    assert_eq!(counter.peek(&state, 6_500_000, 0).remaining, 6);
    counter.refund(&mut state, 6_500_000, &charged, 4);
    assert_eq!(counter.peek(&state, 6_500_000, 0).remaining, 8);
}

#[test]
fn queue_refunds_only_its_last_reservation() {
    let queue = Queue { size: 5, max_wait: None };
    let bucket = Bucket::new(&Quota::leaky_queue("10/s".parse().unwrap(), queue).unwrap(), Tick::Microsecond).unwrap();
    let mut state = BucketState::default();
    let now = 1_000_000;
    let receipts = [0, 100_000, 200_000].map(|delay| {
        assert_eq!(bucket.check(&mut state, now, 1).delay(), delay);
        bucket.charged(&state, now, 1)
    });
    bucket.refund(&mut state, now, &receipts[1], 1);
    assert_eq!(bucket.peek(&state, now, 1).delay(), 300_000, "the one behind keeps its place, so this one stays taken");
    bucket.refund(&mut state, now, &receipts[2], 1);
    assert_eq!(bucket.peek(&state, now, 1).delay(), 200_000);
    bucket.refund(&mut state, now, &receipts[1], 1);
    assert_eq!(bucket.peek(&state, now, 1).delay(), 100_000);
}

#[test]
fn pending_reservation_is_refunded_only_if_last_and_whole() {
    let quota = Quota::token_bucket("10/s burst 2".parse().unwrap()).unwrap();
    let quota = quota.with_reservations(Duration::from_secs(1)).unwrap();
    let bucket = Bucket::new(&quota, Tick::Microsecond).unwrap();
    let mut state = BucketState::default();
    let now = 1_000_000;
    let receipts = [0, 0, 200_000].map(|delay| {
        let cost = if delay > 0 { 2 } else { 1 };
        assert_eq!(bucket.reserve(&mut state, now, cost, u64::MAX).delay(), delay);
        bucket.charged(&state, now, cost)
    });
    let full = state;
    bucket.refund(&mut state, now, &receipts[0], 1);
    assert_eq!(state, full, "there is a reservation behind it");
    bucket.refund(&mut state, now, &receipts[2], 1);
    assert_eq!(state, full, "half of a reservation would still depart later");
    bucket.refund(&mut state, now, &receipts[2], 2);
    assert_eq!(bucket.peek(&state, now, 1).retry_after(), Some(100_000));
    // Departed: tokens that time has refilled since are not refunded again.
    bucket.refund(&mut state, now + 30_000, &receipts[0], 1);
    assert_eq!(bucket.peek(&state, now + 30_000, 2).retry_after(), Some(100_000));
}

#[test]
fn unchanged_looking_state_refunds_nothing_that_was_refilled() {
    let bucket = Bucket::new(&Quota::token_bucket("1/s burst 2".parse().unwrap()).unwrap(), Tick::Microsecond).unwrap();
    let mut state = BucketState::default();
    let [first, second] = [(), ()].map(|()| {
        assert!(bucket.check(&mut state, 5_000_000, 1).is_allowed());
        bucket.charged(&state, 5_000_000, 1)
    });
    let after_both = state;
    bucket.refund(&mut state, 5_000_000, &first, 1);
    assert!(bucket.check(&mut state, 6_000_000, 1).is_allowed());
    assert_eq!(state, after_both, "as if nothing had come after the second charge");
    bucket.refund(&mut state, 6_000_000, &second, 1);
    assert_eq!(bucket.peek(&state, 6_000_000, 0).remaining, 1);
}

#[test]
fn departure_within_a_tick_never_refunds_too_much() {
    // A token takes 2.5 ticks. The third departs at 2.5, which is reported as 3.
    let quota = Quota::token_bucket("400000000/s burst 2".parse().unwrap()).unwrap();
    let quota = quota.with_reservations(Duration::from_nanos(10)).unwrap();
    let bucket = Bucket::new(&quota, Tick::Nanosecond).unwrap();
    let mut state = BucketState::default();
    let now = 1_000;
    assert!(bucket.check(&mut state, now, 2).is_allowed());
    assert_eq!(bucket.reserve(&mut state, now, 1, u64::MAX).delay(), 3);
    let charged = bucket.charged(&state, now, 1);
    bucket.refund(&mut state, now + 3, &charged, 1);
    // Half a tick of it was refilled by then; without it one token, 2.5 ticks, would be missing.
    assert_eq!(bucket.peek(&state, now + 3, 0).reset_after, 3);
}
