//! Decides requests from leases.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tollgate_core::{AlgorithmKind, Charged, Decision};
use tollgate_store::{Charge, ChargeMode, Outcome, Source};

use super::leased_key::{LeaseCall, LeasedKey, LotId, Taken};
use super::terms::LeaseTerms;
use super::{LeaseShard, MAX_KEYS};
use crate::call::{TICK, Target};
use crate::store::Inner;
use crate::store::batch::Charges;
use crate::store::decide::{blank_pass, blank_refusal, decided_positions};
use crate::store::key_names::RedisKeyName;
use crate::store::limit::RedisLimitData;
use crate::store::refund::receipt::{AdmittedBy, RedisReceiptData};

/// The result of deciding a request from leases.
pub(in crate::store) enum LeaseCheck<'a> {
    /// No charge was taken from a lease, and none is known to be refused: the server decides.
    NotLeased,
    Decided(Outcome),
    /// Some charges were taken from leases. The server decides the others.
    Partly {
        taken: TakenCharges<'a>,
        rest: SmallVec<[usize; 4]>,
    },
}

/// Charges that a request has taken from leases. They are refunded when this is dropped, unless they are
/// [committed](TakenCharges::commit).
pub(in crate::store) struct TakenCharges<'a> {
    store: &'a Arc<Inner>,
    charges: &'a Charges<'a>,
    taken: SmallVec<[TakenCharge; 4]>,
}

#[derive(Clone, Copy)]
struct TakenCharge {
    position: usize,
    lot: LotId,
    decision: Decision,
}

/// The step for one charge.
enum Step {
    Taken(TakenCharge),
    Refused(Decision),
    Server,
}

