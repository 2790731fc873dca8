//! What travels to one slot in one script call, as data: the script's encoder
//! writes it for a server, and a model in a test executes it by itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{
    Bucket, BucketState, Charged, Concurrency, CounterState, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick,
    WindowState,
};
use tollgate_store::Mode;

/// Lines that one script call carries out in order, atomically. All their keys live in one slot.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// `times` requests alike, one after the other, each of them all or
    /// nothing. Once one is refused, the rest are: nothing is given back in between.
    Decide { times: u32, charges: SmallVec<[SlotCharge; 4]> },
    /// Charges as much of `cost` as fits, whatever the answer would be.
    Force { target: Target, cost: u64 },
    /// Gives back `amount` of a charge.
    GiveBack { target: Target, charged: Charged, amount: u64 },
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
        matches!(self.mode, Mode::Enforce | Mode::Guard)
    }

    /// Whether it is made where the whole passes.
    pub(crate) fn is_made(&self) -> bool {
        self.cost > 0 && self.mode == Mode::Enforce
    }

    /// Whether it is made where the whole passes and there is room for it.
    pub(crate) fn is_shadow(&self) -> bool {
        self.cost > 0 && self.mode == Mode::Shadow
    }
}

/// A key, and the quota under which it is read and written.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The whole key as the server knows it: prefix, scope, hash tag and all.
    pub(crate) key: Arc<[u8]>,
    pub(crate) terms: Arc<Terms>,
}

/// A quota, compiled in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) quota: Quota,
    pub(crate) algorithm: Compiled,
}

impl Terms {
    /// The unit of all times that travel: a server computes in doubles.
    pub(crate) const TICK: Tick = Tick::Microsecond;

    /// Compiles a quota; `None` for one that no algorithm knows, which there is not.
    pub(crate) fn new(quota: Quota) -> Option<Terms> {
        let bucket = || Bucket::new(&quota, Terms::TICK).map(Compiled::Bucket);
        let window = || FixedWindow::new(&quota, Terms::TICK).map(Compiled::FixedWindow);
        let counter = || SlidingCounter::new(&quota, Terms::TICK).map(Compiled::SlidingCounter);
        let log = || SlidingLog::new(&quota, Terms::TICK).map(Compiled::SlidingLog);
        let permits = || Concurrency::new(&quota, Terms::TICK).map(Compiled::Concurrency);
        let algorithm = bucket().or_else(window).or_else(counter).or_else(log).or_else(permits)?;
        Some(Terms { quota, algorithm })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiled {
    Bucket(Bucket),
    FixedWindow(FixedWindow),
    SlidingCounter(SlidingCounter),
    SlidingLog(SlidingLog),
    Concurrency(Concurrency),
}

/// What came back: an answer for each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The server's clock when it was carried out, in microseconds since 1970.
    pub(crate) now: u64,
    pub(crate) answers: Vec<Answer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// How many of the `times` passed, and what each charge's key looked like
    /// before the first of them. The decisions follow from that.
    Decided {
        passed: u32,
        views: SmallVec<[View; 4]>,
    },
    /// How much of the cost did not fit.
    Forced {
        unpaid: u64,
    },
    GivenBack,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Bucket(BucketState),
    Window(WindowState),
    Counter(CounterState),
    /// A log is too long to travel: what its answers need of it.
    Log {
        /// The charges in force.
        used: u64,
        /// When the oldest in force was made; 0 if there is none.
        oldest: u64,
        /// When the newest was made; 0 if there is none.
        newest: u64,
        /// The time from which the first refused one fits; 0 if none was refused, or it never fits.
        fits_at: u64,
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
