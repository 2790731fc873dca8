//! Decides a check: sends its charges, waits for the replies, and builds the outcome.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{ChargeVerdict, Charged, Decision};
use tollgate_store::{BoxFuture, Charge, ChargeReceipt, DecidedCharges, OnFailure, Outcome, Refusals, Source};

use crate::store::Inner;
use crate::store::batch::{BatchWaiter, Charges, Positions, SlotPart, SlotRequest};
use crate::store::key_names::tag;
use crate::store::leases::{LeaseCheck, TakenCharges};
use crate::store::limit::RedisLimitData;
use crate::store::refund::receipt::{AdmittedBy, RedisReceiptData};
use crate::transport::Slot;

/// The future of one check.
pub(super) struct DecideFuture<'a> {
    store: &'a Arc<Inner>,
    charges: &'a Charges<'a>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    New,
    /// Not decided by leases.
    NotLeased,
    /// All charges are in one slot, as in most checks.
    InOneSlot(BatchWaiter<'a>),
    /// The charges are in several slots, or partly decided by leases.
    Boxed(BoxFuture<'a, Outcome>),
    Finished,
}

impl<'a> DecideFuture<'a> {
    pub(super) fn new(store: &'a Arc<Inner>, charges: &'a Charges<'a>) -> DecideFuture<'a> {
        DecideFuture { store, charges, stage: Stage::New }
    }

    /// Decides the charges of a request under the limits of this region.
    pub(super) fn in_region(store: &'a Arc<Inner>, charges: &'a Charges<'a>) -> DecideFuture<'a> {
        DecideFuture::without_leases(store, charges)
    }

    /// Decides the charges of a request that its leases do not decide.
    fn without_leases(store: &'a Arc<Inner>, charges: &'a Charges<'a>) -> DecideFuture<'a> {
        DecideFuture { store, charges, stage: Stage::NotLeased }
    }
}

impl Future for DecideFuture<'_> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let DecideFuture { store, charges, stage } = self.get_mut();
        let (store, charges) = (*store, *charges);
        if let Stage::New = stage {
            store.counters.decisions.add(1);
            *stage = Stage::NotLeased;
            if store.is_regional(charges) {
                *stage = Stage::Boxed(Box::pin(store.decide_regional(charges)));
            } else if store.has_leases.load(Ordering::Relaxed) {
                match store.decide_by_leases(charges) {
                    LeaseCheck::NotLeased => {}
                    LeaseCheck::Decided(outcome) => return Poll::Ready(outcome),
                    LeaseCheck::Partly { taken, rest } => {
                        *stage = Stage::Boxed(Box::pin(store.decide_rest(charges, taken, rest)));
                    }
                }
            }
        }
        if let Stage::NotLeased = stage {
            let now = Instant::now();
            if let Some(refusal) = store.local_refusal(charges, now) {
                return Poll::Ready(refusal);
            }
            *stage = match store.only_slot(charges) {
                Some(slot) => Stage::InOneSlot(store.submit(slot, charges, now, cx.waker())),
                None => Stage::Boxed(Box::pin(store.decide_in_slots(charges, now))),
            };
        }
        match stage {
            Stage::InOneSlot(waiter) => {
                ready!(waiter.poll(cx));
                if waiter.passes() {
                    return Poll::Ready(one_slot_pass(charges, waiter));
                }
            }
            Stage::Boxed(future) => return future.as_mut().poll(cx),
            Stage::New | Stage::NotLeased | Stage::Finished => {}
        }
        let Stage::InOneSlot(waiter) = std::mem::replace(stage, Stage::Finished) else { return Poll::Pending };
        let positions = (0..charges.len()).collect();
        Poll::Ready(store.build_outcome(charges, vec![SlotWaiter { positions, waiter }]))
    }
}

impl Inner {
    /// Decides a check of which some charges were taken from leases: the server decides the `rest`.
    async fn decide_rest<'a>(
        self: &'a Arc<Self>,
        charges: &'a Charges<'a>,
        taken: TakenCharges<'a>,
        rest: SmallVec<[usize; 4]>,
    ) -> Outcome {
        let others: SmallVec<[Charge<'a>; 4]> = rest.iter().map(|position| charges[*position]).collect();
        let decided = DecideFuture::without_leases(self, &others).await;
        let source = if decided.passed && decided.source == Source::Exact { Source::Leased } else { decided.source };
        let mut outcome = Outcome { passed: decided.passed, ..blank_refusal(charges, source) };
        copy_decisions(&rest, &decided.decisions, &mut outcome);
        outcome.receipts = decided.receipts.into_iter().map(|(index, receipt)| (rest[index], receipt)).collect();
        let mut positions: SmallVec<[usize; 4]> = match decided.decided {
            DecidedCharges::All => rest,
            DecidedCharges::Only(indexes) => indexes.into_iter().map(|index| rest[index]).collect(),
        };
        positions.extend(taken.positions());
        outcome.decided = decided_positions(positions, charges);
        if outcome.passed {
            taken.commit(&mut outcome);
        } else {
            taken.refund(&mut outcome);
        }
        outcome
    }

    /// Decides a check whose charges are in several slots.
    async fn decide_in_slots(self: &Arc<Self>, charges: &Charges<'_>, now: Instant) -> Outcome {
        let mut waiters: Waiters<'_> = poll_fn(|cx| {
            let submit = |part: SlotPart<'_>| {
                let waiter = self.submit(part.slot, &part.charges, now, cx.waker());
                SlotWaiter { positions: part.positions, waiter }
            };
            Poll::Ready(SlotPart::split(charges, |charge| self.slot_of(charge)).into_iter().map(submit).collect())
        })
        .await;
        poll_fn(|cx| {
            let polled = waiters.iter_mut().map(|part| part.waiter.poll(cx));
            polled.fold(Poll::Ready(()), |all, one| if one.is_pending() { one } else { all })
        })
        .await;
        self.build_outcome(charges, waiters)
    }

    /// Returns the slot of all charges; `None` if they are in several.
    fn only_slot(&self, charges: &Charges<'_>) -> Option<Slot> {
        let slot = charges.first().map_or(Slot(0), |charge| self.slot_of(charge));
        charges.iter().skip(1).all(|charge| self.slot_of(charge) == slot).then_some(slot)
    }

    fn slot_of(&self, charge: &Charge<'_>) -> Slot {
        match self.is_cluster {
            true => self.transport.slot(&tag(&RedisLimitData::of(charge.limit).prefix_and_scope, charge.key)),
            false => Slot(0),
        }
    }

    /// Refuses a check without a call: from the cache, or because of an open circuit breaker.
    fn local_refusal(&self, charges: &Charges<'_>, now: Instant) -> Option<Outcome> {
        if self.settings.caches_refusals
            && !self.refusals.is_empty()
            && let Some(refusal) = self.cached_refusal(charges, now)
        {
            return Some(refusal);
        }
        if self.breakers.is_any_open() { self.open_breaker_refusal(charges) } else { None }
    }

    /// Refuses without a call if all keys are known to be exhausted, because then every decision is known. If a key has
    /// capacity left, its decision is not known: other instances may have used that capacity since.
    fn cached_refusal(&self, charges: &Charges<'_>, now: Instant) -> Option<Outcome> {
        let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
        for charge in charges {
            // The cost itself, unless a test injects a fault.
            let cost = self.fault_points.cached_cost(charge.cost);
            decisions.push(self.refusals.find(charge.limit, charge.key, cost, now)?);
        }
        let refuses = |(charge, decision): (&Charge<'_>, &Decision)| {
            (can_refuse_request(charge) && !decision.is_allowed()).then_some(charge.limit.options().refusals)
        };
        let refusing: SmallVec<[Refusals; 4]> = charges.iter().zip(&decisions).filter_map(refuses).collect();
        if refusing.is_empty() || is_key_charged_twice(charges) {
            return None;
        }
        // The call is needed if a limit counts its refusals (`Counted`, or `Guarded` by a block), or holds permits that
        // may be released at any time. The exception is a request that a block refuses (a `Final` limit): during a block
        // the server counts nothing either.
        let is_counted =
            |charge: &Charge<'_>| matches!(charge.limit.options().refusals, Refusals::Counted | Refusals::Guarded);
        let must_call = !refusing.contains(&Refusals::Final) && charges.iter().any(is_counted);
        if must_call {
            return None;
        }
        self.counters.cached_refusals.add(1);
        Some(Outcome { decisions, ..blank_refusal(charges, Source::Cached) })
    }

    /// Refuses without a call if a charge's limit fails closed ([`OnFailure::Closed`]) and the circuit breaker of its
    /// shard is open. The request cannot pass then, and charges in other slots would only have to be refunded.
    fn open_breaker_refusal(&self, charges: &Charges<'_>) -> Option<Outcome> {
        let is_breaker_open = |charge: &Charge<'_>| self.breakers.is_open(self.transport.shard(self.slot_of(charge)));
        let is_unavailable =
            |position: &usize| fails_closed(&charges[*position]) && is_breaker_open(&charges[*position]);
        let fail_closed: SmallVec<[usize; 4]> = (0..charges.len()).filter(is_unavailable).collect();
        (!fail_closed.is_empty())
            .then(|| self.refuse_unavailable(charges, blank_refusal(charges, Source::Fallback), fail_closed))
    }

    /// Sets the decisions of the charges at the positions `fail_closed`, which are refused because their server fails.
    pub(super) fn refuse_unavailable(
        &self,
        charges: &Charges<'_>,
        mut outcome: Outcome,
        fail_closed: SmallVec<[usize; 4]>,
    ) -> Outcome {
        for position in &fail_closed {
            self.counters.count_fallback(OnFailure::Closed);
            outcome.decisions[*position] = charges[*position].limit.decision_without_count(ChargeVerdict::Unavailable);
        }
        outcome.decided = match outcome.decided {
            // The initial value of a blank outcome: no slot was called, so no other charge is decided.
            DecidedCharges::All => decided_positions(fail_closed, charges),
            decided => add_decided(decided, fail_closed.into_iter(), charges),
        };
        outcome
    }

    /// Builds the outcome when every slot has replied, failed or reached the deadline.
    fn build_outcome(self: &Arc<Self>, charges: &Charges<'_>, waiters: Waiters<'_>) -> Outcome {
        let some_refuse = waiters.iter().any(|part| part.waiter.is_refused());
        let some_pass = waiters.iter().any(|part| part.waiter.passes());
        // Equals `some_refuse`, unless a test injects a fault.
        if self.fault_points.is_refused(some_refuse, some_pass) {
            return refusal_outcome(charges, waiters, Source::Exact);
        }
        if waiters.iter().any(|part| !part.waiter.has_reply()) {
            return self.fall_back(charges, waiters);
        }
        let mut outcome = blank_pass(charges, Source::Exact);
        commit_charges(charges, waiters, &mut outcome);
        outcome
    }
}

