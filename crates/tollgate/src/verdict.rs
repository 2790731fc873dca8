use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Decision, Quota, Verdict as CoreVerdict};
use tollgate_policy::{Access, CompiledPolicy, Matched, Request};
use tollgate_store::{DecisionPlace, Source};

use crate::limiter::{ActivePolicy, give_back};

/// When to try again what could not be counted. Nobody knows; soon, because it is not the client's doing.
const ROOM_AFTER_NS: u64 = 1_000_000_000;

/// How many rules apply to most requests.
const USUAL_STATES: usize = 4;

/// A thread keeps the room for so many states at most.
const MAX_KEPT_STATES: usize = 64;

/// The answer to a request: what to do with it, which rule decided, and how
/// every rule stands that applies to it.
///
/// It keeps the policy that it was decided by, so that it names its rules
/// correctly after the policy was replaced. It is as large as a pointer.
pub struct Verdict(Option<Box<VerdictData>>);

/// What a verdict says.
#[doc(hidden)]
pub struct VerdictData {
    pub(crate) policy: Arc<ActivePolicy>,
    pub(crate) action: Action,
    pub(crate) source: Source,
    /// Whether a rule applies that grants an unlimited amount.
    pub(crate) unlimited: bool,
    /// Whether it is denied because its token cannot be used.
    unauthorized: bool,
    /// The position of the deciding state.
    deciding: Option<u32>,
    /// The kind of endpoint that it is for, by position.
    pub(crate) endpoint: Option<u32>,
    /// When it was asked for, in nanoseconds since 1970.
    pub(crate) now_ns: u64,
    /// Until the request would pass; `None` if nobody knows, or it never will.
    retry_after_ns: Option<u64>,
    /// Kept when the data is used again, so that nothing is allocated for them.
    pub(crate) states: Vec<RuleState>,
    /// What few verdicts have.
    rare: Option<Box<Rare>>,
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
            deciding: None,
            endpoint: None,
            now_ns: 0,
            retry_after_ns: None,
            states: Vec::with_capacity(USUAL_STATES),
            rare: None,
        })
    }
}

