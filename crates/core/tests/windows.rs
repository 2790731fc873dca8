//! Windows and logs decide like a plain list of all charges.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::cases;
use common::oracles::{Charges, whole};
use common::quotas::{self, any_tick};
use common::traces::{Cost, Scale, Step, any_start, any_trace};
use num_rational::BigRational;
use proptest::prelude::*;
use tollgate_core::{
    Algorithm, AlgorithmKind, ChargeVerdict, Decision, FixedWindow, Quota, Rate, SlidingCounter, SlidingLog, Tick,
};

/// Computes the usage at a time from the list of charges.
type Counting = fn(&Charges, u64, u64) -> BigRational;

/// Runs a trace through the algorithm and the list in parallel.
fn compare<A: Algorithm>(
    algorithm: &A,
    counting: Counting,
    (quota, tick, start): (Quota, Tick, u64),
    trace: &[(Step, Cost)],
    first_fit: impl Fn(&dyn Fn(u64) -> bool, u64, Decision) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let (limit, window) = (quota.amount(), quota.period_ns() / tick.ns());
    let scale = Scale::new(&quota, tick, limit);
    let mut charges = Charges::default();
    let mut state = A::State::default();
    let (mut now, mut last) = (start, None);
    for (step, cost) in trace {
        now += scale.step(*step, last);
        let cost = scale.cost(*cost);
        let looked = algorithm.peek(&state, now, cost);
        let decision = algorithm.check(&mut state, now, cost);
        prop_assert_eq!(looked, decision);
        let fits_at = |charges: &Charges, time: u64| counting(charges, time, window) + whole(cost) <= whole(limit);
        match decision.verdict {
            _ if cost == 0 => prop_assert!(decision.is_allowed()),
            ChargeVerdict::Allowed { delay } => {
                prop_assert!(delay == 0 && fits_at(&charges, now));
                charges.0.push((now, cost));
            }
            ChargeVerdict::Refused { .. } => {
                prop_assert!(cost <= limit && !fits_at(&charges, now));
                first_fit(&|time| fits_at(&charges, time), now, decision)?;
            }
            verdict => prop_assert!(verdict == ChargeVerdict::Impossible && cost > limit),
        }
        let counted = counting(&charges, now, window);
        prop_assert_eq!(decision.limit, limit);
        prop_assert_eq!(whole(decision.remaining), (whole(limit) - &counted).floor());
        // After `reset_after` nothing counts any more, and one tick earlier something still does.
        let weighs_at = |time: u64| {
            // A window later than the end of time has no charges.
            let later = time.checked_add(window);
            counting(&charges, time, window) > whole(0)
                || later.is_some_and(|later| counting(&charges, later, window) > whole(0))
        };
        let fades = quota.kind() == AlgorithmKind::SlidingWindowCounter;
        let counts_at = |time: u64| if fades { weighs_at(time) } else { counting(&charges, time, window) > whole(0) };
        prop_assert!(!counts_at(now + decision.reset_after));
        prop_assert!(decision.reset_after == 0 || counts_at(now + decision.reset_after - 1));
        prop_assert_eq!(algorithm.expires_at(&state).max(now), now + decision.reset_after);
        last = Some(decision);
    }
    Ok(())
}

fn against_the_list(
    setting: (Quota, Tick, u64),
    trace: &[(Step, Cost)],
    first_fit: impl Fn(&dyn Fn(u64) -> bool, u64, Decision) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let (quota, tick, _) = setting;
    match quota.kind() {
        AlgorithmKind::FixedWindow => {
            compare(&FixedWindow::new(&quota, tick).unwrap(), Charges::in_window, setting, trace, first_fit)
        }
        AlgorithmKind::SlidingWindowCounter => {
            compare(&SlidingCounter::new(&quota, tick).unwrap(), Charges::in_two_windows, setting, trace, first_fit)
        }
        _ => compare(&SlidingLog::new(&quota, tick).unwrap(), Charges::in_trailing, setting, trace, first_fit),
    }
}

/// The list admits after exactly the reported time, and not a tick earlier.
fn assert_admits_exactly_at(fits: &dyn Fn(u64) -> bool, now: u64, decision: Decision) -> Result<(), TestCaseError> {
    let wait = decision.retry_after().unwrap();
    prop_assert!(fits(now + wait));
    prop_assert!(!fits(now + wait - 1));
    Ok(())
}

/// The list admits at no tick before the reported time. For windows of few ticks only.
fn assert_admits_at_no_earlier_tick(
    fits: &dyn Fn(u64) -> bool,
    now: u64,
    decision: Decision,
) -> Result<(), TestCaseError> {
    let first = (now..).find(|time| fits(*time)).unwrap();
    prop_assert_eq!(decision.retry_after(), Some(first - now));
    Ok(())
}

fn any_window() -> impl Strategy<Value = Quota> + Clone {
    prop_oneof![quotas::any_fixed_window(), quotas::any_counter(), quotas::any_log()]
}

/// A millisecond in microseconds is the shortest possible window: 1,000 ticks.
fn small_window() -> impl Strategy<Value = Quota> + Clone {
    (1_u64..=12, 0..3).prop_map(|(count, kind)| {
        let rate = Rate::new(count, Duration::from_millis(1)).unwrap();
        match kind {
            0 => Quota::fixed_window(rate),
            1 => Quota::sliding_window_counter(rate),
            _ => Quota::sliding_window_log(rate),
        }
        .unwrap()
    })
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn windows_decide_like_the_list_of_charges(
        (setting, trace) in (any_window(), any_tick())
            .prop_flat_map(|(quota, tick)| ((Just(quota), Just(tick), any_start(tick)), any_trace(24))),
    ) {
        against_the_list(setting, &trace, assert_admits_exactly_at)?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn no_tick_before_retry_after_admits(quota in small_window(), start in 2_000_u64..5_000, trace in any_trace(16)) {
        against_the_list((quota, Tick::Microsecond, start), &trace, assert_admits_at_no_earlier_tick)?;
    }
}

#[test]
fn fixed_window_admits_twice_its_limit_around_a_boundary() {
    let window = FixedWindow::new(&Quota::fixed_window("10/s".parse().unwrap()).unwrap(), Tick::Microsecond).unwrap();
    let mut state = Default::default();
    assert!(window.check(&mut state, 4_999_999, 10).is_allowed());
    assert!(!window.check(&mut state, 4_999_999, 1).is_allowed());
    assert!(window.check(&mut state, 5_000_000, 10).is_allowed());
}

#[test]
fn sliding_counter_reaches_its_worst_case() {
    let quota = Quota::sliding_window_counter("10/s".parse().unwrap()).unwrap();
    let counter = SlidingCounter::new(&quota, Tick::Microsecond).unwrap();
    let mut state = Default::default();
    // Everything at the end of one window, then as much as fits at the end of the next, within one window's length.
    assert!(counter.check(&mut state, 4_999_999, 10).is_allowed());
    let late =
        (0..999_999).map(|offset| 5_000_000 + offset).filter(|now| counter.check(&mut state, *now, 1).is_allowed());
    assert_eq!(10 + late.count(), 19);
}
