use tollgate_core::{Decision, Verdict as CoreVerdict};
use tollgate_store::DecisionPlace;

/// When to try again what could not be counted. That is not known; soon, because it is not the client's doing.
const ROOM_AFTER_NS: u64 = 1_000_000_000;

/// How a rule stands towards a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleState {
    pub(crate) rule: u32,
    pub(crate) quota: u32,
    /// The position of the charge among those of the request.
    pub(crate) charge: u32,
    /// What its limit says.
    pub decision: Decision,
    /// Whether it is only watched.
    pub shadow: bool,
}

/// The store writes what a limit says where it is told.
impl DecisionPlace for RuleState {
    #[inline(always)]
    fn decision(&mut self) -> &mut Decision {
        &mut self.decision
    }
}

impl RuleState {
    /// Stands where a state is to be written.
    pub(crate) const UNDECIDED: RuleState =
        RuleState { rule: 0, quota: 0, charge: 0, decision: Decision::UNDECIDED, shadow: false };

    /// Says what it is the state of: the charge at a position, of a rule that is enforced.
    #[inline(always)]
    pub(crate) fn set(&mut self, rule: u32, quota: u32, at: usize) {
        (self.rule, self.quota, self.charge, self.shadow) = (rule, quota, position(at), false);
    }

    /// The position of its rule among [`CompiledPolicy::rules`](tollgate_policy::CompiledPolicy::rules).
    #[inline]
    #[must_use]
    pub fn rule_position(&self) -> usize {
        self.rule as usize
    }

    /// The position of its quota among [`CompiledPolicy::quotas`](tollgate_policy::CompiledPolicy::quotas); behind them
    /// are those of overrides.
    #[inline]
    #[must_use]
    pub fn quota_position(&self) -> usize {
        self.quota as usize
    }

    /// Until its limit would let the request pass, in nanoseconds; `None` if it does now, never will, or that is not known.
    #[inline]
    #[must_use]
    pub fn retry_after_ns(&self) -> Option<u64> {
        retry_after_ns(&self.decision)
    }

    /// The position of its charge among those that the request met.
    #[inline]
    #[must_use]
    pub fn charge_position(&self) -> usize {
        self.charge as usize
    }
}

/// The state that is closest to its limit: whose remaining share of it is smallest. The first of equals.
#[inline]
pub(crate) fn tightest<'a>(states: impl Iterator<Item = &'a RuleState>) -> Option<&'a RuleState> {
    let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
    states.reduce(|known, state| {
        let (one, other) = (&known.decision, &state.decision);
        if product(other.remaining, one.limit) < product(one.remaining, other.limit) { state } else { known }
    })
}

/// There are far fewer states than that.
pub(super) fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// How long a limit stands in the way. What could not be counted is told before
/// all others, because it decides the status too; then what will never pass, then
/// what passes at a time that is not known.
pub(super) fn weight(decision: &Decision) -> (u8, u64) {
    match decision.verdict {
        CoreVerdict::NoRoom => (3, 0),
        CoreVerdict::Impossible => (2, 0),
        CoreVerdict::Refused { retry_after: None } => (1, 0),
        CoreVerdict::Refused { retry_after: Some(wait) } => (0, wait),
        CoreVerdict::Allowed { .. } => (0, 0),
    }
}

/// When to try again what a limit refused.
pub(super) fn retry_after_ns(decision: &Decision) -> Option<u64> {
    match decision.verdict {
        CoreVerdict::NoRoom => Some(ROOM_AFTER_NS),
        _ => decision.retry_after(),
    }
}
