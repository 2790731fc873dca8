use smallvec::SmallVec;
use tollgate_core::Decision;

use crate::store::receipt::ChargeReceipt;

/// The result of charges that were decided together.
#[derive(Debug)]
pub struct Outcome {
    /// Whether the whole request passed.
    pub passed: bool,
    /// The decision for each charge, in order. If the whole request is refused, even an allowed charge was not made,
    /// and its decision states what remains.
    pub decisions: SmallVec<[Decision; 4]>,
    /// The requested receipts of the charges that were made, each with the position of its charge.
    pub receipts: Vec<(usize, ChargeReceipt)>,
    /// The source of the decisions.
    pub source: Source,
    /// The charges whose decisions are known.
    pub decided: DecidedCharges,
}

/// The charges whose decisions are known. Once one charge is known to be refused, a remote store need not decide the
/// others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DecidedCharges {
    /// All decisions are known.
    #[default]
    All,
    /// Only the decisions at these positions are known. The others are placeholders.
    Only(SmallVec<[usize; 4]>),
}

impl DecidedCharges {
    /// Returns whether the decision at this position is known.
    #[must_use]
    pub fn contains(&self, position: usize) -> bool {
        match self {
            DecidedCharges::All => true,
            DecidedCharges::Only(positions) => positions.contains(&position),
        }
    }
}

/// The source of a decision, which determines how exact it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The counters themselves.
    #[default]
    Exact,
    /// A remembered refusal that is still valid.
    Cached,
    /// Tokens that this instance has leased ahead of requests.
    Leased,
    /// The share of this region in a limit that several regions divide.
    Regional,
    /// Counters of this instance alone, as the policy requires. Not produced: a failure mode
    /// [`Local`](crate::OnFailure::Local) reports [`Fallback`](Source::Fallback).
    Local,
    /// The fallback that the policy defines for failures of the store.
    Fallback,
}

impl Source {
    /// Returns the name in responses and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Exact => "exact",
            Source::Cached => "cached",
            Source::Leased => "leased",
            Source::Regional => "regional",
            Source::Local => "local",
            Source::Fallback => "fallback",
        }
    }
}
