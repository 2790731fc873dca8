//! Several requests that are charged all or none.

use smallvec::SmallVec;
use tollgate_core::Decision;
use tollgate_policy::{Access, Matched, Request};
use tollgate_store::Charge;

use super::{CheckMode, denial};
use crate::limiter::active::ActivePolicy;
use crate::limiter::async_limiter::AsyncLimiter;
use crate::verdict::{Action, RuleState, Verdict};

/// One of several requests that are charged all or nothing, such as the descriptors of one rate limit call.
#[derive(Clone, Copy)]
pub struct JointRequest<'a> {
    /// The request.
    pub request: Request<'a>,
    /// What is charged for it.
    pub charge: JointCharge<'a>,
}

/// What a [`JointRequest`] is charged.
#[derive(Clone, Copy, Debug)]
pub enum JointCharge<'a> {
    /// The rules that apply to it, at its cost.
    Rules,
    /// This charge under a [caller's limit](AsyncLimiter::caller_limit), instead of those of the rules. A denied
    /// request stays denied, and a request that the allow list exempts is charged nothing.
    Custom(Charge<'a>),
    /// Refunds its cost to the rules that apply to it, if the others pass. It is never refused, and no more is refunded
    /// than was used.
    Refund,
}

/// The verdicts of [`AsyncLimiter::check_all`].
#[derive(Clone, Debug)]
pub struct JointVerdict {
    /// The verdict on all requests as one.
    pub overall: Verdict,
    /// The verdict on each request by itself, in order. A request that would have passed by itself is allowed here,
    /// even if the whole is refused and nothing was charged.
    pub each: Vec<Verdict>,
    /// The rules that apply to all requests as one, with keys and costs: for metrics and logs.
    pub matched: Matched<'static>,
}

/// One request while the whole is decided.
struct Member<'r> {
    matched: Matched<'r>,
    /// The positions of its charges among those of all requests.
    charges: SmallVec<[usize; 4]>,
    /// The position of its caller charge among those of all requests.
    caller_charge: Option<usize>,
}

