//! What is settled above its estimate is owed, and later requests wait for it.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::VecDeque;

use common::oracles::{TokenBucket, whole};
use common::{Property, cases, for_algorithm_of};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, Charged, FixedWindow, MAX_AMOUNT, Queue, Quota, QuotaError, SlidingCounter,
    SlidingLog, Tick, Verdict, most_admitted,
};

const S_NS: u64 = 1_000_000_000;
const H_NS: u64 = 3_600 * S_NS;
const TICK: Tick = Tick::Nanosecond;
const START: u64 = 500_000 * H_NS;

type Make = fn(tollgate_core::Rate) -> Result<Quota, QuotaError>;
const KINDS: [Make; 4] =
    [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window_counter, Quota::sliding_window_log];

/// Asks for 100 every ten seconds and settles each at 5,000: the true cost of what passed.
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
fn costs_settled_above_their_estimate_do_not_leak() {
    for make in KINDS {
        let quota = make("1000/h".parse().unwrap()).unwrap();
        assert_eq!(quota.max_debt(), 1_000, "{quota:?}");
        for_algorithm_of(&quota, TICK, &TrueCost { hours: 1, most: 5_000 }).unwrap();
    }
}

#[test]
fn all_of_the_true_cost_is_waited_for_where_it_may_be_owed() {
    for make in KINDS {
        let quota = make("1000/h".parse().unwrap()).unwrap().with_max_debt(5_000).unwrap();
        let most = most_admitted(&quota, 100 * H_NS).unwrap().min(101_000) + 5_000;
        for_algorithm_of(&quota, TICK, &TrueCost { hours: 100, most }).unwrap();
    }
}

#[test]
fn nothing_is_owed_where_no_debt_is_allowed() {
    for make in KINDS {
        let quota = make("1000/h".parse().unwrap()).unwrap().with_max_debt(0).unwrap();
        for_algorithm_of(&quota, TICK, &Paid).unwrap();
    }
}

/// Without a debt, everything that does not fit is lost.
struct Paid;

impl Property for Paid {
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
fn a_debt_stays_within_the_range_of_the_state() {
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
    // A bucket that takes all of the range to refill has none left for a debt.
    let slowest = Quota::token_bucket("1 per 12000day burst 1".parse().unwrap()).unwrap();
    assert_eq!(slowest.max_debt(), 0);
}

#[test]
fn shares_of_a_quota_owe_a_share() {
    let quota = Quota::token_bucket("100/h".parse().unwrap()).unwrap();
    assert_eq!(quota.share((1, 4)).max_debt(), 25);
    assert_eq!(quota.with_max_debt(0).unwrap().share((1, 4)).max_debt(), 0);
    assert_eq!(quota.with_max_debt(3).unwrap().share((1, 4)).max_debt(), 1);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Check(u64),
    /// What was charged last but so many, at so many percent of its cost.
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

/// Quotas of a millisecond or two, in microseconds, that owe a little or a lot.
fn any_small_quota() -> impl Strategy<Value = Quota> + Clone {
    let kinds = prop_oneof![
        Just(Quota::token_bucket as Make),
        Just(Quota::fixed_window as Make),
        Just(Quota::sliding_window_counter as Make),
        Just(Quota::sliding_window_log as Make),
    ];
    (kinds, 1_u64..=7, 1_u64..=2, 0_u64..=25).prop_map(|(make, limit, ms, debt)| {
        make(format!("{limit} per {ms}ms").parse().unwrap()).unwrap().with_max_debt(debt).unwrap()
    })
}

fn any_promising_quota() -> impl Strategy<Value = Quota> + Clone {
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

/// Whatever is charged, owed and given back: answers are true to the tick, and what was charged is bounded.
struct TrueAnswers<'a> {
    quota: Quota,
    acts: &'a [(u64, Act)],
}

impl TrueAnswers<'_> {
    fn is_true<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let asked = algorithm.look(state, now, cost);
        if let Some(after) = asked.retry_after() {
            prop_assert!(after > 0);
            prop_assert!(algorithm.look(state, now + after, cost).is_allowed(), "{asked:?} of {state:?}");
            prop_assert!(!algorithm.look(state, now + after - 1, cost).is_allowed(), "{asked:?} of {state:?}");
            let mut later = state.clone();
            algorithm.check(&mut later, now, cost);
            prop_assert!(!algorithm.check(&mut later, now + after - 1, cost).is_allowed());
            prop_assert!(algorithm.check(&mut later, now + after, cost).is_allowed());
        }
        let rest = algorithm.look(state, now, 0);
        let (next, reset) = (rest.next_after, rest.reset_after);
        if next > 0 {
            prop_assert!(algorithm.look(state, now + next, 0).remaining > rest.remaining);
            prop_assert!(algorithm.look(state, now + next - 1, 0).remaining <= rest.remaining);
        }
        let untouched = algorithm.look(&A::State::default(), now + reset, 0);
        prop_assert_eq!(algorithm.look(state, now + reset, 0), untouched);
        if reset > 0 {
            prop_assert!(algorithm.look(state, now + reset - 1, 0).reset_after > 0);
        }
        prop_assert!(algorithm.untouched_at(state) <= now + reset || reset == 0);
        Ok(())
    }
}

