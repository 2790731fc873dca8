//! What travels to one slot in one script call, as data: the script's encoder
//! writes it for a server, and a model in a test executes it by itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{
    AlgorithmKind, Bucket, BucketState, Charged, Concurrency, CounterState, FixedWindow, MAX_SPAN_NS, Quota,
    SlidingCounter, SlidingLog, Tick, WindowState,
};
use tollgate_store::Mode;

/// Lines that one script call carries out in order, atomically. All their keys live in one slot.
///
/// Within one call a key belongs to one family of algorithms: to buckets, to
/// fixed windows, to counters, to logs or to leases. What another family left
/// there is nothing to it, and is replaced.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) lines: Vec<Line>,
}

impl Call {
    /// Whether it must not be executed after its deadline, because its requests have been decided without it by then.
    /// Refunds, settlements, renewals and resets are right at any time.
    pub(crate) fn expires(&self) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Decide { .. } | Line::Force { .. }))
    }
}

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
        matches!(self.mode, Mode::Enforce | Mode::Guard)
    }

    /// Whether it is made where the whole passes.
    pub(crate) fn is_made(&self) -> bool {
        self.cost > 0 && self.mode == Mode::Enforce
    }

    /// Whether it may be made where the whole passes, and stands in no request's way.
    pub(crate) fn is_shadow(&self) -> bool {
        self.cost > 0 && matches!(self.mode, Mode::Shadow | Mode::ShadowJoined)
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiled {
    Bucket(Bucket),
    FixedWindow(FixedWindow),
    SlidingCounter(SlidingCounter),
    SlidingLog(SlidingLog),
    Concurrency(Concurrency),
}

/// Why a shared store cannot keep a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TermsError {
    /// Permits without a lease: nobody would take back those of an instance that died.
    #[error(
        "concurrency in a shared store needs a lease: without one, the permits of an instance that died would never come back"
    )]
    NoLease,
    /// More tokens may be promised ahead than the server can count exactly.
    #[error("a shared store can promise at most 2^52 tokens ahead: promise less, or lower the rate")]
    TooManyTokens,
}

/// Counts and times stay below this, so that quotients of doubles are exact.
const EXACT: u64 = 1 << 52;

impl Terms {
    /// The unit of all times that travel: a server computes in doubles.
    pub(crate) const TICK: Tick = Tick::Microsecond;

    /// Compiles a quota, if a server that counts in doubles can keep it exactly.
    pub(crate) fn new(quota: Quota) -> Result<Terms, TermsError> {
        let tick = Terms::TICK;
        let compiled = match quota.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
                Bucket::new(&quota, tick).map(Compiled::Bucket)
            }
            AlgorithmKind::FixedWindow => FixedWindow::new(&quota, tick).map(Compiled::FixedWindow),
            AlgorithmKind::SlidingWindowCounter => SlidingCounter::new(&quota, tick).map(Compiled::SlidingCounter),
            AlgorithmKind::SlidingWindowLog => SlidingLog::new(&quota, tick).map(Compiled::SlidingLog),
            AlgorithmKind::Concurrency if quota.period_ns() >= MAX_SPAN_NS => return Err(TermsError::NoLease),
            AlgorithmKind::Concurrency => Concurrency::new(&quota, tick).map(Compiled::Concurrency),
        };
        let algorithm = compiled.unwrap_or_else(|| unreachable!("every kind compiles by its own constructor"));
        if let Compiled::Bucket(bucket) = &algorithm
            && bucket.shape().tokens_below_ceiling() + u128::from(quota.max_debt()) >= u128::from(EXACT)
        {
            return Err(TermsError::TooManyTokens);
        }
        Ok(Terms { quota, algorithm })
    }
}

/// What came back: an answer for each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The server's clock when it was carried out, in microseconds since 1970.
    pub(crate) now: u64,
    pub(crate) answers: Vec<Answer>,
}

#[allow(clippy::large_enum_variant, reason = "nearly all answers are decisions")]
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
