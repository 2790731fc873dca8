use tollgate_core::{Algorithm, Bucket, BucketState, Charged, Decision, Settled};

/// Something done to one key's state under its quota. It may be run several
/// times on copies, of which one counts.
pub(crate) trait Operation {
    type Output;

    /// Whether it changes state; one that only looks writes nothing, not even
    /// a state carried over from another quota.
    const WRITES: bool = true;

    /// Whether a key never seen can have a state afterwards.
    const CREATES: bool = Self::WRITES;

    /// Whether it is decided by what a key has used under another algorithm,
    /// which is then moved to this one. A receipt of an algorithm that is gone
    /// finds nothing to give back to.
    fn carries(&self) -> bool {
        true
    }

    /// Whether the state may take more memory afterwards.
    fn may_grow(&self) -> bool {
        Self::WRITES
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Self::Output;

    /// How to deal with a bucket that another quota has written since the
    /// receipt was made: in that quota's terms, so that the key keeps it.
    /// `None` carries the state over to our own quota instead.
    fn run_as_writer(&self, own: &Bucket, writer: &Bucket, state: &mut BucketState, now: u64) -> Option<Self::Output> {
        let _ = (own, writer, state, now);
        None
    }
}

/// A charge as another quota may treat it: never as its own last one, and worth what time has not refilled.
fn taken_over(charged: &Charged, own: &Bucket, now: u64) -> (Charged, u64) {
    let never_the_last = Charged { mark: u64::MAX, ..*charged };
    (never_the_last, own.unrefilled(charged, now))
}

pub(crate) struct Check {
    pub(crate) cost: u64,
}

impl Operation for Check {
    type Output = Decision;

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Decision {
        algorithm.check(state, now, self.cost)
    }
}

/// A check that notes down what it charged.
pub(crate) struct ChargeNoted {
    pub(crate) cost: u64,
}

impl Operation for ChargeNoted {
    type Output = (Decision, Charged);

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> (Decision, Charged) {
        let decision = algorithm.check(state, now, self.cost);
        (decision, algorithm.charged(state, now, self.cost))
    }
}

/// What the answer would be, and what remains without it.
pub(crate) struct Look {
    pub(crate) cost: u64,
}

impl Operation for Look {
    type Output = Decision;
    const WRITES: bool = false;

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Decision {
        let answer = algorithm.look(state, now, self.cost);
        if self.cost == 0 || !answer.is_allowed() {
            return answer;
        }
        Decision { verdict: answer.verdict, ..algorithm.look(state, now, 0) }
    }
}

/// What is said of a charge where the whole is refused. It charges nothing; a
/// state that another quota wrote, or that a clock left ahead, is written down
/// as this quota reads it, so that it refills from now on.
pub(crate) struct Refuse {
    pub(crate) cost: u64,
}

impl Operation for Refuse {
    type Output = Decision;
    const CREATES: bool = false;

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Decision {
        algorithm.refresh(state, now);
        Look { cost: self.cost }.run(algorithm, state, now)
    }
}

/// What a key has used under another algorithm, as its new one would have counted it now.
pub(crate) struct Carry {
    pub(crate) used: u64,
}

impl Operation for Carry {
    type Output = ();

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) {
        *state = algorithm.carried(self.used, now);
    }
}

/// A check by somebody who would wait.
pub(crate) struct Reserve {
    pub(crate) cost: u64,
    pub(crate) patience: u64,
}

impl Operation for Reserve {
    type Output = (Decision, Charged);

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> (Decision, Charged) {
        let decision = algorithm.check_within(state, now, self.cost, self.patience);
        (decision, algorithm.charged(state, now, self.cost))
    }
}

pub(crate) struct GiveBack<'a> {
    pub(crate) charged: &'a Charged,
}

impl Operation for GiveBack<'_> {
    type Output = ();
    const CREATES: bool = false;

    fn carries(&self) -> bool {
        false
    }

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) {
        algorithm.give_back(state, now, self.charged, self.charged.cost);
    }

    fn run_as_writer(&self, own: &Bucket, writer: &Bucket, state: &mut BucketState, now: u64) -> Option<()> {
        let (charged, worth) = taken_over(self.charged, own, now);
        writer.give_back(state, now, &charged, worth);
        Some(())
    }
}

/// Gives back without knowing which charge it was.
pub(crate) struct Credit {
    pub(crate) cost: u64,
}

impl Operation for Credit {
    type Output = ();
    const CREATES: bool = false;

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) {
        algorithm.credit(state, now, self.cost);
    }
}

pub(crate) struct Settle<'a> {
    pub(crate) charged: &'a Charged,
    pub(crate) true_cost: u64,
}

impl Operation for Settle<'_> {
    type Output = Settled;

    fn carries(&self) -> bool {
        self.true_cost > self.charged.cost
    }

    fn may_grow(&self) -> bool {
        self.true_cost > self.charged.cost
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Settled {
        algorithm.settle(state, now, self.charged, self.true_cost)
    }

    fn run_as_writer(&self, own: &Bucket, writer: &Bucket, state: &mut BucketState, now: u64) -> Option<Settled> {
        if self.true_cost > self.charged.cost {
            let overrun = writer.owe_for(own, state, now, self.true_cost - self.charged.cost);
            return Some(Settled { overrun });
        }
        let (charged, worth) = taken_over(self.charged, own, now);
        writer.give_back(state, now, &charged, worth.min(self.charged.cost - self.true_cost));
        Some(Settled { overrun: 0 })
    }
}

/// Takes a promised place out of the queue, if nobody outside it was promised one since.
pub(crate) struct Withdraw<'a> {
    pub(crate) last: &'a Charged,
    pub(crate) cost: u64,
}

impl Operation for Withdraw<'_> {
    type Output = bool;
    const CREATES: bool = false;

    fn carries(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, _: u64) -> bool {
        algorithm.withdraw(state, self.last, self.cost)
    }

    fn run_as_writer(&self, _: &Bucket, _: &Bucket, _: &mut BucketState, _: u64) -> Option<bool> {
        Some(false)
    }
}

/// Charges as much as fits, whatever the answer would be.
pub(crate) struct Force {
    pub(crate) cost: u64,
}

impl Operation for Force {
    type Output = u64;

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> u64 {
        algorithm.force(state, now, self.cost)
    }
}

/// Back to a key never seen.
pub(crate) struct Reset;

impl Operation for Reset {
    type Output = ();
    const CREATES: bool = false;

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, _: u64) {
        algorithm.forget(state);
    }
}
