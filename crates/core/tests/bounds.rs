//! No order of events admits more than a quota's bound, and none locks a key out for long.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::traces::{Cost, Scale, Step, any_cost, any_start, any_step, any_trace};
use common::{Property, cases, for_algorithm_of, quotas};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, BucketState, Charged, FixedWindow, Queue, Quota, Rate, Tick, max_admitted,
    max_admitted_without_delays,
};

#[derive(Clone, Debug)]
enum Event {
    Forward(Step),
    Back(Step),
    Request(Cost),
    Force(Cost),
    Refund(Index),
    /// Settles to this percentage of the charge.
    Settle(Index, u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any_step().prop_map(Event::Forward),
        1 => any_step().prop_map(Event::Back),
        8 => any_cost().prop_map(Event::Request),
        1 => any_cost().prop_map(Event::Force),
        2 => any::<Index>().prop_map(Event::Refund),
        1 => (any::<Index>(), 0_u64..250).prop_map(|(index, percent)| Event::Settle(index, percent)),
    ]
}

/// Limits small enough for a trace to exhaust, whose tokens take from 1 tick to many, whole or not.
fn tight_rate() -> impl Strategy<Value = Rate> + Clone {
    let count = prop_oneof![2 => 1_u64..=12, 1 => 100_000_u64..=1_000_000];
    (count, 1_u64..=3).prop_map(|(count, ms)| Rate::new(count, Duration::from_millis(ms)).unwrap())
}

fn tight_bucket() -> impl Strategy<Value = Quota> + Clone {
    (tight_rate(), 1_u64..=6).prop_map(|(rate, burst)| Quota::token_bucket(rate.with_burst(burst).unwrap()).unwrap())
}

fn tight_reserving_bucket() -> impl Strategy<Value = Quota> + Clone {
    (tight_bucket(), 1_u64..=500).prop_map(|(quota, percent_of_token)| {
        let ahead = (quota.period_ns() * percent_of_token / quota.amount() / 100).max(1);
        quota.with_reservations(Duration::from_nanos(ahead)).unwrap()
    })
}

fn tight_queue() -> impl Strategy<Value = Quota> + Clone {
    (tight_rate(), 1_u64..=6).prop_map(|(rate, size)| Quota::leaky_queue(rate, Queue { size, max_wait: None }).unwrap())
}

fn tight_window() -> impl Strategy<Value = Quota> + Clone {
    (1_u64..=8, 1_u64..=3, 0..3).prop_map(|(count, ms, kind)| {
        let rate = Rate::new(count, Duration::from_millis(ms)).unwrap();
        match kind {
            0 => Quota::fixed_window(rate),
            1 => Quota::sliding_window_counter(rate),
            _ => Quota::sliding_window_log(rate),
        }
        .unwrap()
    })
}

fn tight_quota() -> impl Strategy<Value = Quota> + Clone {
    let quota = prop_oneof![tight_bucket(), tight_reserving_bucket(), tight_queue(), tight_window(), tight_window()];
    let debt = prop_oneof![Just(0), 1_u64..=4, 20_u64..=40];
    (quota, debt).prop_map(|(quota, debt)| quota.with_max_debt(debt).unwrap())
}

/// A charge that its caller may still refund.
struct Receipt {
    charged: Charged,
    /// The index in the list of admitted amounts.
    admission: usize,
    is_from_before_a_step_back: bool,
}

/// Runs events and measures time as the sum of the steps forward.
struct BoundHolds<'a> {
    quota: Quota,
    start: u64,
    events: &'a [Event],
    keeps_receipts_over_steps_back: bool,
}

