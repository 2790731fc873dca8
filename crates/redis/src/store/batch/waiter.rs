//! A caller that waits for its part of a batch's answer, and owns the charges made for it.

use std::sync::Arc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tollgate_core::{Charged, Decision};

use super::Batch;
use super::answer::BatchAnswer;
use super::request::SlotRequest;
use crate::store::Inner;

/// One caller of a batch. If it is dropped before its charges are [committed](BatchWaiter::commit), they are refunded:
/// the caller has given up, or another slot has refused the request.
pub(in crate::store) struct BatchWaiter<'a> {
    store: &'a Arc<Inner>,
    batch: Arc<Batch>,
    index: u32,
    progress: WaiterProgress,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WaiterProgress {
    /// Its waker was just registered with the batch, so the first poll is pending and does not lock the batch.
    Registered,
    Waiting,
    /// Answered, with its number in the batch.
    Answered(u32),
    /// The call failed, or the deadline passed before the answer.
    Failed,
    /// Answered, and its charges are committed: they are not refunded on drop.
    Committed(u32),
}

impl<'a> BatchWaiter<'a> {
    pub(super) fn new(
        store: &'a Arc<Inner>,
        batch: Arc<Batch>,
        index: u32,
        progress: WaiterProgress,
    ) -> BatchWaiter<'a> {
        BatchWaiter { store, batch, index, progress }
    }

    /// Ready when there is an answer, or the deadline has passed. The first poll must follow the submission directly,
    /// in the same context.
    #[inline]
    pub(in crate::store) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        match self.progress {
            WaiterProgress::Registered => {
                self.progress = WaiterProgress::Waiting;
                return Poll::Pending;
            }
            WaiterProgress::Waiting => {
                let Poll::Ready(answered) = self.batch.poll(self.index, cx) else { return Poll::Pending };
                self.progress = answered.map_or(WaiterProgress::Failed, WaiterProgress::Answered);
            }
            WaiterProgress::Answered(_) | WaiterProgress::Failed | WaiterProgress::Committed(_) => {}
        }
        Poll::Ready(())
    }

    pub(in crate::store) fn request(&self) -> &SlotRequest {
        &self.batch.request
    }

    /// Returns whether the slot has replied in time. Only meaningful when [`poll`](BatchWaiter::poll) is ready.
    pub(in crate::store) fn has_reply(&self) -> bool {
        self.own_answer().is_some()
    }

    /// Returns whether the slot has replied that the request passes.
    pub(in crate::store) fn passes(&self) -> bool {
        self.own_answer().is_some_and(|(answer, number)| answer.passes(number))
    }

    /// Returns whether the slot has replied that the request is refused.
    pub(in crate::store) fn is_refused(&self) -> bool {
        self.own_answer().is_some_and(|(answer, number)| !answer.passes(number))
    }

    /// Returns the decisions of the charges; empty without an answer.
    pub(in crate::store) fn decisions(&self) -> &[Decision] {
        self.own_answer().map_or(&[], |(answer, number)| answer.replayed.decisions(number))
    }

    /// Returns the decisions of the charges if they are not made after all; empty without an answer.
    pub(in crate::store) fn decisions_uncharged(&self) -> SmallVec<[Decision; 4]> {
        self.own_answer().map(|(answer, number)| answer.decisions_uncharged(self.request(), number)).unwrap_or_default()
    }

    /// Commits the charges of a request that passed, so that they are not refunded on drop. Calls `on_charge` for each
    /// charge that was made, with its index among those of the slot.
    pub(in crate::store) fn commit(&mut self, mut on_charge: impl FnMut(&SlotRequest, usize, Charged)) {
        if let Some((answer, number)) = self.own_answer() {
            answer.charges_made(number).for_each(|(index, charged)| on_charge(self.request(), index, charged));
            self.progress = WaiterProgress::Committed(number);
        }
    }

    /// Returns the answer of the batch and the number of this request in it, if there is one.
    fn own_answer(&self) -> Option<(&BatchAnswer, u32)> {
        let (WaiterProgress::Answered(number) | WaiterProgress::Committed(number)) = self.progress else { return None };
        Some((self.batch.answer()?, number))
    }
}

impl Drop for BatchWaiter<'_> {
    fn drop(&mut self) {
        let number = match self.progress {
            WaiterProgress::Registered | WaiterProgress::Waiting => self.batch.leave(self.index),
            WaiterProgress::Answered(number) => Some(number),
            WaiterProgress::Failed | WaiterProgress::Committed(_) => None,
        };
        if let Some((answer, number)) = self.batch.answer().zip(number) {
            self.store.refund_charges(&self.batch.request, answer, number);
        }
    }
}
