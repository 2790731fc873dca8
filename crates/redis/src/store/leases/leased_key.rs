//! The leases of one key: what this instance may spend, what it has spent, and when it asks for more.
//!
//! Plain data without I/O. Times are those of the [`LeaseClock`](super::clock::LeaseClock), in nanoseconds.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{ChargeVerdict, Decision};
use tollgate_store::Limit;

use super::demand::Demand;
use super::terms::LeaseTerms;
use crate::call::{LeaseAnswer, LeaseRequest, LeaseSettlement, TICK, Target};
use crate::script::KnownState;
use crate::transport::{Executed, Slot};

/// A holder stops a five-hundredth of a lease's time early, for the drift of its clock against the server's.
const DRIFT_DIVISOR: u64 = 500;

/// A holder stops spending this long before the end, in addition to the drift.
const END_MARGIN_NS: u64 = 1_000_000;

/// The fewest tokens that are worth a lease.
const MIN_TOKENS: u64 = 2;

/// What is left is returned this long before the end of a lease: a little more than the interval of the sweeps.
const RETURN_BEFORE_END_NS: u64 = 70_000_000;

/// The longest wait for the next token of an exhausted key, because other holders may return theirs.
const MAX_PAUSE_NS: u64 = 50_000_000;

/// A key is overloaded if one instance has requests for this many times its limit.
const OVERLOAD: u64 = 8;

/// An answer that takes longer than this is not waited for.
const LOST_AFTER_NS: u64 = 1_000_000_000;

/// The leases of one key.
#[derive(Debug)]
pub(super) struct LeasedKey {
    pub(super) limit: Limit,
    pub(super) terms: LeaseTerms,
    pub(super) slot: Slot,
    /// The name of the key on the servers.
    name: Arc<[u8]>,
    /// What is left and spent of each generation, the oldest first.
    lots: SmallVec<[Lot; 2]>,
    demand: Demand,
    known: Option<LastAnswer>,
    call: Option<CallInFlight>,
    /// The time before which no lease is asked for, because the last answer granted less than was wanted.
    ask_after_ns: u64,
    /// The number of tokens of the last lease.
    last_grant: u64,
    last_used_ns: u64,
    last_lot: LotId,
}

/// Leased tokens of one generation.
#[derive(Clone, Copy, Debug)]
struct Lot {
    generation: u64,
    /// The tokens left to spend.
    left: u64,
    /// The tokens spent and not yet reported.
    spent: u64,
    /// Identifies the lot between two reports: tokens spent before a report are not refunded to the lot after it,
    /// because the server has charged them.
    id: LotId,
    /// The time from which nothing may be spent or reported.
    ends_ns: u64,
}

/// The state of the key as of the last answer.
#[derive(Debug)]
struct LastAnswer {
    state: KnownState,
    /// The server's clock, in microseconds.
    at_us: u64,
    answered_ns: u64,
    /// The tokens that were outstanding over all instances.
    outstanding: u64,
    /// Whether less was granted than wanted, because the key had nothing left.
    is_exhausted: bool,
}

/// A call whose outcome is not known yet.
#[derive(Debug)]
struct CallInFlight {
    id: u64,
    sent_ns: u64,
    wanted: u64,
    settlements: SmallVec<[LeaseSettlement; 2]>,
    /// The ends of the lots of the settlements.
    ends_ns: SmallVec<[u64; 2]>,
}

/// The result of taking tokens from the leases of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Tokens of this lot were spent.
    Spent(LotId),
    /// The last answer granted less than wanted because the key was exhausted, and it is not yet time to ask again, or
    /// the next answer is awaited.
    Exhausted,
    /// The leases do not decide the request.
    NotHeld,
}

/// A lot of a key between two reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct LotId(u64);

/// A call to send, without the lock of the key.
#[derive(Debug)]
pub(super) struct LeaseCall {
    pub(super) id: u64,
    pub(super) slot: Slot,
    pub(super) request: LeaseRequest,
}

/// Leased tokens that cannot be spent: those left when their lease ended, or those of an answer that came too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stranded(pub(super) u64);

impl LeasedKey {
    pub(super) fn new(limit: Limit, terms: LeaseTerms, slot: Slot, name: Arc<[u8]>, now_ns: u64) -> LeasedKey {
        let mut demand = Demand::default();
        // The requests before were frequent enough for this.
        demand.add(MIN_TOKENS, now_ns, terms.horizon_ns);
        LeasedKey {
            limit,
            terms,
            slot,
            name,
            lots: SmallVec::new(),
            demand,
            known: None,
            call: None,
            ask_after_ns: 0,
            last_grant: 0,
            last_used_ns: now_ns,
            last_lot: LotId::default(),
        }
    }

