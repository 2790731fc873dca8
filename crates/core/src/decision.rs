/// The answer to one check under one quota. Times are in the quota's ticks.
///
/// A limited client is not an error: both answers carry what the caller needs
/// to tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may pass.
    pub verdict: Verdict,
    /// The largest that `remaining` can be: burst, window limit, places or permits.
    pub limit: u64,
    /// What could still pass now, one at a time, after this decision.
    pub remaining: u64,
    /// Until one more remains if nobody spends; 0 if none is to come, or
    /// nobody can know when.
    pub next_after: u64,
    /// Until the key is as if untouched.
    pub reset_after: u64,
}

/// Whether a request may pass, and if not, when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass after `delay`, which is 0 except for queues and reservations.
    Allowed {
        /// How long the caller waits before it goes on.
        delay: u64,
    },
    /// Not now. Nothing was charged.
    Refused {
        /// The same request passes after exactly this time if nobody else
        /// spends; `None` if that depends on somebody giving back a permit.
        retry_after: Option<u64>,
    },
    /// The store has no room to count another key. Its trouble, not the client's.
    NoRoom,
    /// Never: it costs more than the limit can ever hold. Nothing was charged.
    Impossible,
}

impl Decision {
    /// Stands where an answer will be written. No answer of an algorithm is this one.
    pub const UNDECIDED: Decision =
        Decision { verdict: Verdict::NoRoom, limit: 0, remaining: 0, next_after: 0, reset_after: 0 };

    /// Whether it may pass, at once or after a delay.
    #[must_use]
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed { .. })
    }

    /// When to try again, if that is known and it was refused.
    #[must_use]
    #[inline]
    pub const fn retry_after(&self) -> Option<u64> {
        match self.verdict {
            Verdict::Refused { retry_after } => retry_after,
            Verdict::Allowed { .. } | Verdict::NoRoom | Verdict::Impossible => None,
        }
    }

    /// How long an allowed request waits; 0 if it was not allowed.
    #[must_use]
    #[inline]
    pub const fn delay(&self) -> u64 {
        match self.verdict {
            Verdict::Allowed { delay } => delay,
            Verdict::Refused { .. } | Verdict::NoRoom | Verdict::Impossible => 0,
        }
    }
}
