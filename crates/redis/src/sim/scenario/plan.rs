//! The limits and requests that a seed draws.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::Quota;
use tollgate_store::{ChargeMode, LimitOptions, OnFailure, Refusals};

use crate::store::random::Random;

/// A request, drawn before it is made.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Plan {
    pub(in crate::sim) arrival: u64,
    pub(in crate::sim) instance: usize,
    pub(in crate::sim) charges: SmallVec<[(usize, u32, u64, ChargeMode); 3]>,
    /// The caller drops its check after this time.
    pub(in crate::sim) drops_after: Option<Duration>,
    pub(in crate::sim) follow_up: FollowUp,
}

/// What the caller does with its receipts.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum FollowUp {
    Keep,
    Refund(Duration),
    Settle(Duration, u64),
    Renew(Duration, Duration),
}

impl Plan {
    /// Draws a request to one of the instances about some of the keys.
    pub(in crate::sim) fn drawn(arrival: u64, instances: usize, keys: u32, random: &mut Random) -> Plan {
        let count = [1, 1, 1, 2, 2, 3][random.below(6) as usize];
        let mut charges: SmallVec<[(usize, u32, u64, ChargeMode); 3]> = SmallVec::new();
        for _ in 0..count {
            let mode = match random.below(13) {
                0 => ChargeMode::Shadow,
                1 => ChargeMode::Guard,
                2 => ChargeMode::Peek,
                3 => ChargeMode::ShadowJoined,
                _ => ChargeMode::Enforce,
            };
            let cost = [0, 1, 1, 1, 1, 2, 2, 3, 30][random.below(9) as usize];
            charges.push((random.below(4) as usize, random.below(keys), cost, mode));
        }
        let ms = |milliseconds: u32| Duration::from_millis(u64::from(milliseconds));
        let follow_up = match random.below(6) {
            0 | 1 => FollowUp::Refund(ms(random.below(60))),
            2 => FollowUp::Settle(ms(random.below(60)), u64::from(random.below(5))),
            3 => FollowUp::Renew(ms(random.below(150)), ms(random.below(150))),
            _ => FollowUp::Keep,
        };
        Plan {
            arrival,
            instance: random.below(instances as u32) as usize,
            charges,
            drops_after: (random.below(12) == 0).then(|| ms(random.below(12))),
            follow_up,
        }
    }
}

/// Returns a key as supplied by callers.
pub(in crate::sim) fn key_bytes(key: u32) -> Vec<u8> {
    format!("user-{key}").into_bytes()
}

/// A limit of a scenario, and its options.
#[derive(Clone, Debug)]
pub(in crate::sim) struct SimRule {
    pub(in crate::sim) scope: String,
    pub(in crate::sim) quota: Quota,
    pub(in crate::sim) options: LimitOptions,
}

impl SimRule {
    pub(in crate::sim) fn drawn(number: u32, random: &mut Random) -> SimRule {
        let amount = 1 + u64::from(random.below(8));
        let period = Duration::from_millis([50, 200, 500, 1_000, 3_000][random.below(5) as usize]);
        let rate = tollgate_core::Rate::new(amount, period).unwrap();
        let quota = match random.below(7) {
            0 | 1 => Quota::token_bucket(rate.with_burst(1 + u64::from(random.below(10))).unwrap()),
            2 => Quota::fixed_window(rate),
            3 => Quota::sliding_window_counter(rate),
            4 => Quota::sliding_window_log(rate),
            _ => Quota::concurrency(amount, Some(Duration::from_millis(100 + u64::from(random.below(400))))),
        };
        let on_failure = match random.below(4) {
            0 => OnFailure::Open,
            1 => OnFailure::Closed,
            _ => OnFailure::Local { share: (1, 1 + random.below(4)) },
        };
        let refusals = [Refusals::Counted, Refusals::Brief, Refusals::Brief, Refusals::Final][random.below(4) as usize];
        SimRule {
            scope: format!("rule-{number}"),
            quota: quota.unwrap(),
            options: LimitOptions { on_failure, refusals, lease: None, regional: false },
        }
    }
}