    /// Returns whether this is the key of that name on the servers.
    pub(super) fn has_name(&self, name: &[u8]) -> bool {
        *self.name == *name
    }

    /// Counts the demand, and spends tokens of one lot if it has enough. `patience_ns` is the longest time for which
    /// an answer in flight keeps an exhausted key refused.
    pub(super) fn take(&mut self, cost: u64, now_ns: u64, patience_ns: u64) -> Taken {
        self.demand.add(cost, now_ns, self.terms.horizon_ns);
        self.last_used_ns = now_ns;
        let held = self.lots.iter_mut().find(|lot| lot.left >= cost && now_ns < lot.ends_ns);
        if let Some(lot) = held {
            lot.left -= cost;
            lot.spent += cost;
            return Taken::Spent(lot.id);
        }
        let waits = match &self.call {
            Some(call) => now_ns < call.sent_ns.saturating_add(patience_ns),
            None => now_ns < self.ask_after_ns,
        };
        let is_exhausted = self.known.as_ref().is_some_and(|known| known.is_exhausted);
        if waits && is_exhausted { Taken::Exhausted } else { Taken::NotHeld }
    }

    /// Refunds tokens that were spent and not reported yet. Returns whether the lease still has them.
    pub(super) fn refund(&mut self, id: LotId, cost: u64, now_ns: u64) -> bool {
        let lot = self.lots.iter_mut().find(|lot| lot.id == id);
        let lot = lot.filter(|lot| now_ns < lot.ends_ns && lot.spent >= cost);
        let Some(lot) = lot else { return false };
        lot.spent -= cost;
        lot.left += cost;
        true
    }

    /// Returns the decision of a charge that was spent from a lease, or was refused because the key is exhausted.
    pub(super) fn decision(&self, cost: u64, taken: Taken, now_ns: u64) -> Decision {
        let remaining_here = self.left(now_ns);
        let blank = self.limit.decision_without_count(ChargeVerdict::Allowed { delay: 0 });
        let peeked_cost = if taken == Taken::Exhausted { cost } else { 0 };
        let peeked = self.known.as_ref().and_then(|known| {
            let elapsed_us = now_ns.saturating_sub(known.answered_ns) / TICK.ns();
            known.state.peek(&self.limit, known.at_us.saturating_add(elapsed_us), peeked_cost)
        });
        let mut decision = peeked.unwrap_or(blank);
        match taken {
            Taken::Exhausted => {
                let until_asked_ns = self.ask_after_ns.saturating_sub(now_ns).max(1);
                decision.remaining = 0;
                decision.verdict = match decision.verdict {
                    ChargeVerdict::Impossible => ChargeVerdict::Impossible,
                    ChargeVerdict::Refused { retry_after } => {
                        ChargeVerdict::Refused { retry_after: Some(retry_after.unwrap_or(0).max(until_asked_ns)) }
                    }
                    _ => ChargeVerdict::Refused { retry_after: Some(until_asked_ns) },
                };
            }
            Taken::Spent(_) | Taken::NotHeld => {
                // The peeked state refills as if outstanding tokens had been spent.
                let outstanding = self.known.as_ref().map_or(0, |known| known.outstanding);
                let free = decision.remaining.min(decision.limit.saturating_sub(outstanding));
                decision.remaining = free.saturating_add(remaining_here).min(decision.limit);
            }
        }
        decision
    }

    /// Returns the call that asks for the next lease, if it is time: when no more than half of the last one is left.
    /// `cost` is that of a request that was not granted, or 0.
    pub(super) fn ask(&mut self, cost: u64, now_ns: u64, id: impl FnOnce() -> u64) -> Option<LeaseCall> {
        let left = self.left(now_ns);
        let is_due = left <= self.last_grant / 2 || cost > left;
        if !is_due || now_ns < self.ask_after_ns || self.is_waiting(now_ns) {
            return None;
        }
        let demand = self.demand.per_horizon(now_ns, self.terms.horizon_ns).min(self.terms.per_horizon);
        if demand < MIN_TOKENS {
            // The requests have become rare.
            return None;
        }
        let wanted = demand.max(cost).min(self.terms.max_outstanding).max(1);
        Some(self.call(wanted, |lot| LeaseSettlement { returned: 0, ..lot }, now_ns, id()))
    }

