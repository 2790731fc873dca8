//! A cost settled above its estimate becomes debt, and later requests wait for it.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use common::quotas::any_small_quota_with_debt;
use common::{Property, cases, for_algorithm_of};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Algorithm, Bucket, Charged, MAX_AMOUNT, Queue, Quota, QuotaError, Tick, max_admitted};

const S_NS: u64 = 1_000_000_000;
const H_NS: u64 = 3_600 * S_NS;
const TICK: Tick = Tick::Nanosecond;
const START: u64 = 500_000 * H_NS;

type Make = fn(tollgate_core::Rate) -> Result<Quota, QuotaError>;
const KINDS: [Make; 4] =
    [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window_counter, Quota::sliding_window_log];

/// Checks a cost of 100 every ten seconds and settles each at 5,000, the true cost of an admitted request.
struct TrueCost {
    hours: u64,
    most: u64,
}

impl Property for TrueCost {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut state = A::State::default();
        let mut passed = 0;
        for now in (START..START + self.hours * H_NS).step_by(10 * S_NS as usize) {
            if algorithm.check(&mut state, now, 100).is_allowed() {
                let charged = algorithm.charged(&state, now, 100);
                algorithm.settle(&mut state, now, &charged, 5_000);
                passed += 5_000;
            }
        }
        prop_assert!(passed <= self.most, "{} passed in {} hours, at most {}", passed, self.hours, self.most);
        Ok(())
    }
}

#[test]
fn costs_settled_above_their_estimate_are_charged() {
    for make in KINDS {
        let quota = make("1000/h".parse().unwrap()).unwrap();
        assert_eq!(quota.max_debt(), 1_000, "{quota:?}");
        for_algorithm_of(&quota, TICK, &TrueCost { hours: 1, most: 5_000 }).unwrap();
    }
}

#[test]
fn later_requests_wait_for_the_whole_debt() {
    for make in KINDS {
        let quota = make("1000/h".parse().unwrap()).unwrap().with_max_debt(5_000).unwrap();
        let most = max_admitted(&quota, 100 * H_NS).unwrap().min(101_000) + 5_000;
        for_algorithm_of(&quota, TICK, &TrueCost { hours: 100, most }).unwrap();
    }
}

#[test]
fn max_debt_0_allows_no_debt() {
    for make in KINDS {
        let quota = make("1000/h".parse().unwrap()).unwrap().with_max_debt(0).unwrap();
        for_algorithm_of(&quota, TICK, &NoDebt).unwrap();
    }
}

/// Without debt, everything that does not fit is lost.
struct NoDebt;

impl Property for NoDebt {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let (mut owing, mut forced) = (A::State::default(), A::State::default());
        prop_assert_eq!(algorithm.owe(&mut owing, START, 1_700), 700);
        prop_assert_eq!(algorithm.force(&mut forced, START, 1_700), 700);
        prop_assert_eq!(owing, forced);
        Ok(())
    }
}

#[test]
fn max_debt_stays_within_the_range_of_the_state() {
    let bucket = Quota::token_bucket("10/h burst 20".parse().unwrap()).unwrap();
    assert_eq!(bucket.max_debt(), 20);
    assert_eq!(bucket.with_max_debt(MAX_AMOUNT + 1), Err(QuotaError::DebtTooLarge));
    assert_eq!(bucket.with_max_debt(MAX_AMOUNT), Err(QuotaError::DebtTooSlow));
    let window = Quota::fixed_window("1/day".parse().unwrap()).unwrap();
    assert_eq!(window.with_max_debt(20_000), Err(QuotaError::DebtTooSlow));
    assert_eq!(window.with_max_debt(10_000).unwrap().max_debt(), 10_000);
    let permits = Quota::concurrency(3, None).unwrap();
    assert_eq!((permits.max_debt(), permits.with_max_debt(1)), (0, Err(QuotaError::DebtOnConcurrency)));
    let queue = Quota::leaky_queue("5/s".parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
    assert_eq!(queue.max_debt(), 10);
    // A bucket whose refill takes the whole range has nothing left for a debt.
    let slowest = Quota::token_bucket("1 per 12000day burst 1".parse().unwrap()).unwrap();
    assert_eq!(slowest.max_debt(), 0);
}

#[test]
fn share_of_a_quota_scales_its_max_debt() {
    let quota = Quota::token_bucket("100/h".parse().unwrap()).unwrap();
    assert_eq!(quota.share((1, 4)).max_debt(), 25);
    assert_eq!(quota.with_max_debt(0).unwrap().share((1, 4)).max_debt(), 0);
    assert_eq!(quota.with_max_debt(3).unwrap().share((1, 4)).max_debt(), 1);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Check(u64),
    /// Settles the nth newest charge to a percentage of its cost.
    Settle(usize, u64),
    Refund(usize),
}

fn any_acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let act = prop_oneof![
        3 => (1_u64..=6).prop_map(Act::Check),
        3 => (0_usize..4, 100_u64..2_000).prop_map(|(which, percent)| Act::Settle(which, percent)),
        1 => (0_usize..4).prop_map(Act::Refund),
    ];
    let step = prop_oneof![2 => Just(0_u64), 2 => 1_u64..400, 1 => 400_u64..1_500, 1 => 1_500_u64..8_000];
    vec((step, act), 1..40)
}

