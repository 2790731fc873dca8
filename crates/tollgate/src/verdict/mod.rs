//! The verdict of a request.

mod data;
mod refused;
mod rule_state;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{ChargeVerdict as CoreVerdict, Decision, Quota};
use tollgate_policy::{CompiledPolicy, Matched, Request};
use tollgate_store::Source;

use crate::limiter::return_to_pool;

use data::DecidingState;
pub(crate) use data::VerdictData;
pub use refused::Refused;
pub use rule_state::RuleState;
pub(crate) use rule_state::tightest;

/// The largest capacity for states that pooled data keeps.
const MAX_KEPT_STATES: usize = 64;

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It passes, with a warning that it exceeds a limit.
    Warn,
    /// It passes after a delay.
    Delay,
    /// It is refused.
    Reject,
    /// It is refused because of repeated violations: its rule blocks the key for a time.
    Block,
    /// It is denied by the deny list or by a rule with `deny: true`.
    Deny,
}

impl Action {
    /// Returns its name in API responses and metrics.
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

/// The result of a decision: the action, the rule that decided, and the state of every rule that applies.
///
/// [`into_result`](Verdict::into_result) turns a refusal into an error for `?`. [`fields`](Verdict::fields) and
/// [`problem_json`](Verdict::problem_json) render it for HTTP.
///
/// It references the policy that decided it, so it names its rules correctly after the policy was replaced. It has the
/// size of a pointer.
pub struct Verdict(Option<Box<VerdictData>>);

impl Verdict {
    /// Creates a blank verdict from pooled data. The states of the previous verdict remain in it.
    #[inline]
    pub(crate) fn of(mut data: Box<VerdictData>, now_ns: u64) -> Verdict {
        data.action = Action::Allow;
        data.source = Source::Exact;
        data.unlimited = false;
        data.unauthorized = false;
        data.deciding = DecidingState::None;
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
            None => unreachable!("only dropping the verdict takes its data"),
        }
    }
}

impl DerefMut for Verdict {
    #[inline]
    fn deref_mut(&mut self) -> &mut VerdictData {
        match &mut self.0 {
            Some(data) => data,
            None => unreachable!("only dropping the verdict takes its data"),
        }
    }
}

impl Drop for Verdict {
    #[inline(always)]
    fn drop(&mut self) {
        let Some(mut data) = self.0.take() else { return };
        if data.cold.is_some() || data.states.capacity() > MAX_KEPT_STATES {
            data.free_large_parts();
        }
        return_to_pool(data);
    }
}

impl Clone for Verdict {
    fn clone(&self) -> Verdict {
        let mut copy = self.blank_of_same_policy(self.now_ns);
        copy.action = self.action;
        copy.source = self.source;
        copy.unlimited = self.unlimited;
        copy.unauthorized = self.unauthorized;
        copy.deciding = self.deciding;
        copy.endpoint = self.endpoint;
        copy.retry_after_ns = self.retry_after_ns;
        copy.states.extend_from_slice(&self.states);
        copy.cold.clone_from(&self.cold);
        copy
    }
}

