//! One script call to one slot, as data. The encoder in `script` writes it for a server; a model in the tests executes
//! it directly.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{BucketState, Charged, CounterState, Tick, WindowState};
use tollgate_store::{ChargeMode, Limit};

/// The operations of one script call, executed in order and atomically. All their keys are in one slot.
///
/// Within one call a key belongs to one family of algorithms: buckets, fixed windows, counters, logs or permits. A
/// value that another family left under the key is treated as absent, and replaced.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) ops: ScriptOps,
}

impl Call {
    /// Returns whether the call must not be executed after its deadline. By then its requests have been decided by the
    /// fallback, the fallback debts in it (`Force`) are sent with another call, and tokens that it leases would not be
    /// spent. Refunds, settlements, renewals and resets are correct at any time.
    pub(crate) fn expires(&self) -> bool {
        self.ops.iter().any(|op| match op {
            ScriptOp::Decide { .. } | ScriptOp::Force { .. } => true,
            ScriptOp::Lease(request) => request.wanted > 0,
            _ => false,
        })
    }

    /// Returns the time to which the schedules of the call refer, if there are any.
    pub(crate) fn schedule_base(&self) -> Option<Instant> {
        self.ops.iter().find_map(|op| match op {
            ScriptOp::Refill { schedule, .. } => Some(schedule.base),
            _ => None,
        })
    }
}

/// Most calls have one operation, and most operations one charge; these are stored inline.
pub(crate) type ScriptOps = SmallVec<[ScriptOp; 1]>;
pub(crate) type ReportedStates = SmallVec<[ReportedState; 1]>;

/// One operation of a script call.
#[derive(Clone, Debug)]
pub(crate) enum ScriptOp {
    /// Decides `times` identical requests one after the other, each of them all or nothing. After the first refusal
    /// all others are refused too, because nothing is refunded in between.
    Decide { times: u32, charges: Arc<[SlotCharge]> },
    /// Charges `cost` without a check. If less capacity is left, all of that is charged, and the rest of `cost` is
    /// dropped and reported in the reply.
    Force { target: Target, cost: u64 },
    /// Refunds `amount` of a charge.
    Refund { target: Target, charged: Charged, amount: u64 },
    /// Refunds `cost` of a key's usage without a receipt, whichever charges the usage came from. Usage does not fall
    /// below zero. Reservations (such as positions in a queue) and permits are not refunded, because their holders may
    /// still use them.
    Credit { target: Target, cost: u64 },
    /// Replaces the estimated cost of a charge by the actual cost.
    Settle { target: Target, charged: Charged, true_cost: u64 },
    /// Extends the lease of a held permit to its full length from now.
    Renew { target: Target, charged: Charged },
    /// Deletes the state of a key. Tokens that are leased stay outstanding.
    Reset { target: Target },
    /// Settles earlier leases of this instance, and leases tokens. Boxed, because nearly all operations are decisions.
    Lease(Box<LeaseRequest>),
    /// Refills a key that regions divide, for all following operations.
    Refill { target: Target, schedule: Box<RefillSchedule> },
}

/// The rates at which a key that regions divide has been refilled, and may be until an epoch ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefillSchedule {
    /// The time to which the spans refer.
    pub(crate) base: Instant,
    /// Spans that do not overlap. Time outside of them refills nothing.
    pub(crate) spans: SmallVec<[RefillSpan; 4]>,
    /// The rate at which the key will be refilled at least, in thousandths of the limit's rate.
    pub(crate) least: u32,
}

#[cfg(test)]
impl RefillSchedule {
    /// Returns the rate at a time, in thousandths.
    pub(crate) fn rate_at(&self, at: Instant) -> u32 {
        let at_us = at.saturating_duration_since(self.base).as_micros() as i64;
        let current = self.spans.iter().find(|span| (span.from_us..span.until_us).contains(&at_us));
        current.map_or(0, |span| span.rate)
    }
}

/// A span of time, in microseconds after the base, or before it if negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefillSpan {
    pub(crate) from_us: i64,
    pub(crate) until_us: i64,
    /// The rate in thousandths of the limit's rate.
    pub(crate) rate: u32,
}

