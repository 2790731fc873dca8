use std::fmt;

use tollgate_store::Receipt as ChargeReceipt;

use crate::holding::Measured;

/// Proof of the charges of one request, with which they can be refunded,
/// settled or released: once, because that takes the receipt.
#[must_use = "what may have to be given back needs its receipt"]
pub struct Receipt {
    held: Vec<HeldCharge>,
}

/// One charge, and what it is.
pub(crate) struct HeldCharge {
    pub(crate) receipt: ChargeReceipt,
    /// Of permits, how long they are held at most without being renewed.
    pub(crate) lease_ns: Option<u64>,
    /// Of permits, what their holding time tells of.
    pub(crate) measured: Option<Measured>,
    /// Whether its cost was read from the request or guessed.
    pub(crate) is_estimate: bool,
    /// Whether it costs what the caller says the request costs.
    pub(crate) follows_request: bool,
}

impl Receipt {
    /// Of a request that was charged nothing, or whose receipts nobody wants.
    pub(crate) fn nothing() -> Receipt {
        Receipt { held: Vec::new() }
    }

    pub(crate) fn new(held: impl Iterator<Item = HeldCharge>) -> Receipt {
        Receipt { held: held.collect() }
    }

    /// Whether there is nothing to give back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether it holds permits, which must be released.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        self.held.iter().any(|held| held.lease_ns.is_some())
    }

    /// How long permits are held at most without being renewed.
    pub(crate) fn lease_ns(&self) -> Option<u64> {
        self.held.iter().filter_map(|held| held.lease_ns).min()
    }

    /// How long it holds permits at most: until the last of their leases has ended.
    pub(crate) fn longest_lease_ns(&self) -> Option<u64> {
        self.held.iter().filter_map(|held| held.lease_ns).max()
    }

    pub(crate) fn permits(&self) -> impl Iterator<Item = &ChargeReceipt> {
        self.held.iter().filter(|held| held.lease_ns.is_some()).map(|held| &held.receipt)
    }

    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.held.iter().filter_map(|held| held.measured.as_ref())
    }

    pub(crate) fn into_all(self) -> impl Iterator<Item = ChargeReceipt> {
        // The last first: of the places in a queue only the last can be taken back.
        self.held.into_iter().rev().map(|held| held.receipt)
    }

    pub(crate) fn into_permits(self) -> impl Iterator<Item = ChargeReceipt> {
        self.held.into_iter().filter(|held| held.lease_ns.is_some()).map(|held| held.receipt)
    }

    /// The permits, and the charges whose cost is to be settled: those that
    /// were estimated, or where none was, those that cost what the caller said.
    pub(crate) fn into_permits_and_estimates(self) -> (Vec<ChargeReceipt>, Vec<ChargeReceipt>) {
        let (permits, charges): (Vec<_>, Vec<_>) = self.held.into_iter().partition(|held| held.lease_ns.is_some());
        let any_estimate = charges.iter().any(|held| held.is_estimate);
        let to_settle = |held: &HeldCharge| if any_estimate { held.is_estimate } else { held.follows_request };
        let receipts = |held: Vec<HeldCharge>| held.into_iter().map(|held| held.receipt).collect();
        (receipts(permits), receipts(charges.into_iter().filter(to_settle).collect()))
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("charges", &self.held.len()).finish_non_exhaustive()
    }
}
