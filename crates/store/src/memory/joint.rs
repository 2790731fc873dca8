//! Joint checks: several charges at once, all or none.

use std::ops::Range;

use smallvec::SmallVec;
use tollgate_core::{BucketState, ChargeVerdict, Charged, Decision};

use super::MemoryStore;
use crate::clock::Clock;
use crate::limit::{Limit, LimitTable};
use crate::memory::operation::CheckWithReceiptOp;
use crate::store::charge::{Charge, ChargeMode, KeyHash, shadow_groups};
use crate::store::receipt::ChargeReceipt;
use crate::table::full::TableFull;
use crate::table::{BucketKey, HitResult, PendingCharge};

/// A value that contains the decision of a charge, into which the decision is written directly, without a move.
pub trait DecisionSlot {
    /// Returns the decision.
    fn decision(&mut self) -> &mut Decision;
}

impl DecisionSlot for Decision {
    #[inline(always)]
    fn decision(&mut self) -> &mut Decision {
        self
    }
}

/// The state of one charge of a joint check.
#[derive(Clone, Copy)]
pub(super) enum ChargeAttempt<'t> {
    /// A peek, a guard, or a shadow charge that did not fit: nothing is charged.
    Uncharged,
    /// A hit in the table of buckets. The first pass found that it passes; the second pass commits it by a
    /// compare-and-swap.
    Hit(PendingCharge<'t>),
    /// Any other charge, or a hit whose key changed between the passes. The record is the default, of cost 0, until the
    /// second pass has made the charge.
    General(Charged),
}

impl ChargeAttempt<'_> {
    /// Returns the record of the charge at `now`, after the second pass; with a cost of 0 if nothing was charged.
    pub(super) fn charged(&self, cost: u64, now: u64) -> Charged {
        match self {
            ChargeAttempt::Uncharged => Charged::default(),
            ChargeAttempt::Hit(PendingCharge { next, .. }) => {
                // A charge is identified by the TAT of its bucket after it.
                Charged { at: now, cost, mark: next.tat, part: next.part }
            }
            ChargeAttempt::General(charged) => *charged,
        }
    }
}