impl Property for BoundHolds<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut state = A::State::default();
        let queues = self.quota.kind() == AlgorithmKind::LeakyQueue;
        let scale = Scale::new(&self.quota, Tick::Nanosecond, algorithm.peek(&state, self.start, 0).limit);
        let (mut now, mut passed, mut last) = (self.start, 0, None);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        let mut receipts: Vec<Receipt> = Vec::new();
        let mut given_back_late = 0;
        for event in self.events {
            match event {
                Event::Forward(step) => {
                    let step = scale.step(*step, last);
                    (now, passed) = (now + step, passed + step);
                }
                Event::Back(step) => {
                    now -= scale.step(*step, last);
                    if self.keeps_receipts_over_steps_back {
                        receipts.iter_mut().for_each(|receipt| receipt.is_from_before_a_step_back = true);
                    } else {
                        receipts.clear();
                    }
                }
                Event::Request(cost) => {
                    // The bound of a queue is stated for single units.
                    let cost = if queues { 1 } else { scale.cost(*cost) };
                    let decision = algorithm.check_within(&mut state, now, cost, u64::MAX);
                    if decision.is_allowed() && cost > 0 {
                        let charged = algorithm.charged(&state, now, cost);
                        receipts.push(Receipt {
                            charged,
                            admission: admitted.len(),
                            is_from_before_a_step_back: false,
                        });
                        admitted.push((passed + decision.delay(), cost));
                    }
                    last = Some(decision);
                }
                Event::Force(cost) => {
                    let cost = scale.cost(*cost);
                    let charged = cost - algorithm.force(&mut state, now, cost);
                    // A cost forced into a queue makes others wait longer, but does not depart.
                    admitted.push((passed, if queues { 0 } else { charged }));
                }
                Event::Refund(index) | Event::Settle(index, _) if !receipts.is_empty() => {
                    let receipt = receipts.swap_remove(index.index(receipts.len()));
                    let cost = receipt.charged.cost;
                    let percent = if let Event::Settle(_, percent) = event { *percent } else { 0 };
                    let true_cost = (u128::from(cost) * u128::from(percent) / 100) as u64;
                    if true_cost < cost && receipt.is_from_before_a_step_back {
                        given_back_late += cost - true_cost;
                    }
                    admitted[receipt.admission].1 = true_cost.min(cost);
                    let overrun = algorithm.settle(&mut state, now, &receipt.charged, true_cost).overrun;
                    admitted.push((passed, if queues { 0 } else { true_cost.saturating_sub(cost) - overrun }));
                }
                Event::Refund(_) | Event::Settle(..) => {}
            }
        }
        admitted.sort_unstable();
        for (i, (first, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (at, amount) in &admitted[i..] {
                sum += amount;
                // Debt is paid afterwards.
                let most = max_admitted(&self.quota, at - first + 1).unwrap() + self.quota.max_debt();
                prop_assert!(sum <= most + given_back_late, "{sum} in {} ticks, at most {most}", at - first + 1);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn no_algorithm_admits_more_than_its_bound(
        quota in tight_quota(),
        start in any_start(Tick::Nanosecond),
        events in vec(any_event(), 1..60),
    ) {
        let property = BoundHolds { quota, start, events: &events, keeps_receipts_over_steps_back: false };
        for_algorithm_of(&quota, Tick::Nanosecond, &property)?;
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn receipt_from_before_a_clock_step_back_creates_at_most_its_own_amount(
        quota in tight_quota(),
        start in any_start(Tick::Nanosecond),
        events in vec(any_event(), 1..60),
    ) {
        let property = BoundHolds { quota, start, events: &events, keeps_receipts_over_steps_back: true };
        for_algorithm_of(&quota, Tick::Nanosecond, &property)?;
    }
}

/// A clock step back of any size locks out a client that keeps checking for at most this time.
struct LockOutIsBounded<'a> {
    quota: Quota,
    tick: Tick,
    start: u64,
    trace: &'a [(Step, Cost)],
    back: u64,
    cost: Cost,
}

impl Property for LockOutIsBounded<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut state = A::State::default();
        let fresh = algorithm.peek(&state, self.start, 0);
        let scale = Scale::new(&self.quota, self.tick, fresh.limit);
        let (mut now, mut last) = (self.start, None);
        for (step, cost) in self.trace {
            now += scale.step(*step, last);
            last = Some(algorithm.check_within(&mut state, now, scale.cost(*cost), u64::MAX));
        }
        let cost = scale.cost(self.cost).clamp(1, fresh.limit);
        let period = self.quota.period_ns() / self.tick.ns();
        let now = now.saturating_sub(self.back).max(self.start - (1 << 60) / self.tick.ns() + 2 * period);
        let longest = match self.quota.kind() {
            AlgorithmKind::FixedWindow => 2 * period,
            // The counts of a counter stay for one more window, fading.
            AlgorithmKind::SlidingWindowCounter => 3 * period,
            AlgorithmKind::SlidingWindowLog => period,
            // Everything that the bucket can hold, reserve and owe.
            _ => {
                let mut full = A::State::default();
                algorithm.owe(&mut full, now, u64::MAX);
                algorithm.peek(&full, now, 0).reset_after + self.quota.ahead_ns() / self.tick.ns()
            }
        };
        if let Some(wait) = algorithm.check(&mut state, now, cost).retry_after() {
            prop_assert!(wait <= longest, "{wait} ticks are more than {longest}");
            prop_assert!(!algorithm.peek(&state, now + wait - 1, cost).is_allowed());
            prop_assert!(algorithm.check(&mut state, now + wait, cost).is_allowed());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn clock_step_back_locks_out_for_a_bounded_time(
        (quota, tick, start) in (quotas::any_timed_quota(), quotas::any_tick())
            .prop_flat_map(|(quota, tick)| (Just(quota), Just(tick), any_start(tick))),
        trace in any_trace(12),
        back in quotas::any_magnitude(1 << 60),
        cost in any_cost(),
    ) {
        for_algorithm_of(&quota, tick, &LockOutIsBounded { quota, tick, start, trace: &trace, back, cost })?;
    }
}

#[test]
fn fully_refunded_window_stays_active_after_a_clock_step_back() {
    // The limit is used in the window before 6 s; the window after it is begun and refunded.
    let before = 5_999_999;
    let fixed = FixedWindow::new(&Quota::fixed_window("4/s".parse().unwrap()).unwrap(), Tick::Microsecond).unwrap();
    let mut state = Default::default();
    assert!(fixed.check(&mut state, before, 4).is_allowed());
    assert!(fixed.check(&mut state, before + 1, 1).is_allowed());
    let charged = fixed.charged(&state, before + 1, 1);
    fixed.refund(&mut state, before + 1, &charged, 1);
    let admitted = [before, before + 1].map(|now| fixed.check(&mut state, now, 4).is_allowed());
    assert_eq!(admitted, [true, false], "one window's worth, not two");
}

fn bounded_queue() -> impl Strategy<Value = Quota> {
    let max_wait = prop::option::of((0_u64..=3_000_000).prop_map(Duration::from_nanos));
    (tight_rate(), 1_u64..=6, max_wait)
        .prop_map(|(rate, size, max_wait)| Quota::leaky_queue(rate, Queue { size, max_wait }).unwrap())
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn queue_whose_callers_do_not_wait_stays_within_its_bound_without_delays(
        quota in bounded_queue(),
        arrivals in vec((prop_oneof![Just(0_u64), 0..400_000_u64], 1_u64..=6), 1..60),
        span_ns in 1_u64..4_000_000,
    ) {
        let bucket = Bucket::new(&quota, Tick::Nanosecond).unwrap();
        let (mut state, mut now) = (BucketState::default(), 1_000_000_000);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        for (pause, cost) in arrivals {
            now += pause;
            if bucket.check(&mut state, now, cost).is_allowed() {
                admitted.push((now, cost));
            }
        }
        let most = max_admitted_without_delays(&quota, span_ns).unwrap();
        for (at, (from, _)) in admitted.iter().enumerate() {
            let within: u64 =
                admitted[at..].iter().take_while(|(time, _)| time - from < span_ns).map(|(_, cost)| cost).sum();
            prop_assert!(within <= most, "{within} of {most} in {span_ns} ns under {quota:?}");
        }
    }
}

#[test]
fn queue_bound_without_delays_is_its_size_plus_departures() {
    // One every 200 ms: ten at once and five in the second after them, or four positions within 700 ms of waiting.
    for (max_wait_ms, in_second, at_once) in [(5_000, 15, 10), (700, 9, 4)] {
        let max_wait = Some(Duration::from_millis(max_wait_ms));
        let quota = Quota::leaky_queue("5/s".parse().unwrap(), Queue { size: 10, max_wait }).unwrap();
        assert_eq!(max_admitted_without_delays(&quota, 1_000_000_000), Some(in_second));
        assert_eq!(max_admitted_without_delays(&quota, 1), Some(at_once));
    }
}