/// A waiter, and the positions of its charges in the request.
pub(super) struct SlotWaiter<'a> {
    pub(super) positions: Positions,
    pub(super) waiter: BatchWaiter<'a>,
}

/// The waiters of a request, one for each slot.
pub(super) type Waiters<'a> = Vec<SlotWaiter<'a>>;

/// Builds the outcome of a request that passed in its only slot.
fn one_slot_pass(charges: &Charges<'_>, waiter: &mut BatchWaiter<'_>) -> Outcome {
    let mut receipts = Vec::new();
    waiter.commit(|request, index, charged| {
        if charges[index].receipt {
            receipts.push((index, receipt(request, index, charged)));
        }
    });
    let decisions = SmallVec::from_slice(waiter.decisions());
    Outcome { passed: true, decisions, receipts, source: Source::Exact, decided: DecidedCharges::All }
}

/// Builds the outcome of a refused request. A charge whose slot replied has a decision, with what remains if the
/// request is not charged. Charges that were made are refunded.
pub(super) fn refusal_outcome(charges: &Charges<'_>, waiters: Waiters<'_>, source: Source) -> Outcome {
    let mut outcome = blank_refusal(charges, source);
    let mut decided: SmallVec<[usize; 4]> = SmallVec::new();
    // Dropping a waiter refunds its charges.
    for SlotWaiter { positions, waiter } in waiters.into_iter().filter(|part| part.waiter.has_reply()) {
        copy_decisions(&positions, &waiter.decisions_uncharged(), &mut outcome);
        decided.extend_from_slice(&positions);
    }
    outcome.decided = decided_positions(decided, charges);
    outcome
}

