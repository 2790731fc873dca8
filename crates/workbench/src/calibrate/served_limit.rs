//! A limit for a rule of a running service, from the headroom that it has counted.

use super::burst_ladder::with_margin;
use crate::tally::quantiles::WHOLE_PPM;

/// The fewest decisions from which a limit is proposed.
pub const MIN_DECISIONS: u64 = 1_000;

/// What a running service has counted for a rule, whether it is enforced or a shadow rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedRule {
    /// The most that a key can hold: the burst of a bucket, or the limit of a window.
    pub capacity: u64,
    /// The number of decisions.
    pub decisions: u64,
    /// The number of decisions after which at most this part of the capacity, in percent, remained. In ascending order
    /// of the percentage, each with all decisions of the ones before.
    pub headroom: Vec<(u32, u64)>,
}

/// What the headroom of a rule says about its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedFinding {
    /// There are fewer than [`MIN_DECISIONS`] decisions.
    TooFew,
    /// More than the tolerated share of the decisions used up the limit. How much they needed is unknown.
    TooLow {
        /// The number of these decisions.
        used_up: u64,
    },
    /// The stated share of the decisions used at most `needed`, and the proposed capacity includes the margin.
    Enough {
        /// The used amount.
        needed: u64,
        /// The proposed capacity, at most the present one.
        capacity: u64,
    },
}

impl ServedRule {
    /// Returns what the headroom says, for a share of the decisions in parts per million and a margin in percent.
    #[must_use]
    pub fn finding(&self, share_ppm: u32, margin_percent: u32) -> ServedFinding {
        if self.decisions < MIN_DECISIONS {
            return ServedFinding::TooFew;
        }
        let tolerated_ppm = u64::from(WHOLE_PPM.saturating_sub(share_ppm));
        let tolerated = (u128::from(self.decisions) * u128::from(tolerated_ppm) / u128::from(WHOLE_PPM)) as u64;
        let reached = self.headroom.iter().take_while(|(_, decisions)| *decisions <= tolerated).last();
        let Some((percent, _)) = reached else {
            return ServedFinding::TooLow { used_up: self.headroom.first().map_or(0, |(_, decisions)| *decisions) };
        };
        let used_percent = u128::from(100_u32.saturating_sub(*percent));
        let needed = (u128::from(self.capacity) * used_percent).div_ceil(100) as u64;
        let capacity = with_margin(needed.max(1), margin_percent).min(self.capacity);
        ServedFinding::Enough { needed, capacity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(headroom: &[(u32, u64)]) -> ServedFinding {
        ServedRule { capacity: 100, decisions: 100_000, headroom: headroom.to_vec() }.finding(999_000, 20)
    }

    #[test]
    fn need_is_what_the_share_of_the_decisions_used_at_most() {
        // 99.9 % of 100,000 decisions: 100 are tolerated.
        let enough = |needed, capacity| ServedFinding::Enough { needed, capacity };
        assert_eq!(finding(&[(0, 0), (50, 80), (75, 5_000)]), enough(50, 60));
        assert_eq!(finding(&[(0, 100), (50, 101)]), enough(100, 100));
        assert_eq!(finding(&[(0, 0), (5, 7), (75, 100)]), enough(25, 30));
        assert_eq!(finding(&[(0, 101), (5, 200)]), ServedFinding::TooLow { used_up: 101 });
    }

    #[test]
    fn few_decisions_say_nothing() {
        let rule = ServedRule { capacity: 100, decisions: 999, headroom: vec![(0, 0)] };
        assert_eq!(rule.finding(999_000, 20), ServedFinding::TooFew);
    }
}