impl Verdict {
    /// Whether the request passes, at once or after its delay.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.action.is_allowed()
    }

    /// Returns what to do with the request.
    #[inline]
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns the name of the rule that decided; for an allowed request the one closest to its limit, which has the
    /// smallest share of its limit remaining (the first of equals). `None` if no rule applies, or the allow or deny
    /// list decided.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        let denying = || self.denied_by().map(|rule| &*self.policy().rules()[rule].name);
        self.deciding().map(|state| self.rule_name(state)).or_else(denying)
    }

    /// Returns the index in [`CompiledPolicy::rules`] of the rule that denies the request. `None` if no rule does.
    #[inline]
    #[must_use]
    pub fn denied_by(&self) -> Option<usize> {
        if self.action != Action::Deny {
            return None;
        }
        let enforced = |rule: &u32| !self.policy.rules[*rule as usize].shadow;
        self.denying_rules().iter().copied().find(enforced).map(|rule| rule as usize)
    }

    /// Returns the rules that deny the request, as indexes in [`CompiledPolicy::rules`], each with whether it is a
    /// shadow rule, which is not enforced. Denying rules have no limit and so no [state](Verdict::states).
    #[inline]
    pub fn denials(&self) -> impl Iterator<Item = (usize, bool)> {
        self.denying_rules().iter().map(|rule| (*rule as usize, self.policy.rules[*rule as usize].shadow))
    }

    /// Returns the state of the deciding rule. `None` if a rule denies, because it has no limit.
    #[inline]
    #[must_use]
    pub fn deciding(&self) -> Option<&RuleState> {
        match self.deciding {
            DecidingState::None => None,
            DecidingState::Tightest => tightest(self.states.iter().filter(|state| !state.shadow)),
            DecidingState::At(at) => self.states.get(at as usize),
        }
    }

    /// Returns the largest value of [`remaining`](Verdict::remaining) under the deciding rule: its burst, window limit
    /// or number of permits. `None` if no limit applies.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.deciding().map(|state| state.decision.limit)
    }

    /// Returns what remains under the deciding rule. `None` if no limit applies.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.deciding().map(|state| state.decision.remaining)
    }

    /// Returns the time until the key of the deciding rule is as if never used. `None` if no limit applies.
    #[must_use]
    pub fn reset_after(&self) -> Option<Duration> {
        self.deciding().map(|state| Duration::from_nanos(state.decision.reset_after))
    }

    /// Returns the state of each rule that applies. A rule with several limits has as many states.
    #[inline]
    #[must_use]
    pub fn states(&self) -> &[RuleState] {
        &self.states
    }

    /// Returns when the decision began by the store's clock, in nanoseconds since 1970.
    #[inline]
    #[must_use]
    pub fn decided_at_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the name of a state's rule.
    #[must_use]
    pub fn rule_name(&self, state: &RuleState) -> &str {
        self.policy.rule_name(state.rule)
    }

    /// Returns the name of a state's limit in response fields: that of the rule, with the period if the rule has
    /// several limits.
    #[must_use]
    pub fn limit_name(&self, state: &RuleState) -> &str {
        &self.policy.quota(state.quota).scope
    }

    /// Returns the quota of a state's limit.
    #[must_use]
    pub fn quota(&self, state: &RuleState) -> &Quota {
        &self.policy.quota(state.quota).quota
    }

    /// Returns the `message` of the rule that refuses the request. `None` if the store could not count the request or
    /// counted it as a fallback, or if the request can never pass: the message is about a limit that the client has
    /// reached.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        if self.is_allowed() || self.is_store_failure() || self.is_impossible() {
            return None;
        }
        let rule = self.deciding().map(RuleState::rule_position).or_else(|| self.denied_by())?;
        let rule = self.policy().rules().get(rule)?;
        rule.message.as_deref().filter(|_| rule.publish)
    }

    /// Returns the tier that grants a state's limit. `None` if the rule has no tiers or an override applies.
    #[must_use]
    pub fn tier(&self, state: &RuleState) -> Option<&str> {
        self.policy.quota(state.quota).tier.as_deref()
    }

    /// Returns the rules that let the request pass with a warning, as indexes in [`CompiledPolicy::rules`].
    pub fn warned_rules(&self) -> impl Iterator<Item = usize> {
        self.warned().iter().map(|rule| *rule as usize)
    }

    /// Returns the names of the rules that let the request pass with a warning.
    pub fn warned_by(&self) -> impl Iterator<Item = &str> {
        self.warned().iter().map(|rule| self.policy.rule_name(*rule))
    }

    /// Whether a rule applies that grants an unlimited rate.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Returns the rules that apply to the request of this verdict, with keys and costs: for logs and statistics.
    #[must_use]
    pub fn matched<'r>(&self, request: &Request<'r>) -> Matched<'r> {
        self.policy.match_request(request, self.now_ns)
    }

    /// Returns the policy that decided it.
    #[inline]
    #[must_use]
    pub fn policy(&self) -> &Arc<CompiledPolicy> {
        &self.policy.compiled
    }

    /// Returns the endpoint of the request: the index in [`CompiledPolicy::endpoints`] of the most specific path
    /// pattern that it matches. `None` if it matches none.
    #[inline]
    #[must_use]
    pub fn endpoint(&self) -> Option<usize> {
        self.endpoint.map(|position| position as usize)
    }

    /// Returns the source of the decision: the counters of the store, leased tokens, a remembered refusal, or the
    /// fallback.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether it is refused because its cost exceeds the capacity of a limit: it can never pass.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        let is_never = |state: &RuleState| state.decision.verdict == CoreVerdict::Impossible;
        self.action == Action::Reject && self.deciding().is_some_and(is_never)
    }

    /// Whether it is refused because the store could not count it: the store is full, or unreachable with
    /// `on_failure: closed`. Such a refusal is also a [store failure](Verdict::is_store_failure).
    #[must_use]
    pub fn is_uncounted(&self) -> bool {
        self.action == Action::Reject && self.has_uncounted_charge()
    }

    /// Whether it is refused while the store fails: it could not be counted, or it exceeds the fallback share of this
    /// instance. The status is 503.
    #[must_use]
    pub fn is_store_failure(&self) -> bool {
        self.action == Action::Reject && self.is_store_degraded()
    }

    /// Returns how long an allowed request must wait before it proceeds.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_ns())
    }

    /// Returns the time until a refused request would pass. `None` if it is unknown, or the request can never pass.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ns.map(Duration::from_nanos)
    }

    /// Whether a limit or the fallback share of a limit refuses it, its key is blocked, or it is denied. `false` if the
    /// store could not count it and no limit refuses it.
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

    /// Whether it is denied because its token is not usable and the policy says `on_invalid: refuse`.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.unauthorized
    }

    /// Returns the HTTP status: 200, 429 (limited), 403 (denied by a list or a rule), 401 (token not usable) or 503
    /// (the store failed).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.action {
            Action::Allow | Action::Warn | Action::Delay => 200,
            Action::Deny if self.is_unauthorized() => 401,
            Action::Deny => 403,
            Action::Reject if self.is_store_failure() => 503,
            Action::Reject | Action::Block => 429,
        }
    }

    /// Returns the response header that carries the true cost of the request, and the largest accepted value.
    #[cfg(feature = "tower")]
    pub(crate) fn cost_header(&self) -> Option<(&str, u64)> {
        let mut rules = self.states.iter().map(|state| &self.policy().rules()[state.rule as usize]);
        rules.find_map(|rule| Some((rule.settled_by.as_deref()?, rule.max_cost)))
    }

    /// Whether a queueing rule decided: a refusal means that its queue is full.
    #[cfg(feature = "client")]
    pub(crate) fn is_by_queue(&self) -> bool {
        let quota = self.deciding().and_then(|state| self.policy.compiled.quotas().get(state.quota_position()));
        quota.is_some_and(|quota| quota.quota.queue_size() > 0)
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