fn any_reserving_quota() -> impl Strategy<Value = Quota> + Clone {
    let queue = (1_u64..=5, 1_u64..=5, 0_u64..=9).prop_map(|(limit, size, debt)| {
        let rate = format!("{limit} per 1ms").parse().unwrap();
        Quota::leaky_queue(rate, Queue { size, max_wait: None }).unwrap().with_max_debt(debt).unwrap()
    });
    let reserving = (1_u64..=5, 0_u64..=3, 0_u64..=9).prop_map(|(limit, ahead_ms, debt)| {
        let quota = Quota::token_bucket(format!("{limit} per 1ms").parse().unwrap()).unwrap();
        let quota = quota.with_reservations(std::time::Duration::from_millis(ahead_ms)).unwrap();
        quota.with_max_debt(debt).unwrap()
    });
    prop_oneof![queue, reserving]
}

/// For any charges, debts and refunds: the times in decisions are exact to the tick, and the charged amount is bounded.
struct ExactTimes<'a> {
    quota: Quota,
    acts: &'a [(u64, Act)],
}

impl ExactTimes<'_> {
    fn is_true<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let peeked = algorithm.peek(state, now, cost);
        if let Some(after) = peeked.retry_after() {
            prop_assert!(after > 0);
            prop_assert!(algorithm.peek(state, now + after, cost).is_allowed(), "{peeked:?} of {state:?}");
            prop_assert!(!algorithm.peek(state, now + after - 1, cost).is_allowed(), "{peeked:?} of {state:?}");
            let mut later = state.clone();
            algorithm.check(&mut later, now, cost);
            prop_assert!(!algorithm.check(&mut later, now + after - 1, cost).is_allowed());
            prop_assert!(algorithm.check(&mut later, now + after, cost).is_allowed());
        }
        let rest = algorithm.peek(state, now, 0);
        let (next, reset) = (rest.next_after, rest.reset_after);
        if next > 0 {
            prop_assert!(algorithm.peek(state, now + next, 0).remaining > rest.remaining);
            prop_assert!(algorithm.peek(state, now + next - 1, 0).remaining <= rest.remaining);
        }
        let untouched = algorithm.peek(&A::State::default(), now + reset, 0);
        prop_assert_eq!(algorithm.peek(state, now + reset, 0), untouched);
        if reset > 0 {
            prop_assert!(algorithm.peek(state, now + reset - 1, 0).reset_after > 0);
        }
        prop_assert!(algorithm.expires_at(state) <= now + reset || reset == 0);
        Ok(())
    }
}

