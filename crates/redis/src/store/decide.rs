//! A check, from the charges to the outcome.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{Decision, Verdict};
use tollgate_store::{Asked, KeyedCharge, Mode, OnFailure, Outcome, Refusals, Source};

use super::Inner;
use super::limit::RedisLimit;
use super::made::MadeCharge;
use super::planted::Planted;
use super::question::{Answer, Origin, Question, SlotAnswer};
use super::receipt::{MadeWhere, RedisReceipt};
use crate::transport::Transport;

pub(super) type Charges<'a> = [KeyedCharge<'a, RedisLimit>];

impl<T: Transport> Inner<T> {
    pub(super) async fn decide(self: &Arc<Self>, charges: &Charges<'_>) -> Outcome<RedisReceipt> {
        let now = Instant::now();
        let deadline = now + self.settings.deadline;
        self.counters.decisions.add(1);
        if let Some(refused) = self.known_refusal(charges, now) {
            return refused;
        }
        let questions = Question::by_slot(&self.transport, charges);
        if let Some(refused) = self.refused_by_trouble(charges, &questions) {
            return refused;
        }
        let pending: SmallVec<[_; 2]> = questions.iter().map(|question| self.ask(question, now, deadline)).collect();
        let mut answers: Answers<T> = SmallVec::new();
        for (question, pending) in questions.into_iter().zip(pending) {
            answers.push((question, self.answer(pending, deadline).await));
        }
        self.conclude(charges, answers).await
    }

    /// Refused without asking, where all keys are known to be full: then the whole answer is known. If one of them has
    /// room, others may have used some of it since.
    fn known_refusal(&self, charges: &Charges<'_>, now: Instant) -> Option<Outcome<RedisReceipt>> {
        if !self.settings.remembers_refusals {
            return None;
        }
        let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
        for asked in charges {
            let cost = if self.is_planted(Planted::AnswerForAnotherCost) { 1 } else { asked.cost };
            decisions.push(self.refusals.find(asked.limit, asked.key, cost, now)?);
        }
        let refuses = |(asked, decision): (&KeyedCharge<'_, RedisLimit>, &Decision)| {
            (binds(asked) && !decision.is_allowed()).then_some(asked.limit.0.options.refusals)
        };
        let refusing: SmallVec<[Refusals; 4]> = charges.iter().zip(&decisions).filter_map(refuses).collect();
        if refusing.is_empty() || is_any_charged_twice(charges) {
            return None;
        }
        // Where violations are counted, the server must hear of it; except behind a block, where nothing is counted.
        let is_counted = |asked: &KeyedCharge<'_, RedisLimit>| {
            matches!(asked.limit.0.options.refusals, Refusals::Counted | Refusals::Guarded)
        };
        let must_ask = !refusing.contains(&Refusals::Final) && charges.iter().any(is_counted);
        if must_ask && !self.is_planted(Planted::RememberWhereCounted) {
            return None;
        }
        self.counters.cached_refusals.add(1);
        Some(Outcome { decisions, ..refused(charges, Source::Cached) })
    }

    /// Refused without asking, where a shard is known to fail and one of its
    /// limits is closed then: what the others charged would only be given back.
    fn refused_by_trouble(&self, charges: &Charges<'_>, questions: &[Arc<Question>]) -> Option<Outcome<RedisReceipt>> {
        let mut closed: SmallVec<[usize; 4]> = SmallVec::new();
        for question in questions.iter().filter(|question| self.breakers.is_open(self.transport.shard(question.slot))) {
            closed.extend(question.positions.iter().copied().filter(|at| is_closed(&charges[*at])));
        }
        (!closed.is_empty()).then(|| self.refuse_closed(charges, refused(charges, Source::Fallback), closed))
    }

    /// Marks the charges that are refused because the store fails.
    pub(super) fn refuse_closed(
        &self,
        charges: &Charges<'_>,
        mut outcome: Outcome<RedisReceipt>,
        closed: SmallVec<[usize; 4]>,
    ) -> Outcome<RedisReceipt> {
        for at in &closed {
            self.counters.fell_back(OnFailure::Closed);
            outcome.decisions[*at] = charges[*at].limit.uncounted(Verdict::NoRoom);
        }
        outcome.asked = match outcome.asked {
            // Nobody was asked anything before.
            Asked::All => asked_only(closed, charges),
            asked => asked_with(asked, closed.into_iter(), charges),
        };
        outcome
    }

    async fn conclude(self: &Arc<Self>, charges: &Charges<'_>, answers: Answers<T>) -> Outcome<RedisReceipt> {
        let is_refused = |answer: &SlotAnswer<T>| answer.as_ref().is_ok_and(|answer| !answer.passed);
        let some_pass = answers.iter().any(|(_, answer)| answer.as_ref().is_ok_and(|answer| answer.passed));
        if answers.iter().any(|(_, answer)| is_refused(answer))
            && !(some_pass && self.is_planted(Planted::OneSlotIsEnough))
        {
            return refuse(charges, answers, Source::Exact);
        }
        if answers.iter().all(|(_, answer)| answer.is_ok()) {
            let mut outcome = passed(charges, Source::Exact);
            keep(charges, answers, &mut outcome);
            return outcome;
        }
        self.fall_back(charges, answers).await
    }
}