impl AsyncLimiter {
    /// Decides several requests together: all are charged, or none.
    ///
    /// If several requests match the same rule with the same key, the rule is charged once, with the largest cost.
    /// Concurrency limits do not apply, because nothing would release their permits. If one request is denied, none is
    /// charged.
    pub async fn check_all(&self, requests: &[JointRequest<'_>]) -> JointVerdict {
        match self.memory_store() {
            Some(_) => self.check_jointly(requests).await,
            // Boxed, because it is large and would enlarge the future of decisions in memory.
            None => Box::pin(self.check_jointly(requests)).await,
        }
    }

    async fn check_jointly(&self, requests: &[JointRequest<'_>]) -> JointVerdict {
        let blank = self.blank(self.now_ns());
        let (policy, now_ns) = (&*blank.policy, blank.now_ns);
        let mut joint = Matched::new(Access::Rules);
        let mut caller_charges = SmallVec::<[Charge<'_>; 2]>::new();
        let mut all: Vec<Matched<'_>> = requests.iter().map(|one| policy.match_request(&one.request, now_ns)).collect();
        let replaced = replaced_by(&all);
        all.iter_mut().for_each(|matched| matched.without_replaced_by(&replaced));
        let joined = |(one, matched)| join(policy, one, matched, &mut joint, &mut caller_charges);
        let members: Vec<Member<'_>> = requests.iter().zip(all).map(joined).collect();
        let denied = members.iter().find_map(|member| denial(policy, &member.matched));
        let mode = if denied.is_some() { CheckMode::Peek } else { CheckMode::Check };
        if denied.is_some() {
            caller_charges.iter_mut().for_each(|charge| charge.cost = 0);
        } else {
            // Denials of shadow rules, which are reported.
            joint.denials = denials(&members);
        }
        let (mut overall, _) = self.decide_matched(&blank, &joint, mode, &caller_charges).await;
        let mut each: Vec<Verdict> = members.iter().map(|member| of_member(policy, &overall, member)).collect();
        if let Some(access) = denied {
            let mut verdict = blank.blank_of_same_policy(overall.now_ns);
            verdict.deny(access);
            verdict.endpoint = joint.endpoint;
            verdict.cold().denials = denials(&members);
            overall = verdict;
        }
        for (at, member) in members.iter().enumerate() {
            let is_decided = member.matched.access != Access::Rules || denial(policy, &member.matched).is_some();
            if matches!(requests[at].charge, JointCharge::Refund) && !is_decided {
                each[at] = self.refund_if(overall.is_allowed(), &blank, &member.matched).await;
            }
        }
        JointVerdict { overall, each, matched: joint }
    }

    /// Refunds the matched charges if the other requests have `passed`, and returns the resulting state.
    async fn refund_if(&self, passed: bool, blank: &Verdict, matched: &Matched<'_>) -> Verdict {
        let policy = &*blank.policy;
        if passed {
            for charge in &matched.charges {
                let quota = &policy.quotas[charge.quota as usize];
                for limit in std::iter::once(quota.limit_index).chain(quota.former_limit) {
                    self.backend().store().credit(policy.limit(limit), matched.key(charge), charge.cost);
                }
            }
        }
        let mut peeked = matched.clone();
        peeked.charges.iter_mut().for_each(|charge| charge.cost = 0);
        self.decide_matched(&blank.blank_of_same_policy(self.now_ns()), &peeked, CheckMode::Peek, &[]).await.0
    }
}

/// Returns the rules that any of the requests replaces.
fn replaced_by(all: &[Matched<'_>]) -> Matched<'static> {
    let mut replaced = Matched::new(Access::Rules);
    all.iter().for_each(|matched| replaced.replace_as(matched));
    replaced
}

/// Returns the rules that deny any of the requests, each once.
fn denials(members: &[Member<'_>]) -> SmallVec<[u32; 2]> {
    let mut rules: SmallVec<[u32; 2]> =
        members.iter().flat_map(|member| member.matched.denials.iter().copied()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// Adds the charges of a request to those of all requests.
fn join<'a>(
    policy: &ActivePolicy,
    requested: &JointRequest<'a>,
    mut matched: Matched<'a>,
    joint: &mut Matched<'static>,
    caller_charges: &mut SmallVec<[Charge<'a>; 2]>,
) -> Member<'a> {
    matched.retain(|charge| !policy.quotas[charge.quota as usize].is_concurrency);
    let is_denied = denial(policy, &matched).is_some();
    let mut member = Member { charges: SmallVec::new(), caller_charge: None, matched };
    if is_denied {
        return member;
    }
    match &requested.charge {
        JointCharge::Rules => member.charges = joint.join(&member.matched),
        JointCharge::Custom(charge) if member.matched.access == Access::Rules => {
            member.caller_charge = Some(caller_charges.len());
            // Without a receipt, because nothing would hold it.
            caller_charges.push(Charge::new(charge.limit, charge.key, charge.cost));
        }
        JointCharge::Custom(_) | JointCharge::Refund => {}
    }
    member
}

/// Returns the part of the overall verdict that concerns one request.
fn of_member(policy: &ActivePolicy, overall: &Verdict, member: &Member<'_>) -> Verdict {
    let mut verdict = overall.blank_of_same_policy(overall.now_ns);
    verdict.endpoint = member.matched.endpoint;
    if !member.matched.denials.is_empty() {
        verdict.cold().denials = member.matched.denials.clone();
    }
    if let Some(access) = denial(policy, &member.matched) {
        verdict.deny(access);
        return verdict;
    }
    let is_own = |state: &&RuleState| member.charges.contains(&(state.charge as usize));
    verdict.source = overall.source;
    verdict.unlimited = member.matched.unlimited && member.caller_charge.is_none();
    verdict.states = overall.states.iter().filter(is_own).copied().collect();
    if let Some(decision) = member.caller_charge.and_then(|at| overall.caller_decisions().get(at).copied()) {
        verdict.cold().caller_decisions = vec![decision];
    }
    let states = &verdict.states;
    let is_of_own = |rule: &&u32| states.iter().any(|state| state.rule == **rule);
    let warned: SmallVec<[u32; 2]> = overall.warned().iter().filter(is_of_own).copied().collect();
    let is_warned = !warned.is_empty();
    if is_warned {
        verdict.cold().warned = warned;
    }
    let blocking = overall.deciding().filter(|state| overall.action == Action::Block && is_own(state));
    if let Some(state) = blocking {
        verdict.block(state.charge);
    } else if !is_warned && verdict.refuses() {
        verdict.reject();
    } else {
        verdict.allow();
        if is_warned {
            verdict.action = Action::Warn;
        }
    }
    verdict
}

impl Verdict {
    /// Returns the decision under the [caller's limit](JointCharge::Custom) that replaced the rules, if there was one.
    #[must_use]
    pub fn caller_decision(&self) -> Option<&Decision> {
        self.caller_decisions().first()
    }
}
