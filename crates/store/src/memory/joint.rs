//! Several charges at once, all or none.

use std::ops::Range;

use smallvec::SmallVec;
use tollgate_core::{BucketState, Charged, Decision, Verdict};

use super::MemoryStore;
use crate::clock::Clock;
use crate::limit::{Limit, Rule};
use crate::memory::operation::ChargeNoted;
use crate::store::charge::{Charge, KeyHash, Mode, shadow_groups};
use crate::store::receipt::Receipt;
use crate::table::full::Full;
use crate::table::{Found, Look, Place};

/// Where the answer to a charge is written, so that it need not be moved there.
pub trait DecisionPlace {
    /// The answer.
    fn decision(&mut self) -> &mut Decision;
}

impl DecisionPlace for Decision {
    #[inline(always)]
    fn decision(&mut self) -> &mut Decision {
        self
    }
}

/// What became of one charge of a whole.
#[derive(Clone, Copy)]
pub(super) enum Attempt<'t> {
    /// A peek, a guard, or a shadow that did not fit.
    NotMade,
    /// It passed when it was looked at, or was made as it was found.
    Found(Found<'t>),
    /// To be made, or was made, without having been found in a common case.
    Made(Charged),
}

impl Attempt<'_> {
    /// What was charged at `now`, if the charge was made; otherwise a cost of 0.
    pub(super) fn charged(&self, cost: u64, now: u64) -> Charged {
        match self {
            Attempt::NotMade => Charged::default(),
            Attempt::Found(Found { next, .. }) => Charged { at: now, cost, mark: next.tat, part: next.part },
            Attempt::Made(charged) => *charged,
        }
    }
}

impl MemoryStore {
    /// Makes several charges, all or none. `decisions` receives the answer to
    /// each; where the whole is refused, an allowed one was not charged, and
    /// says what remains.
    #[inline]
    pub fn check_all(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut Vec<Decision>) -> bool {
        decisions.resize(charges.len(), Decision::UNDECIDED);
        self.decide_charges(charges, decisions)
    }

    /// Like [`check_all`](MemoryStore::check_all), with a receipt for each charge if all were made.
    pub fn check_all_with_receipts(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut Vec<Decision>,
    ) -> Option<Vec<Receipt>> {
        decisions.resize(charges.len(), Decision::UNDECIDED);
        let receipts = self.decide_charges_with_receipts(charges, decisions, |_| true)?;
        Some(receipts.into_iter().map(|(_, receipt)| receipt).collect())
    }

    /// Makes several charges, all or none, and writes the answer to each in
    /// place: see [`check_all`](MemoryStore::check_all). Up to four charges
    /// take no memory.
    ///
    /// # Panics
    /// If there are not as many decisions as charges.
    #[inline]
    pub fn decide_charges(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut [impl DecisionPlace]) -> bool {
        self.decide_charges_at(self.clock.now_ns(), charges, decisions)
    }

