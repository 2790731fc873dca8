//! Steps of the store's logic that a seeded test replaces by a mistake, in order to see that it finds it.
//!
//! Only mistakes that no transport and no setting can bring about are made here: each step decides inside the store, on
//! what the store alone knows. Outside of tests every function returns what it is given, and compiles to nothing.

use super::batch::Batch;
#[cfg(test)]
use crate::sim::InjectedFault;

#[derive(Debug, Default)]
pub(super) struct Seam {
    #[cfg(test)]
    pub(super) fault: Option<InjectedFault>,
}

#[cfg(not(test))]
#[allow(clippy::unused_self, reason = "in tests it knows the fault")]
impl Seam {
    /// For which cost a remembered refusal answers.
    #[inline]
    pub(super) fn cached_cost(&self, cost: u64) -> u64 {
        cost
    }

    /// Whether a request is refused that some slots refused and some let pass.
    #[inline]
    pub(super) fn is_refused(&self, some_refuse: bool, _some_pass: bool) -> bool {
        some_refuse
    }

    /// The keys whose refusals are forgotten because of a refund.
    #[inline]
    pub(super) fn refunded<'a>(&self, keys: &'a [Box<[u8]>]) -> &'a [Box<[u8]>] {
        keys
    }

    /// Whether debts that were paid are owed again.
    #[inline]
    pub(super) fn owes_again(&self) -> bool {
        false
    }

    /// The answers of a batch are about to be handed out.
    #[inline]
    pub(super) fn hand_out(&self, _batch: &Batch, _times: u32) {}
}

#[cfg(test)]
impl Seam {
    fn has(&self, fault: InjectedFault) -> bool {
        self.fault == Some(fault)
    }

    pub(super) fn cached_cost(&self, cost: u64) -> u64 {
        if self.has(InjectedFault::AnswerForAnotherCost) { 1 } else { cost }
    }

    pub(super) fn is_refused(&self, some_refuse: bool, some_pass: bool) -> bool {
        some_refuse && !(some_pass && self.has(InjectedFault::OneSlotIsEnough))
    }

    pub(super) fn refunded<'a>(&self, keys: &'a [Box<[u8]>]) -> &'a [Box<[u8]>] {
        if self.has(InjectedFault::RememberAcrossRefund) { &[] } else { keys }
    }

    pub(super) fn owes_again(&self) -> bool {
        self.has(InjectedFault::KeepDebt)
    }

    pub(super) fn hand_out(&self, batch: &Batch, times: u32) {
        if self.has(InjectedFault::SwapJoinedAnswers) {
            batch.reverse_numbers(times);
        }
    }
}