impl Inner {
    /// Decides a request from leases as far as possible. If any of its charges cannot be leased, the server decides all
    /// of them; otherwise it decides those that the leases do not.
    pub(in crate::store) fn decide_by_leases<'a>(self: &'a Arc<Self>, charges: &'a Charges<'a>) -> LeaseCheck<'a> {
        if charges.is_empty() || charges.iter().any(|charge| lease_terms(charge).is_none()) {
            return LeaseCheck::NotLeased;
        }
        let now_ns = self.leases.clock.now_ns();
        let mut taken = TakenCharges { store: self, charges, taken: SmallVec::new() };
        let mut rest: SmallVec<[usize; 4]> = SmallVec::new();
        for (position, charge) in charges.iter().enumerate() {
            let Some(terms) = lease_terms(charge) else { continue };
            match self.take(position, charge, terms, now_ns) {
                Step::Taken(charge) => taken.taken.push(charge),
                Step::Server => rest.push(position),
                Step::Refused(decision) => {
                    // Dropping `taken` refunds the other charges.
                    let mut outcome = blank_refusal(charges, Source::Leased);
                    outcome.decisions[position] = decision;
                    outcome.decided = decided_positions(SmallVec::from_slice(&[position]), charges);
                    self.counters.leased_decisions.add(1);
                    return LeaseCheck::Decided(outcome);
                }
            }
        }
        if taken.taken.is_empty() {
            return LeaseCheck::NotLeased;
        }
        if !rest.is_empty() {
            return LeaseCheck::Partly { taken, rest };
        }
        self.counters.leased_decisions.add(1);
        let mut outcome = blank_pass(charges, Source::Leased);
        taken.commit(&mut outcome);
        LeaseCheck::Decided(outcome)
    }

    /// Takes one charge from the leases of its key.
    fn take(self: &Arc<Self>, position: usize, charge: &Charge<'_>, terms: LeaseTerms, now_ns: u64) -> Step {
        let leases = &self.leases;
        if !self.debts.is_empty() && self.has_debt(charge) {
            // The call of a check pays the debt of its key, and calls for leases pay none.
            return Step::Server;
        }
        let (step, call) = {
            let mut shard = leases.shard(charge.key);
            let Some(leased) = find(&mut shard, charge) else {
                drop(shard);
                if leases.estimate.count(self.demand_hash(charge), now_ns) {
                    self.start_leasing(charge, terms, now_ns);
                }
                return Step::Server;
            };
            let stranded = leased.drop_ended(now_ns);
            self.counters.stranded_tokens.add(stranded.0);
            if leased.limit != *charge.limit && !leased.continue_under(charge.limit, terms, now_ns) {
                (Step::Server, leased.return_all(now_ns, || leases.next_id()))
            } else {
                let taken = leased.take(charge.cost, now_ns, self.lease_patience_ns());
                let missing = if let Taken::Spent(_) = taken { 0 } else { charge.cost };
                let may_ask = !leases.is_closed.load(Ordering::Relaxed);
                let call = if may_ask { leased.ask(missing, now_ns, || leases.next_id()) } else { None };
                let is_refused = taken == Taken::NotHeld && call.is_some() && leased.was_just_exhausted(now_ns);
                let taken = if is_refused { Taken::Exhausted } else { taken };
                let decision = || leased.decision(charge.cost, taken, now_ns);
                let step = match taken {
                    Taken::Spent(lot) => Step::Taken(TakenCharge { position, lot, decision: decision() }),
                    Taken::Exhausted => Step::Refused(decision()),
                    Taken::NotHeld => Step::Server,
                };
                (step, call)
            }
        };
        call.into_iter().for_each(|call| self.send_lease_call(call, charge.key));
        step
    }

    fn has_debt(&self, charge: &Charge<'_>) -> bool {
        let name = RedisKeyName::new(&RedisLimitData::of(charge.limit).prefix_and_scope, charge.key);
        self.debts.contains(&name.bytes)
    }

    /// Creates the entry of a key whose requests have become frequent, and asks for its first lease.
    fn start_leasing(self: &Arc<Self>, charge: &Charge<'_>, terms: LeaseTerms, now_ns: u64) {
        let leases = &self.leases;
        if leases.is_closed.load(Ordering::Relaxed) || leases.keys.load(Ordering::Relaxed) >= MAX_KEYS {
            return;
        }
        let name = RedisKeyName::new(&RedisLimitData::of(charge.limit).prefix_and_scope, charge.key);
        let slot = self.transport.slot(name.tag());
        let mut leased = LeasedKey::new(charge.limit.clone(), terms, slot, name.bytes, now_ns);
        let _ = leased.take(charge.cost, now_ns, 0);
        let call: Option<LeaseCall> = leased.ask(charge.cost, now_ns, || leases.next_id());
        {
            let mut shard = leases.shard(charge.key);
            // Another thread may have been faster.
            if find(&mut shard, charge).is_some() {
                return;
            }
            shard.entry(charge.key.into()).or_default().push(leased);
            leases.keys.fetch_add(1, Ordering::Relaxed);
        }
        self.start_sweeper();
        call.into_iter().for_each(|call| self.send_lease_call(call, charge.key));
    }

    /// The longest time for which an exhausted key is refused because of an answer in flight.
    fn lease_patience_ns(&self) -> u64 {
        u64::try_from(self.settings.deadline.as_nanos()).unwrap_or(u64::MAX)
    }

    fn demand_hash(&self, charge: &Charge<'_>) -> u64 {
        let mut hasher = self.leases.hasher.build_hasher();
        hasher.write(&RedisLimitData::of(charge.limit).prefix_and_scope);
        hasher.write(charge.key);
        hasher.finish()
    }

    /// Refunds a charge to the lease that it was taken from. Returns `false` if the lease has ended, or has reported
    /// it as spent.
    pub(in crate::store) fn refund_leased(&self, prefix_and_scope: &[u8], key: &[u8], lot: LotId, cost: u64) -> bool {
        let now_ns = self.leases.clock.now_ns();
        let mut shard = self.leases.shard(key);
        let leased = shard.get_mut(key).into_iter().flatten();
        let mut own =
            leased.filter(|leased| RedisLimitData::of(&leased.limit).prefix_and_scope[..] == *prefix_and_scope);
        own.next().is_some_and(|leased| leased.refund(lot, cost, now_ns))
    }
}

