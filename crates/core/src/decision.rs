/// The result of one charge under one quota. Times are in the quota's ticks.
///
/// A refusal is not an error: both results contain what the caller needs to inform the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may pass.
    pub verdict: ChargeVerdict,
    /// The largest possible `remaining`: burst, window limit, queue size or permits.
    pub limit: u64,
    /// The number of requests of cost 1 that could still pass now, after this decision.
    pub remaining: u64,
    /// The time until `remaining` grows by 1 if nothing else is charged. 0 if it cannot grow, or if the time is
    /// unknown.
    pub next_after: u64,
    /// The time until the state is that of an unused key.
    pub reset_after: u64,
}

/// Whether a charge is allowed, and if not, when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeVerdict {
    /// The request may pass after `delay`, which is 0 except for queues and reservations.
    Allowed {
        /// The time that the caller must wait before it proceeds.
        delay: u64,
    },
    /// The request is refused now. Nothing was charged.
    Refused {
        /// The time after which the same request passes if nothing else is charged. `None` if it depends on the release
        /// of a permit.
        retry_after: Option<u64>,
    },
    /// The store could not count the charge: it is full, or a server did not reply. This is a fault of the store, not
    /// of the client. No algorithm returns it.
    Unavailable,
    /// The request can never pass: its cost exceeds what the limit can ever hold. Nothing was charged.
    Impossible,
}

impl Decision {
    /// A placeholder for a decision that has not been made yet. No algorithm returns it.
    pub const UNDECIDED: Decision =
        Decision { verdict: ChargeVerdict::Unavailable, limit: 0, remaining: 0, next_after: 0, reset_after: 0 };

    /// Returns whether the request may pass, at once or after a delay.
    #[must_use]
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.verdict, ChargeVerdict::Allowed { .. })
    }

    /// Returns the time after which to retry, if the request was refused and the time is known.
    #[must_use]
    #[inline]
    pub const fn retry_after(&self) -> Option<u64> {
        match self.verdict {
            ChargeVerdict::Refused { retry_after } => retry_after,
            ChargeVerdict::Allowed { .. } | ChargeVerdict::Unavailable | ChargeVerdict::Impossible => None,
        }
    }

    /// Returns the time that an allowed request must wait; 0 if it was not allowed.
    #[must_use]
    #[inline]
    pub const fn delay(&self) -> u64 {
        match self.verdict {
            ChargeVerdict::Allowed { delay } => delay,
            ChargeVerdict::Refused { .. } | ChargeVerdict::Unavailable | ChargeVerdict::Impossible => 0,
        }
    }
}
