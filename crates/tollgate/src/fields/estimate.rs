//! When to try again where a permit is missing, which no limit can say.

use tollgate_core::Verdict as CoreVerdict;

use crate::verdict::{Action, RuleState, Verdict};

impl Verdict {
    /// For a refusal that lasts until a permit comes back: as long as permits
    /// of that rule were held lately, or longer where another limit says so.
    /// `None` where the time is known, or where the request will never pass.
    pub(super) fn estimated_retry_ns(&self) -> Option<u64> {
        if self.action != Action::Reject || self.retry_after_ns().is_some() {
            return None;
        }
        let refusing = self.states().iter().filter(|state| !state.shadow && !state.decision.is_allowed());
        refusing.map(|state| self.expected_ns(state)).reduce(|one, other| Some(one?.max(other?))).flatten()
    }

    fn expected_ns(&self, state: &RuleState) -> Option<u64> {
        let policy = &self.policy;
        match state.decision.verdict {
            CoreVerdict::Refused { retry_after: None } => {
                let lease_ns = policy.quotas[state.quota as usize].lease_ns;
                Some(policy.rules[state.rule as usize].holding.estimate_ns(lease_ns))
            }
            _ => state.retry_after_ns(),
        }
    }
}
