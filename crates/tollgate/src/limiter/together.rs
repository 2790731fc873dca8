//! Several requests that are charged together or not at all.

use std::pin::pin;

use smallvec::SmallVec;
use tollgate_core::Decision;
use tollgate_policy::{Access, Matched, Request};
use tollgate_store::{KeyedCharge, Store};

use super::Limiter;
use super::active::Active;
use super::admit::{Asking, denial};
use super::immediate::immediately;
use crate::verdict::{Action, Draft, RuleState, Verdict};

/// One of several requests that are decided together.
#[derive(Clone, Copy)]
pub struct AskedTogether<'a, L> {
    /// What is known of it.
    pub request: Request<'a>,
    /// What to do with it.
    pub part: Part<'a, L>,
}

/// What to do with one of several requests.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a, L> {
    /// Charge it under the rules that it meets.
    Charge,
    /// Charge this instead of what the rules say. Who is denied stays denied, and who meets no rule meets none.
    ChargeInstead(KeyedCharge<'a, L>),
    /// Give its cost back to the rules that it meets, if the others pass. It
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
}

/// One request on its way.
struct Member<'r> {
    matched: Matched<'r>,
    /// Where its charges are among those of all.
    charges: SmallVec<[usize; 4]>,
    /// Where its charge instead of the rules is among all of these.
    instead: Option<usize>,
}

impl<S: Store> Limiter<S> {
    pub(super) async fn ask_together(
        &self,
        asked: &[AskedTogether<'_, S::Limit>],
        watch: impl FnOnce(&Verdict, &Matched<'_>),
    ) -> Together {
        if self.shared.store.answers_at_once() {
            immediately(pin!(self.walk_together(asked, watch)))
        } else {
            Box::pin(self.walk_together(asked, watch)).await
        }
    }

    async fn walk_together(
        &self,
        asked: &[AskedTogether<'_, S::Limit>],
        watch: impl FnOnce(&Verdict, &Matched<'_>),
    ) -> Together {
        let now_ns = self.shared.store.now_ns();
        let active = self.active();
        let mut joint = Matched::new(Access::Rules);
        let mut instead = SmallVec::<[KeyedCharge<'_, S::Limit>; 2]>::new();
        let mut all_matched: Vec<Matched<'_>> =
            asked.iter().map(|one| active.match_request(&one.request, now_ns)).collect();
        let replaced = replaced_by(&all_matched);
        all_matched.iter_mut().for_each(|matched| matched.without_replaced_by(&replaced));
        let joined = |(one, matched)| join(&active, one, matched, &mut joint, &mut instead);
        let members: Vec<Member<'_>> = asked.iter().zip(all_matched).map(joined).collect();
        let denied = members.iter().find_map(|member| denial(&active, &member.matched));
        let asking = if denied.is_some() { Asking::Look } else { Asking::Check };
        if denied.is_some() {
            instead.iter_mut().for_each(|charge| charge.cost = 0);
        } else {
            // Shadows, which are told of.
            joint.denials = denials(&members);
        }
        let (mut overall, _) = self.decide_met(&active, &joint, asking, &instead, now_ns).await;
        let told = |member: &Member<'_>| of_member(&active, &overall, member);
        let mut each: Vec<Verdict> = members.iter().map(told).collect();
        if let Some(access) = denied {
            let mut verdict = Draft::new(&active.facts, overall.told.now_ns);
            verdict.deny(access);
            verdict.endpoint = joint.endpoint;
            verdict.denials = denials(&members);
            overall = verdict.finish();
        }
        for (at, member) in members.iter().enumerate() {
            let is_decided = member.matched.access != Access::Rules || denial(&active, &member.matched).is_some();
            if matches!(asked[at].part, Part::GiveBack) && !is_decided {
                each[at] = self.given_back(&active, &member.matched, overall.is_allowed()).await;
            }
        }
        watch(&overall, &joint);
        Together { overall, each }
    }

    /// Gives back what was met, if the others passed, and says what remains then.
    async fn given_back(&self, active: &Active<S::Limit>, matched: &Matched<'_>, is_given: bool) -> Verdict {
        if is_given {
            for charge in &matched.charges {
                let (quota, key) = (charge.quota as usize, matched.key(charge));
                let former = active.former.get(quota).and_then(Option::as_ref);
                for limit in std::iter::once(&active.limits[quota]).chain(former) {
                    self.shared.store.credit(limit, key, charge.cost);
                }
            }
        }
        let mut look = matched.clone();
        look.charges.iter_mut().for_each(|charge| charge.cost = 0);
        self.decide_met(active, &look, Asking::Look, &[], self.shared.store.now_ns()).await.0
    }
}

/// Everything that one of these replaces.
fn replaced_by(all_matched: &[Matched<'_>]) -> Matched<'static> {
    let mut replaced = Matched::new(Access::Rules);
    all_matched.iter().for_each(|matched| replaced.replace_as(matched));
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
fn join<'a, L>(
    active: &Active<L>,
    asked: &AskedTogether<'a, L>,
    mut matched: Matched<'a>,
    joint: &mut Matched<'_>,
    instead: &mut SmallVec<[KeyedCharge<'a, L>; 2]>,
) -> Member<'a> {
    matched.retain(|charge| !active.facts.quotas[charge.quota as usize].is_concurrency);
    if denial(active, &matched).is_some() {
        return Member { charges: SmallVec::new(), instead: None, matched };
    }
    let mut member = Member { charges: SmallVec::new(), instead: None, matched };
    match &asked.part {
        Part::Charge => member.charges = joint.join(&member.matched),
        Part::ChargeInstead(charge) if member.matched.access == Access::Rules => {
            member.instead = Some(instead.len());
            instead.push(KeyedCharge { ..*charge });
        }
        Part::ChargeInstead(_) | Part::GiveBack => {}
    }
    member
}

/// The part of the answer that is about one request.
fn of_member<L>(active: &Active<L>, overall: &Verdict, member: &Member<'_>) -> Verdict {
    let all = &overall.told;
    let mut verdict = Draft::new(&active.facts, all.now_ns);
    verdict.endpoint = member.matched.endpoint;
    verdict.denials = member.matched.denials.clone();
    if let Some(access) = denial(active, &member.matched) {
        verdict.deny(access);
        return verdict.finish();
    }
    let is_own = |state: &&RuleState| member.charges.contains(&(state.charge as usize));
    verdict.source = all.source;
    verdict.unlimited = member.matched.unlimited && member.instead.is_none();
    verdict.states = all.states.iter().filter(is_own).copied().collect();
    verdict.besides = member.instead.and_then(|at| all.besides.get(at).copied()).into_iter().collect();
    let states = &verdict.states;
    verdict.warned =
        all.warned.iter().filter(|rule| states.iter().any(|state| state.rule == **rule)).copied().collect();
    let blocking = overall.deciding().filter(|state| all.action == Action::Block && is_own(state));
    if let Some(state) = blocking {
        verdict.block(state.charge as usize);
    } else if verdict.warned.is_empty() && verdict.refuses() {
        verdict.reject();
    } else {
        verdict.pass();
        if !verdict.warned.is_empty() {
            verdict.action = Action::Warn;
        }
    }
    verdict.finish()
}

impl Verdict {
    /// What was decided on the charge that stood in for the rules, if there was one.
    #[must_use]
    pub fn instead(&self) -> Option<&Decision> {
        self.told.besides.first()
    }
}
