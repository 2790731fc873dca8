//! Kinds of endpoints that are told apart.

use tollgate::policy::CompiledPolicy;

/// So many pairs of a rule and a kind of endpoint are told apart at most, ..
const MOST_PAIRS: usize = 16_384;
/// .. and never more kinds of endpoints than these.
const MOST: usize = 255;

/// What is counted for everything that is not told apart. No pattern is called so: each begins with a slash.
const OTHER: &str = "other";

/// A kind of endpoint is a path pattern that a rule writes. There are no more
/// of them than the policy has, whatever paths clients think of.
#[derive(Debug)]
pub(super) struct Endpoints {
    patterns: Vec<Box<str>>,
}

/// Whether a request went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    Allowed,
    Refused,
}

impl Endpoints {
    pub(super) fn of(plan: &CompiledPolicy) -> Endpoints {
        let most = (MOST_PAIRS / (plan.rules().len() + 1)).min(MOST);
        Endpoints { patterns: plan.endpoints().take(most).map(Box::from).collect() }
    }

    /// With the one for all others.
    pub(super) fn count(&self) -> usize {
        self.patterns.len() + 1
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| &**pattern).chain([OTHER])
    }

    /// Where the plan's endpoint of that position is counted.
    #[inline]
    pub(super) fn position(&self, endpoint: Option<usize>) -> usize {
        endpoint.map_or(self.patterns.len(), |position| position.min(self.patterns.len()))
    }
}

impl Passage {
    pub(super) const fn position(self) -> usize {
        self as usize
    }

    pub(super) const ALL: [(Passage, &'static str); 2] = [(Passage::Allowed, "allowed"), (Passage::Refused, "refused")];
}

#[cfg(test)]
mod tests {
    use tollgate::policy::CompiledPolicy;
    use tollgate::{PolicyBuilder, rule};

    use super::*;

    fn plan(rules: usize) -> CompiledPolicy {
        let all = (0..rules).fold(PolicyBuilder::default(), |policy, at| {
            policy.rule(rule(&format!("r{at}")).limit("1/s").path(&format!("/{at}")))
        });
        CompiledPolicy::new(&all.build().unwrap()).unwrap()
    }

    #[test]
    fn there_are_no_more_than_so_many_whatever_the_policy_has() {
        for (rules, told_apart) in [(0, 0), (3, 3), (100, 100), (255, 64), (2_000, 8)] {
            let endpoints = Endpoints::of(&plan(rules));
            assert_eq!(endpoints.count(), told_apart + 1, "{rules} rules");
            assert_eq!(endpoints.position(Some(rules + 10)), told_apart);
            assert_eq!(endpoints.position(None), told_apart);
            assert_eq!(endpoints.names().last(), Some(OTHER));
        }
    }
}
