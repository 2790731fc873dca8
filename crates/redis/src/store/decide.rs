//! A check, from the charges to the outcome.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{Charged, Decision, Verdict};
use tollgate_store::{Asked, BoxFuture, Charge, OnFailure, Outcome, Receipt, Refusals, Source};

use crate::store::Inner;
use crate::store::batch::{Charges, Positions, SlotPart, SlotRequest, Waiter};
use crate::store::key_names::tag;
use crate::store::limit::SharedLimit;
use crate::store::refund::receipt::{MadeWhere, SharedReceipt};
use crate::transport::Slot;

/// A check, from the first poll to the outcome.
pub(super) struct Deciding<'a> {
    store: &'a Arc<Inner>,
    charges: &'a Charges<'a>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    New,
    /// As most checks are.
    InOneSlot(Waiter<'a>),
    InSlots(BoxFuture<'a, Outcome>),
    Over,
}

impl<'a> Deciding<'a> {
    pub(super) fn new(store: &'a Arc<Inner>, charges: &'a Charges<'a>) -> Deciding<'a> {
        Deciding { store, charges, stage: Stage::New }
    }
}

impl Future for Deciding<'_> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let Deciding { store, charges, stage } = self.get_mut();
        let (store, charges) = (*store, *charges);
        if let Stage::New = stage {
            let now = Instant::now();
            store.counters.decisions.add(1);
            if let Some(refused) = store.refused_unasked(charges, now) {
                return Poll::Ready(refused);
            }
            *stage = match store.only_slot(charges) {
                Some(slot) => Stage::InOneSlot(store.ask(slot, charges, now, cx.waker())),
                None => Stage::InSlots(Box::pin(store.decide_in_slots(charges, now))),
            };
        }
        match stage {
            Stage::InOneSlot(waiter) => {
                ready!(waiter.poll(cx));
                if waiter.passed() == Some(true) {
                    return Poll::Ready(passed_in_one_slot(charges, waiter));
                }
            }
            Stage::InSlots(deciding) => return deciding.as_mut().poll(cx),
            Stage::New | Stage::Over => {}
        }
        let Stage::InOneSlot(waiter) = std::mem::replace(stage, Stage::Over) else { return Poll::Pending };
        let positions = (0..charges.len()).collect();
        Poll::Ready(store.conclude(charges, vec![SlotWaiter { positions, waiter }]))
    }
}

impl Inner {
    /// A check whose charges live in several slots.
    async fn decide_in_slots(self: &Arc<Self>, charges: &Charges<'_>, now: Instant) -> Outcome {
        let mut waiters: Waiters<'_> = poll_fn(|cx| {
            let ask = |part: SlotPart<'_>| {
                let waiter = self.ask(part.slot, &part.charges, now, cx.waker());
                SlotWaiter { positions: part.positions, waiter }
            };
            Poll::Ready(SlotPart::divide(charges, |asked| self.slot_of(asked)).into_iter().map(ask).collect())
        })
        .await;
        poll_fn(|cx| {
            let polled = waiters.iter_mut().map(|part| part.waiter.poll(cx));
            polled.fold(Poll::Ready(()), |all, one| if one.is_pending() { one } else { all })
        })
        .await;
        self.conclude(charges, waiters)
    }

    /// The slot in which all charges live.
    fn only_slot(&self, charges: &Charges<'_>) -> Option<Slot> {
        let slot = charges.first().map_or(Slot(0), |asked| self.slot_of(asked));
        charges.iter().skip(1).all(|asked| self.slot_of(asked) == slot).then_some(slot)
    }

    fn slot_of(&self, asked: &Charge<'_>) -> Slot {
        match self.has_one_slot {
            true => Slot(0),
            false => self.transport.slot(&tag(&SharedLimit::of(asked.limit).prefix_and_scope, asked.key)),
        }
    }

    fn refused_unasked(&self, charges: &Charges<'_>, now: Instant) -> Option<Outcome> {
        if self.settings.remembers_refusals
            && !self.refusals.is_empty()
            && let Some(refused) = self.known_refusal(charges, now)
        {
            return Some(refused);
        }
        if self.breakers.is_any_open() { self.refused_by_open_breaker(charges) } else { None }
    }

    /// Refused without asking, where all keys are known to be full: then the whole answer is known. If one of them has
    /// room, others may have used some of it since.
    fn known_refusal(&self, charges: &Charges<'_>, now: Instant) -> Option<Outcome> {
        let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
        for asked in charges {
            let cost = self.seam.cached_cost(asked.cost);
            decisions.push(self.refusals.find(asked.limit, asked.key, cost, now)?);
        }
        let refuses = |(asked, decision): (&Charge<'_>, &Decision)| {
            (binds(asked) && !decision.is_allowed()).then_some(asked.limit.options().refusals)
        };
        let refusing: SmallVec<[Refusals; 4]> = charges.iter().zip(&decisions).filter_map(refuses).collect();
        if refusing.is_empty() || is_any_charged_twice(charges) {
            return None;
        }
        // Where violations are counted, the server must hear of it; except behind a block, where nothing is counted.
        let is_counted =
            |asked: &Charge<'_>| matches!(asked.limit.options().refusals, Refusals::Counted | Refusals::Guarded);
        let must_ask = !refusing.contains(&Refusals::Final) && charges.iter().any(is_counted);
        if must_ask {
            return None;
        }
        self.counters.cached_refusals.add(1);
        Some(Outcome { decisions, ..refused(charges, Source::Cached) })
    }

    /// Refused without asking, where a shard is known to fail and one of its
    /// limits is closed then: what the others charged would only be given back.
    fn refused_by_open_breaker(&self, charges: &Charges<'_>) -> Option<Outcome> {
        let is_open = |asked: &Charge<'_>| self.breakers.is_open(self.transport.shard(self.slot_of(asked)));
        let is_refused = |at: &usize| is_closed(&charges[*at]) && is_open(&charges[*at]);
        let closed: SmallVec<[usize; 4]> = (0..charges.len()).filter(is_refused).collect();
        (!closed.is_empty()).then(|| self.refuse_closed(charges, refused(charges, Source::Fallback), closed))
    }

    /// Marks the charges that are refused because the store fails.
    pub(super) fn refuse_closed(
        &self,
        charges: &Charges<'_>,
        mut outcome: Outcome,
        closed: SmallVec<[usize; 4]>,
    ) -> Outcome {
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

    /// The outcome once no slot is waited for any more.
    fn conclude(self: &Arc<Self>, charges: &Charges<'_>, waiters: Waiters<'_>) -> Outcome {
        let is_answered = |answer: bool| waiters.iter().any(|part| part.waiter.passed() == Some(answer));
        if self.seam.is_refused(is_answered(false), is_answered(true)) {
            return refuse(charges, waiters, Source::Exact);
        }
        if waiters.iter().any(|part| part.waiter.passed().is_none()) {
            return self.fall_back(charges, waiters);
        }
        let mut outcome = passed(charges, Source::Exact);
        keep(charges, waiters, &mut outcome);
        outcome
    }
}

