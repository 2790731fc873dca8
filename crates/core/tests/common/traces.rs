//! Generates sequences of requests whose times and costs are where decisions change.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::{Decision, MAX_AMOUNT, Quota, Tick};

/// The time since the previous request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Ticks(u64),
    /// A percentage of the time of one token.
    OfToken(u64),
    /// A percentage of the time of the whole limit.
    OfPeriod(u64),
    /// The retry time of the last refusal, plus or minus a number of ticks.
    RetryTime(i64),
}

/// The cost of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Units(u64),
    /// A percentage of the limit, rounded up.
    OfLimit(u64),
    AboveLimit(u64),
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> + Clone {
    prop_oneof![
        2 => (0_u64..4).prop_map(Step::Ticks),
        3 => (0_u64..300).prop_map(Step::OfToken),
        3 => (0_u64..130).prop_map(Step::OfPeriod),
        2 => (-1_i64..=1).prop_map(Step::RetryTime),
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

/// Converts steps and costs to numbers under one quota.
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
        // For a bucket, the period is the time in which its limit refills.
        let period = if quota.burst() > 0 { period * u128::from(limit) / u128::from(quota.amount()) } else { period };
        Scale { token, period, limit }
    }

    /// Never more than 2^60 ticks, so that a trace stays within the clock.
    pub(crate) fn step(&self, step: Step, last: Option<Decision>) -> u64 {
        let ticks = match step {
            Step::Ticks(ticks) => u128::from(ticks),
            Step::OfToken(percent) => self.token * u128::from(percent) / 100,
            Step::OfPeriod(percent) => self.period * u128::from(percent) / 100,
            Step::RetryTime(more) => {
                let retry_after = last.and_then(|decision| decision.retry_after()).unwrap_or(0);
                u128::from(retry_after.saturating_add_signed(more))
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
