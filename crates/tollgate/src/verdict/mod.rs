//! The answer to a request.

mod data;
mod rule_state;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Decision, Quota, Verdict as CoreVerdict};
use tollgate_policy::{CompiledPolicy, Matched, Request};
use tollgate_store::Source;

use crate::limiter::give_back;

use data::Deciding;
pub(crate) use data::VerdictData;
pub use rule_state::RuleState;
pub(crate) use rule_state::tightest;

/// A thread keeps the room for so many states at most.
const MAX_KEPT_STATES: usize = 64;

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It passes, and is told that it should not have.
    Warn,
    /// It passes after a delay.
    Delay,
    /// It is refused.
    Reject,
    /// It is refused for what came before it.
    Block,
    /// It is refused for what it is or who sends it: by a list, or by a rule that denies.
    Deny,
}

impl Action {
    /// Its name in answers and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Warn => "warn",
            Action::Delay => "delay",
            Action::Reject => "reject",
            Action::Block => "block",
            Action::Deny => "deny",
        }
    }

    /// Whether the request passes.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Action::Allow | Action::Warn | Action::Delay)
    }
}

/// The answer to a request: what to do with it, which rule decided, and how
/// every rule stands that applies to it.
///
/// It keeps the policy that it was decided by, so that it names its rules
/// correctly after the policy was replaced. It is as large as a pointer.
pub struct Verdict(Option<Box<VerdictData>>);

impl Verdict {
    /// A verdict on a request that nothing stands in the way of, made of data that may have been another's: its
    /// states are still those.
    #[inline]
    pub(crate) fn of(mut data: Box<VerdictData>, now_ns: u64) -> Verdict {
        data.action = Action::Allow;
        data.source = Source::Exact;
        data.unlimited = false;
        data.unauthorized = false;
        data.deciding = Deciding::None;
        data.endpoint = None;
        data.now_ns = now_ns;
        data.retry_after_ns = None;
        Verdict(Some(data))
    }
}

impl Deref for Verdict {
    type Target = VerdictData;

    #[inline]
    fn deref(&self) -> &VerdictData {
        match &self.0 {
            Some(data) => data,
            None => unreachable!("only dropping it takes its data away"),
        }
    }
}

impl DerefMut for Verdict {
    #[inline]
    fn deref_mut(&mut self) -> &mut VerdictData {
        match &mut self.0 {
            Some(data) => data,
            None => unreachable!("only dropping it takes its data away"),
        }
    }
}

impl Drop for Verdict {
    #[inline(always)]
    fn drop(&mut self) {
        let Some(mut data) = self.0.take() else { return };
        if data.rare.is_some() || data.states.capacity() > MAX_KEPT_STATES {
            data.forget_rare();
        }
        give_back(data);
    }
}

impl Clone for Verdict {
    fn clone(&self) -> Verdict {
        let mut copy = self.another(self.now_ns);
        copy.action = self.action;
        copy.source = self.source;
        copy.unlimited = self.unlimited;
        copy.unauthorized = self.unauthorized;
        copy.deciding = self.deciding;
        copy.endpoint = self.endpoint;
        copy.retry_after_ns = self.retry_after_ns;
        copy.states.extend_from_slice(&self.states);
        copy.rare.clone_from(&self.rare);
        copy
    }
}

