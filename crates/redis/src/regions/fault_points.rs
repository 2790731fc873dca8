//! Steps of the exchange between regions in which a seeded test injects a fault, to verify that it detects the fault.
//! Outside of tests no function changes the result of its step.

#[cfg(test)]
use crate::sim::InjectedFault;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegionFaultPoints {
    #[cfg(test)]
    pub(crate) fault: Option<InjectedFault>,
}

#[cfg(not(test))]
#[allow(clippy::unused_self, reason = "in tests it holds the fault")]
impl RegionFaultPoints {
    /// Returns when the rates of an epoch end: with the epoch.
    #[inline]
    pub(super) fn end_of_rates(self, until_us: i64, _length_us: i64) -> i64 {
        until_us
    }

    /// Returns whether the region may have offered to others.
    #[inline]
    pub(super) fn may_have_offered(self, has_claim: bool, _is_first_epoch: bool) -> bool {
        has_claim
    }

    /// Returns whether a region whose state was lost enforces its reserve at first: it does.
    #[inline]
    pub(super) fn starts_with_reserve(self) -> bool {
        true
    }

    /// Returns what a region withholds of what it has lent: all of it, until the epoch ends.
    #[inline]
    pub(super) fn withheld(self, balance: i32) -> i32 {
        balance
    }

    /// Returns the rate while it is uncertain which of two epochs it is.
    #[inline]
    pub(super) fn rate_between(self, earlier: u32, later: u32) -> u32 {
        earlier.min(later)
    }

    /// Returns whether all time since a key was written counts at the present rate: it does not.
    #[inline]
    pub(super) fn has_one_rate(self) -> bool {
        false
    }

    /// Returns whether the weights of the own policy count without the votes of other regions: they do not.
    #[inline]
    pub(super) fn ignores_votes(self) -> bool {
        false
    }
}

#[cfg(test)]
impl RegionFaultPoints {
    fn has(self, fault: InjectedFault) -> bool {
        self.fault == Some(fault)
    }

    pub(super) fn end_of_rates(self, until_us: i64, length_us: i64) -> i64 {
        if self.has(InjectedFault::LoanByTime) { until_us + length_us / 2 } else { until_us }
    }

    pub(super) fn may_have_offered(self, has_claim: bool, is_first_epoch: bool) -> bool {
        has_claim && !(is_first_epoch && self.has(InjectedFault::ForgetOffer))
    }

    pub(super) fn starts_with_reserve(self) -> bool {
        !self.has(InjectedFault::FullStart)
    }

    pub(super) fn withheld(self, balance: i32) -> i32 {
        if self.has(InjectedFault::EarlyReturn) { balance.max(balance / 2) } else { balance }
    }

    pub(super) fn rate_between(self, earlier: u32, later: u32) -> u32 {
        if self.has(InjectedFault::LargerRateBetween) { earlier.max(later) } else { earlier.min(later) }
    }

    pub(super) fn has_one_rate(self) -> bool {
        self.has(InjectedFault::RefillAtOneRate)
    }

    pub(super) fn ignores_votes(self) -> bool {
        self.has(InjectedFault::OwnWeights)
    }
}
