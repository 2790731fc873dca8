//! The answer to a batch, and what each of its requests takes from it.

use smallvec::SmallVec;
use tollgate_core::{Charged, Decision};

use super::request::SlotRequest;
use crate::call::{self, Line, Lines, Reply, Views};
use crate::script::{ReplayedBatch, replay, replay_unmade};
use crate::transport::{Cause, Executed, Trouble};

/// What a slot answered to all requests of a batch.
#[derive(Debug)]
pub(in crate::store) struct BatchAnswer {
    pub(in crate::store) replayed: ReplayedBatch,
    /// How many requests were asked for.
    pub(in crate::store) times: u32,
    /// How much of the debts did not fit.
    pub(super) unpaid: u64,
    /// The server's clock, in microseconds.
    pub(in crate::store) now: u64,
    /// What the slot's keys looked like before.
    pub(in crate::store) views: Views,
}

impl BatchAnswer {
    /// Reads the reply to a call that paid `forced` debts. A reply that makes no sense leaves it unknown whether the
    /// call was carried out.
    pub(super) fn read(
        request: &SlotRequest,
        times: u32,
        forced: usize,
        mut reply: Reply,
    ) -> Result<BatchAnswer, Trouble> {
        let nonsense = Trouble { cause: Cause::Protocol, executed: Executed::Unknown };
        let unpaid = reply.answers.iter().map(unpaid).fold(0, u64::saturating_add);
        let Some(call::Answer::Decided { passed, views }) = reply.answers.get_mut(forced) else { return Err(nonsense) };
        let replayed = replay(&request.charges, times, reply.now, *passed, views).map_err(|_| nonsense)?;
        Ok(BatchAnswer { replayed, times, unpaid, now: reply.now, views: std::mem::take(views) })
    }

    /// Whether a request passed in this slot.
    pub(super) fn passed(&self, number: u32) -> bool {
        number < self.replayed.passed()
    }

    /// What is said of a request's charges where they are not made after all, because another slot refused.
    pub(super) fn decisions_unmade(&self, request: &SlotRequest, number: u32) -> SmallVec<[Decision; 4]> {
        let unmade = self.passed(number).then(|| replay_unmade(&request.charges, self.now, &self.views, number));
        unmade.and_then(Result::ok).unwrap_or_else(|| self.replayed.decisions(number).into())
    }

    /// The charges that were made for a request, each with its place among the slot's charges.
    pub(super) fn made(&self, number: u32) -> impl DoubleEndedIterator<Item = (usize, Charged)> {
        let charged = self.replayed.charged(number).iter().enumerate();
        charged.filter_map(|(at, charged)| charged.map(|charged| (at, charged)))
    }

    /// The lines that give back what was made for a request, and the keys of the charges as they were given.
    pub(super) fn refund(&self, request: &SlotRequest, number: u32) -> (Lines, Vec<Box<[u8]>>) {
        // Last first: of the places in a queue only the last can be taken back.
        let line = |(at, charged): (usize, Charged)| {
            let target = request.charges[at].target.clone();
            Line::GiveBack { target, charged, amount: charged.cost }
        };
        let lines = self.made(number).rev().map(line).collect();
        (lines, self.made(number).map(|(at, _)| request.keys[at].clone()).collect())
    }
}

fn unpaid(answer: &call::Answer) -> u64 {
    match answer {
        call::Answer::Forced { unpaid } => *unpaid,
        _ => 0,
    }
}
