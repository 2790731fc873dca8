//! Counts as plain numbers, from which rates are computed.

use std::collections::BTreeMap;

use tollgate::Action;

use super::NO_RULE;
use super::histograms::{DURATION_BOUNDS_NS, DURATION_SUM, STEPS};
use super::policy_counters::{DecisionOutcome, HEADROOM, HEADROOM_SUM, REFUSALS, ROW, SHADOW_REFUSALS, decisions_of};
use super::totals::Totals;
use crate::front_end::FrontEnd;
use crate::throttle::THROTTLE_SCOPE;

const MILLION: u64 = 1_000_000;

/// The headroom steps at and below a tenth of the limit: 0, 0.05 and 0.1.
const NEAR_STEPS: usize = 3;

/// The counts since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct TotalCounts {
    /// Requests that passed, also under caller-supplied limits. Peeks are not counted.
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    /// The rules of policies by name, including former ones.
    pub(crate) rules: BTreeMap<Box<str>, RuleCounts>,
    pub(crate) times: DecisionTimes,
}

/// The counts of one rule, whether or not it decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleCounts {
    /// Requests that were counted by the rule.
    pub(crate) checked: u64,
    /// Requests that the rule refused.
    pub(crate) refused: u64,
    /// Requests that the rule would have refused as a shadow rule.
    pub(crate) would_refuse: u64,
    /// Checks with at most a tenth of a limit left, of all checks of a limit, and the sum of what remained in millionths.
    pub(crate) near_limit: u64,
    pub(crate) limit_checks: u64,
    pub(crate) headroom_millionths: u64,
}

/// The number of decisions in each bucket of time; the last bucket has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DecisionTimes([u64; DURATION_SUM]);

impl TotalCounts {
    pub(crate) const EMPTY: TotalCounts =
        TotalCounts { allowed: 0, refused: 0, rules: BTreeMap::new(), times: DecisionTimes([0; DURATION_SUM]) };

    pub(super) fn of(totals: &Totals) -> TotalCounts {
        let mut counts = TotalCounts::default();
        for (name, row, checked) in totals.rows() {
            let (allowed, refused) = decided(row);
            counts.allowed += allowed;
            counts.refused += refused;
            if !matches!(&**name, NO_RULE | THROTTLE_SCOPE) {
                counts.rules.insert(name.clone(), RuleCounts::of(row, checked));
            }
        }
        for row in &totals.durations {
            counts.times.0.iter_mut().zip(row).for_each(|(total, count)| *total += count);
        }
        counts
    }

    /// Returns the counts of a rule; zero for one that did not exist.
    pub(crate) fn rule(&self, name: &str) -> RuleCounts {
        self.rules.get(name).copied().unwrap_or_default()
    }
}

impl RuleCounts {
    fn of(row: &[u64; ROW], checked: u64) -> RuleCounts {
        let steps = &row[HEADROOM..HEADROOM_SUM];
        debug_assert_eq!(steps.len(), STEPS);
        RuleCounts {
            checked,
            refused: row[REFUSALS],
            would_refuse: row[SHADOW_REFUSALS],
            near_limit: steps[..NEAR_STEPS].iter().sum(),
            limit_checks: steps.iter().sum(),
            headroom_millionths: row[HEADROOM_SUM],
        }
    }

    /// Returns the counts since `before`.
    pub(crate) fn since(&self, before: RuleCounts) -> RuleCounts {
        RuleCounts {
            checked: self.checked.saturating_sub(before.checked),
            refused: self.refused.saturating_sub(before.refused),
            would_refuse: self.would_refuse.saturating_sub(before.would_refuse),
            near_limit: self.near_limit.saturating_sub(before.near_limit),
            limit_checks: self.limit_checks.saturating_sub(before.limit_checks),
            headroom_millionths: self.headroom_millionths.saturating_sub(before.headroom_millionths),
        }
    }

    /// Returns the checked requests that the rule did not refuse. Requests that a shadow rule would have refused count
    /// as allowed.
    pub(crate) fn allowed(&self) -> u64 {
        self.checked.saturating_sub(self.refused)
    }

    /// Returns the mean share of the limit that remained, in percent; `None` without checks.
    pub(crate) fn headroom_percent(&self) -> Option<u64> {
        (self.headroom_millionths / (MILLION / 100)).checked_div(self.limit_checks)
    }

    /// Returns the share of the checks with at most a tenth of the limit left, in percent; `None` without checks.
    pub(crate) fn near_limit_percent(&self) -> Option<u64> {
        (self.near_limit * 100).checked_div(self.limit_checks)
    }
}

impl DecisionTimes {
    /// Returns the counts since `before`.
    pub(crate) fn since(&self, before: &DecisionTimes) -> DecisionTimes {
        DecisionTimes(std::array::from_fn(|at| self.0[at].saturating_sub(before.0[at])))
    }

    pub(crate) fn decisions(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the bound below which this percentage of the decisions took; `None` without decisions, or above the
    /// largest bound.
    pub(crate) fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let rank = (self.decisions() * percent).div_ceil(100);
        let mut counted = 0;
        let bounds = DURATION_BOUNDS_NS.iter().zip(&self.0);
        let mut reaching = bounds.filter(|(_, count)| {
            counted += **count;
            counted >= rank
        });
        reaching.next().filter(|_| rank > 0).map(|(bound_ns, _)| *bound_ns)
    }
}

/// Returns the allowed and the refused decisions of a row, without peeks.
fn decided(row: &[u64; ROW]) -> (u64, u64) {
    let (mut allowed, mut refused) = (0, 0);
    for front_end in FrontEnd::ALL {
        for outcome in DecisionOutcome::ALL {
            match outcome {
                DecisionOutcome::Decided(Action::Allow | Action::Warn | Action::Delay) => {
                    allowed += row[decisions_of(front_end, outcome)];
                }
                DecisionOutcome::Decided(_) => refused += row[decisions_of(front_end, outcome)],
                DecisionOutcome::Peek => {}
            }
        }
    }
    (allowed, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_bound_of_its_bucket() {
        let mut times = DecisionTimes::default();
        assert_eq!(times.percentile_ns(50), None);
        times.0[0] = 98;
        times.0[2] = 1;
        assert_eq!((times.percentile_ns(50), times.percentile_ns(99)), (Some(1_000), Some(20_000)));
        times.0[DURATION_SUM - 1] = 10;
        assert_eq!((times.percentile_ns(50), times.percentile_ns(99)), (Some(1_000), None));
        let mut later = times;
        later.0[1] += 5;
        assert_eq!(later.since(&times).percentile_ns(99), Some(5_000));
    }

    #[test]
    fn headroom_is_the_mean_of_what_remained() {
        let counts =
            RuleCounts { limit_checks: 4, near_limit: 1, headroom_millionths: 2_000_000, ..RuleCounts::default() };
        assert_eq!((counts.headroom_percent(), counts.near_limit_percent()), (Some(50), Some(25)));
        let none = RuleCounts::default();
        assert_eq!((none.headroom_percent(), none.near_limit_percent()), (None, None));
    }
}