/// Commits the charges of a request that passed, so that dropping the waiters does not refund them. Adds their
/// decisions and receipts to the outcome.
pub(super) fn commit_charges(charges: &Charges<'_>, waiters: Waiters<'_>, outcome: &mut Outcome) {
    for SlotWaiter { positions, mut waiter } in waiters {
        copy_decisions(&positions, waiter.decisions(), outcome);
        waiter.commit(|request, index, charged| {
            let position = positions[index];
            if charges[position].receipt {
                outcome.receipts.push((position, receipt(request, index, charged)));
            }
        });
    }
    outcome.receipts.sort_unstable_by_key(|(position, _)| *position);
}

fn copy_decisions(positions: &[usize], decisions: &[Decision], outcome: &mut Outcome) {
    for (position, decision) in positions.iter().zip(decisions) {
        outcome.decisions[*position] = *decision;
    }
}

fn receipt(request: &SlotRequest, index: usize, charged: Charged) -> ChargeReceipt {
    let admitted_by = AdmittedBy::Server { slot: request.slot, lease_lost: Arc::default() };
    RedisReceiptData::receipt(&request.charges[index].target, &request.keys[index], charged, admitted_by)
}

/// Creates the outcome of a request that passes, with placeholders for all decisions. `decided` is a placeholder too
/// (all charges); a caller that decides fewer sets it.
pub(super) fn blank_pass(charges: &Charges<'_>, source: Source) -> Outcome {
    Outcome { passed: true, ..blank_refusal(charges, source) }
}