impl Property for TrueAnswers<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let (mut state, mut now) = (A::State::default(), 1_787_500_000_000_000);
        let mut receipts: Vec<Charged> = Vec::new();
        let mut charges: Vec<(u64, u64)> = Vec::new();
        let mut gave_back = false;
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
                    let before = algorithm.look(&state, now, 1);
                    algorithm.give_back(&mut state, now, &charged, charged.cost);
                    let after = algorithm.look(&state, now, 1);
                    prop_assert!(after.retry_after().unwrap_or(0) <= before.retry_after().unwrap_or(0));
                    gave_back = true;
                }
                Act::Settle(..) | Act::Refund(_) => {}
            }
            for cost in [1, 3, 7] {
                self.is_true(algorithm, &state, now, cost)?;
            }
        }
        // Places of a queue are charged when they depart, which is not when they are given.
        if !gave_back && self.quota.ahead_ns() == 0 {
            for (from, first) in charges.iter().enumerate() {
                let mut sum = 0;
                for (at, cost) in &charges[from..] {
                    sum += cost;
                    // Span in nanoseconds of the ticks from the first charge to this one, both in it.
                    let most = most_admitted(&self.quota, (at - first.0 + 1) * 1_000).unwrap();
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
    fn answers_on_indebted_keys_are_true_to_the_tick(quota in any_small_quota(), acts in any_acts()) {
        for_algorithm_of(&quota, Tick::Microsecond, &TrueAnswers { quota, acts: &acts })?;
    }

    #[test]
    fn answers_on_indebted_keys_that_promise_are_true_to_the_tick(
        quota in any_promising_quota(),
        acts in any_acts(),
    ) {
        for_algorithm_of(&quota, Tick::Microsecond, &TrueAnswers { quota, acts: &acts })?;
    }
}

/// What each algorithm owes, told unit by unit.
trait Oracle {
    fn check(&mut self, now: u64, cost: u64) -> bool;
    /// Charges what may be owed, and returns the rest.
    fn owe(&mut self, now: u64, cost: u64) -> u64;
}

fn agrees<A: Algorithm>(algorithm: &A, oracle: &mut impl Oracle, steps: &[(u64, bool, u64)]) -> TestCaseResult {
    let (mut state, mut now) = (A::State::default(), 1_787_500_000_000_000);
    for (step, owes, cost) in steps {
        now += step;
        if *owes {
            prop_assert_eq!(algorithm.owe(&mut state, now, *cost), oracle.owe(now, *cost));
        } else {
            prop_assert_eq!(algorithm.check(&mut state, now, *cost).is_allowed(), oracle.check(now, *cost));
        }
    }
    Ok(())
}

fn any_steps() -> impl Strategy<Value = Vec<(u64, bool, u64)>> {
    let step = prop_oneof![2 => Just(0_u64), 2 => 1_u64..400, 2 => 400_u64..1_500, 1 => 1_500_u64..9_000];
    let act = prop_oneof![(Just(false), 1_u64..=7), (Just(true), 1_u64..=20)];
    vec((step, act).prop_map(|(step, (owes, cost))| (step, owes, cost)), 1..60)
}

impl Oracle for (TokenBucket, u64) {
    fn check(&mut self, now: u64, cost: u64) -> bool {
        matches!(self.0.request(now, cost, 0).verdict, Verdict::Allowed { .. })
    }

    fn owe(&mut self, now: u64, cost: u64) -> u64 {
        self.0.advance(now);
        let room = (&self.0.level + whole(self.1)).floor().max(whole(0));
        let fits = room.clone().min(whole(cost));
        let lost = whole(cost) - &fits;
        // A charge that does not fit takes all there is.
        self.0.level = if lost > whole(0) { -whole(self.1) } else { &self.0.level - fits };
        common::oracles::to_u64(&lost)
    }
}

/// A window's total, and what it exceeds the limit by goes to the next.
struct Windows {
    quota: Quota,
    slides: bool,
    number: u64,
    previous: u64,
    total: u64,
}

impl Windows {
    fn of(quota: Quota) -> Windows {
        let slides = quota.kind() == AlgorithmKind::SlidingWindowCounter;
        Windows { quota, slides, number: 0, previous: 0, total: 0 }
    }

    fn window(&self) -> u64 {
        self.quota.period_ns() / 1_000
    }

    /// What counts at `now`, times the length of a window.
    fn counts(&mut self, now: u64) -> u64 {
        let number = now / self.window();
        if self.number == 0 {
            self.number = number;
        }
        while self.number < number {
            self.previous = self.total.min(self.quota.amount());
            self.total -= self.previous;
            self.number += 1;
        }
        let fading = if self.slides { self.previous * (self.window() - now % self.window()) } else { 0 };
        self.total * self.window() + fading
    }

    fn fits(&mut self, now: u64, cost: u64, most: u64) -> bool {
        self.counts(now) + cost * self.window() <= most * self.window()
    }
}

impl Oracle for Windows {
    fn check(&mut self, now: u64, cost: u64) -> bool {
        let fits = self.fits(now, cost, self.quota.amount());
        self.total += if fits { cost } else { 0 };
        fits
    }

    fn owe(&mut self, now: u64, cost: u64) -> u64 {
        let mut left = cost;
        while left > 0 && self.fits(now, 1, self.quota.amount() + self.quota.max_debt()) {
            self.total += 1;
            left -= 1;
        }
        left
    }
}

/// Every unit with its time; one that leaves makes place for one that is owed.
struct Units {
    quota: Quota,
    units: VecDeque<u64>,
    owed: u64,
}

impl Units {
    fn advance(&mut self, now: u64) {
        while let Some(left_at) = self.units.front().map(|at| at + self.quota.period_ns() / 1_000) {
            if left_at > now {
                break;
            }
            self.units.pop_front();
            if self.owed > 0 {
                self.units.push_back(left_at);
                self.owed -= 1;
            }
        }
    }
}

impl Oracle for Units {
    fn check(&mut self, now: u64, cost: u64) -> bool {
        self.advance(now);
        let fits = self.units.len() as u64 + self.owed + cost <= self.quota.amount();
        self.units.extend((0..if fits { cost } else { 0 }).map(|_| now));
        fits
    }

    fn owe(&mut self, now: u64, cost: u64) -> u64 {
        self.advance(now);
        for unit in 0..cost {
            if (self.units.len() as u64) < self.quota.amount() {
                self.units.push_back(now);
            } else if self.owed < self.quota.max_debt() {
                self.owed += 1;
            } else {
                return cost - unit;
            }
        }
        0
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn what_is_owed_is_what_plain_oracles_owe(quota in any_small_quota(), steps in any_steps()) {
        let tick = Tick::Microsecond;
        match quota.kind() {
            AlgorithmKind::TokenBucket => {
                let mut oracle = (TokenBucket::full(&quota, tick, 1_787_500_000_000_000), quota.max_debt());
                agrees(&Bucket::new(&quota, tick).unwrap(), &mut oracle, &steps)?;
            }
            AlgorithmKind::FixedWindow => {
                agrees(&FixedWindow::new(&quota, tick).unwrap(), &mut Windows::of(quota), &steps)?;
            }
            AlgorithmKind::SlidingWindowCounter => {
                agrees(&SlidingCounter::new(&quota, tick).unwrap(), &mut Windows::of(quota), &steps)?;
            }
            _ => {
                let mut oracle = Units { quota, units: VecDeque::new(), owed: 0 };
                agrees(&SlidingLog::new(&quota, tick).unwrap(), &mut oracle, &steps)?;
            }
        }
    }
}