/// A waiter, and where its charges stand in the request.
pub(super) struct SlotWaiter<'a> {
    pub(super) positions: Positions,
    pub(super) waiter: Waiter<'a>,
}

/// The waiters of a request, one for each slot.
pub(super) type Waiters<'a> = Vec<SlotWaiter<'a>>;

/// All charges are of one slot, which let them pass.
fn passed_in_one_slot(charges: &Charges<'_>, waiter: &mut Waiter<'_>) -> Outcome {
    let mut receipts = Vec::new();
    waiter.keep(|request, at, charged| {
        if charges[at].receipt {
            receipts.push((at, receipt(request, at, charged)));
        }
    });
    let decisions = SmallVec::from_slice(waiter.decisions());
    Outcome { passed: true, decisions, receipts, source: Source::Exact, asked: Asked::All }
}

/// The whole is refused: each slot that answered says how it stands without it, and gets back what it charged.
pub(super) fn refuse(charges: &Charges<'_>, waiters: Waiters<'_>, source: Source) -> Outcome {
    let mut outcome = refused(charges, source);
    let mut asked: SmallVec<[usize; 4]> = SmallVec::new();
    // A waiter that is dropped gives back what was charged for it.
    for SlotWaiter { positions, waiter } in waiters.into_iter().filter(|part| part.waiter.passed().is_some()) {
        place(&positions, &waiter.decisions_unmade(), &mut outcome);
        asked.extend_from_slice(&positions);
    }
    outcome.asked = asked_only(asked, charges);
    outcome
}

/// The whole passed: what was charged is kept.
pub(super) fn keep(charges: &Charges<'_>, waiters: Waiters<'_>, outcome: &mut Outcome) {
    for SlotWaiter { positions, mut waiter } in waiters {
        place(&positions, waiter.decisions(), outcome);
        waiter.keep(|request, at, charged| {
            let position = positions[at];
            if charges[position].receipt {
                outcome.receipts.push((position, receipt(request, at, charged)));
            }
        });
    }
    outcome.receipts.sort_unstable_by_key(|(at, _)| *at);
}

fn place(positions: &[usize], decisions: &[Decision], outcome: &mut Outcome) {
    for (at, decision) in positions.iter().zip(decisions) {
        outcome.decisions[*at] = *decision;
    }
}

fn receipt(request: &SlotRequest, at: usize, charged: Charged) -> Receipt {
    let made = MadeWhere::Server { slot: request.slot, lease_lost: Arc::default() };
    SharedReceipt::receipt(&request.charges[at].target, &request.keys[at], charged, made)
}

pub(super) fn passed(charges: &Charges<'_>, source: Source) -> Outcome {
    Outcome { passed: true, ..refused(charges, source) }
}

/// An outcome in which nothing is answered yet.
fn refused(charges: &Charges<'_>, source: Source) -> Outcome {
    let unasked = |asked: &Charge<'_>| asked.limit.uncounted(Verdict::Allowed { delay: 0 });
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
    let is_same = |one: &Charge<'_>, other: &Charge<'_>| {
        let is_same_scope =
            SharedLimit::of(one.limit).prefix_and_scope == SharedLimit::of(other.limit).prefix_and_scope;
        one.key == other.key && is_same_scope
    };
    charges.iter().enumerate().any(|(at, asked)| charges[..at].iter().any(|other| is_same(other, asked)))
}

/// Whether a charge can refuse the whole.
fn binds(asked: &Charge<'_>) -> bool {
    asked.cost > 0 && asked.mode.binds()
}

/// Whether a charge refuses the whole when the store fails.
pub(super) fn is_closed(asked: &Charge<'_>) -> bool {
    binds(asked) && asked.limit.options().on_failure == OnFailure::Closed
}
