use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Decision, Verdict as CoreVerdict};
use tollgate_policy::Access;
use tollgate_store::Source;

use super::Action;
use super::rule_state::{RuleState, position, retry_after_ns, weight};
use crate::limiter::ActivePolicy;

/// How many rules apply to most requests.
const USUAL_STATES: usize = 4;

/// What a verdict says.
#[doc(hidden)]
pub struct VerdictData {
    pub(crate) policy: Arc<ActivePolicy>,
    pub(crate) action: Action,
    pub(crate) source: Source,
    /// Whether a rule applies that grants an unlimited amount.
    pub(crate) unlimited: bool,
    /// Whether it is denied because its token cannot be used.
    pub(super) unauthorized: bool,
    /// Which state decides.
    pub(super) deciding: Deciding,
    /// The kind of endpoint that it is for, by position.
    pub(crate) endpoint: Option<u32>,
    /// When it was asked for, in nanoseconds since 1970.
    pub(crate) now_ns: u64,
    /// Until the request would pass; `None` if that is not known, or it never will.
    pub(super) retry_after_ns: Option<u64>,
    /// Kept when the data is used again, so that nothing is allocated for them.
    pub(crate) states: Vec<RuleState>,
    /// What few verdicts have.
    pub(super) rare: Option<Box<Rare>>,
}

/// Which state decides.
#[derive(Clone, Copy)]
pub(super) enum Deciding {
    None,
    /// The enforced one that is closest to its limit: it is found when it is asked for.
    Tightest,
    /// The one at a position.
    At(u32),
}

/// What few verdicts have.
#[derive(Clone, Default)]
pub(crate) struct Rare {
    /// The rules that let it pass with a warning.
    pub(crate) warned: SmallVec<[u32; 2]>,
    /// The rules that deny the request, and those that would if they were no shadows.
    pub(crate) denials: SmallVec<[u32; 2]>,
    /// The answers to charges under limits that a caller brought along.
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
            deciding: Deciding::None,
            endpoint: None,
            now_ns: 0,
            retry_after_ns: None,
            states: Vec::with_capacity(USUAL_STATES),
            rare: None,
        })
    }
}

impl VerdictData {
    /// What few verdicts have, to be written.
    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Frees what few verdicts have.
    #[cold]
    #[inline(never)]
    pub(super) fn forget_rare(&mut self) {
        self.rare = None;
        self.states = Vec::new();
    }

    #[inline]
    pub(crate) fn warned(&self) -> &[u32] {
        self.rare.as_ref().map_or(&[], |rare| &rare.warned)
    }

    #[inline]
    pub(super) fn denying(&self) -> &[u32] {
        self.rare.as_ref().map_or(&[], |rare| &rare.denials)
    }

    #[inline]
    pub(crate) fn caller_decisions(&self) -> &[Decision] {
        self.rare.as_ref().map_or(&[], |rare| &rare.caller_decisions)
    }

    /// Turns it away before any limit.
    pub(crate) fn deny(&mut self, access: Access) {
        self.action = Action::Deny;
        self.unauthorized = access == Access::Unauthorized;
    }

    pub(super) fn enforced(&self) -> impl Iterator<Item = (usize, &RuleState)> {
        self.states.iter().enumerate().filter(|(_, state)| !state.shadow)
    }

    /// Whether the store could not answer as it should.
    pub(crate) fn is_troubled(&self) -> bool {
        self.source == Source::Fallback || self.lacks_room()
    }

    /// Whether the store could not count it.
    pub(super) fn lacks_room(&self) -> bool {
        let no_room = |decision: &Decision| decision.verdict == CoreVerdict::NoRoom;
        self.enforced().any(|(_, state)| no_room(&state.decision)) || self.caller_decisions().iter().any(no_room)
    }

    /// Whether anything that was to be charged refuses it.
    pub(crate) fn refuses(&self) -> bool {
        self.enforced().any(|(_, state)| !state.decision.is_allowed())
            || self.caller_decisions().iter().any(|decision| !decision.is_allowed())
    }

    /// How long it waits before it goes on, in nanoseconds.
    pub(crate) fn delay_ns(&self) -> u64 {
        if !self.action.is_allowed() {
            return 0;
        }
        self.enforced().map(|(_, state)| state.decision.delay()).max().unwrap_or(0)
    }

    /// Lets it pass or refuses it, where one charge of an enforced rule is all.
    #[inline(always)]
    pub(crate) fn decided_one(&mut self, rule: u32, quota: u32, decision: Decision) {
        self.states.clear();
        self.states.push(RuleState { rule, quota, charge: 0, decision, shadow: false });
        match decision.verdict {
            CoreVerdict::Allowed { delay } => self.passed(delay),
            _ => self.reject(),
        }
    }

    /// Lets it pass or refuses it, where all rules are enforced.
    #[inline(always)]
    pub(crate) fn decided_plain(&mut self, passed: bool) {
        if passed {
            self.pass();
        } else {
            self.reject();
        }
    }

    /// Lets it pass: the rule closest to its limit decides what is told.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        let delay_ns = self.states.iter().map(|state| if state.shadow { 0 } else { state.decision.delay() }).max();
        self.passed(delay_ns.unwrap_or(0));
    }

    /// Lets it pass after a delay, or at once if that is 0.
    #[inline(always)]
    pub(crate) fn passed(&mut self, delay_ns: u64) {
        self.deciding = Deciding::Tightest;
        self.action = if delay_ns > 0 { Action::Delay } else { Action::Allow };
    }

    /// Refuses it: the rule that refuses it longest decides.
    pub(crate) fn reject(&mut self) {
        let refusing = self.enforced().filter(|(_, state)| !state.decision.is_allowed());
        let longest = refusing.max_by_key(|(_, state)| weight(&state.decision));
        let deciding = longest.map(|(at, state)| (at, retry_after_ns(&state.decision)));
        let of_callers = self.caller_decisions().iter().filter(|decision| !decision.is_allowed()).map(retry_after_ns);
        let of_rules = deciding.map(|(_, retry_ns)| retry_ns).into_iter();
        // Never, where one of them says so.
        let retry_ns = of_rules.chain(of_callers).reduce(|one, other| Some(one?.max(other?))).flatten();
        self.deciding = deciding.map_or(Deciding::None, |(at, _)| Deciding::At(position(at)));
        self.retry_after_ns = retry_ns;
        self.action = Action::Reject;
        if self.lacks_room() {
            // The policy says what happens to a request that the store does not count.
            self.source = Source::Fallback;
        }
    }

    /// Refuses it because the rule of one charge is blocked: what that says of its limits is what counts.
    pub(crate) fn block(&mut self, charge: u32) {
        self.action = Action::Block;
        if let Some(rare) = &mut self.rare {
            rare.warned.clear();
        }
        let blocked = self.states.iter().position(|state| state.charge == charge);
        self.deciding = blocked.map_or(Deciding::None, |at| Deciding::At(position(at)));
        self.retry_after_ns = blocked.and_then(|at| self.states[at].decision.retry_after());
    }
}