    /// The same for a caller that has read the store's clock a moment ago: for a known key an older time only charges
    /// more, and every other case reads its own.
    #[inline(always)]
    pub fn decide_charges_at(
        &self,
        now_ns: u64,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionPlace],
    ) -> bool {
        if let ([charge], [decision]) = (charges, &mut *decisions)
            && let Some(answer) = self.decide_one(charge, now_ns)
        {
            *decision.decision() = answer;
            return answer.is_allowed();
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

    /// Like [`decide_charges`](MemoryStore::decide_charges), with a receipt for
    /// each charge that was made and whose position `keep` wants.
    pub fn decide_charges_with_receipts(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionPlace],
        keep: impl Fn(usize) -> bool,
    ) -> Option<SmallVec<[(usize, Receipt); 2]>> {
        let now = self.clock.now_ns();
        with_attempts(charges.len(), |attempts| {
            self.decide_into(charges, decisions, attempts, now).then(|| {
                let made = charges.iter().zip(&*attempts).enumerate().filter(|(at, _)| keep(*at));
                let made = made.map(|(at, (charge, attempt))| (at, charge, attempt.charged(charge.cost, now)));
                made.filter(|(.., charged)| charged.cost > 0)
                    .map(|(at, charge, charged)| (at, receipt(charge, charged)))
                    .collect()
            })
        })
    }

    /// Decides a single charge, if it is to be made to a bucket whose key is known: then there is nothing to take back.
    /// `None` leaves everything to [`decide_charges_at`](MemoryStore::decide_charges_at), which takes the same `now`.
    #[inline(always)]
    pub fn decide_one(&self, charge: &Charge<'_, KeyHash>, now_ns: u64) -> Option<Decision> {
        match &charge.limit.0.rule {
            Rule::Bucket(rule) if charge.is_made() => {
                let place = Place { hash: charge.key.0, rule };
                self.tables.buckets().check_common(place, now_ns, charge.cost).map(|checked| checked.decision)
            }
            _ => None,
        }
    }

    /// Decides in two passes: the first finds each key and what a charge would
    /// make of it, the second makes the charges. So a refusal charges nothing
    /// that another request could meet, unless a key changes in between.
    ///
    /// This is the common case alone: buckets that are known, and charges that are to be made.
    #[inline(never)]
    fn decide_few<const N: usize, P: DecisionPlace>(
        &self,
        charges: &[Charge<'_, KeyHash>; N],
        decisions: &mut [P; N],
        now: u64,
    ) -> bool {
        let Some(buckets) = self.tables.known_buckets() else { return self.decide_any(charges, decisions, now) };
        if buckets.is_large() {
            charges.iter().for_each(|charge| buckets.prefetch(charge.key.0));
        }
        let mut found = [None; N];
        for at in 0..N {
            let charge = &charges[at];
            let look = match &charge.limit.0.rule {
                Rule::Bucket(rule) if charge.mode == Mode::Enforce => {
                    let place = Place { hash: charge.key.0, rule };
                    buckets.find_passing(place, now, charge.cost, &mut found[at])
                }
                _ => Look::Unknown,
            };
            match look {
                Look::Passes => {}
                Look::Refused => return self.refuse_all(charges, decisions, now),
                Look::Unknown => return self.decide_any(charges, decisions, now),
            }
        }
        // Nothing is written between two swaps: each waits until all writes before it are done.
        for at in 0..N {
            if !found[at].as_ref().is_some_and(Found::make) {
                let mut attempts = found.map(|passing| passing.map_or(Attempt::NotMade, Attempt::Found));
                return self.make_changed(at, charges, decisions, &mut attempts, now);
            }
        }
        for at in 0..N {
            if let Some(found) = &found[at] {
                *decisions[at].decision() = found.decision(now, charges[at].cost);
            }
        }
        true
    }

    /// Goes on with the charge at `first`, whose key has changed since it was found. Those before it are made.
    #[cold]
    fn make_changed(
        &self,
        first: usize,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionPlace],
        attempts: &mut [Attempt<'_>],
        now: u64,
    ) -> bool {
        for ((charge, attempt), decision) in charges.iter().zip(&*attempts).zip(&mut *decisions) {
            if let Attempt::Found(found) = attempt {
                *decision.decision() = found.decision(now, charge.cost);
            }
        }
        self.make_from(first, charges, decisions, attempts, now)
    }

    #[inline(never)]
    fn decide_any(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut [impl DecisionPlace], now: u64) -> bool {
        with_attempts(charges.len(), |attempts| self.decide_into(charges, decisions, attempts, now))
    }

    /// The two passes for any charges.
    fn decide_into<'t>(
        &'t self,
        charges: &[Charge<'t, KeyHash>],
        decisions: &mut [impl DecisionPlace],
        attempts: &mut [Attempt<'t>],
        now: u64,
    ) -> bool {
        assert!(charges.len() == decisions.len(), "one decision for each charge");
        for (at, charge) in charges.iter().enumerate().filter(|(_, charge)| charge.binds()) {
            let mut found = None;
            let look = match &charge.limit.0.rule {
                Rule::Bucket(rule) if charge.mode == Mode::Enforce => {
                    let place = Place { hash: charge.key.0, rule };
                    self.tables.buckets().find_passing(place, now, charge.cost, &mut found)
                }
                _ => Look::Unknown,
            };
            if look == Look::Refused || look == Look::Unknown && !self.passes(charge, now) {
                return self.refuse_all(charges, decisions, now);
            }
            attempts[at] = match found {
                Some(found) => {
                    *decisions[at].decision() = found.decision(now, charge.cost);
                    Attempt::Found(found)
                }
                None if charge.is_made() => Attempt::Made(Charged::default()),
                None => Attempt::NotMade,
            };
        }
        // A peek says what remained before.
        for (charge, decision) in charges.iter().zip(&mut *decisions).filter(|(charge, _)| !charge.is_made()) {
            *decision.decision() = self.look(charge, now);
        }
        self.make_from(0, charges, decisions, attempts, now)
    }

    /// The second pass, from the charge at `first` on.
    #[inline(never)]
    fn make_from(
        &self,
        first: usize,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionPlace],
        attempts: &mut [Attempt<'_>],
        now: u64,
    ) -> bool {
        for at in first..charges.len() {
            let (charge, decision) = (&charges[at], decisions[at].decision());
            match &attempts[at] {
                Attempt::NotMade => continue,
                Attempt::Found(found) if found.make() => continue,
                // The key has changed since, or was not found in a common case: it is charged as it is now.
                Attempt::Found(_) | Attempt::Made(_) => {}
            }
            attempts[at] = Attempt::Made(self.charge_into(decision, charge, now));
            if !decision.is_allowed() {
                self.undo(&charges[..at], attempts, now);
                self.answer_undone(charges, decisions, at, now);
                return false;
            }
        }
        self.charge_shadows(charges, decisions, attempts, now);
        true
    }

    /// What is said of each charge when a look has found one that does not fit.
    #[inline(never)]
    fn refuse_all(&self, charges: &[Charge<'_, KeyHash>], decisions: &mut [impl DecisionPlace], now: u64) -> bool {
        // Peeks first: they say what remained before anything was written.
        for (charge, decision) in charges.iter().zip(&mut *decisions).filter(|(charge, _)| charge.cost == 0) {
            *decision.decision() = self.look(charge, now);
        }
        for (charge, decision) in charges.iter().zip(decisions).filter(|(charge, _)| charge.cost > 0) {
            *decision.decision() = self.refuse(charge, now);
        }
        false
    }

    #[cold]
    fn undo(&self, charges: &[Charge<'_, KeyHash>], attempts: &[Attempt<'_>], now: u64) {
        // Last first: of the places in a queue only the last can be taken back.
        for (charge, attempt) in charges.iter().zip(attempts).rev() {
            let charged = attempt.charged(charge.cost, now);
            if charged.cost > 0 {
                self.give_back(charge.limit, charge.key.0, &charged);
            }
        }
    }

    /// What is said of each charge when the one at `refused` turned out not to fit after all.
    #[cold]
    fn answer_undone(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionPlace],
        refused: usize,
        now: u64,
    ) {
        let others = charges.iter().zip(decisions).enumerate();
        for (at, (charge, decision)) in others.filter(|(at, (charge, _))| *at != refused && charge.is_made()) {
            let decision = decision.decision();
            let verdict = decision.verdict;
            *decision = self.look(charge, now);
            // What was made, or would have been, was allowed: only one stood in the way.
            if at < refused {
                decision.verdict = verdict;
            } else if !decision.is_allowed() {
                decision.verdict = Verdict::Allowed { delay: 0 };
            }
        }
    }

    /// Each group on its own, once the others are made.
    fn charge_shadows(
        &self,
        charges: &[Charge<'_, KeyHash>],
        decisions: &mut [impl DecisionPlace],
        attempts: &mut [Attempt<'_>],
        now: u64,
    ) {
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            let fits = group.len() == 1 || charges[group.clone()].iter().all(|charge| self.passes(charge, now));
            let mut is_made = fits;
            for at in group.clone() {
                let charge = &charges[at];
                if !fits && self.passes(charge, now) {
                    *decisions[at].decision() = self.look(charge, now);
                    continue;
                }
                let charged = self.charge_into(decisions[at].decision(), charge, now);
                if decisions[at].decision().is_allowed() {
                    attempts[at] = Attempt::Made(charged);
                } else {
                    is_made = false;
                }
            }
            if !is_made {
                self.undo_shadows(charges, group, decisions, attempts, now);
            }
        }
    }

    /// Takes back what was made of a group that did not fit as a whole after all.
    fn undo_shadows(
        &self,
        charges: &[Charge<'_, KeyHash>],
        group: Range<usize>,
        decisions: &mut [impl DecisionPlace],
        attempts: &mut [Attempt<'_>],
        now: u64,
    ) {
        for at in group.rev() {
            if let Attempt::Made(charged) = attempts[at] {
                self.give_back(charges[at].limit, charges[at].key.0, &charged);
                attempts[at] = Attempt::NotMade;
                *decisions[at].decision() = self.look(&charges[at], now);
            }
        }
    }

    /// Makes a charge, and answers it. (Written in place: moving a decision that
    /// was just put together costs more than putting it together.)
    #[inline(always)]
    fn charge_into(&self, decision: &mut Decision, charge: &Charge<'_, KeyHash>, now: u64) -> Charged {
        if let Rule::Bucket(rule) = &charge.limit.0.rule {
            let place = Place { hash: charge.key.0, rule };
            let note = |after: BucketState| Charged { at: now, cost: charge.cost, mark: after.tat, part: after.part };
            if let Some(checked) = self.tables.buckets().check_common(place, now, charge.cost) {
                *decision = checked.decision;
                return note(checked.after);
            }
        }
        let (answer, charged) = self.charge_any(charge.limit, charge.key.0, charge.cost);
        *decision = answer;
        charged
    }

    /// Whether a charge would pass.
    #[inline(always)]
    fn passes(&self, charge: &Charge<'_, KeyHash>, now: u64) -> bool {
        if let Rule::Bucket(rule) = &charge.limit.0.rule {
            let place = Place { hash: charge.key.0, rule };
            if let Some(passes) = self.tables.buckets().passes_common(place, now, charge.cost) {
                return passes;
            }
        }
        self.look_any(charge.limit, charge.key.0, charge.cost).is_allowed()
    }

    #[inline(never)]
    fn charge_any(&self, limit: &Limit, hash: u64, cost: u64) -> (Decision, Charged) {
        let charged = self.apply(limit, hash, &ChargeNoted { cost });
        charged.unwrap_or_else(|Full| (self.no_room(limit), Charged::default()))
    }
}

/// Runs `decide` with an attempt for each charge: on the stack for as many charges as a request usually has.
#[inline(always)]
fn with_attempts<'t, R>(charges: usize, decide: impl FnOnce(&mut [Attempt<'t>]) -> R) -> R {
    const FEW: usize = 4;
    if charges <= FEW {
        decide(&mut [Attempt::NotMade; FEW][..charges])
    } else {
        decide(&mut vec![Attempt::NotMade; charges])
    }
}

pub(super) fn receipt(charge: &Charge<'_, KeyHash>, charged: Charged) -> Receipt {
    Receipt::in_memory(charge.limit.clone(), charge.key, charged)
}