impl Property for ExactTimes<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let (mut state, mut now) = (A::State::default(), 1_787_500_000_000_000);
        let mut receipts: Vec<Charged> = Vec::new();
        let mut charges: Vec<(u64, u64)> = Vec::new();
        let mut refunded = false;
        for (step, act) in self.acts {
            now += step;
            match *act {
                Act::Check(cost) => {
                    if algorithm.check(&mut state, now, cost).is_allowed() {
                        let charged = algorithm.charged(&state, now, cost);
                        receipts.push(charged);
                        charges.push((now, cost));
                    }
                }
                Act::Settle(which, percent) if which < receipts.len() => {
                    let charged = receipts.remove(receipts.len() - 1 - which);
                    let more = charged.cost * percent / 100 - charged.cost;
                    let overrun = algorithm.settle(&mut state, now, &charged, charged.cost + more).overrun;
                    charges.push((now, more - overrun));
                }
                Act::Refund(which) if which < receipts.len() => {
                    let charged = receipts.remove(receipts.len() - 1 - which);
                    let before = algorithm.peek(&state, now, 1);
                    algorithm.refund(&mut state, now, &charged, charged.cost);
                    let after = algorithm.peek(&state, now, 1);
                    prop_assert!(after.retry_after().unwrap_or(0) <= before.retry_after().unwrap_or(0));
                    refunded = true;
                }
                Act::Settle(..) | Act::Refund(_) => {}
            }
            for cost in [1, 3, 7] {
                self.is_true(algorithm, &state, now, cost)?;
            }
        }
        // Positions of a queue are charged when they depart, not when they are granted.
        if !refunded && self.quota.ahead_ns() == 0 {
            for (from, first) in charges.iter().enumerate() {
                let mut sum = 0;
                for (at, cost) in &charges[from..] {
                    sum += cost;
                    // The span in nanoseconds of the ticks from the first charge to this one, including both.
                    let most = max_admitted(&self.quota, (at - first.0 + 1) * 1_000).unwrap();
                    prop_assert!(sum <= most + self.quota.max_debt(), "{sum} charged where at most {most}");
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn decisions_on_keys_with_debt_are_exact_to_the_tick(quota in any_small_quota_with_debt(), acts in any_acts()) {
        for_algorithm_of(&quota, Tick::Microsecond, &ExactTimes { quota, acts: &acts })?;
    }

    #[test]
    fn decisions_on_keys_with_debt_and_reservations_are_exact_to_the_tick(
        quota in any_reserving_quota(),
        acts in any_acts(),
    ) {
        for_algorithm_of(&quota, Tick::Microsecond, &ExactTimes { quota, acts: &acts })?;
    }
}

/// A clock that goes back while there is a debt neither cancels it nor locks the key out for as long as the step.
struct ClockGoesBack {
    quota: Quota,
}

impl Property for ClockGoesBack {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        for back in [1, S_NS, H_NS, 30 * H_NS, 1_000 * H_NS] {
            let mut state = A::State::default();
            prop_assert_eq!(algorithm.owe(&mut state, START, 50), 30);
            let before = algorithm.peek(&state, START, 1).retry_after().unwrap();
            let now = START - back;
            let retry_after = algorithm.check(&mut state, now, 1).retry_after().unwrap();
            prop_assert!(retry_after >= before.min(H_NS), "{back} back: {retry_after} ns, {before} before");
            // Everything used and owed, plus the windows that a step may cost.
            prop_assert!(retry_after <= 5 * H_NS, "{back} back: {retry_after} ns under {:?}", self.quota);
            prop_assert!(!algorithm.check(&mut state, now + retry_after - 1, 1).is_allowed());
            prop_assert!(algorithm.check(&mut state, now + retry_after, 1).is_allowed());
        }
        Ok(())
    }
}

#[test]
fn clock_step_back_neither_cancels_debt_nor_locks_out_for_long() {
    for make in KINDS {
        let quota = make("10/h".parse().unwrap()).unwrap();
        for_algorithm_of(&quota, TICK, &ClockGoesBack { quota }).unwrap();
    }
}

#[test]
fn debt_leaves_no_capacity_for_reservations_or_queueing() {
    let hour = std::time::Duration::from_secs(3_600);
    let reserving = Quota::token_bucket("10/h".parse().unwrap()).unwrap().with_reservations(hour).unwrap();
    let queue = Quota::leaky_queue("10/h".parse().unwrap(), Queue { size: 10, max_wait: None }).unwrap();
    // Reservations beyond the burst, 10 tokens, count as debt. A queue keeps its positions. A cost that has already
    // occurred may take its last position, which no request gets, before there is a debt.
    for (quota, last_place) in [(reserving.with_max_debt(20).unwrap(), 0), (queue, 1)] {
        let bucket = Bucket::new(&quota, TICK).unwrap();
        let mut state = Default::default();
        // Everything that can be reserved is, and then there is a debt of 5.
        while bucket.check_within(&mut state, START, 1, u64::MAX).is_allowed() {}
        let full = bucket.peek(&state, START, 0).reset_after;
        assert_eq!(bucket.owe(&mut state, START, 5), 0, "{quota:?}");
        let refused = bucket.check_within(&mut state, START, 1, u64::MAX);
        let token = H_NS / 10;
        assert_eq!(refused.retry_after(), Some(6 * token), "five that are owed, and one");
        assert_eq!(refused.reset_after, full + 5 * token);
        // Repeated attempts do not exceed the largest debt.
        assert_eq!(bucket.owe(&mut state, START, 100), 95 - last_place, "{quota:?}");
        assert_eq!(bucket.owe(&mut state, START, 100), 100, "{quota:?}");
    }
}

#[test]
fn refunds_on_a_key_with_debt_lower_the_debt() {
    let make = |rate: &str| Quota::token_bucket(rate.parse().unwrap()).unwrap();
    let hour = std::time::Duration::from_secs(3_600);
    let reserving = make("10/h").with_reservations(hour).unwrap().with_max_debt(20).unwrap();
    for (quota, reserved) in [(make("10/h"), 0), (reserving, 10)] {
        let bucket = Bucket::new(&quota, TICK).unwrap();
        let mut state = Default::default();
        assert!(bucket.check(&mut state, START, 4).is_allowed());
        let charged = bucket.charged(&state, START, 4);
        bucket.owe(&mut state, START, 6);
        (0..reserved).for_each(|_| assert!(bucket.reserve(&mut state, START, 1, u64::MAX).is_allowed()));
        bucket.owe(&mut state, START, 7);
        let before = bucket.peek(&state, START, 0).reset_after;
        bucket.refund(&mut state, START, &charged, 4);
        assert_eq!(before - bucket.peek(&state, START, 0).reset_after, 4 * H_NS / 10, "{quota:?}");
        bucket.refund(&mut state, START, &charged, 4);
        // A debt of three is left; behind reservations no more can be refunded.
        let lowered = if reserved > 0 { 3 } else { 4 };
        assert_eq!(before - bucket.peek(&state, START, 0).reset_after, (4 + lowered) * H_NS / 10, "{quota:?}");
    }
}

#[test]
fn log_pays_a_large_debt_without_visiting_every_window() {
    let quota = Quota::sliding_window_log("1 per 1ms".parse().unwrap()).unwrap().with_max_debt(1_000_000_000).unwrap();
    let log = tollgate_core::SlidingLog::new(&quota, TICK).unwrap();
    let (mut state, ms) = (Default::default(), S_NS / 1_000);
    assert_eq!(log.owe(&mut state, START, 2_000_000_000), 999_999_999);
    let later = START + 400_000_000 * ms;
    let refused = log.peek(&state, later, 1);
    assert_eq!((refused.remaining, refused.retry_after()), (0, Some(600_000_001 * ms)));
    assert_eq!(refused.reset_after, 600_000_001 * ms);
    assert!(!log.check(&mut state, later + 600_000_001 * ms - 1, 1).is_allowed());
    assert!(log.check(&mut state, later + 600_000_001 * ms, 1).is_allowed());
}

/// At the beginning and at the end of time, where times saturate.
struct AtTheEnds {
    most: u64,
}

impl Property for AtTheEnds {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let ends = [0, 1, S_NS, u64::MAX - 3 * H_NS, u64::MAX - S_NS, u64::MAX - 1, u64::MAX];
        for (first, then) in ends.iter().flat_map(|first| ends.map(|then| (*first, then))) {
            let mut state = A::State::default();
            algorithm.owe(&mut state, first, self.most);
            for cost in [0, 1, 5] {
                algorithm.peek(&state, then, cost);
                algorithm.check(&mut state, then, cost);
            }
            algorithm.owe(&mut state, then, self.most);
            algorithm.peek(&state, first, 3);
            let charged = algorithm.charged(&state, then, 5);
            algorithm.refund(&mut state, first, &charged, 5);
            let rest = algorithm.peek(&state, then, 0);
            prop_assert!(rest.remaining <= rest.limit);
        }
        Ok(())
    }
}

#[test]
fn debts_at_the_ends_of_time_do_not_overflow_or_hang() {
    for make in KINDS {
        let quota = make("10/s".parse().unwrap()).unwrap().with_max_debt(1_000_000_000).unwrap();
        for most in [15, 1_000_000_000] {
            for_algorithm_of(&quota, TICK, &AtTheEnds { most }).unwrap();
        }
    }
}

#[test]
fn largest_bucket_can_owe_its_burst_again() {
    let rate = "1000000000/s".parse::<tollgate_core::Rate>().unwrap().with_burst(MAX_AMOUNT).unwrap();
    let quota = Quota::token_bucket(rate).unwrap();
    assert_eq!(quota.max_debt(), MAX_AMOUNT);
    for tick in [Tick::Nanosecond, Tick::Microsecond] {
        let bucket = Bucket::new(&quota, tick).unwrap();
        let mut state = Default::default();
        assert_eq!(bucket.owe(&mut state, START, 2 * MAX_AMOUNT - 1), 0);
        assert_eq!(bucket.owe(&mut state, START, u64::MAX), u64::MAX - 1);
        assert_eq!(bucket.peek(&state, START, 0).reset_after, 2_000 * S_NS / tick.ns());
    }
}
