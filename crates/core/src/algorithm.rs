use crate::decision::Decision;

/// A compiled quota: how one key's state answers a request and changes by it.
///
/// All times are ticks, all methods total: no input panics or overflows. The
/// default state is that of a key never seen.
pub trait Algorithm {
    /// What is kept for one key.
    type State: Default;

    /// What the answer to `cost` would be, charging nothing. A cost of 0 is
    /// always allowed: it asks what remains.
    fn look(&self, state: &Self::State, now: u64, cost: u64) -> Decision;

    /// Decides, and charges `cost` if it is allowed. A refusal leaves the state
    /// as it is, except where it had to follow a clock that went back.
    fn check(&self, state: &mut Self::State, now: u64, cost: u64) -> Decision;

    /// Like [`check`](Algorithm::check), for a caller that would wait up to
    /// `patience`. Only buckets can promise anything ahead of time; for the
    /// others it is a plain check.
    fn check_within(&self, state: &mut Self::State, now: u64, cost: u64, patience: u64) -> Decision {
        let _ = patience;
        self.check(state, now, cost)
    }

    /// Charges as much of `cost` as fits, whatever the answer would be, and
    /// returns what did not fit. For penalising a refusal where that is wanted,
    /// and for what was counted elsewhere.
    fn force(&self, state: &mut Self::State, now: u64, cost: u64) -> u64;

    /// Like [`force`](Algorithm::force), but what does not fit is owed, as far
    /// as the quota lets a key owe: later requests wait for it. Returns what
    /// does not fit even so. For settling above an estimate.
    fn owe(&self, state: &mut Self::State, now: u64, cost: u64) -> u64;

    /// Gives back `amount` of the charge that `charged` describes, as far as
    /// that mints nothing. The caller sees to it that a charge is given back
    /// only once, and `amount` is at most its cost.
    fn give_back(&self, state: &mut Self::State, now: u64, charged: &Charged, amount: u64);

    /// Gives back `amount` of what was used, whichever charges it was, the
    /// newest first: for a caller who has no receipt. What is promised to
    /// somebody stays promised.
    fn credit(&self, state: &mut Self::State, now: u64, amount: u64) {
        let newest = self.charged(state, now, amount);
        // A place that a bucket has promised belongs to somebody, who may still come: never undo that one.
        let charged = Charged { part: newest.part ^ 1, ..newest };
        self.give_back(state, now, &charged, amount);
    }

    /// Takes `cost` out of the places that are promised, if `last` is the last
    /// of them. Only buckets promise places.
    fn withdraw(&self, state: &mut Self::State, last: &Charged, cost: u64) -> bool {
        let _ = (state, last, cost);
        false
    }

    /// What a store notes down about a charge that was just allowed, so that it
    /// can be given back.
    fn charged(&self, state: &Self::State, now: u64, cost: u64) -> Charged;

    /// The time from which the state equals that of a key never seen, so that a
    /// store may forget it.
    fn untouched_at(&self, state: &Self::State) -> u64;

    /// Rewrites a state that another quota wrote, or that a clock left ahead, as
    /// this quota reads it at `now`. It charges nothing and gives nothing back.
    fn refresh(&self, state: &mut Self::State, now: u64);

    /// The state of a key that has used so much of this quota at `now`, and no
    /// more than its limit: how a count is carried over from another algorithm.
    fn carried(&self, used: u64, now: u64) -> Self::State;

    /// Makes the state that of a key never seen.
    fn forget(&self, state: &mut Self::State) {
        *state = Self::State::default();
    }

    /// Replaces an estimated cost by the true one.
    fn settle(&self, state: &mut Self::State, now: u64, charged: &Charged, true_cost: u64) -> Settled {
        if true_cost <= charged.cost {
            self.give_back(state, now, charged, charged.cost - true_cost);
            return Settled { overrun: 0 };
        }
        Settled { overrun: self.owe(state, now, true_cost - charged.cost) }
    }
}

/// Which charge it was: enough to give it back without minting anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// When it was charged.
    pub at: u64,
    /// How much.
    pub cost: u64,
    /// Where it went: the end of a promised place, a window's start, a log
    /// entry's time or a lease's id.
    pub mark: u64,
    /// The fraction of a tick that belongs to the mark of a bucket.
    pub part: u32,
}

/// What became of a settled charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// How much of the true cost could not even be owed.
    pub overrun: u64,
}
