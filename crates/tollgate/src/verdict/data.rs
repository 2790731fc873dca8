use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{ChargeVerdict as CoreVerdict, Decision};
use tollgate_policy::Access;
use tollgate_store::Source;

use super::Action;
use super::rule_state::{RuleState, retry_after_ns, to_u32, weight};
use crate::limiter::ActivePolicy;

/// The initial capacity for states: enough for most requests.
const USUAL_STATES: usize = 4;

/// The data of a verdict.
#[doc(hidden)]
pub struct VerdictData {
    pub(crate) policy: Arc<ActivePolicy>,
    pub(crate) action: Action,
    pub(crate) source: Source,
    /// Whether a rule applies that grants an unlimited rate.
    pub(crate) unlimited: bool,
    /// Whether it is denied because its token is not usable.
    pub(super) unauthorized: bool,
    /// The state that decides.
    pub(super) deciding: DecidingState,
    /// The index of its endpoint.
    pub(crate) endpoint: Option<u32>,
    /// When the decision began, in nanoseconds since 1970.
    pub(crate) now_ns: u64,
    /// The time until the request would pass; `None` if unknown or never.
    pub(super) retry_after_ns: Option<u64>,
    /// Its allocation is reused with the data.
    pub(crate) states: Vec<RuleState>,
    /// Fields that few verdicts have, allocated on first use.
    pub(super) cold: Option<Box<ColdFields>>,
}

/// The state that decides.
#[derive(Clone, Copy)]
pub(super) enum DecidingState {
    None,
    /// The enforced one that is closest to its limit. It is computed on demand.
    Tightest,
    /// The one at an index.
    At(u32),
}

/// Fields that few verdicts have.
#[derive(Clone, Default)]
pub(crate) struct ColdFields {
    /// The rules that let the request pass with a warning.
    pub(crate) warned: SmallVec<[u32; 2]>,
    /// The rules that deny the request, including shadow rules.
    pub(crate) denials: SmallVec<[u32; 2]>,
    /// The decisions of the charges under callers' limits.
    pub(crate) caller_decisions: Vec<Decision>,
}

impl VerdictData {
    pub(crate) fn new(policy: Arc<ActivePolicy>) -> Box<VerdictData> {
        Box::new(VerdictData {
            policy,
            action: Action::Allow,
            source: Source::Exact,
            unlimited: false,
            unauthorized: false,
            deciding: DecidingState::None,
            endpoint: None,
            now_ns: 0,
            retry_after_ns: None,
            states: Vec::with_capacity(USUAL_STATES),
            cold: None,
        })
    }
}

impl VerdictData {
    /// Returns the cold fields for writing.
    pub(crate) fn cold(&mut self) -> &mut ColdFields {
        self.cold.get_or_insert_default()
    }

    /// Frees the cold fields and the allocation of the states, so that pooled data stays small.
    #[cold]
    #[inline(never)]
    pub(super) fn free_large_parts(&mut self) {
        self.cold = None;
        self.states = Vec::new();
    }

    #[inline]
    pub(crate) fn warned(&self) -> &[u32] {
        self.cold.as_ref().map_or(&[], |cold| &cold.warned)
    }

    #[inline]
    pub(super) fn denying_rules(&self) -> &[u32] {
        self.cold.as_ref().map_or(&[], |cold| &cold.denials)
    }

    #[inline]
    pub(crate) fn caller_decisions(&self) -> &[Decision] {
        self.cold.as_ref().map_or(&[], |cold| &cold.caller_decisions)
    }

    /// Denies the request before any limit is checked.
    pub(crate) fn deny(&mut self, access: Access) {
        self.action = Action::Deny;
        self.unauthorized = access == Access::Unauthorized;
    }

    pub(super) fn enforced(&self) -> impl Iterator<Item = (usize, &RuleState)> {
        self.states.iter().enumerate().filter(|(_, state)| !state.shadow)
    }

    /// Whether the store failed: the decision is a fallback, or the store could not count the request.
    pub(crate) fn is_store_degraded(&self) -> bool {
        self.source == Source::Fallback || self.has_uncounted_charge()
    }

    /// Whether the store could not count the request.
    pub(super) fn has_uncounted_charge(&self) -> bool {
        let unavailable = |decision: &Decision| decision.verdict == CoreVerdict::Unavailable;
        self.enforced().any(|(_, state)| unavailable(&state.decision))
            || self.caller_decisions().iter().any(unavailable)
    }

