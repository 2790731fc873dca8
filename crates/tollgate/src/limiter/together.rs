//! Several requests that are charged together or not at all.

use std::pin::pin;

use smallvec::SmallVec;
use tollgate_core::Decision;
use tollgate_policy::{Access, Met, Request};
use tollgate_store::{KeyedCharge, Store};

use super::Limiter;
use super::active::Active;
use super::admit::Asking;
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
struct Member {
    met: Met,
    /// Where its charges are among those of all.
    charges: SmallVec<[usize; 4]>,
    /// Where its charge instead of the rules is among all of these.
    instead: Option<usize>,
}

impl<S: Store> Limiter<S> {
    pub(super) async fn ask_together(
        &self,
        asked: &[AskedTogether<'_, S::Limit>],
        watch: impl FnOnce(&Verdict, &Met),
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
        watch: impl FnOnce(&Verdict, &Met),
    ) -> Together {
        let now_ns = self.shared.store.now_ns();
        let active = self.active();
        let mut joint = Met::new(Access::Rules);
        let mut instead = SmallVec::<[KeyedCharge<'_, S::Limit>; 2]>::new();
        let mut mets: Vec<Met> = asked.iter().map(|one| active.meet(&one.request, now_ns)).collect();
        let replaced = replaced_by(&mets);
        mets.iter_mut().for_each(|met| met.without_replaced_by(&replaced));
        let joined = |(one, met)| join(&active, one, met, &mut joint, &mut instead);
        let members: Vec<Member> = asked.iter().zip(mets).map(joined).collect();
        let denied = members.iter().map(|member| member.met.access).find(|access| is_denial(*access));
        let asking = if denied.is_some() { Asking::Look } else { Asking::Check };
        if denied.is_some() {
            instead.iter_mut().for_each(|charge| charge.cost = 0);
        }
        let (mut overall, _) = self.decide_met(&active, &joint, asking, &instead, now_ns).await;
        let told = |member: &Member| of_member(&active, &overall, member);
        let mut each: Vec<Verdict> = members.iter().map(told).collect();
        if let Some(access) = denied {
            let mut verdict = Draft::new(&active.facts, overall.told.now_ns);
            verdict.deny(access);
            verdict.endpoint = joint.endpoint;
            overall = verdict.finish();
        }
        for (at, member) in members.iter().enumerate() {
            if matches!(asked[at].part, Part::GiveBack) && member.met.access == Access::Rules {
                each[at] = self.given_back(&active, &member.met, overall.is_allowed()).await;
            }
        }
        watch(&overall, &joint);
        Together { overall, each }
    }

    /// Gives back what was met, if the others passed, and says what remains then.
    async fn given_back(&self, active: &Active<S::Limit>, met: &Met, is_given: bool) -> Verdict {
        if is_given {
            for charge in &met.charges {
                let (quota, key) = (charge.quota as usize, met.key(charge));
                let former = active.former.get(quota).and_then(Option::as_ref);
                for limit in std::iter::once(&active.limits[quota]).chain(former) {
                    self.shared.store.credit(limit, key, charge.cost);
                }
            }
        }
        let mut look = met.clone();
        look.charges.iter_mut().for_each(|charge| charge.cost = 0);
        self.decide_met(active, &look, Asking::Look, &[], self.shared.store.now_ns()).await.0
    }
}

fn is_denial(access: Access) -> bool {
    matches!(access, Access::Denied | Access::Unauthorized)
}

/// Everything that one of these replaces.
fn replaced_by(mets: &[Met]) -> Met {
    let mut replaced = Met::new(Access::Rules);
    mets.iter().for_each(|met| replaced.replace_as(met));
    replaced
}

/// Adds the charges of a request to those of all.
fn join<'a, L>(
    active: &Active<L>,
    asked: &AskedTogether<'a, L>,
    mut met: Met,
    joint: &mut Met,
    instead: &mut SmallVec<[KeyedCharge<'a, L>; 2]>,
) -> Member {
    met.retain(|charge| !active.facts.quotas[charge.quota as usize].is_concurrency);
    let mut member = Member { charges: SmallVec::new(), instead: None, met };
    match &asked.part {
        Part::Charge => member.charges = joint.join(&member.met),
        Part::ChargeInstead(charge) if member.met.access == Access::Rules => {
            member.instead = Some(instead.len());
            instead.push(KeyedCharge { ..*charge });
        }
        Part::ChargeInstead(_) | Part::GiveBack => {}
    }
    member
}

/// The part of the answer that is about one request.
fn of_member<L>(active: &Active<L>, overall: &Verdict, member: &Member) -> Verdict {
    let all = &overall.told;
    let mut verdict = Draft::new(&active.facts, all.now_ns);
    verdict.endpoint = member.met.endpoint;
    if is_denial(member.met.access) {
        verdict.deny(member.met.access);
        return verdict.finish();
    }
    let is_own = |state: &&RuleState| member.charges.contains(&(state.charge as usize));
    verdict.source = all.source;
    verdict.unlimited = member.met.unlimited && member.instead.is_none();
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
