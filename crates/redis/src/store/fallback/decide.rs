//! Decides charges whose slot did not reply, each by the failure mode of its limit.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{ChargeVerdict, Charged, Decision};
use tollgate_store::{Charge, ChargeMode, OnFailure, Outcome, Source, shadow_groups};

use crate::call::Target;
use crate::store::Inner;
use crate::store::batch::Charges;
use crate::store::decide::{
    Waiters, add_decided, blank_pass, commit_charges, decided_positions, fails_closed, refusal_outcome,
};
use crate::store::limit::{Origin, RedisLimitData, is_concurrency, retention};
use crate::store::refund::receipt::{AdmittedBy, RedisReceiptData};

/// A charge whose slot did not reply.
struct UnansweredCharge {
    /// Its position in the request.
    position: usize,
    target: Target,
}

impl Inner {
    /// Decides a request that passed in all slots that replied.
    pub(in crate::store) fn fall_back(self: &Arc<Self>, charges: &Charges<'_>, waiters: Waiters<'_>) -> Outcome {
        let unanswered = unanswered_charges(&waiters);
        let fail_closed: SmallVec<[usize; 4]> = unanswered
            .iter()
            .map(|charge| charge.position)
            .filter(|position| fails_closed(&charges[*position]))
            .collect();
        if !fail_closed.is_empty() {
            return self.refuse_unavailable(charges, refusal_outcome(charges, waiters, Source::Fallback), fail_closed);
        }
        let local: Vec<&UnansweredCharge> = unanswered
            .iter()
            .filter(|charge| RedisLimitData::of(charges[charge.position].limit).fallback.is_some())
            .collect();
        let local_outcome = self.check_locally(charges, &local);
        if !local_outcome.passed {
            let mut outcome = refusal_outcome(charges, waiters, Source::Fallback);
            for (charge, decision) in local.iter().zip(local_outcome.decisions) {
                outcome.decisions[charge.position] = decision;
            }
            outcome.decided = add_decided(outcome.decided, local.iter().map(|charge| charge.position), charges);
            return outcome;
        }
        let mut outcome = blank_pass(charges, Source::Fallback);
        self.decide_without_count(charges, &unanswered, &mut outcome);
        for (charge, decision) in local.iter().zip(local_outcome.decisions) {
            outcome.decisions[charge.position] = decision;
        }
        for charge in local.iter().filter(|charge| was_made(charges, &outcome.decisions, charge.position)) {
            self.record_debt_of(&charges[charge.position], &charge.target);
        }
        for (index, receipt) in local_outcome.receipts {
            let UnansweredCharge { position, target } = local[index];
            let (charged, admitted_by) = (*receipt.charged(), AdmittedBy::Fallback { receipt });
            outcome
                .receipts
                .push((*position, RedisReceiptData::receipt(target, charges[*position].key, charged, admitted_by)));
        }
        commit_charges(charges, waiters, &mut outcome);
        // The state of a key that neither a server nor the fallback has counted is unknown.
        let is_unknown = |position: usize| {
            let is_unanswered = unanswered.iter().any(|charge| charge.position == position);
            is_unanswered && RedisLimitData::of(charges[position].limit).fallback.is_none()
        };
        outcome.decided =
            decided_positions((0..charges.len()).filter(|position| !is_unknown(*position)).collect(), charges);
        outcome
    }

    /// Charges this instance's share of the limits in the fallback, all or nothing.
    fn check_locally(&self, charges: &Charges<'_>, local: &[&UnansweredCharge]) -> Outcome {
        let mut local_charges: SmallVec<[Charge<'_>; 4]> = SmallVec::new();
        for charge in local {
            let Charge { limit, key, cost, mode, receipt } = charges[charge.position];
            if let Some(limit) = &RedisLimitData::of(limit).fallback {
                self.counters.count_fallback(OnFailure::Local { share: (1, 1) });
                local_charges.push(Charge { limit, key, cost, mode, receipt });
            }
        }
        self.fallback.check_all_now(&local_charges)
    }

    /// Sets the decisions of the charges without a local limit: those of limits that fail open, which are admitted, and
    /// those of limits that fail closed. The latter do not bind: otherwise the request would have been refused.
    fn decide_without_count(&self, charges: &Charges<'_>, unanswered: &[UnansweredCharge], outcome: &mut Outcome) {
        for UnansweredCharge { position, target } in unanswered {
            let charge = &charges[*position];
            let mode = charge.limit.options().on_failure;
            match mode {
                OnFailure::Local { .. } => continue,
                OnFailure::Closed => {
                    outcome.decisions[*position] = charge.limit.decision_without_count(ChargeVerdict::Unavailable);
                }
                OnFailure::Open => {
                    outcome.decisions[*position] =
                        charge.limit.decision_without_count(ChargeVerdict::Allowed { delay: 0 });
                    self.record_debt_of(charge, target);
                    if charge.receipt && can_be_made(charge) {
                        let charged = Charged { cost: charge.cost, ..Charged::default() };
                        let receipt = RedisReceiptData::receipt(target, charge.key, charged, AdmittedBy::FailOpen);
                        outcome.receipts.push((*position, receipt));
                    }
                }
            }
            self.counters.count_fallback(mode);
        }
    }

    /// Records the debt of a charge that was admitted. Permits have no debt, because they cannot be acquired later.
    fn record_debt_of(&self, charge: &Charge<'_>, target: &Target) {
        if can_be_made(charge) && !is_concurrency(charge.limit) {
            self.record_debt(target, charge.cost);
        }
    }

    /// Adjusts the debt of a charge that no server has counted from its estimated cost to its actual cost.
    pub(in crate::store) fn settle_debt(&self, target: &Target, cost: u64, true_cost: u64) {
        if true_cost <= cost {
            let _ = self.debts.reduce(&target.key, cost - true_cost);
        } else if !is_concurrency(&target.limit) {
            self.record_debt(target, true_cost - cost);
        }
    }

    fn record_debt(&self, target: &Target, cost: u64) {
        // Keys of callers get no debts once half of the table is used: the rest is for keys of the policy.
        let has_space = RedisLimitData::of(&target.limit).origin == Origin::Policy || self.debts.is_at_most_half_full();
        if !(has_space && self.debts.add(&target.key, cost, retention(target.limit.quota()), Instant::now())) {
            self.counters.dropped_debts.add(1);
        }
    }
}

/// Returns whether a charge was made by a request that passed. A shadow charge is made only if its whole group fits.
fn was_made(charges: &Charges<'_>, decisions: &[Decision], index: usize) -> bool {
    let groups = shadow_groups(charges.iter().map(|charge| (charge.cost, charge.mode)));
    let group = groups.into_iter().find(|group| group.contains(&index)).unwrap_or(index..index + 1);
    decisions[group].iter().all(Decision::is_allowed)
}

/// Returns whether a charge may be made if the request passes: it has a cost, and is neither a guard nor only watched.
fn can_be_made(charge: &Charge<'_>) -> bool {
    charge.cost > 0 && (charge.mode == ChargeMode::Enforce || charge.mode.is_shadow())
}

fn unanswered_charges(waiters: &Waiters<'_>) -> SmallVec<[UnansweredCharge; 4]> {
    let without_reply = waiters.iter().filter(|part| !part.waiter.has_reply());
    let charges = without_reply.flat_map(|part| part.positions.iter().zip(&*part.waiter.request().charges));
    charges.map(|(position, charge)| UnansweredCharge { position: *position, target: charge.target.clone() }).collect()
}
