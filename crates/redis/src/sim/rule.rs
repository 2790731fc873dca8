use std::time::Duration;

use tollgate_core::Quota;
use tollgate_store::{LimitOptions, OnFailure, Refusals};

use crate::store::random::Random;

/// A limit of a story, and what holds where it cannot be asked about.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) scope: String,
    pub(super) quota: Quota,
    pub(super) options: LimitOptions,
}

impl Rule {
    pub(super) fn drawn(number: u32, random: &mut Random) -> Rule {
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
        Rule { scope: format!("rule-{number}"), quota: quota.unwrap(), options: LimitOptions { on_failure, refusals } }
    }
}