    /// Returns the call that settles and returns what is not needed: everything of a key that was not used for a
    /// horizon, of a lot that is about to end, and what exceeds twice the demand.
    pub(super) fn return_unused(&mut self, now_ns: u64, id: impl FnOnce() -> u64) -> Option<LeaseCall> {
        if self.is_waiting(now_ns) {
            return None;
        }
        let is_idle = self.is_idle_for(self.terms.horizon_ns, now_ns);
        let horizon_ns = self.terms.horizon_ns;
        let mut kept = if is_idle { 0 } else { 2 * self.demand.per_horizon(now_ns, horizon_ns).max(1) };
        // The newest lots are kept longest.
        let mut needs_call = false;
        let mut keep: SmallVec<[(u64, u64); 2]> = SmallVec::new();
        for lot in self.lots.iter().rev().filter(|lot| now_ns < lot.ends_ns) {
            let is_ending = lot.ends_ns - now_ns < RETURN_BEFORE_END_NS;
            let keeps = if is_ending { 0 } else { lot.left.min(kept) };
            kept -= keeps;
            needs_call |= keeps < lot.left || is_idle && lot.spent > 0;
            keep.push((lot.generation, keeps));
        }
        needs_call.then(|| {
            let returned = |settlement: LeaseSettlement| {
                let keeps = keep.iter().find(|(generation, _)| *generation == settlement.generation);
                let keeps = keeps.map_or(0, |(_, keeps)| *keeps);
                LeaseSettlement { returned: settlement.returned.saturating_sub(keeps), ..settlement }
            };
            self.call(0, returned, now_ns, id())
        })
    }

    /// Returns the call that returns everything.
    pub(super) fn return_all(&mut self, now_ns: u64, id: impl FnOnce() -> u64) -> Option<LeaseCall> {
        let holds = self.lots.iter().any(|lot| now_ns < lot.ends_ns && lot.left + lot.spent > 0);
        holds.then(|| self.call(0, |lot| lot, now_ns, id()))
    }

    /// Creates a call with a settlement of each lot that has not ended. `settle` gets the settlement that reports
    /// everything spent and returns everything left, and returns the one to send. Tokens are not spent any more from
    /// now on if the call returns them.
    fn call(
        &mut self,
        wanted: u64,
        settle: impl Fn(LeaseSettlement) -> LeaseSettlement,
        now_ns: u64,
        id: u64,
    ) -> LeaseCall {
        let mut sent =
            CallInFlight { id, sent_ns: now_ns, wanted, settlements: SmallVec::new(), ends_ns: SmallVec::new() };
        for lot in self.lots.iter_mut().filter(|lot| now_ns < lot.ends_ns) {
            let settlement =
                settle(LeaseSettlement { generation: lot.generation, spent: lot.spent, returned: lot.left });
            lot.spent -= settlement.spent;
            lot.id = next_lot_id(&mut self.last_lot);
            lot.left -= settlement.returned;
            if settlement.spent + settlement.returned > 0 {
                sent.settlements.push(settlement);
                sent.ends_ns.push(lot.ends_ns);
            }
        }
        self.lots.retain(|lot| lot.left + lot.spent > 0);
        let request = LeaseRequest {
            target: Target { key: Arc::clone(&self.name), limit: self.limit.clone() },
            wanted,
            max_outstanding: self.terms.max_outstanding,
            generation_ms: self.terms.generation_ms,
            settlements: sent.settlements.clone(),
        };
        self.call = Some(sent);
        LeaseCall { id, slot: self.slot, request }
    }

    /// Takes the answer to a call, at the server's time `at_us`. A lease counts from the time when its call was sent.
    /// Returns the tokens that arrived too late to be spent.
    pub(super) fn answered(&mut self, id: u64, answer: &LeaseAnswer, at_us: u64, now_ns: u64) -> Stranded {
        let Some(call) = self.call.take_if(|call| call.id == id) else { return Stranded(answer.granted) };
        let (granted, is_partial) = (answer.granted.min(call.wanted), answer.granted < call.wanted);
        let state = KnownState::of(&self.limit, &answer.state);
        let exhausted_for_ns = state.exhausted_for(&self.limit, at_us).map(|us| us.saturating_mul(TICK.ns()));
        let is_exhausted = is_partial && exhausted_for_ns.is_some();
        // An answer to a return does not tell whether more would be granted.
        if call.wanted > 0 {
            let least_ns = if self.is_overloaded(now_ns) { self.terms.max_pause_ns } else { self.terms.horizon_ns / 2 };
            let pause_ns = exhausted_for_ns.unwrap_or(0).min(MAX_PAUSE_NS).max(least_ns);
            self.ask_after_ns = if is_partial { now_ns + pause_ns } else { 0 };
            self.last_grant = granted;
        }
        self.known =
            Some(LastAnswer { state, at_us, answered_ns: now_ns, outstanding: answer.outstanding, is_exhausted });
        let lasts_ns = answer.expires_in_us.saturating_mul(TICK.ns()).min(2 * self.terms.generation_ms * 1_000_000);
        let ends_ns = (call.sent_ns + lasts_ns).saturating_sub(lasts_ns / DRIFT_DIVISOR + END_MARGIN_NS);
        if ends_ns <= now_ns {
            return Stranded(granted);
        }
        if granted > 0 {
            let id = next_lot_id(&mut self.last_lot);
            match self.lots.iter_mut().find(|lot| lot.generation == answer.generation) {
                Some(lot) => {
                    lot.left += granted;
                    lot.ends_ns = lot.ends_ns.max(ends_ns);
                }
                None => self.lots.push(Lot { generation: answer.generation, left: granted, spent: 0, id, ends_ns }),
            }
        }
        Stranded(0)
    }

