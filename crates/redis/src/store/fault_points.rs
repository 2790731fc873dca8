//! Steps of the store's logic in which a seeded test injects a fault, to verify that it detects the fault.
//!
//! Only faults that no transport and no setting can cause are injected here: each step depends on the internal state of
//! the store. Outside of tests no function changes the result of its step, and each compiles to nothing.

use super::batch::Batch;
use crate::regions::RegionFaultPoints;
#[cfg(test)]
use crate::sim::InjectedFault;

#[derive(Debug, Default)]
pub(super) struct FaultPoints {
    #[cfg(test)]
    pub(super) fault: Option<InjectedFault>,
}

#[cfg(not(test))]
#[allow(clippy::unused_self, reason = "in tests it holds the fault")]
impl FaultPoints {
    /// Returns the cost for which a cached refusal is looked up: that of the charge.
    #[inline]
    pub(super) fn cached_cost(&self, cost: u64) -> u64 {
        cost
    }

    /// Returns whether a request is refused: it is if some slot refuses it. An injected fault ignores that if another
    /// slot lets it pass.
    #[inline]
    pub(super) fn is_refused(&self, some_refuse: bool, _some_pass: bool) -> bool {
        some_refuse
    }

    /// Returns the keys whose cached refusals are dropped because of a refund: all of them.
    #[inline]
    pub(super) fn keys_to_drop<'a>(&self, keys: &'a [Box<[u8]>]) -> &'a [Box<[u8]>] {
        keys
    }

    /// Returns whether debts that were paid are recorded again: never.
    #[inline]
    pub(super) fn restores_paid_debts(&self) -> bool {
        false
    }

    /// Called before the answers of a batch are delivered. Does nothing.
    #[inline]
    pub(super) fn before_delivery(&self, _batch: &Batch, _times: u32) {}

    #[inline]
    pub(super) fn of_regions(&self) -> RegionFaultPoints {
        RegionFaultPoints::default()
    }
}

#[cfg(test)]
impl FaultPoints {
    pub(super) fn of_regions(&self) -> RegionFaultPoints {
        RegionFaultPoints { fault: self.fault }
    }

    fn has(&self, fault: InjectedFault) -> bool {
        self.fault == Some(fault)
    }

    pub(super) fn cached_cost(&self, cost: u64) -> u64 {
        if self.has(InjectedFault::AnswerForAnotherCost) { 1 } else { cost }
    }

    pub(super) fn is_refused(&self, some_refuse: bool, some_pass: bool) -> bool {
        some_refuse && !(some_pass && self.has(InjectedFault::OneSlotIsEnough))
    }

    pub(super) fn keys_to_drop<'a>(&self, keys: &'a [Box<[u8]>]) -> &'a [Box<[u8]>] {
        if self.has(InjectedFault::RememberAcrossRefund) { &[] } else { keys }
    }

    pub(super) fn restores_paid_debts(&self) -> bool {
        self.has(InjectedFault::KeepDebt)
    }

    pub(super) fn before_delivery(&self, batch: &Batch, times: u32) {
        if self.has(InjectedFault::SwapJoinedAnswers) {
            batch.reverse_numbers(times);
        }
    }
}
