//! Several requests that are charged together or not at all.

use smallvec::SmallVec;
use tollgate_core::Decision;
use tollgate_policy::{Access, Matched, Request};
use tollgate_store::Charge;

use super::{Ask, denial};
use crate::limiter::active::ActivePolicy;
use crate::limiter::async_limiter::AsyncLimiter;
use crate::verdict::{Action, RuleState, Verdict};

/// One of several requests that are decided together.
#[derive(Clone, Copy)]
pub struct AskedTogether<'a> {
    /// What is known of it.
    pub request: Request<'a>,
    /// What to do with it.
    pub part: Part<'a>,
}

/// What to do with one of several requests.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Charge it under the rules that apply to it.
    Charge,
    /// Charge this instead of what the rules say. A denied request stays denied, and one to which no rule applies is
    /// charged nothing.
    ChargeInstead(Charge<'a>),
    /// Give its cost back to the rules that apply to it, if the others pass. It
    /// is never refused, and no more is given back than was used.
    GiveBack,
}

/// What became of several requests.
#[derive(Clone, Debug)]
pub struct Together {
    /// The answer to all of them as one.
    pub overall: Verdict,
    /// How each one stands by itself, in order. One that would have passed by
    /// itself is allowed here, also where the whole is refused and nothing was charged.
    pub each: Vec<Verdict>,
    /// Which rules apply to all of them as one, with keys and costs: for metrics, logs and lists.
    pub matched: Matched<'static>,
}

/// One request on its way.
struct Member<'r> {
    matched: Matched<'r>,
    /// Where its charges are among those of all.
    charges: SmallVec<[usize; 4]>,
    /// Where its charge instead of the rules is among all of these.
    instead: Option<usize>,
}

