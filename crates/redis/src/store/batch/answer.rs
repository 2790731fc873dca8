//! The answer to a batch, and its part for each request.

use smallvec::SmallVec;
use tollgate_core::{Charged, Decision};

use super::request::SlotRequest;
use crate::call::{self, ReportedStates, ScriptOp, ScriptOps, ScriptReply};
use crate::script::{ReplayedBatch, replay, replay_uncharged};
use crate::transport::{CallError, Cause, Executed};

/// The answer of a slot to all requests of a batch.
#[derive(Debug)]
pub(in crate::store) struct BatchAnswer {
    pub(in crate::store) replayed: ReplayedBatch,
    /// The number of requests in the call.
    pub(in crate::store) times: u32,
    /// The part of the debts that was not charged, because no capacity was left for it.
    pub(super) unpaid: u64,
    /// The server's clock, in microseconds.
    pub(in crate::store) now: u64,
    /// The state of each charge's key before the first request.
    pub(in crate::store) states_before: ReportedStates,
}

impl BatchAnswer {
    /// Reads the reply to a call that paid `debts` debts before it decided. If the reply is invalid, it is unknown
    /// whether the call was executed.
    pub(super) fn read(
        request: &SlotRequest,
        times: u32,
        debts: usize,
        mut reply: ScriptReply,
    ) -> Result<BatchAnswer, CallError> {
        let invalid = CallError { cause: Cause::Protocol, executed: Executed::Unknown };
        let unpaid = reply.answers.iter().map(unpaid).fold(0, u64::saturating_add);
        let Some(call::Answer::Decided { passed, states_before }) = reply.answers.get_mut(debts) else {
            return Err(invalid);
        };
        let replayed = replay(&request.charges, times, reply.now, *passed, states_before).map_err(|_| invalid)?;
        Ok(BatchAnswer { replayed, times, unpaid, now: reply.now, states_before: std::mem::take(states_before) })
    }

    /// Returns whether a request passed in this slot.
    pub(super) fn passes(&self, number: u32) -> bool {
        number < self.replayed.passed_count()
    }

    /// Returns the decisions of a request whose charges are not made after all, because another slot refused.
    pub(super) fn decisions_uncharged(&self, request: &SlotRequest, number: u32) -> SmallVec<[Decision; 4]> {
        let uncharged =
            self.passes(number).then(|| replay_uncharged(&request.charges, self.now, &self.states_before, number));
        uncharged.and_then(Result::ok).unwrap_or_else(|| self.replayed.decisions(number).into())
    }

    /// Returns the charges made for a request, each with its index among those of the slot.
    pub(super) fn charges_made(&self, number: u32) -> impl DoubleEndedIterator<Item = (usize, Charged)> {
        let charged = self.replayed.charged(number).iter().enumerate();
        charged.filter_map(|(index, charged)| charged.map(|charged| (index, charged)))
    }

    /// Returns the operations that refund the charges of a request, and the keys as supplied by the caller.
    pub(super) fn refund_ops(&self, request: &SlotRequest, number: u32) -> (ScriptOps, Vec<Box<[u8]>>) {
        // Last first: of the positions in a queue, only the last can be refunded.
        let op = |(index, charged): (usize, Charged)| {
            let target = request.charges[index].target.clone();
            ScriptOp::Refund { target, charged, amount: charged.cost }
        };
        let ops = self.charges_made(number).rev().map(op).collect();
        (ops, self.charges_made(number).map(|(index, _)| request.keys[index].clone()).collect())
    }
}

fn unpaid(answer: &call::Answer) -> u64 {
    match answer {
        call::Answer::Forced { unpaid } => *unpaid,
        _ => 0,
    }
}
