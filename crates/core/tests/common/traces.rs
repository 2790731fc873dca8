//! Sequences of requests whose times and costs lie where decisions change.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::{Decision, MAX_AMOUNT, Quota, Tick};

/// The time since the request before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Ticks(u64),
    /// Percent of what one token takes.
    OfToken(u64),
    /// Percent of what the whole limit takes.
    OfPeriod(u64),
    /// As long as the last refusal said, so many ticks more or less.
    AsTold(i64),
}

/// What a request costs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Units(u64),
    /// Percent of the limit, rounded up.
    OfLimit(u64),
    AboveLimit(u64),
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> + Clone {
    prop_oneof![
        2 => (0_u64..4).prop_map(Step::Ticks),
        3 => (0_u64..300).prop_map(Step::OfToken),
        3 => (0_u64..130).prop_map(Step::OfPeriod),
        2 => (-1_i64..=1).prop_map(Step::AsTold),
    ]
}

pub(crate) fn any_cost() -> impl Strategy<Value = Cost> + Clone {
    prop_oneof![
        6 => (0_u64..4).prop_map(Cost::Units),
        4 => (0_u64..=100).prop_map(Cost::OfLimit),
        1 => prop_oneof![Just(1), Just(MAX_AMOUNT), Just(u64::MAX)].prop_map(Cost::AboveLimit),
    ]
}

pub(crate) fn any_trace(longest: usize) -> impl Strategy<Value = Vec<(Step, Cost)>> + Clone {
    vec((any_step(), any_cost()), 1..=longest)
}

/// A time of this century or soon after 1970, but further from 0 than any window.
pub(crate) fn any_start(tick: Tick) -> impl Strategy<Value = u64> + Clone {
    ((1_u64 << 60) / tick.ns()..(2_u64 << 60) / tick.ns()).prop_map(|start| start)
}

/// Turns steps and costs into numbers under one quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    token: u128,
    period: u128,
    limit: u64,
}

impl Scale {
    pub(crate) fn new(quota: &Quota, tick: Tick, limit: u64) -> Scale {
        let period = u128::from(quota.period_ns() / tick.ns());
        let token = (period / u128::from(quota.amount())).max(1);
        // For a bucket, what counts as the period is what its limit takes to come back.
        let period = if quota.burst() > 0 { period * u128::from(limit) / u128::from(quota.amount()) } else { period };
        Scale { token, period, limit }
    }

    /// Never more than 2^60 ticks, so that a trace stays within the clock.
    pub(crate) fn step(&self, step: Step, last: Option<Decision>) -> u64 {
        let ticks = match step {
            Step::Ticks(ticks) => u128::from(ticks),
            Step::OfToken(percent) => self.token * u128::from(percent) / 100,
            Step::OfPeriod(percent) => self.period * u128::from(percent) / 100,
            Step::AsTold(more) => {
                let told = last.and_then(|decision| decision.retry_after()).unwrap_or(0);
                u128::from(told.saturating_add_signed(more))
            }
        };
        ticks.min(1 << 60) as u64
    }

    pub(crate) fn cost(&self, cost: Cost) -> u64 {
        match cost {
            Cost::Units(units) => units,
            Cost::OfLimit(percent) => (u128::from(self.limit) * u128::from(percent)).div_ceil(100) as u64,
            Cost::AboveLimit(more) => self.limit.saturating_add(more),
        }
    }
}
