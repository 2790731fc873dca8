use std::fmt;
use std::sync::Arc;

use tollgate_store::ChargeReceipt;

use crate::holding_time::HoldingTime;
use crate::permit::Permit;

/// Proof of the charges of one request. It refunds them, settles them to the true cost or releases permits, once:
/// each of these calls takes the receipt.
///
/// [`Permit::into_receipt`] returns it, for a program that stores it: a permit releases on drop, a receipt does not.
#[must_use = "without its receipt a charge cannot be refunded, settled or released"]
pub struct Receipt {
    held: Vec<HeldCharge>,
}

/// The receipt of one charge.
pub(crate) struct HeldCharge {
    pub(crate) receipt: ChargeReceipt,
    /// Set if the charge is of a concurrency limit.
    pub(crate) permit: Option<HeldPermit>,
    /// Whether its rule has an `estimate` or reads its cost from a header.
    pub(crate) has_variable_cost: bool,
    /// Whether its cost is that of the request, and not one set by the rule.
    pub(crate) has_request_cost: bool,
}

/// A charge that holds permits.
pub(crate) struct HeldPermit {
    /// How long it is held without being renewed.
    pub(crate) lease_ns: u64,
    pub(crate) since_ns: u64,
    /// The holding times of its rule.
    pub(crate) holding: Arc<HoldingTime>,
    /// The queue of the tasks that wait for its key.
    pub(crate) queue_key: u64,
}

impl Receipt {
    /// Creates the receipt of a request without charges, or whose charges need no receipt.
    pub(crate) fn nothing() -> Receipt {
        Receipt { held: Vec::new() }
    }

    pub(crate) fn new(held: impl Iterator<Item = HeldCharge>) -> Receipt {
        Receipt { held: held.collect() }
    }

    /// Whether there is nothing to refund, settle or release.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether it holds concurrency permits, which must be released.
    #[must_use]
    pub fn holds_permits(&self) -> bool {
        self.held_permits().next().is_some()
    }

    /// Returns the shortest lease of its permits.
    pub(crate) fn lease_ns(&self) -> Option<u64> {
        self.held_permits().map(|permit| permit.lease_ns).min()
    }

    /// Returns the longest lease of its permits.
    pub(crate) fn longest_lease_ns(&self) -> Option<u64> {
        self.held_permits().map(|permit| permit.lease_ns).max()
    }

    pub(crate) fn held_permits(&self) -> impl Iterator<Item = &HeldPermit> {
        self.held.iter().filter_map(|held| held.permit.as_ref())
    }

    pub(crate) fn permits(&self) -> impl Iterator<Item = &ChargeReceipt> {
        self.held.iter().filter(|held| held.permit.is_some()).map(|held| &held.receipt)
    }

    pub(crate) fn into_all(self) -> impl Iterator<Item = ChargeReceipt> {
        // The last first: only the last reservation of a queue can be cancelled.
        self.held.into_iter().rev().map(|held| held.receipt)
    }

    pub(crate) fn into_permits(self) -> impl Iterator<Item = ChargeReceipt> {
        self.held.into_iter().filter(|held| held.permit.is_some()).map(|held| held.receipt)
    }

    /// Returns the permits, and the charges whose cost is settled: those of a variable cost, or if there are none,
    /// those whose cost is the request's.
    pub(crate) fn into_permits_and_settled(self) -> (Vec<ChargeReceipt>, Vec<ChargeReceipt>) {
        let (permits, charges): (Vec<_>, Vec<_>) = self.held.into_iter().partition(|held| held.permit.is_some());
        let any_variable = charges.iter().any(|held| held.has_variable_cost);
        let to_settle = |held: &HeldCharge| if any_variable { held.has_variable_cost } else { held.has_request_cost };
        let receipts = |held: Vec<HeldCharge>| held.into_iter().map(|held| held.receipt).collect();
        (receipts(permits), receipts(charges.into_iter().filter(to_settle).collect()))
    }
}

impl From<Permit> for Receipt {
    fn from(permit: Permit) -> Receipt {
        permit.into_receipt()
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("charges", &self.held.len()).finish_non_exhaustive()
    }
}