impl TakenCharges<'_> {
    /// Keeps the charges, and adds their decisions and receipts to the outcome.
    pub(in crate::store) fn commit(mut self, outcome: &mut Outcome) {
        for TakenCharge { position, lot, decision } in std::mem::take(&mut self.taken) {
            outcome.decisions[position] = decision;
            let charge = &self.charges[position];
            if charge.receipt {
                let now_us = self.store.clock.server_ns(tokio::time::Instant::now()) / TICK.ns();
                let charged = self.store.leased_charge(charge, now_us);
                let name = RedisKeyName::new(&RedisLimitData::of(charge.limit).prefix_and_scope, charge.key);
                let slot = self.store.transport.slot(name.tag());
                let target = Target { key: name.bytes, limit: charge.limit.clone() };
                let admitted_by = AdmittedBy::Lease { slot, lot };
                outcome.receipts.push((position, RedisReceiptData::receipt(&target, charge.key, charged, admitted_by)));
            }
        }
        outcome.receipts.sort_unstable_by_key(|(position, _)| *position);
    }

    /// Returns the positions of the charges.
    pub(in crate::store) fn positions(&self) -> impl Iterator<Item = usize> {
        self.taken.iter().map(|taken| taken.position)
    }

    /// Refunds the charges, and adds decisions with what remains without them to the outcome.
    pub(in crate::store) fn refund(self, outcome: &mut Outcome) {
        for TakenCharge { position, decision, .. } in &self.taken {
            let remaining = decision.remaining.saturating_add(self.charges[*position].cost).min(decision.limit);
            outcome.decisions[*position] = Decision { remaining, ..*decision };
        }
    }
}

impl Drop for TakenCharges<'_> {
    fn drop(&mut self) {
        for TakenCharge { position, lot, .. } in std::mem::take(&mut self.taken) {
            let charge = &self.charges[position];
            let prefix_and_scope = &RedisLimitData::of(charge.limit).prefix_and_scope;
            // If the lease has ended, its tokens count as spent.
            let _ = self.store.refund_leased(prefix_and_scope, charge.key, lot, charge.cost);
        }
    }
}

impl Inner {
    /// Returns the record of a charge that was spent from a lease: what a server would have recorded at the time when it
    /// was spent. The server charges it later, so a refund by this record is never too large.
    fn leased_charge(&self, charge: &Charge<'_>, now_us: u64) -> Charged {
        let window_us = (charge.limit.quota().period_ns() / TICK.ns()).max(1);
        let mark = match charge.limit.quota().kind() {
            AlgorithmKind::FixedWindow | AlgorithmKind::SlidingWindowCounter => now_us - now_us % window_us,
            // No entry of a log has this time: that of the entry is not known.
            _ => 0,
        };
        Charged { at: now_us, cost: charge.cost, mark, part: 0 }
    }
}

/// Returns the terms under which a charge may be taken from a lease; `None` if the server must decide it.
fn lease_terms(charge: &Charge<'_>) -> Option<LeaseTerms> {
    let is_leasable = charge.cost > 0 && charge.mode == ChargeMode::Enforce;
    if is_leasable { RedisLimitData::of(charge.limit).lease } else { None }
}

/// Finds the leases of a charge's key, under any limit with its scope.
fn find<'a>(shard: &'a mut LeaseShard, charge: &Charge<'_>) -> Option<&'a mut LeasedKey> {
    let scope = &RedisLimitData::of(charge.limit).prefix_and_scope;
    let is_same = |leased: &&mut LeasedKey| {
        leased.limit == *charge.limit || RedisLimitData::of(&leased.limit).prefix_and_scope == *scope
    };
    shard.get_mut(charge.key)?.iter_mut().find(is_same)
}
