//! Several charges at once, all or none.

use std::ops::Range;

use tollgate_core::{BucketState, Charged, Decision, Verdict};

use super::MemoryStore;
use crate::charge::{Charge, shadow_groups};
use crate::clock::Clock;
use crate::full::Full;
use crate::limit::{Limit, Rule};
use crate::notes::Notes;
use crate::operation::ChargeNoted;
use crate::receipt::Receipt;
use crate::table::Place;

/// Stands where an answer will be. No answer to a known charge is this one.
pub(super) const UNANSWERED: Decision =
    Decision { verdict: Verdict::NoRoom, limit: 0, remaining: 0, next_after: 0, reset_after: 0 };

impl MemoryStore {
    /// Makes several charges, all or none. `decisions` receives the answer to
    /// each; where the whole is refused, an allowed one was not charged, and
    /// says what remains.
    pub fn check_all(&self, charges: &[Charge<'_>], decisions: &mut Vec<Decision>) -> bool {
        decisions.clear();
        decisions.resize(charges.len(), UNANSWERED);
        self.check_all_noting(charges, decisions, &mut Notes::default())
    }

    /// Like [`check_all`](MemoryStore::check_all), with a receipt for each charge if all were made.
    pub fn check_all_with_receipts(
        &self,
        charges: &[Charge<'_>],
        decisions: &mut Vec<Decision>,
    ) -> Option<Vec<Receipt>> {
        let mut notes = Notes::default();
        decisions.clear();
        decisions.resize(charges.len(), UNANSWERED);
        self.check_all_noting(charges, decisions, &mut notes).then(|| {
            let made = charges.iter().zip(notes.iter()).filter(|(_, charged)| charged.cost > 0);
            made.map(|(charge, charged)| receipt(charge, charged)).collect()
        })
    }

    /// The time is read once for all: for a known key an older one only
    /// charges more, and every other case reads its own. `decisions` has a
    /// place for each charge, unanswered. A note of a charge that was not made
    /// has a cost of 0.
    pub(super) fn check_all_noting(
        &self,
        charges: &[Charge<'_>],
        decisions: &mut [Decision],
        notes: &mut Notes,
    ) -> bool {
        let now = self.clock.now_ns();
        // Look first: a refusal then charges nothing, and no other request meets a charge that is taken back.
        if !charges.iter().all(|charge| !charge.binds() || self.passes(charge, now)) {
            // Peeks first: they say what remained before anything was written.
            for (charge, decision) in charges.iter().zip(&mut *decisions).filter(|(charge, _)| charge.cost == 0) {
                *decision = self.look(charge, now);
            }
            for (charge, decision) in charges.iter().zip(decisions).filter(|(charge, _)| charge.cost > 0) {
                *decision = self.refuse(charge, now);
            }
            return false;
        }
        // A peek says what remained before.
        for (charge, decision) in charges.iter().zip(&mut *decisions).filter(|(charge, _)| !charge.is_made()) {
            *decision = self.look(charge, now);
        }
        for (at, charge) in charges.iter().enumerate() {
            notes.push(if charge.is_made() {
                self.charge_into(&mut decisions[at], charge, now)
            } else {
                Charged::default()
            });
            if charge.binds() && !decisions[at].is_allowed() {
                self.undo(&charges[..at], notes);
                self.answer_refused(charges, decisions, now);
                return false;
            }
        }
        self.charge_shadows(charges, decisions, notes, now);
        true
    }

    fn undo(&self, charges: &[Charge<'_>], notes: &Notes) {
        // Last first: of the places in a queue only the last can be taken back.
        let made = charges.iter().zip(notes.iter()).filter(|(charge, _)| charge.is_made());
        for (made, charged) in made.rev() {
            self.give_back(made.limit, made.hash, &charged);
        }
    }

    /// What is said of each charge when one of them turned out not to fit after all.
    fn answer_refused(&self, charges: &[Charge<'_>], decisions: &mut [Decision], now: u64) {
        for (charge, decision) in charges.iter().zip(decisions).filter(|(charge, _)| charge.is_made()) {
            let answer = *decision;
            if answer.is_allowed() || answer == UNANSWERED {
                *decision = self.look(charge, now);
            }
            // What was made, or would have been, was allowed: only one stood in the way.
            if answer.is_allowed() {
                decision.verdict = answer.verdict;
            } else if answer == UNANSWERED && !decision.is_allowed() {
                decision.verdict = Verdict::Allowed { delay: 0 };
            }
        }
    }

    /// Each group on its own, once the others are made.
    fn charge_shadows(&self, charges: &[Charge<'_>], decisions: &mut [Decision], notes: &mut Notes, now: u64) {
        for group in shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode))) {
            let fits = group.len() == 1 || charges[group.clone()].iter().all(|charge| self.passes(charge, now));
            let mut is_made = fits;
            for at in group.clone() {
                let charge = &charges[at];
                if !fits && self.passes(charge, now) {
                    decisions[at] = self.look(charge, now);
                    continue;
                }
                let charged = self.charge_into(&mut decisions[at], charge, now);
                if decisions[at].is_allowed() {
                    notes.set(at, charged);
                } else {
                    is_made = false;
                }
            }
            if !is_made {
                self.undo_shadows(charges, group, decisions, notes, now);
            }
        }
    }

    /// Takes back what was made of a group that did not fit as a whole after all.
    fn undo_shadows(
        &self,
        charges: &[Charge<'_>],
        group: Range<usize>,
        decisions: &mut [Decision],
        notes: &mut Notes,
        now: u64,
    ) {
        for at in group.rev() {
            let charged = notes.get(at);
            if charged.cost > 0 {
                self.give_back(charges[at].limit, charges[at].hash, &charged);
                notes.set(at, Charged::default());
                decisions[at] = self.look(&charges[at], now);
            }
        }
    }

    /// Makes a charge, and answers it. (Written in place: moving a decision that
    /// was just put together costs more than putting it together.)
    #[inline(always)]
    fn charge_into(&self, decision: &mut Decision, charge: &Charge<'_>, now: u64) -> Charged {
        if let Rule::Bucket(rule) = &charge.limit.0.rule {
            let place = Place { hash: charge.hash, rule };
            let note = |after: BucketState| Charged { at: now, cost: charge.cost, mark: after.tat, part: after.part };
            if let Some(steps) = rule.bucket.whole_steps()
                && charge.cost == 1
            {
                if let Some(checked) = self.tables.buckets().check_in_steps(place, now, steps) {
                    *decision = checked.decision;
                    return note(checked.after);
                }
            } else if let Some(checked) = self.tables.buckets().check_in_parts(place, now, charge.cost) {
                *decision = checked.decision;
                return note(checked.after);
            }
        }
        let (answer, charged) = self.charge_any(charge.limit, charge.hash, charge.cost);
        *decision = answer;
        charged
    }

    /// Whether a charge would pass.
    #[inline(always)]
    fn passes(&self, charge: &Charge<'_>, now: u64) -> bool {
        if let Rule::Bucket(rule) = &charge.limit.0.rule {
            let place = Place { hash: charge.hash, rule };
            if let Some(passes) = self.tables.buckets().passes_common(place, now, charge.cost) {
                return passes;
            }
        }
        self.look_any(charge.limit, charge.hash, charge.cost).is_allowed()
    }

    #[inline(never)]
    fn charge_any(&self, limit: &Limit, hash: u64, cost: u64) -> (Decision, Charged) {
        let charged = self.apply(limit, hash, &ChargeNoted { cost });
        charged.unwrap_or_else(|Full| (self.no_room(limit), Charged::default()))
    }
}

pub(super) fn receipt(charge: &Charge<'_>, charged: Charged) -> Receipt {
    Receipt { limit: charge.limit.clone(), hash: charge.hash, charged }
}
