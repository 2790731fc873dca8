//! What happens to charges whose slot gave no answer: each by its own rule.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{Charged, Decision, Verdict};
use tollgate_store::{Charge, Mode, OnFailure, Outcome, Source, shadow_groups};

use crate::call::Target;
use crate::store::Inner;
use crate::store::batch::Charges;
use crate::store::decide::{Waiters, asked_only, asked_with, is_closed, keep, passed, refuse};
use crate::store::limit::{Origin, SharedLimit, is_concurrency, remembers_for};
use crate::store::refund::receipt::{MadeWhere, SharedReceipt};

/// A charge whose slot gave no answer.
struct Stranded {
    position: usize,
    target: Target,
}

impl Inner {
    /// All slots that answered let it pass; the others gave no answer.
    pub(in crate::store) fn fall_back(self: &Arc<Self>, charges: &Charges<'_>, waiters: Waiters<'_>) -> Outcome {
        let stranded = stranded(&waiters);
        let closed: SmallVec<[usize; 4]> =
            stranded.iter().map(|charge| charge.position).filter(|at| is_closed(&charges[*at])).collect();
        if !closed.is_empty() {
            return self.refuse_closed(charges, refuse(charges, waiters, Source::Fallback), closed);
        }
        let here: Vec<&Stranded> = stranded
            .iter()
            .filter(|charge| SharedLimit::of(charges[charge.position].limit).fallback.is_some())
            .collect();
        let counted = self.count_here(charges, &here);
        if !counted.passed {
            let mut outcome = refuse(charges, waiters, Source::Fallback);
            for (charge, decision) in here.iter().zip(counted.decisions) {
                outcome.decisions[charge.position] = decision;
            }
            outcome.asked = asked_with(outcome.asked, here.iter().map(|charge| charge.position), charges);
            return outcome;
        }
        let mut outcome = passed(charges, Source::Fallback);
        self.pass_uncounted(charges, &stranded, &mut outcome);
        for (charge, decision) in here.iter().zip(counted.decisions) {
            outcome.decisions[charge.position] = decision;
        }
        for charge in here.iter().filter(|charge| is_made(charges, &outcome.decisions, charge.position)) {
            self.owe(&charges[charge.position], &charge.target);
        }
        for (at, receipt) in counted.receipts {
            let Stranded { position, target } = here[at];
            let (charged, made) = (*receipt.charged(), MadeWhere::Here { receipt });
            outcome.receipts.push((*position, SharedReceipt::receipt(target, charges[*position].key, charged, made)));
        }
        keep(charges, waiters, &mut outcome);
        // Of what passed without being counted anywhere, nobody knows how it stands.
        let is_uncounted = |at: usize| {
            let is_stranded = stranded.iter().any(|charge| charge.position == at);
            is_stranded && SharedLimit::of(charges[at].limit).fallback.is_none()
        };
        outcome.asked = asked_only((0..charges.len()).filter(|at| !is_uncounted(*at)).collect(), charges);
        outcome
    }

    /// This instance's share of the limits, all or nothing.
    fn count_here(&self, charges: &Charges<'_>, here: &[&Stranded]) -> Outcome {
        let mut local: SmallVec<[Charge<'_>; 4]> = SmallVec::new();
        for charge in here {
            let Charge { limit, key, cost, mode, receipt } = charges[charge.position];
            if let Some(limit) = &SharedLimit::of(limit).fallback {
                self.counters.fell_back(OnFailure::Local { share: (1, 1) });
                local.push(Charge { limit, key, cost, mode, receipt });
            }
        }
        self.fallback.decide_now(&local)
    }

    /// What passes because the store fails, and what would be refused but is in nobody's way.
    fn pass_uncounted(&self, charges: &Charges<'_>, stranded: &[Stranded], outcome: &mut Outcome) {
        for Stranded { position, target } in stranded {
            let asked = &charges[*position];
            let mode = asked.limit.options().on_failure;
            match mode {
                OnFailure::Local { .. } => continue,
                OnFailure::Closed => outcome.decisions[*position] = asked.limit.uncounted(Verdict::NoRoom),
                OnFailure::Open => {
                    outcome.decisions[*position] = asked.limit.uncounted(Verdict::Allowed { delay: 0 });
                    self.owe(asked, target);
                    if asked.receipt && is_counted(asked) {
                        let charged = Charged { cost: asked.cost, ..Charged::default() };
                        let receipt = SharedReceipt::receipt(target, asked.key, charged, MadeWhere::Nowhere);
                        outcome.receipts.push((*position, receipt));
                    }
                }
            }
            self.counters.fell_back(mode);
        }
    }

    /// The counters will hear of it when they are back. Permits cannot be taken afterwards.
    fn owe(&self, asked: &Charge<'_>, target: &Target) {
        if is_counted(asked) && !is_concurrency(asked.limit) {
            self.note_debt(target, asked.cost);
        }
    }

    /// What a charge that no server counted truly cost: the counters will hear of more, or of less.
    pub(in crate::store) fn settle_debt(&self, target: &Target, cost: u64, true_cost: u64) {
        if true_cost <= cost {
            let _ = self.debts.reduce(&target.key, cost - true_cost);
        } else if !is_concurrency(&target.limit) {
            self.note_debt(target, true_cost - cost);
        }
    }

    fn note_debt(&self, target: &Target, cost: u64) {
        // The keys of callers leave half of the room to those of the policy.
        let has_room = SharedLimit::of(&target.limit).origin == Origin::Policy || self.debts.has_half_its_room();
        if !(has_room && self.debts.add(&target.key, cost, remembers_for(target.limit.quota()), Instant::now())) {
            self.counters.dropped_debts.add(1);
        }
    }
}

/// Whether a charge was made where the whole passed: a shadow only if its group fits.
fn is_made(charges: &Charges<'_>, decisions: &[Decision], at: usize) -> bool {
    let groups = shadow_groups(charges.iter().map(|asked| (asked.cost, asked.mode)));
    let group = groups.into_iter().find(|group| group.contains(&at)).unwrap_or(at..at + 1);
    decisions[group].iter().all(Decision::is_allowed)
}

/// Whether a charge is made where the whole passes.
fn is_counted(asked: &Charge<'_>) -> bool {
    asked.cost > 0 && (asked.mode == Mode::Enforce || asked.mode.is_shadow())
}

fn stranded(waiters: &Waiters<'_>) -> SmallVec<[Stranded; 4]> {
    let failed = waiters.iter().filter(|part| part.waiter.passed().is_none());
    let charges = failed.flat_map(|part| part.positions.iter().zip(&*part.waiter.request().charges));
    charges.map(|(position, charge)| Stranded { position: *position, target: charge.target.clone() }).collect()
}
