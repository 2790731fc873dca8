//! Behaviour that all algorithms have in common.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use common::quotas::{any_quota, any_tick, any_timed_quota};
use common::traces::{Cost, Scale, Step, any_cost, any_start, any_trace};
use common::{Property, cases, for_algorithm_of};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Algorithm, ChargeVerdict, Charged, Decision, Quota, Tick};

type Setting = (Quota, Tick, u64);

fn started(quota: impl Strategy<Value = Quota>) -> impl Strategy<Value = Setting> {
    (quota, any_tick()).prop_flat_map(|(quota, tick)| (Just(quota), Just(tick), any_start(tick)))
}

/// A trace that ran before, so that an edge case is tested on a state that traffic has left.
struct After<'a, F> {
    setting: Setting,
    trace: &'a [(Step, Cost)],
    edge: F,
}

/// An edge case, tested at every request of a trace.
trait Edge {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq;
}

impl<F: Edge> Property for After<'_, F> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let (quota, tick, start) = self.setting;
        let mut state = A::State::default();
        let (mut now, mut last) = (start, None);
        let scale = Scale::new(&quota, tick, algorithm.peek(&state, now, 0).limit);
        for (step, cost) in self.trace {
            now += scale.step(*step, last);
            let cost = scale.cost(*cost);
            self.edge.holds(algorithm, &state, now, cost)?;
            last = Some(algorithm.check(&mut state, now, cost));
        }
        Ok(())
    }
}

fn try_edge(setting: Setting, trace: &[(Step, Cost)], edge: impl Edge) -> TestCaseResult {
    for_algorithm_of(&setting.0, setting.1, &After { setting, trace, edge })
}

struct PeekChangesNothing;

impl Edge for PeekChangesNothing {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, _: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut peeked = state.clone();
        let decision = algorithm.check(&mut peeked, now, 0);
        prop_assert_eq!(&peeked, state);
        prop_assert_eq!(decision.verdict, ChargeVerdict::Allowed { delay: 0 });
        prop_assert_eq!(decision, algorithm.peek(state, now, 0));
        Ok(())
    }
}

struct AboveTheLimitIsImpossible;

impl Edge for AboveTheLimitIsImpossible {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut checked = state.clone();
        let decision = algorithm.check(&mut checked, now, cost);
        prop_assert_eq!(decision.verdict == ChargeVerdict::Impossible, cost > decision.limit);
        if cost > decision.limit {
            // Nothing was charged: a peek returns the same as before.
            prop_assert_eq!(algorithm.peek(&checked, now, 0), algorithm.peek(state, now, 0));
        }
        Ok(())
    }
}

struct RetryAfterIsExact;

impl Edge for RetryAfterIsExact {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut refused = state.clone();
        let Some(wait) = algorithm.check(&mut refused, now, cost).retry_after() else { return Ok(()) };
        prop_assert!(wait > 0);
        prop_assert!(algorithm.peek(&refused, now + wait, cost).is_allowed());
        let early = algorithm.check(&mut refused, now + wait - 1, cost);
        prop_assert_eq!(early.retry_after(), Some(1));
        // An early attempt costs nothing.
        prop_assert!(algorithm.check(&mut refused, now + wait, cost).is_allowed());
        Ok(())
    }
}

struct OneMoreRemainsAsTold;

impl Edge for OneMoreRemainsAsTold {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut after = state.clone();
        let decided = algorithm.check(&mut after, now, cost);
        let remaining_at = |time| algorithm.peek(&after, time, 0).remaining;
        if decided.next_after == 0 {
            prop_assert_eq!(decided.remaining, decided.limit);
            return Ok(());
        }
        prop_assert!(remaining_at(now + decided.next_after) > decided.remaining);
        prop_assert_eq!(remaining_at(now + decided.next_after - 1), decided.remaining);
        Ok(())
    }
}

struct LookingIsWhatCheckingAnswers;

impl Edge for LookingIsWhatCheckingAnswers {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let looked = algorithm.peek(state, now, cost);
        let mut checked = state.clone();
        prop_assert_eq!(looked, algorithm.check(&mut checked, now, cost));
        // The figures are those after the decision.
        let after = algorithm.peek(&checked, now, 0);
        prop_assert_eq!(
            (after.limit, after.remaining, after.reset_after),
            (looked.limit, looked.remaining, looked.reset_after)
        );
        Ok(())
    }
}

struct WhatRemainsPasses;

impl Edge for WhatRemainsPasses {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, _: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let remaining = algorithm.peek(state, now, 0).remaining;
        prop_assert!(remaining == 0 || algorithm.peek(state, now, remaining).is_allowed());
        prop_assert!(!algorithm.peek(state, now, remaining + 1).is_allowed());
        Ok(())
    }
}

struct ForgettableWhenReset;