impl Verdict {
    /// Whether the request passes, at once or after its delay.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.action.is_allowed()
    }

    /// What to do with the request.
    #[inline]
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// The rule that decided; of an allowed request the one closest to its limit; `None` if none applies, or a list
    /// decided.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        let denying = || self.denied_by().map(|rule| &*self.policy().rules()[rule].name);
        self.deciding().map(|state| self.rule_name(state)).or_else(denying)
    }

    /// The position of the rule that denies the request among [`CompiledPolicy::rules`]; `None` if none does, or a list does.
    #[inline]
    #[must_use]
    pub fn denied_by(&self) -> Option<usize> {
        if self.action != Action::Deny {
            return None;
        }
        let enforced = |rule: &u32| !self.policy.rules[*rule as usize].shadow;
        self.denying().iter().copied().find(enforced).map(|rule| rule as usize)
    }

    /// The rules that deny the request, by their positions among [`CompiledPolicy::rules`], each with whether it is a shadow,
    /// which only would. They have no limit, and so no [state](Verdict::states).
    #[inline]
    pub fn denials(&self) -> impl Iterator<Item = (usize, bool)> {
        self.denying().iter().map(|rule| (*rule as usize, self.policy.rules[*rule as usize].shadow))
    }

    /// How the deciding rule stands; `None` where a rule denies, as it has no limit.
    #[inline]
    #[must_use]
    pub fn deciding(&self) -> Option<&RuleState> {
        match self.deciding {
            Deciding::None => None,
            Deciding::Tightest => tightest(self.states.iter().filter(|state| !state.shadow)),
            Deciding::At(at) => self.states.get(at as usize),
        }
    }

    /// How each rule stands that the request met. A rule with several limits has as many states.
    #[inline]
    #[must_use]
    pub fn states(&self) -> &[RuleState] {
        &self.states
    }

    /// When it was asked for by the store's clock, in nanoseconds since 1970.
    #[inline]
    #[must_use]
    pub fn decided_at_ns(&self) -> u64 {
        self.now_ns
    }

    /// The name of a state's rule.
    #[must_use]
    pub fn rule_name(&self, state: &RuleState) -> &str {
        self.policy.rule_name(state.rule)
    }

    /// The name under which clients know a state's limit: that of the rule,
    /// with the period where a rule has several limits.
    #[must_use]
    pub fn limit_name(&self, state: &RuleState) -> &str {
        &self.policy.quota(state.quota).scope
    }

    /// The quota of a state's limit.
    #[must_use]
    pub fn quota(&self, state: &RuleState) -> &Quota {
        &self.policy.quota(state.quota).quota
    }

    /// The positions of the rules that let it pass with a warning, among [`CompiledPolicy::rules`].
    pub fn warned_rules(&self) -> impl Iterator<Item = usize> {
        self.warned().iter().map(|rule| *rule as usize)
    }

    /// The names of the rules that let it pass with a warning.
    pub fn warned_by(&self) -> impl Iterator<Item = &str> {
        self.warned().iter().map(|rule| self.policy.rule_name(*rule))
    }

    /// Whether a rule applies that grants an unlimited amount.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Which rules apply to the request that this is the verdict on, with keys and costs: for logs and lists.
    #[must_use]
    pub fn matched<'r>(&self, request: &Request<'r>) -> Matched<'r> {
        self.policy.match_request(request, self.now_ns)
    }

    /// The policy that it was decided by.
    #[inline]
    #[must_use]
    pub fn policy(&self) -> &Arc<CompiledPolicy> {
        &self.policy.compiled
    }

    /// The kind of endpoint that the request is for: the position of the most specific path
    /// pattern that it matches among [`CompiledPolicy::endpoints`]. `None` if it matches none.
    #[inline]
    #[must_use]
    pub fn endpoint(&self) -> Option<usize> {
        self.endpoint.map(|position| position as usize)
    }

    /// Where the answer comes from.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether it is refused because it costs more than a limit can ever let pass.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        let is_never = |state: &RuleState| state.decision.verdict == CoreVerdict::Impossible;
        self.action == Action::Reject && self.deciding().is_some_and(is_never)
    }

    /// Whether it is refused because the store could not count it: it is full, or does not answer and
    /// the policy wants nothing to pass then.
    #[must_use]
    pub fn is_uncounted(&self) -> bool {
        self.action == Action::Reject && self.lacks_room()
    }

    /// Whether it is refused because of the store's trouble, and not for anything the client did.
    #[must_use]
    pub fn is_trouble(&self) -> bool {
        self.action == Action::Reject && self.is_troubled()
    }

    /// How long an allowed request waits before it goes on.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_ns())
    }

    /// Until a refused request would pass; `None` if that is not known, or it never will.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ns.map(Duration::from_nanos)
    }

    /// Whether a limit refuses it, be it only this instance's share of it, and not just the store's trouble.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        let over =
            |decision: &Decision| matches!(decision.verdict, CoreVerdict::Refused { .. } | CoreVerdict::Impossible);
        let is_refused = self.enforced().any(|(_, state)| over(&state.decision));
        match self.action {
            Action::Block | Action::Deny => true,
            Action::Reject => is_refused || self.caller_decisions().iter().any(over),
            Action::Allow | Action::Warn | Action::Delay => false,
        }
    }

    /// Whether it is denied because its token cannot be used, under a policy that refuses such.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.unauthorized
    }

    /// The HTTP status: 200, 429 (limited), 403 (denied by a list or a rule), 401 (a token that cannot be used) or 503
    /// (the store's trouble).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.action {
            Action::Allow | Action::Warn | Action::Delay => 200,
            Action::Deny if self.is_unauthorized() => 401,
            Action::Deny => 403,
            Action::Reject if self.is_trouble() => 503,
            Action::Reject | Action::Block => 429,
        }
    }

    /// The response header that tells the true cost of the request, and the most that it counts.
    #[cfg(feature = "tower")]
    pub(crate) fn settled_by(&self) -> Option<(&str, u64)> {
        let mut rules = self.states.iter().map(|state| &self.policy().rules()[state.rule as usize]);
        rules.find_map(|rule| Some((rule.settled_by.as_deref()?, rule.max_cost)))
    }

    pub(crate) fn retry_after_ns(&self) -> Option<u64> {
        self.retry_after_ns
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("action", &self.action)
            .field("rule", &self.rule())
            .field("retry_after", &self.retry_after())
            .field("source", &self.source)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}