    /// Returns whether this instance alone has requests for many times the limit, so that nearly all are refused anyway.
    fn is_overloaded(&mut self, now_ns: u64) -> bool {
        let demand = self.demand.per_horizon(now_ns, self.terms.horizon_ns);
        demand >= self.terms.per_horizon.saturating_mul(OVERLOAD)
    }

    /// Returns whether a request that asks for the next lease is refused like those that arrive while the answer is in
    /// flight: the key is overloaded, and had nothing left shortly before.
    pub(super) fn was_just_exhausted(&mut self, now_ns: u64) -> bool {
        let is_exhausted = self.known.as_ref().is_some_and(|known| known.is_exhausted);
        is_exhausted && now_ns < self.ask_after_ns.saturating_add(self.terms.horizon_ns) && self.is_overloaded(now_ns)
    }

    /// Takes the failure of a call. What it settled is settled with the next call if it was certainly not executed, and
    /// never again if it may have been. Then what it would have leased is lost until its generation ends.
    pub(super) fn failed(&mut self, id: u64, executed: Executed, now_ns: u64) {
        let Some(call) = self.call.take_if(|call| call.id == id) else { return };
        self.ask_after_ns = now_ns + self.terms.horizon_ns;
        if let Some(known) = &mut self.known {
            known.is_exhausted = false;
        }
        if executed == Executed::Unknown {
            return;
        }
        for (settlement, ends_ns) in call.settlements.into_iter().zip(call.ends_ns) {
            let LeaseSettlement { generation, spent, returned } = settlement;
            let id = next_lot_id(&mut self.last_lot);
            match self.lots.iter_mut().find(|lot| lot.generation == generation) {
                Some(lot) => {
                    lot.spent += spent;
                    lot.left += returned;
                }
                None => self.lots.insert(0, Lot { generation, left: returned, spent, id, ends_ns }),
            }
        }
    }

    /// Drops lots that have ended. Their tokens count as spent.
    pub(super) fn drop_ended(&mut self, now_ns: u64) -> Stranded {
        let ended = self.lots.iter().filter(|lot| lot.ends_ns <= now_ns).map(|lot| lot.left).sum();
        self.lots.retain(|lot| now_ns < lot.ends_ns);
        Stranded(ended)
    }

    /// Continues under another limit, if it has the same quota and terms, or if nothing is held under the old one.
    /// Returns whether it does; if not, everything must be returned first.
    pub(super) fn continue_under(&mut self, limit: &Limit, terms: LeaseTerms, now_ns: u64) -> bool {
        let is_same = limit.quota() == self.limit.quota() && terms == self.terms;
        if is_same || self.lots.is_empty() && !self.is_waiting(now_ns) {
            (self.limit, self.terms) = (limit.clone(), terms);
            if !is_same {
                (self.known, self.last_grant, self.ask_after_ns) = (None, 0, 0);
            }
            return true;
        }
        false
    }

    /// Forgets that the key was exhausted, because it was reset.
    pub(super) fn forget_refusal(&mut self) {
        self.ask_after_ns = 0;
        if let Some(known) = &mut self.known {
            known.is_exhausted = false;
        }
    }

    /// Returns the tokens that this instance may spend.
    pub(super) fn left(&self, now_ns: u64) -> u64 {
        self.lots.iter().filter(|lot| now_ns < lot.ends_ns).map(|lot| lot.left).sum()
    }

    pub(super) fn is_idle_for(&self, span_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_used_ns) >= span_ns
    }

    /// Returns whether the entry of this key can be removed: it has no leases and was not used for a second.
    pub(super) fn is_unused(&self, now_ns: u64) -> bool {
        self.lots.is_empty() && !self.is_waiting(now_ns) && self.is_idle_for(1_000_000_000, now_ns)
    }

    /// Returns whether a call is in flight. One without an answer for a second is not waited for: what it granted ends
    /// with its generation.
    fn is_waiting(&self, now_ns: u64) -> bool {
        self.call.as_ref().is_some_and(|call| now_ns < call.sent_ns + LOST_AFTER_NS)
    }
}

fn next_lot_id(last: &mut LotId) -> LotId {
    last.0 += 1;
    *last
}

#[cfg(test)]
mod tests;