impl MemoryStore {
    /// Makes several charges, all or none. Returns whether they were made.
    ///
    /// `decisions` receives the decision for each charge. If the whole request is refused, even an allowed charge was
    /// not made, and its decision states what remains.
    ///
    /// ```
    /// use tollgate_store::{MemoryStore, Quota};
    ///
    /// let store = MemoryStore::new();
    /// let per_user = store.limit("per-user", Quota::token_bucket("2/h".parse()?)?)?;
    /// let in_total = store.limit("in-total", Quota::token_bucket("1/h".parse()?)?)?;
    /// let charges = [store.charge(&per_user, "alice", 1), store.charge(&in_total, &(), 1)];
    /// let mut decisions = Vec::new();
    /// assert!(store.check_all(&charges, &mut decisions));
    /// assert!(!store.check_all(&charges, &mut decisions));
    /// assert_eq!(decisions[0].remaining, 1, "the refused request was not charged to alice");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn check_all(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut Vec<Decision>) -> bool {
        decisions.resize(charges.len(), Decision::UNDECIDED);
        self.check_all_into(charges, decisions)
    }

    /// Like [`check_all`](MemoryStore::check_all), with a receipt for each charge if all were made.
    pub fn check_all_with_receipts(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut Vec<Decision>,
    ) -> Option<Vec<ChargeReceipt>> {
        decisions.resize(charges.len(), Decision::UNDECIDED);
        let receipts = self.check_all_into_with_receipts(charges, decisions, |_| true)?;
        Some(receipts.into_iter().map(|(_, receipt)| receipt).collect())
    }

    /// Like [`check_all`](MemoryStore::check_all), but writes the decisions in place. Up to four charges allocate no
    /// memory.
    ///
    /// # Panics
    /// If there are not as many decisions as charges.
    #[inline]
    pub fn check_all_into(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut [impl DecisionSlot]) -> bool {
        self.check_all_into_at(self.clock.now_ns(), charges, decisions)
    }

    /// Like [`check_all_into`](MemoryStore::check_all_into), for a caller that has just read the store's clock. A
    /// slightly stale time is safe: for a hit it can only charge more, and all other cases read the clock themselves.
    #[inline(always)]
    pub fn check_all_into_at(
        &self,
        now_ns: u64,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionSlot],
    ) -> bool {
        if let ([charge], [decision]) = (charges, &mut *decisions)
            && let Some(decided) = self.check_fast_path(charge, now_ns)
        {
            *decision.decision() = decided;
            return decided.is_allowed();
        }
        if let (Some(charges), Some(decisions)) = (charges.as_array::<2>(), decisions.as_mut_array()) {
            return self.decide_few(charges, decisions, now_ns);
        }
        if let (Some(charges), Some(decisions)) = (charges.as_array::<3>(), decisions.as_mut_array()) {
            return self.decide_few(charges, decisions, now_ns);
        }
        if let (Some(charges), Some(decisions)) = (charges.as_array::<4>(), decisions.as_mut_array()) {
            return self.decide_few(charges, decisions, now_ns);
        }
        self.decide_any(charges, decisions, now_ns)
    }

    /// Like [`check_all_into`](MemoryStore::check_all_into), with a receipt for each charge that was made and for whose
    /// index `keep` returns true.
    pub fn check_all_into_with_receipts(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionSlot],
        keep: impl Fn(usize) -> bool,
    ) -> Option<SmallVec<[(usize, ChargeReceipt); 2]>> {
        let now = self.clock.now_ns();
        with_attempts(charges.len(), |attempts| {
            self.decide_into(charges, decisions, attempts, now).then(|| {
                let made = charges.iter().zip(&*attempts).enumerate().filter(|(index, _)| keep(*index));
                let made = made.map(|(index, (charge, attempt))| (index, charge, attempt.charged(charge.cost, now)));
                made.filter(|(.., charged)| charged.cost > 0)
                    .map(|(index, charge, charged)| (index, receipt(charge, charged)))
                    .collect()
            })
        })
    }

    /// Decides a single enforced charge if it is a hit in the table of buckets. A single charge needs no second pass,
    /// because no other charge can refuse after it. `None` leaves it to
    /// [`check_all_into_at`](MemoryStore::check_all_into_at), which takes the same `now`.
    ///
    /// (The name says how it is used, before the general call. Elsewhere *fast path* means that of matching.)
    #[inline(always)]
    pub fn check_fast_path(&self, charge: &Charge<'_, KeyHash>, now_ns: u64) -> Option<Decision> {
        match &charge.limit.0.table {
            LimitTable::Bucket(quota) if charge.is_enforced_cost() => {
                let key = BucketKey { hash: charge.key.0, quota };
                self.tables.buckets().check_hit(key, now_ns, charge.cost).map(|checked| checked.decision)
            }
            _ => None,
        }
    }

    /// Decides in two passes: the first finds each key and its next state, the second commits the charges. A refusal in
    /// the first pass charges nothing. Only if a key changes between the passes can a refusal come later: then charges
    /// are undone that other requests may have seen.
    ///
    /// This handles only hits: enforced charges to known buckets.
    #[inline(never)]
    fn decide_few<const N: usize, P: DecisionSlot>(
        &self,
        charges: &[Charge<'_, KeyHash>; N],
        decisions: &mut [P; N],
        now: u64,
    ) -> bool {
        let Some(buckets) = self.tables.buckets_if_created() else { return self.decide_any(charges, decisions, now) };
        if buckets.is_large() {
            charges.iter().for_each(|charge| buckets.prefetch(charge.key.0));
        }
        let mut pending = [None; N];
        for index in 0..N {
            let charge = &charges[index];
            let result = match &charge.limit.0.table {
                LimitTable::Bucket(quota) if charge.mode == ChargeMode::Enforce => {
                    let key = BucketKey { hash: charge.key.0, quota };
                    buckets.find_passing(key, now, charge.cost, &mut pending[index])
                }
                _ => HitResult::NoHit,
            };
            match result {
                HitResult::Passes => {}
                HitResult::Refused => return self.refuse_all(charges, decisions, now),
                HitResult::NoHit => return self.decide_any(charges, decisions, now),
            }
        }
        // The decisions are written after all swaps: a swap waits until all earlier writes are done.
        for index in 0..N {
            // All are `Some` here: each charge passed above.
            if !pending[index].as_ref().is_some_and(PendingCharge::commit) {
                let mut attempts = pending.map(|charge| charge.map_or(ChargeAttempt::Uncharged, ChargeAttempt::Hit));
                return self.continue_changed(index, charges, decisions, &mut attempts, now);
            }
        }
        for index in 0..N {
            if let Some(pending) = &pending[index] {
                *decisions[index].decision() = pending.decision(now, charges[index].cost);
            }
        }
        true
    }

    /// Continues the second pass at the charge `first`, whose key has changed since the first pass. The charges before
    /// it are committed.
    #[cold]
    fn continue_changed(
        &self,
        first: usize,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionSlot],
        attempts: &mut [ChargeAttempt<'_>],
        now: u64,
    ) -> bool {
        for ((charge, attempt), decision) in charges.iter().zip(&*attempts).zip(&mut *decisions) {
            if let ChargeAttempt::Hit(pending) = attempt {
                *decision.decision() = pending.decision(now, charge.cost);
            }
        }
        self.commit_from(first, charges, decisions, attempts, now)
    }

    #[inline(never)]
    fn decide_any(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut [impl DecisionSlot], now: u64) -> bool {
        with_attempts(charges.len(), |attempts| self.decide_into(charges, decisions, attempts, now))
    }

    /// Runs the two passes for any charges.
    fn decide_into<'t>(
        &'t self,
        charges: &[Charge<'t, KeyHash>],
        decisions: &mut [impl DecisionSlot],
        attempts: &mut [ChargeAttempt<'t>],
        now: u64,
    ) -> bool {
        assert!(charges.len() == decisions.len(), "one decision for each charge");
        for (index, charge) in charges.iter().enumerate().filter(|(_, charge)| charge.can_refuse()) {
            let mut pending = None;
            let result = match &charge.limit.0.table {
                LimitTable::Bucket(quota) if charge.mode == ChargeMode::Enforce => {
                    let key = BucketKey { hash: charge.key.0, quota };
                    self.tables.buckets().find_passing(key, now, charge.cost, &mut pending)
                }
                _ => HitResult::NoHit,
            };
            if result == HitResult::Refused || result == HitResult::NoHit && !self.passes(charge, now) {
                return self.refuse_all(charges, decisions, now);
            }
            attempts[index] = match pending {
                Some(pending) => {
                    *decisions[index].decision() = pending.decision(now, charge.cost);
                    ChargeAttempt::Hit(pending)
                }
                None if charge.is_enforced_cost() => ChargeAttempt::General(Charged::default()),
                None => ChargeAttempt::Uncharged,
            };
        }
        // A peek reports what remained before the charges.
        for (charge, decision) in charges.iter().zip(&mut *decisions).filter(|(charge, _)| !charge.is_enforced_cost()) {
            *decision.decision() = self.peek_charge(charge, now);
        }
        self.commit_from(0, charges, decisions, attempts, now)
    }

    /// Runs the second pass, which commits the charges, from index `first` on.
    #[inline(never)]
    fn commit_from(
        &self,
        first: usize,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionSlot],
        attempts: &mut [ChargeAttempt<'_>],
        now: u64,
    ) -> bool {
        for index in first..charges.len() {
            let (charge, decision) = (&charges[index], decisions[index].decision());
            match &attempts[index] {
                ChargeAttempt::Uncharged => continue,
                ChargeAttempt::Hit(pending) if pending.commit() => continue,
                // The key has changed since, or is not a hit: it is charged in its current state.
                ChargeAttempt::Hit(_) | ChargeAttempt::General(_) => {}
            }
            attempts[index] = ChargeAttempt::General(self.charge_into(decision, charge, now));
            if !decision.is_allowed() {
                self.undo(&charges[..index], attempts, now);
                self.write_undone_decisions(charges, decisions, index, now);
                return false;
            }
        }
        self.charge_shadows(charges, decisions, attempts, now);
        true
    }

    /// Writes the decisions after the first pass found a charge that does not fit.
    #[inline(never)]
    fn refuse_all(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut [impl DecisionSlot], now: u64) -> bool {
        // Costs of 0 first: they report what remained before the other decisions, which may write (an entry of another
        // quota is converted).
        for (charge, decision) in charges.iter().zip(&mut *decisions).filter(|(charge, _)| charge.cost == 0) {
            *decision.decision() = self.peek_charge(charge, now);
        }
        for (charge, decision) in charges.iter().zip(decisions).filter(|(charge, _)| charge.cost > 0) {
            *decision.decision() = self.refuse(charge, now);
        }
        false
    }

    #[cold]
    fn undo(&self, charges: &[Charge<'_, KeyHash>], attempts: &[ChargeAttempt<'_>], now: u64) {
        // In reverse order: only the last reservation of a queue can be undone.
        for (charge, attempt) in charges.iter().zip(attempts).rev() {
            let charged = attempt.charged(charge.cost, now);
            if charged.cost > 0 {
                self.refund_charge(charge.limit, charge.key.0, &charged);
            }
        }
    }

    /// Writes the decisions after the charge at index `refused` did not fit in the second pass, and the others were
    /// undone.
    #[cold]
    fn write_undone_decisions(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionSlot],
        refused: usize,
        now: u64,
    ) {
        let others = charges.iter().zip(decisions).enumerate();
        for (index, (charge, decision)) in
            others.filter(|(index, (charge, _))| *index != refused && charge.is_enforced_cost())
        {
            let decision = decision.decision();
            let verdict = decision.verdict;
            *decision = self.peek_charge(charge, now);
            // Only one charge was refused. The others are reported as fitting, although none is made: those before it
            // with the verdict that they had, those after it, which were not tried, as allowed.
            if index < refused {
                decision.verdict = verdict;
            } else if !decision.is_allowed() {
                decision.verdict = ChargeVerdict::Allowed { delay: 0 };
            }
        }
    }

    /// Makes each group of shadow charges separately, after all enforced charges are made.
    fn charge_shadows(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionSlot],
        attempts: &mut [ChargeAttempt<'_>],
        now: u64,
    ) {
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            let fits = group.len() == 1 || charges[group.clone()].iter().all(|charge| self.passes(charge, now));
            let mut is_made = fits;
            for index in group.clone() {
                let charge = &charges[index];
                // In a group that does not fit, a charge that fits is only peeked; the others are tried for their
                // refusal.
                if !fits && self.passes(charge, now) {
                    *decisions[index].decision() = self.peek_charge(charge, now);
                    continue;
                }
                let charged = self.charge_into(decisions[index].decision(), charge, now);
                if decisions[index].decision().is_allowed() {
                    attempts[index] = ChargeAttempt::General(charged);
                } else {
                    is_made = false;
                }
            }
            if !is_made {
                self.undo_shadows(charges, group, decisions, attempts, now);
            }
        }
    }

    /// Undoes the charges of a group that did not fit as a whole in the end.
    fn undo_shadows(
        &self,
        charges: &[Charge<'_, KeyHash>],
        group: Range<usize>,
        decisions: &mut [impl DecisionSlot],
        attempts: &mut [ChargeAttempt<'_>],
        now: u64,
    ) {
        for index in group.rev() {
            if let ChargeAttempt::General(charged) = attempts[index] {
                self.refund_charge(charges[index].limit, charges[index].key.0, &charged);
                attempts[index] = ChargeAttempt::Uncharged;
                *decisions[index].decision() = self.peek_charge(&charges[index], now);
            }
        }
    }

    /// Makes a charge and writes its decision in place: moving a decision that was just computed costs more than
    /// computing it.
    #[inline(always)]
    fn charge_into(&self, decision: &mut Decision, charge: &Charge<'_, KeyHash>, now: u64) -> Charged {
        if let LimitTable::Bucket(quota) = &charge.limit.0.table {
            let key = BucketKey { hash: charge.key.0, quota };
            let record = |after: BucketState| Charged { at: now, cost: charge.cost, mark: after.tat, part: after.part };
            if let Some(checked) = self.tables.buckets().check_hit(key, now, charge.cost) {
                *decision = checked.decision;
                return record(checked.after);
            }
        }
        let (decided, charged) = self.charge_any(charge.limit, charge.key.0, charge.cost);
        *decision = decided;
        charged
    }

    /// Returns whether a charge would pass.
    #[inline(always)]
    fn passes(&self, charge: &Charge<'_, KeyHash>, now: u64) -> bool {
        if let LimitTable::Bucket(quota) = &charge.limit.0.table {
            let key = BucketKey { hash: charge.key.0, quota };
            if let Some(passes) = self.tables.buckets().passes_hit(key, now, charge.cost) {
                return passes;
            }
        }
        self.peek_any(charge.limit, charge.key.0, charge.cost).is_allowed()
    }

    #[inline(never)]
    fn charge_any(&self, limit: &Limit, hash: u64, cost: u64) -> (Decision, Charged) {
        let charged = self.apply(limit, hash, &CheckWithReceiptOp { cost });
        charged.unwrap_or_else(|TableFull| (self.unavailable(limit), Charged::default()))
    }
}

/// Runs `decide` with an attempt for each charge, on the stack for the number of charges that a request usually has.
#[inline(always)]
fn with_attempts<'t, R>(charges: usize, decide: impl FnOnce(&mut [ChargeAttempt<'t>]) -> R) -> R {
    const FEW: usize = 4;
    if charges <= FEW {
        decide(&mut [ChargeAttempt::Uncharged; FEW][..charges])
    } else {
        decide(&mut vec![ChargeAttempt::Uncharged; charges])
    }
}

pub(super) fn receipt(charge: &Charge<'_, KeyHash>, charged: Charged) -> ChargeReceipt {
    ChargeReceipt::in_memory(charge.limit.clone(), charge.key, charged)
}