/// Creates the outcome of a request that is refused, with placeholders for all decisions. `decided` is a placeholder
/// too (all charges); a caller that decides fewer sets it.
pub(super) fn blank_refusal(charges: &Charges<'_>, source: Source) -> Outcome {
    let placeholder = |charge: &Charge<'_>| charge.limit.decision_without_count(ChargeVerdict::Allowed { delay: 0 });
    let decisions = charges.iter().map(placeholder).collect();
    Outcome { passed: false, decisions, receipts: Vec::new(), source, decided: DecidedCharges::All }
}

/// Returns that only the charges at these positions are decided.
pub(super) fn decided_positions(mut positions: SmallVec<[usize; 4]>, charges: &Charges<'_>) -> DecidedCharges {
    if positions.len() == charges.len() {
        return DecidedCharges::All;
    }
    positions.sort_unstable();
    DecidedCharges::Only(positions)
}

/// Adds positions of decided charges.
pub(super) fn add_decided(
    decided: DecidedCharges,
    more: impl Iterator<Item = usize>,
    charges: &Charges<'_>,
) -> DecidedCharges {
    match decided {
        DecidedCharges::All => DecidedCharges::All,
        DecidedCharges::Only(positions) => decided_positions(positions.into_iter().chain(more).collect(), charges),
    }
}

/// Returns whether two charges have the same key and scope, so that each affects the decision of the other.
fn is_key_charged_twice(charges: &Charges<'_>) -> bool {
    let is_same = |one: &Charge<'_>, other: &Charge<'_>| {
        let is_same_scope =
            RedisLimitData::of(one.limit).prefix_and_scope == RedisLimitData::of(other.limit).prefix_and_scope;
        one.key == other.key && is_same_scope
    };
    charges.iter().enumerate().any(|(index, charge)| charges[..index].iter().any(|other| is_same(other, charge)))
}

/// Returns whether a charge can refuse the request: a cost of 0 never does.
fn can_refuse_request(charge: &Charge<'_>) -> bool {
    charge.cost > 0 && charge.mode.can_refuse()
}

/// Returns whether a charge refuses the request when its server fails ([`OnFailure::Closed`]).
pub(super) fn fails_closed(charge: &Charge<'_>) -> bool {
    can_refuse_request(charge) && charge.limit.options().on_failure == OnFailure::Closed
}