impl Verdict {
    /// A verdict on a request that nothing stands in the way of, made of data that may have been another's: its
    /// states are still those.
    #[inline]
    pub(crate) fn of(mut data: Box<VerdictData>, now_ns: u64) -> Verdict {
        data.action = Action::Allow;
        data.source = Source::Exact;
        data.unlimited = false;
        data.unauthorized = false;
        data.deciding = None;
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
    #[inline]
    fn drop(&mut self) {
        let Some(mut data) = self.0.take() else { return };
        if data.rare.is_some() || data.states.capacity() > MAX_KEPT_STATES {
            data.rare = None;
            data.states = Vec::new();
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

impl VerdictData {
    /// What few verdicts have, to be written.
    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    #[inline]
    pub(crate) fn warned(&self) -> &[u32] {
        self.rare.as_ref().map_or(&[], |rare| &rare.warned)
    }

    #[inline]
    fn denying(&self) -> &[u32] {
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

    fn enforced(&self) -> impl Iterator<Item = (usize, &RuleState)> {
        self.states.iter().enumerate().filter(|(_, state)| !state.shadow)
    }

    /// Whether the store could not answer as it should.
    pub(crate) fn is_troubled(&self) -> bool {
        self.source == Source::Fallback || self.lacks_room()
    }

    /// Whether the store could not count it.
    fn lacks_room(&self) -> bool {
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

    /// Lets it pass or refuses it, where all rules are enforced.
    #[inline(always)]
    pub(crate) fn decided_plain(&mut self, passed: bool) {
        if !passed {
            return self.reject();
        }
        let (mut deciding, mut delay_ns) = (0, 0);
        let states = self.states.as_slice();
        for (at, state) in states.iter().enumerate() {
            delay_ns = delay_ns.max(state.decision.delay());
            if at > 0 && by_share_left(&state.decision, &states[deciding].decision).is_lt() {
                deciding = at;
            }
        }
        self.deciding = Some(position(deciding));
        self.action = passing(delay_ns);
    }

    /// Lets it pass: the rule closest to its limit decides what is told.
    pub(crate) fn pass(&mut self) {
        let (mut deciding, mut delay_ns): (Option<(u32, &RuleState)>, u64) = (None, 0);
        for (at, state) in (0..).zip(&self.states).filter(|(_, state)| !state.shadow) {
            delay_ns = delay_ns.max(state.decision.delay());
            let is_tighter = |(_, known): (u32, &RuleState)| by_share_left(&state.decision, &known.decision).is_lt();
            if deciding.is_none_or(is_tighter) {
                deciding = Some((at, state));
            }
        }
        self.deciding = deciding.map(|(at, _)| at);
        self.action = passing(delay_ns);
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
        self.deciding = deciding.map(|(at, _)| position(at));
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
        self.deciding = self.states.iter().position(|state| state.charge == charge).map(position);
        let deciding = self.deciding.and_then(|at| self.states.get(at as usize));
        self.retry_after_ns = deciding.and_then(|state| state.decision.retry_after());
    }
}

/// The state at a position, to be written: one that is there already, or one more.
#[inline(always)]
pub(crate) fn state_at(states: &mut Vec<RuleState>, at: usize) -> &mut RuleState {
    if at >= states.len() {
        states.push(RuleState::UNDECIDED);
    }
    &mut states[at]
}

/// What is done with a request that passes.
#[inline]
fn passing(delay_ns: u64) -> Action {
    if delay_ns > 0 { Action::Delay } else { Action::Allow }
}

/// There are far fewer states than that.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// How long a limit stands in the way. What could not be counted is told before
/// all others, because it decides the status too; then what will never pass, then
/// that of which nobody knows when it will.
fn weight(decision: &Decision) -> (u8, u64) {
    match decision.verdict {
        CoreVerdict::NoRoom => (3, 0),
        CoreVerdict::Impossible => (2, 0),
        CoreVerdict::Refused { retry_after: None } => (1, 0),
        CoreVerdict::Refused { retry_after: Some(wait) } => (0, wait),
        CoreVerdict::Allowed { .. } => (0, 0),
    }
}

/// When to try again what a limit refused.
fn retry_after_ns(decision: &Decision) -> Option<u64> {
    match decision.verdict {
        CoreVerdict::NoRoom => Some(ROOM_AFTER_NS),
        _ => decision.retry_after(),
    }
}

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
    const UNDECIDED: RuleState = RuleState {
        rule: 0,
        quota: 0,
        charge: 0,
        decision: Decision { verdict: CoreVerdict::NoRoom, limit: 0, remaining: 0, next_after: 0, reset_after: 0 },
        shadow: false,
    };

    /// Says what it is the state of: the charge at a position, of a rule that is enforced.
    #[inline(always)]
    pub(crate) fn set(&mut self, rule: u32, quota: u32, at: usize) {
        (self.rule, self.quota, self.charge, self.shadow) = (rule, quota, position(at), false);
    }

    /// The position of its rule among [`CompiledPolicy::rules`].
    #[inline]
    #[must_use]
    pub fn rule_position(&self) -> usize {
        self.rule as usize
    }

    /// The position of its quota among [`CompiledPolicy::quotas`]; behind them are those that were set by hand.
    #[inline]
    #[must_use]
    pub fn quota_position(&self) -> usize {
        self.quota as usize
    }

    /// Until its limit would let the request pass, in nanoseconds; `None` if it does now, never will, or nobody knows.
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
        self.states.get(self.deciding? as usize)
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

    /// Until a refused request would pass; `None` if nobody knows, or it never will.
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

/// The state that is closest to its limit.
pub(crate) fn tightest<'a>(states: impl Iterator<Item = (usize, &'a RuleState)>) -> Option<(usize, &'a RuleState)> {
    states.min_by(|(_, one), (_, other)| by_share_left(&one.decision, &other.decision))
}

/// Whose remaining share of its limit is smaller.
fn by_share_left(one: &Decision, other: &Decision) -> std::cmp::Ordering {
    let left = u128::from(one.remaining) * u128::from(other.limit);
    left.cmp(&(u128::from(other.remaining) * u128::from(one.limit)))
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
