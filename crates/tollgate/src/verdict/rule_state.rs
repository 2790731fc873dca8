use tollgate_core::{ChargeVerdict as CoreVerdict, Decision};
use tollgate_store::DecisionSlot;

/// The `retry_after` of a request that the store could not count. The true time is unknown.
const STORE_RETRY_NS: u64 = 1_000_000_000;

/// The state of one limit of a rule that applies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleState {
    pub(crate) rule: u32,
    pub(crate) quota: u32,
    /// The position of the charge in `Matched::charges`.
    pub(crate) charge: u32,
    /// The decision under this limit.
    pub decision: Decision,
    /// Whether the rule is a shadow rule, which is counted and not enforced.
    pub shadow: bool,
}

/// The store writes decisions in place.
impl DecisionSlot for RuleState {
    #[inline(always)]
    fn decision(&mut self) -> &mut Decision {
        &mut self.decision
    }
}

impl RuleState {
    /// A placeholder for a state that the store writes.
    pub(crate) const UNDECIDED: RuleState =
        RuleState { rule: 0, quota: 0, charge: 0, decision: Decision::UNDECIDED, shadow: false };

    /// Sets its rule, quota and charge; the rule is enforced.
    #[inline(always)]
    pub(crate) fn set(&mut self, rule: u32, quota: u32, at: usize) {
        (self.rule, self.quota, self.charge, self.shadow) = (rule, quota, to_u32(at), false);
    }

    /// Returns the index of its rule in [`CompiledPolicy::rules`](tollgate_policy::CompiledPolicy::rules).
    #[inline]
    #[must_use]
    pub fn rule_position(&self) -> usize {
        self.rule as usize
    }

    /// Returns the index of its quota in [`CompiledPolicy::quotas`](tollgate_policy::CompiledPolicy::quotas), followed
    /// by the quotas of overrides.
    #[inline]
    #[must_use]
    pub fn quota_position(&self) -> usize {
        self.quota as usize
    }

    /// Returns the time until its limit would allow the request, in nanoseconds. `None` if it allows it now, never
    /// will, or the time is unknown.
    #[inline]
    #[must_use]
    pub fn retry_after_ns(&self) -> Option<u64> {
        retry_after_ns(&self.decision)
    }

    /// Whether it refuses for lack of a concurrency permit.
    pub(crate) fn lacks_permit(&self) -> bool {
        self.decision.verdict == CoreVerdict::Refused { retry_after: None }
    }

    /// Returns the index of its charge in [`Matched::charges`](tollgate_policy::Matched).
    #[inline]
    #[must_use]
    pub fn charge_position(&self) -> usize {
        self.charge as usize
    }
}

/// Returns the state closest to its limit: the one whose remaining share of the limit is smallest, the first of equals.
#[inline]
pub(crate) fn tightest<'a>(states: impl Iterator<Item = &'a RuleState>) -> Option<&'a RuleState> {
    let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
    states.reduce(|known, state| {
        let (one, other) = (&known.decision, &state.decision);
        if product(other.remaining, one.limit) < product(one.remaining, other.limit) { state } else { known }
    })
}

/// Converts an index: the number of states is far below `u32::MAX`.
pub(super) fn to_u32(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Orders refusals by how long they last. A request that could not be counted comes first, because it also decides the
/// status; then one that can never pass, then one that passes at an unknown time.
pub(super) fn weight(decision: &Decision) -> (u8, u64) {
    match decision.verdict {
        CoreVerdict::Unavailable => (3, 0),
        CoreVerdict::Impossible => (2, 0),
        CoreVerdict::Refused { retry_after: None } => (1, 0),
        CoreVerdict::Refused { retry_after: Some(wait) } => (0, wait),
        CoreVerdict::Allowed { .. } => (0, 0),
    }
}

/// Returns when to retry a refused charge.
pub(super) fn retry_after_ns(decision: &Decision) -> Option<u64> {
    match decision.verdict {
        CoreVerdict::Unavailable => Some(STORE_RETRY_NS),
        _ => decision.retry_after(),
    }
}
