use smallvec::SmallVec;
use tollgate_core::Decision;

use crate::store::receipt::Receipt;

/// What became of charges that were to be made together.
#[derive(Debug)]
pub struct Outcome {
    /// Whether the whole passed.
    pub passed: bool,
    /// The answer to each charge, in order. Where the whole is refused, an
    /// allowed one was not made, and says what remains.
    pub decisions: SmallVec<[Decision; 4]>,
    /// The receipts that were wanted, of charges that were made, each with the position of its charge.
    pub receipts: Vec<(usize, Receipt)>,
    /// Where the answer comes from.
    pub source: Source,
    /// Which of the decisions say anything.
    pub asked: Asked,
}

/// Which charges were asked about. Where one is known to be refused, a store
/// that is far away need not ask about the others, and does not know what would
/// be said of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Every decision is an answer.
    #[default]
    All,
    /// Only the decisions at these positions are answers. The others hold a place and say nothing.
    Only(SmallVec<[usize; 4]>),
}

impl Asked {
    /// Whether the decision at this position is an answer.
    #[must_use]
    pub fn contains(&self, position: usize) -> bool {
        match self {
            Asked::All => true,
            Asked::Only(positions) => positions.contains(&position),
        }
    }
}

/// Where an answer comes from, which says how exact it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// From the counters themselves.
    #[default]
    Exact,
    /// From a refusal that is remembered because it still holds.
    Cached,
    /// From a share that this instance took in advance.
    Leased,
    /// From this region's share.
    Regional,
    /// From counters of this instance alone, as the policy wants it.
    Local,
    /// From what the policy says should happen when the store fails.
    Fallback,
}

impl Source {
    /// Its name in answers and metrics.
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