    /// Whether any enforced charge refuses the request.
    pub(crate) fn refuses(&self) -> bool {
        self.enforced().any(|(_, state)| !state.decision.is_allowed())
            || self.caller_decisions().iter().any(|decision| !decision.is_allowed())
    }

    /// Returns the delay of an allowed request in nanoseconds.
    pub(crate) fn delay_ns(&self) -> u64 {
        if !self.action.is_allowed() {
            return 0;
        }
        self.enforced().map(|(_, state)| state.decision.delay()).max().unwrap_or(0)
    }

    /// Allows or refuses a request with a single charge of an enforced rule.
    #[inline(always)]
    pub(crate) fn set_only_decision(&mut self, rule: u32, quota: u32, decision: Decision) {
        self.states.clear();
        self.states.push(RuleState { rule, quota, charge: 0, decision, shadow: false });
        match decision.verdict {
            CoreVerdict::Allowed { delay } => self.allow_after(delay),
            _ => self.reject(),
        }
    }

    /// Allows or refuses a request whose rules are all enforced.
    #[inline(always)]
    pub(crate) fn allow_or_reject(&mut self, passed: bool) {
        if passed {
            self.allow();
        } else {
            self.reject();
        }
    }

    /// Allows the request. The rule closest to its limit is the deciding one.
    #[inline(always)]
    pub(crate) fn allow(&mut self) {
        let delay_ns = self.states.iter().map(|state| if state.shadow { 0 } else { state.decision.delay() }).max();
        self.allow_after(delay_ns.unwrap_or(0));
    }

    /// Allows the request after a delay, which may be 0.
    #[inline(always)]
    pub(crate) fn allow_after(&mut self, delay_ns: u64) {
        self.deciding = DecidingState::Tightest;
        self.action = if delay_ns > 0 { Action::Delay } else { Action::Allow };
    }

    /// Refuses the request. The rule that refuses it for the longest time is the deciding one.
    pub(crate) fn reject(&mut self) {
        let refusing = self.enforced().filter(|(_, state)| !state.decision.is_allowed());
        let longest = refusing.max_by_key(|(_, state)| weight(&state.decision));
        let deciding = longest.map(|(at, state)| (at, retry_after_ns(&state.decision)));
        let of_caller_limits =
            self.caller_decisions().iter().filter(|decision| !decision.is_allowed()).map(retry_after_ns);
        let of_rules = deciding.map(|(_, retry_ns)| retry_ns).into_iter();
        // `None` (unknown or never) wins.
        let retry_ns = of_rules.chain(of_caller_limits).reduce(|one, other| Some(one?.max(other?))).flatten();
        self.deciding = deciding.map_or(DecidingState::None, |(at, _)| DecidingState::At(to_u32(at)));
        self.retry_after_ns = retry_ns;
        self.action = Action::Reject;
        if self.has_uncounted_charge() {
            // The store was full (`when_full`) or unreachable (`on_failure`).
            self.source = Source::Fallback;
        }
    }

    /// Refuses an allowed request whose delay exceeds the maximum wait. `retry_after` is the difference.
    pub(crate) fn reject_delay(&mut self, max_wait_ns: u64) {
        let slowest = self.enforced().max_by_key(|(_, state)| state.decision.delay());
        let slowest = slowest.map(|(at, state)| (at, state.decision.delay()));
        self.deciding = slowest.map_or(DecidingState::None, |(at, _)| DecidingState::At(to_u32(at)));
        self.retry_after_ns = slowest.map(|(_, delay_ns)| delay_ns.saturating_sub(max_wait_ns));
        self.action = Action::Reject;
    }

    /// Refuses the request because the rule of the charge at `position` blocks its key. The state of that charge
    /// is the deciding one.
    pub(crate) fn block(&mut self, position: u32) {
        self.action = Action::Block;
        if let Some(cold) = &mut self.cold {
            cold.warned.clear();
        }
        let blocked = self.states.iter().position(|state| state.charge == position);
        self.deciding = blocked.map_or(DecidingState::None, |at| DecidingState::At(to_u32(at)));
        self.retry_after_ns = blocked.and_then(|at| self.states[at].decision.retry_after());
    }
}
