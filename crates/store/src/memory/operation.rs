use tollgate_core::{Algorithm, Bucket, BucketState, Charged, Decision, Settlement};

/// An operation on the state of one key under its quota. It may run several times on copies, of which one is stored.
pub(crate) trait StateOperation {
    type Output;

    /// Whether it changes the state. A read-only operation writes nothing, not even a state converted from another
    /// quota.
    const WRITES: bool = true;

    /// Whether it can create the state of a key without an entry.
    const CREATES: bool = Self::WRITES;

    /// Returns whether the used amount of a key under another algorithm is moved to this one first. Refunds need not do
    /// so: a receipt of a removed algorithm has nothing to refund.
    fn carries_over(&self) -> bool {
        true
    }

    /// Returns whether the state may take more memory afterwards.
    fn may_grow(&self) -> bool {
        Self::WRITES
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Self::Output;

    /// Runs on the state of a bucket that another quota has written since the receipt was made. It runs under that
    /// quota, the writer quota, so that the state stays one of the writer quota. `None` if the state is to be converted
    /// to the operation's own quota instead.
    fn run_under_writer_quota(
        &self,
        own: &Bucket,
        writer_quota: &Bucket,
        state: &mut BucketState,
        now: u64,
    ) -> Option<Self::Output> {
        let _ = (own, writer_quota, state, now);
        None
    }
}

/// Returns what the writer quota may refund of a charge made under `own`: a record whose mark matches no state (so it
/// is never undone as the last reservation), and the tokens that time has not refilled.
fn charge_for_writer_quota(charged: &Charged, own: &Bucket, now: u64) -> (Charged, u64) {
    let not_the_last = Charged { mark: u64::MAX, ..*charged };
    (not_the_last, own.unrefilled(charged, now))
}

pub(crate) struct CheckOp {
    pub(crate) cost: u64,
}

impl StateOperation for CheckOp {
    type Output = Decision;

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Decision {
        algorithm.check(state, now, self.cost)
    }
}

/// A check that also returns the record of its charge.
pub(crate) struct CheckWithReceiptOp {
    pub(crate) cost: u64,
}

impl StateOperation for CheckWithReceiptOp {
    type Output = (Decision, Charged);

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> (Decision, Charged) {
        let decision = algorithm.check(state, now, self.cost);
        (decision, algorithm.charged(state, now, self.cost))
    }
}

/// A decision without a charge, with what remains now.
pub(crate) struct PeekOp {
    pub(crate) cost: u64,
}

impl StateOperation for PeekOp {
    type Output = Decision;
    const WRITES: bool = false;

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Decision {
        let decision = algorithm.peek(state, now, self.cost);
        if self.cost == 0 || !decision.is_allowed() {
            return decision;
        }
        Decision { verdict: decision.verdict, ..algorithm.peek(state, now, 0) }
    }
}

/// The decision for a charge where the whole request is refused. It charges nothing. A state that another quota wrote,
/// or that lies ahead because the clock went back, is written as this quota reads it, so that it refills from now on.
pub(crate) struct RefreshAndPeekOp {
    pub(crate) cost: u64,
}

impl StateOperation for RefreshAndPeekOp {
    type Output = Decision;
    const CREATES: bool = false;

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Decision {
        algorithm.refresh(state, now);
        PeekOp { cost: self.cost }.run(algorithm, state, now)
    }
}

/// Sets the state to the used amount that another algorithm has counted.
pub(crate) struct CarryOverOp {
    pub(crate) used: u64,
}

impl StateOperation for CarryOverOp {
    type Output = ();

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) {
        *state = algorithm.state_with_used(self.used, now);
    }
}

/// A check for a caller that can wait.
pub(crate) struct ReserveOp {
    pub(crate) cost: u64,
    pub(crate) max_wait: u64,
}

impl StateOperation for ReserveOp {
    type Output = (Decision, Charged);

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> (Decision, Charged) {
        let decision = algorithm.check_within(state, now, self.cost, self.max_wait);
        (decision, algorithm.charged(state, now, self.cost))
    }
}

pub(crate) struct RefundOp<'a> {
    pub(crate) charged: &'a Charged,
}

impl StateOperation for RefundOp<'_> {
    type Output = ();
    const CREATES: bool = false;

    fn carries_over(&self) -> bool {
        false
    }

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) {
        algorithm.refund(state, now, self.charged, self.charged.cost);
    }

    fn run_under_writer_quota(
        &self,
        own: &Bucket,
        writer_quota: &Bucket,
        state: &mut BucketState,
        now: u64,
    ) -> Option<()> {
        let (charged, refundable) = charge_for_writer_quota(self.charged, own, now);
        writer_quota.refund(state, now, &charged, refundable);
        Some(())
    }
}

/// A refund without a receipt.
pub(crate) struct CreditOp {
    pub(crate) cost: u64,
}

impl StateOperation for CreditOp {
    type Output = ();
    const CREATES: bool = false;

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) {
        algorithm.credit(state, now, self.cost);
    }
}

pub(crate) struct SettleOp<'a> {
    pub(crate) charged: &'a Charged,
    pub(crate) true_cost: u64,
}

impl StateOperation for SettleOp<'_> {
    type Output = Settlement;

    fn carries_over(&self) -> bool {
        self.true_cost > self.charged.cost
    }

    fn may_grow(&self) -> bool {
        self.true_cost > self.charged.cost
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> Settlement {
        algorithm.settle(state, now, self.charged, self.true_cost)
    }

    fn run_under_writer_quota(
        &self,
        own: &Bucket,
        writer_quota: &Bucket,
        state: &mut BucketState,
        now: u64,
    ) -> Option<Settlement> {
        if self.true_cost > self.charged.cost {
            let overrun = writer_quota.owe_for(own, state, now, self.true_cost - self.charged.cost);
            return Some(Settlement { overrun });
        }
        let (charged, refundable) = charge_for_writer_quota(self.charged, own, now);
        writer_quota.refund(state, now, &charged, refundable.min(self.charged.cost - self.true_cost));
        Some(Settlement { overrun: 0 })
    }
}

/// Withdraws a reservation, if no reservation outside of the wait queue was made since.
pub(crate) struct WithdrawOp<'a> {
    pub(crate) last: &'a Charged,
    pub(crate) cost: u64,
}

impl StateOperation for WithdrawOp<'_> {
    type Output = bool;
    const CREATES: bool = false;

    fn carries_over(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, _: u64) -> bool {
        algorithm.withdraw(state, self.last, self.cost)
    }

    fn run_under_writer_quota(&self, _: &Bucket, _: &Bucket, _: &mut BucketState, _: u64) -> Option<bool> {
        Some(false)
    }
}

/// Charges as much as fits, even if a check would refuse it.
pub(crate) struct ForceOp {
    pub(crate) cost: u64,
}

impl StateOperation for ForceOp {
    type Output = u64;

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, now: u64) -> u64 {
        algorithm.force(state, now, self.cost)
    }
}

/// Resets a key to unused.
pub(crate) struct ResetOp;

impl StateOperation for ResetOp {
    type Output = ();
    const CREATES: bool = false;

    fn may_grow(&self) -> bool {
        false
    }

    fn run<A: Algorithm>(&self, algorithm: &A, state: &mut A::State, _: u64) {
        algorithm.reset(state);
    }
}
