//! What travels to one slot in one script call, as data: the script's encoder
//! writes it for a server, and a model in a test executes it by itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{BucketState, Charged, CounterState, Tick, WindowState};
use tollgate_store::{Limit, Mode};

/// Lines that one script call carries out in order, atomically. All their keys live in one slot.
///
/// Within one call a key belongs to one family of algorithms: to buckets, to
/// fixed windows, to counters, to logs or to leases. What another family left
/// there is nothing to it, and is replaced.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) lines: Lines,
}

impl Call {
    /// Whether it must not be executed after its deadline, because its requests have been decided without it by then.
    /// Refunds, settlements, renewals and resets are right at any time.
    pub(crate) fn expires(&self) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Decide { .. } | Line::Force { .. }))
    }
}

/// Most calls have one line, and most lines one charge: these are kept in place.
pub(crate) type Lines = SmallVec<[Line; 1]>;
pub(crate) type Views = SmallVec<[View; 1]>;

#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// `times` requests alike, one after the other, each of them all or
    /// nothing. Once one is refused, the rest are: nothing is given back in between.
    Decide { times: u32, charges: Arc<[SlotCharge]> },
    /// Charges as much of `cost` as fits, whatever the answer would be.
    Force { target: Target, cost: u64 },
    /// Gives back `amount` of a charge.
    GiveBack { target: Target, charged: Charged, amount: u64 },
    /// Gives back so much of what a key has used, whichever charge it was: never more than that, and no place
    /// that was promised. Permits are not given back so.
    Credit { target: Target, cost: u64 },
    /// Replaces an estimated cost by the true one.
    Settle { target: Target, charged: Charged, true_cost: u64 },
    /// Extends a lease to a full one.
    Renew { target: Target, charged: Charged },
    /// Forgets a key.
    Reset { target: Target },
}

#[derive(Clone, Debug)]
pub(crate) struct SlotCharge {
    pub(crate) target: Target,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
}

impl SlotCharge {
    /// Whether it can refuse the whole.
    pub(crate) fn binds(&self) -> bool {
        self.mode.binds()
    }

    /// Whether it is made where the whole passes.
    pub(crate) fn is_made(&self) -> bool {
        self.cost > 0 && self.mode == Mode::Enforce
    }

    /// Whether it may be made where the whole passes, and stands in no request's way.
    pub(crate) fn is_shadow(&self) -> bool {
        self.cost > 0 && self.mode.is_shadow()
    }
}

/// A key, and the limit under whose quota it is read and written.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The whole key as the server knows it: prefix, scope, hash tag and all.
    pub(crate) key: Arc<[u8]>,
    pub(crate) limit: Limit,
}

/// The unit of all times that travel: a server computes in doubles.
pub(crate) const TICK: Tick = Tick::Microsecond;

/// What came back: an answer for each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The server's clock when it was carried out, in microseconds since 1970.
    pub(crate) now: u64,
    pub(crate) answers: SmallVec<[Answer; 1]>,
}

#[allow(clippy::large_enum_variant, reason = "nearly all answers are decisions")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// How many of the `times` passed, and what each charge's key looked like
    /// before the first of them. The decisions follow from that.
    Decided {
        passed: u32,
        views: Views,
    },
    /// How much of the cost did not fit.
    Forced {
        unpaid: u64,
    },
    GivenBack,
    Credited,
    Settled {
        overrun: u64,
    },
    /// Whether the lease was still there.
    Renewed {
        held: bool,
    },
    Reset,
}

/// A key's state, as far as answers depend on it, read under the asking quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Bucket(BucketState),
    Window(WindowState),
    Counter(CounterState),
    /// A log is too long to travel: what its answers need of it.
    Log {
        /// The charges in force.
        used: u64,
        /// When the newest was made; 0 if there is none.
        newest: u64,
        /// What is owed beyond them.
        debt: u64,
        /// The oldest in force as (time, cost), oldest first: as many as an answer can depend on.
        front: SmallVec<[(u64, u64); 1]>,
    },
    Leases {
        /// The permits out.
        used: u64,
        /// When the last of them runs out; 0 if there is none.
        until: u64,
        /// The id of the last lease that was given.
        last_id: u64,
    },
}