/// Each slot's question and what came of it.
pub(super) type Answers<T> = SmallVec<[(Arc<Question>, SlotAnswer<T>); 2]>;

/// The whole is refused: each slot that answered says how it stands without it, and gets back what it charged.
pub(super) fn refuse<T: Transport>(
    charges: &Charges<'_>,
    answers: Answers<T>,
    source: Source,
) -> Outcome<RedisReceipt> {
    let mut outcome = refused(charges, source);
    let mut asked: SmallVec<[usize; 4]> = SmallVec::new();
    for (question, answer) in answers {
        let Ok(answer) = answer else { continue };
        let decisions = answer.decisions_unmade(&question.charges);
        place(&question, &decisions, &mut outcome);
        asked.extend_from_slice(&question.positions);
        answer.made.was_in_vain();
    }
    outcome.asked = asked_only(asked, charges);
    outcome
}

/// The whole passed: what was charged is kept.
pub(super) fn keep<T: Transport>(charges: &Charges<'_>, answers: Answers<T>, outcome: &mut Outcome<RedisReceipt>) {
    for (question, answer) in answers {
        let Ok(answer) = answer else { continue };
        let Answer { replayed, made, .. } = *answer;
        place(&question, &replayed.decisions, outcome);
        for charge in made.keep() {
            let at = question.positions[charge.at];
            if charges[at].receipt {
                outcome.receipts.push((at, receipt(&question, charge)));
            }
        }
    }
    outcome.receipts.sort_unstable_by_key(|(at, _)| *at);
}

fn place(question: &Question, decisions: &[Decision], outcome: &mut Outcome<RedisReceipt>) {
    for (at, decision) in question.positions.iter().zip(decisions) {
        outcome.decisions[*at] = *decision;
    }
}

fn receipt(question: &Question, charge: MadeCharge) -> RedisReceipt {
    let MadeCharge { at, charged } = charge;
    let Origin { limit, key } = question.origins[at].clone();
    let target = question.charges[at].target.clone();
    let made = MadeWhere::Server { slot: question.slot, charged, lease_lost: Arc::default() };
    RedisReceipt { limit, key, target, made }
}

pub(super) fn passed(charges: &Charges<'_>, source: Source) -> Outcome<RedisReceipt> {
    Outcome { passed: true, ..refused(charges, source) }
}

/// An outcome in which nothing is answered yet.
fn refused(charges: &Charges<'_>, source: Source) -> Outcome<RedisReceipt> {
    let unasked = |asked: &KeyedCharge<'_, RedisLimit>| asked.limit.uncounted(Verdict::Allowed { delay: 0 });
    let decisions = charges.iter().map(unasked).collect();
    Outcome { passed: false, decisions, receipts: Vec::new(), source, asked: Asked::All }
}

pub(super) fn asked_only(mut positions: SmallVec<[usize; 4]>, charges: &Charges<'_>) -> Asked {
    if positions.len() == charges.len() {
        return Asked::All;
    }
    positions.sort_unstable();
    Asked::Only(positions)
}

/// More positions that were asked about.
pub(super) fn asked_with(asked: Asked, more: impl Iterator<Item = usize>, charges: &Charges<'_>) -> Asked {
    match asked {
        Asked::All => Asked::All,
        Asked::Only(positions) => asked_only(positions.into_iter().chain(more).collect(), charges),
    }
}

/// Whether two charges are to one counter: each stands in the other's way.
fn is_any_charged_twice(charges: &Charges<'_>) -> bool {
    let is_same = |one: &KeyedCharge<'_, RedisLimit>, other: &KeyedCharge<'_, RedisLimit>| {
        one.key == other.key && one.limit.0.prefix_and_scope == other.limit.0.prefix_and_scope
    };
    charges.iter().enumerate().any(|(at, asked)| charges[..at].iter().any(|other| is_same(other, asked)))
}

/// Whether a charge can refuse the whole.
fn binds(asked: &KeyedCharge<'_, RedisLimit>) -> bool {
    asked.cost > 0 && matches!(asked.mode, Mode::Enforce | Mode::Guard)
}

/// Whether a charge refuses the whole when the store fails.
pub(super) fn is_closed(asked: &KeyedCharge<'_, RedisLimit>) -> bool {
    binds(asked) && asked.limit.0.options.on_failure == OnFailure::Closed
}