impl Edge for ForgettableWhenReset {
    fn holds<A: Algorithm>(&self, algorithm: &A, state: &A::State, now: u64, cost: u64) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let at = algorithm.expires_at(state);
        let reset_after = algorithm.peek(state, now, 0).reset_after;
        prop_assert!(at == u64::MAX || at.max(now) == now + reset_after);
        if at < u64::MAX {
            let later = now.max(at);
            prop_assert_eq!(algorithm.peek(state, later, cost), algorithm.peek(&A::State::default(), later, cost));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(700))]

    #[test]
    fn cost_of_0_is_a_peek(setting in started(any_quota()), trace in any_trace(16)) {
        try_edge(setting, &trace, PeekChangesNothing)?;
    }

    #[test]
    fn exactly_costs_above_the_limit_are_impossible(setting in started(any_quota()), trace in any_trace(16)) {
        try_edge(setting, &trace, AboveTheLimitIsImpossible)?;
    }

    #[test]
    fn remaining_grows_at_next_after_and_not_a_tick_earlier(setting in started(any_timed_quota()), trace in any_trace(20)) {
        try_edge(setting, &trace, OneMoreRemainsAsTold)?;
    }

    #[test]
    fn request_passes_after_retry_after_and_not_a_tick_earlier(setting in started(any_timed_quota()), trace in any_trace(16)) {
        try_edge(setting, &trace, RetryAfterIsExact)?;
    }

    #[test]
    fn peek_returns_the_decision_of_check(setting in started(any_quota()), trace in any_trace(16)) {
        try_edge(setting, &trace, LookingIsWhatCheckingAnswers)?;
    }

    #[test]
    fn remaining_cost_passes_at_once_and_no_more(setting in started(any_quota()), trace in any_trace(16)) {
        try_edge(setting, &trace, WhatRemainsPasses)?;
    }

    #[test]
    fn state_after_reset_after_equals_an_unused_one(setting in started(any_quota()), trace in any_trace(16)) {
        try_edge(setting, &trace, ForgettableWhenReset)?;
    }
}

/// Two runs of a trace: one makes every request, the other omits those that were refused.
struct RefusalsHaveNoEffect<'a> {
    setting: Setting,
    trace: &'a [(Step, Cost)],
}

impl Property for RefusalsHaveNoEffect<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let (quota, tick, start) = self.setting;
        let (mut all, mut passed) = (A::State::default(), A::State::default());
        let (mut now, mut last) = (start, None::<Decision>);
        let scale = Scale::new(&quota, tick, algorithm.peek(&all, now, 0).limit);
        for (step, cost) in self.trace {
            now += scale.step(*step, last);
            let cost = scale.cost(*cost);
            prop_assert_eq!(algorithm.peek(&all, now, cost), algorithm.peek(&passed, now, cost));
            let decision = algorithm.check(&mut all, now, cost);
            if decision.is_allowed() {
                prop_assert_eq!(algorithm.check(&mut passed, now, cost), decision);
            }
            last = Some(decision);
        }
        Ok(())
    }
}

/// Calls everything at any time with any number, without a panic.
struct NeverPanics<'a> {
    calls: &'a [(u8, u64, u64)],
}

impl Property for NeverPanics<'_> {
    fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
    where
        A::State: Clone + std::fmt::Debug + PartialEq,
    {
        let mut state = A::State::default();
        let mut receipts: Vec<Charged> = Vec::new();
        for &(call, now, amount) in self.calls {
            match call {
                0..=2 => {
                    let looked = algorithm.peek(&state, now, amount);
                    let checked = algorithm.check(&mut state, now, amount);
                    prop_assert_eq!(looked, checked);
                    prop_assert!(checked.remaining <= checked.limit);
                    receipts.push(algorithm.charged(&state, now, amount));
                }
                3 => prop_assert!(algorithm.force(&mut state, now, amount) <= amount),
                4 => receipts.push(algorithm.charged(&state, now, amount)),
                5 => receipts.iter().for_each(|receipt| algorithm.refund(&mut state, now, receipt, amount)),
                _ => receipts.iter().for_each(|receipt| {
                    algorithm.settle(&mut state, now, receipt, amount);
                }),
            }
            algorithm.expires_at(&state);
        }
        Ok(())
    }
}

fn extreme() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        0_u64..3,
        (0_u64..3).prop_map(|below| u64::MAX - below),
        any::<u64>(),
        Just(tollgate_core::MAX_AMOUNT),
        Just(1 << 63),
        Just(1 << 60),
    ]
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn refused_requests_do_not_affect_later_decisions(setting in started(any_quota()), trace in any_trace(20)) {
        for_algorithm_of(&setting.0, setting.1, &RefusalsHaveNoEffect { setting, trace: &trace })?;
    }

    #[test]
    fn no_time_or_number_panics(
        quota in any_quota(),
        tick in any_tick(),
        calls in vec((0_u8..7, extreme(), prop_oneof![extreme(), 1_u64..5]), 1..30),
    ) {
        for_algorithm_of(&quota, tick, &NeverPanics { calls: &calls })?;
    }

    #[test]
    fn unused_key_decides_alike_at_any_time(setting in started(any_quota()), cost in any_cost(), ages in 0_u64..1_000) {
        // An unused key is the same at any time, except for the start of windows.
        struct UnusedKey(u64, Cost, Setting);
        impl Property for UnusedKey {
            fn holds<A: Algorithm>(&self, algorithm: &A) -> TestCaseResult
            where
                A::State: Clone + std::fmt::Debug + PartialEq,
            {
                let (quota, tick, start) = self.2;
                let fresh = A::State::default();
                let limit = algorithm.peek(&fresh, start, 0).limit;
                let cost = Scale::new(&quota, tick, limit).cost(self.1);
                let (one, other) = (algorithm.peek(&fresh, start, cost), algorithm.peek(&fresh, start + self.0, cost));
                prop_assert_eq!((one.verdict, one.remaining), (other.verdict, other.remaining));
                prop_assert_eq!(one.is_allowed(), cost <= limit);
                prop_assert_eq!(algorithm.peek(&fresh, start, 0).remaining, limit);
                Ok(())
            }
        }
        for_algorithm_of(&setting.0, setting.1, &UnusedKey(ages, cost, setting))?;
    }
}