impl AsyncLimiter {
    /// Decides several requests together: all are charged or none. Where
    /// several match the same rule with the same key, it is charged once, with
    /// the largest cost. Rules that limit concurrency do not apply, because nothing
    /// would give permits back. Where one request is denied, none is charged.
    pub async fn decide_together(&self, asked: &[AskedTogether<'_>]) -> Together {
        match self.memory_store() {
            Some(_) => self.together(asked).await,
            // On the heap: it is large, and a request that is decided in memory would carry it about.
            None => Box::pin(self.together(asked)).await,
        }
    }

    async fn together(&self, asked: &[AskedTogether<'_>]) -> Together {
        let undecided = self.undecided(self.now_ns());
        let (policy, now_ns) = (&*undecided.policy, undecided.now_ns);
        let mut joint = Matched::new(Access::Rules);
        let mut instead = SmallVec::<[Charge<'_>; 2]>::new();
        let mut all: Vec<Matched<'_>> = asked.iter().map(|one| policy.match_request(&one.request, now_ns)).collect();
        let replaced = replaced_by(&all);
        all.iter_mut().for_each(|matched| matched.without_replaced_by(&replaced));
        let joined = |(one, matched)| join(policy, one, matched, &mut joint, &mut instead);
        let members: Vec<Member<'_>> = asked.iter().zip(all).map(joined).collect();
        let denied = members.iter().find_map(|member| denial(policy, &member.matched));
        let ask = if denied.is_some() { Ask::Peek } else { Ask::Check };
        if denied.is_some() {
            instead.iter_mut().for_each(|charge| charge.cost = 0);
        } else {
            // Those of shadow rules, which are reported.
            joint.denials = denials(&members);
        }
        let (mut overall, _) = self.decide_matched(&undecided, &joint, ask, &instead).await;
        let mut each: Vec<Verdict> = members.iter().map(|member| of_member(policy, &overall, member)).collect();
        if let Some(access) = denied {
            let mut verdict = undecided.another(overall.now_ns);
            verdict.deny(access);
            verdict.endpoint = joint.endpoint;
            verdict.rare().denials = denials(&members);
            overall = verdict;
        }
        for (at, member) in members.iter().enumerate() {
            let is_decided = member.matched.access != Access::Rules || denial(policy, &member.matched).is_some();
            if matches!(asked[at].part, Part::GiveBack) && !is_decided {
                each[at] = self.given_back(&undecided, &member.matched, overall.is_allowed()).await;
            }
        }
        Together { overall, each, matched: joint }
    }

    /// Gives back what was matched, if the others passed, and says what remains then.
    async fn given_back(&self, undecided: &Verdict, matched: &Matched<'_>, is_given: bool) -> Verdict {
        let policy = &*undecided.policy;
        if is_given {
            for charge in &matched.charges {
                let quota = &policy.quotas[charge.quota as usize];
                for limit in std::iter::once(quota.limit_at).chain(quota.former_limit_at) {
                    self.backend().store().credit(policy.limit(limit), matched.key(charge), charge.cost);
                }
            }
        }
        let mut look = matched.clone();
        look.charges.iter_mut().for_each(|charge| charge.cost = 0);
        self.decide_matched(&undecided.another(self.now_ns()), &look, Ask::Peek, &[]).await.0
    }
}

/// Everything that one of these replaces.
fn replaced_by(all: &[Matched<'_>]) -> Matched<'static> {
    let mut replaced = Matched::new(Access::Rules);
    all.iter().for_each(|matched| replaced.replace_as(matched));
    replaced
}

/// The rules that deny any of them, each once.
fn denials(members: &[Member<'_>]) -> SmallVec<[u32; 2]> {
    let mut rules: SmallVec<[u32; 2]> =
        members.iter().flat_map(|member| member.matched.denials.iter().copied()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// Adds the charges of a request to those of all.
fn join<'a>(
    policy: &ActivePolicy,
    asked: &AskedTogether<'a>,
    mut matched: Matched<'a>,
    joint: &mut Matched<'static>,
    instead: &mut SmallVec<[Charge<'a>; 2]>,
) -> Member<'a> {
    matched.retain(|charge| !policy.quotas[charge.quota as usize].is_concurrency);
    let is_denied = denial(policy, &matched).is_some();
    let mut member = Member { charges: SmallVec::new(), instead: None, matched };
    if is_denied {
        return member;
    }
    match &asked.part {
        Part::Charge => member.charges = joint.join(&member.matched),
        Part::ChargeInstead(charge) if member.matched.access == Access::Rules => {
            member.instead = Some(instead.len());
            // Nothing would hold a receipt of it.
            instead.push(Charge::new(charge.limit, charge.key, charge.cost));
        }
        Part::ChargeInstead(_) | Part::GiveBack => {}
    }
    member
}

/// The part of the answer that is about one request.
fn of_member(policy: &ActivePolicy, overall: &Verdict, member: &Member<'_>) -> Verdict {
    let mut verdict = overall.another(overall.now_ns);
    verdict.endpoint = member.matched.endpoint;
    if !member.matched.denials.is_empty() {
        verdict.rare().denials = member.matched.denials.clone();
    }
    if let Some(access) = denial(policy, &member.matched) {
        verdict.deny(access);
        return verdict;
    }
    let is_own = |state: &&RuleState| member.charges.contains(&(state.charge as usize));
    verdict.source = overall.source;
    verdict.unlimited = member.matched.unlimited && member.instead.is_none();
    verdict.states = overall.states.iter().filter(is_own).copied().collect();
    if let Some(decision) = member.instead.and_then(|at| overall.caller_decisions().get(at).copied()) {
        verdict.rare().caller_decisions = vec![decision];
    }
    let states = &verdict.states;
    let is_of_own = |rule: &&u32| states.iter().any(|state| state.rule == **rule);
    let warned: SmallVec<[u32; 2]> = overall.warned().iter().filter(is_of_own).copied().collect();
    let is_warned = !warned.is_empty();
    if is_warned {
        verdict.rare().warned = warned;
    }
    let blocking = overall.deciding().filter(|state| overall.action == Action::Block && is_own(state));
    if let Some(state) = blocking {
        verdict.block(state.charge);
    } else if !is_warned && verdict.refuses() {
        verdict.reject();
    } else {
        verdict.pass();
        if is_warned {
            verdict.action = Action::Warn;
        }
    }
    verdict
}

impl Verdict {
    /// What was decided on the charge that stood in for the rules, if there was one.
    #[must_use]
    pub fn instead(&self) -> Option<&Decision> {
        self.caller_decisions().first()
    }
}