/// A request of an instance to lease tokens of a key, with the settlements of its earlier leases.
///
/// Leased tokens are *outstanding*: they are counted beside the state of the key, until they are reported as spent or
/// returned, or until the generation after their own has ended: then their lease has ended. Spent tokens are charged to
/// the state when they are reported; tokens that are outstanding when their lease ends count as spent at that time.
/// Returned tokens were never charged.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRequest {
    /// The key, and the limit under which tokens are leased.
    pub(crate) target: Target,
    /// The number of tokens to lease at most. 0 only settles.
    pub(crate) wanted: u64,
    /// The number of tokens that may be outstanding, over all instances and including this lease.
    pub(crate) max_outstanding: u64,
    /// The length of a generation, in whole milliseconds. While tokens of the key are outstanding, the length under
    /// which they were leased applies.
    pub(crate) generation_ms: u64,
    /// The settlements, applied before tokens are leased. Those of a generation still apply during the next one, and do
    /// nothing after that.
    pub(crate) settlements: SmallVec<[LeaseSettlement; 2]>,
}

/// What became of tokens that were leased in a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseSettlement {
    /// The number of the generation: the server's time divided by the length of a generation.
    pub(crate) generation: u64,
    /// The number of tokens spent.
    pub(crate) spent: u64,
    /// The number of tokens returned.
    pub(crate) returned: u64,
}

/// A charge on a key in the slot of the call.
#[derive(Clone, Debug)]
pub(crate) struct SlotCharge {
    pub(crate) target: Target,
    pub(crate) cost: u64,
    pub(crate) mode: ChargeMode,
}

impl SlotCharge {
    /// Returns whether the mode of this charge lets it refuse the request. (A cost of 0 is never refused in any mode.)
    pub(crate) fn binds(&self) -> bool {
        self.mode.can_refuse()
    }

    /// Returns whether this charge is made if the request passes.
    pub(crate) fn is_enforced(&self) -> bool {
        self.cost > 0 && self.mode == ChargeMode::Enforce
    }

    /// Returns whether this charge never refuses the request, and is made if the request passes and its shadow group
    /// fits.
    pub(crate) fn is_shadow(&self) -> bool {
        self.cost > 0 && self.mode.is_shadow()
    }
}

/// A key, and the limit by whose quota its state is read and written.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The complete key on the server, including prefix, scope and hash tag.
    pub(crate) key: Arc<[u8]>,
    pub(crate) limit: Limit,
}

/// The unit of all times in calls and replies. Microseconds, because Lua on the server computes in doubles.
pub(crate) const TICK: Tick = Tick::Microsecond;

/// The reply to a call: one result for each operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptReply {
    /// The server's clock when it executed the call, in microseconds since 1970.
    pub(crate) now: u64,
    pub(crate) answers: SmallVec<[Answer; 1]>,
}

/// The result of one operation.
#[allow(clippy::large_enum_variant, reason = "nearly all results are decisions")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The decisions of the `times` requests are computed from this.
    Decided {
        /// The number of requests that passed. These are the first ones.
        passed: u32,
        /// The state of each charge's key before the first request.
        states_before: ReportedStates,
    },
    Forced {
        /// The part of the cost that was not charged, because no capacity was left for it.
        unpaid: u64,
    },
    Refunded,
    Credited,
    Settled {
        /// The part of the actual cost that was not charged, not even as debt of the quota (`max_debt`).
        overrun: u64,
    },
    Renewed {
        /// Whether the permit was still held.
        held: bool,
    },
    Reset,
    Leased(Box<LeaseAnswer>),
    Refilled,
}

/// The result of a [`LeaseRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseAnswer {
    /// The number of tokens leased: at most as many as wanted.
    pub(crate) granted: u64,
    /// The generation of the lease.
    pub(crate) generation: u64,
    /// The time for which the server counts the lease, in microseconds from its clock's time in the reply: until the end
    /// of the next generation.
    pub(crate) expires_in_us: u64,
    /// The number of tokens outstanding over all instances, including this lease.
    pub(crate) outstanding: u64,
    /// The state of the key after the operation, in which outstanding tokens count as used.
    pub(crate) state: ReportedState,
}

/// The state of a key as reported by the server: before the first request of a `Decide`, and after a `Lease`. It has
/// only the parts that decisions depend on, read by the quota of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReportedState {
    Bucket(BucketState),
    Window(WindowState),
    Counter(CounterState),
    /// The parts of a log that decisions depend on; a whole log is too long to send.
    Log {
        /// The sum of the charges within the window.
        used: u64,
        /// The time of the newest charge; 0 if there is none.
        newest: u64,
        /// The debt in addition to these charges.
        debt: u64,
        /// The oldest charges within the window as (time, cost), oldest first: as many as a decision can depend on.
        front: SmallVec<[(u64, u64); 1]>,
    },
    /// The held permits of a concurrency limit.
    Leases {
        /// The number of permits held.
        used: u64,
        /// The time at which the last of them expires; 0 if there is none.
        until: u64,
        /// The id of the permit that was granted last.
        last_id: u64,
    },
}
