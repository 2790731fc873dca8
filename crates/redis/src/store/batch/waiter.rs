//! A caller that waits for its part of a batch's answer, and answers for what was charged for it.

use std::sync::Arc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tollgate_core::{Charged, Decision};

use super::Batch;
use super::answer::BatchAnswer;
use super::request::SlotRequest;
use crate::store::Inner;

/// One caller of a batch. Dropped before it has [kept](Waiter::keep) what was charged for it, it gives that back: its
/// caller has given up, or another slot has refused the request.
pub(in crate::store) struct Waiter<'a> {
    store: &'a Arc<Inner>,
    batch: Arc<Batch>,
    index: u32,
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Progress {
    /// It waits, and is woken by what ends that: it need not look at first.
    Asked,
    Waiting,
    /// Answered, under this number.
    Answered(u32),
    /// Without an answer.
    Failed,
    /// The same, and what was charged stays.
    Kept(u32),
}

impl<'a> Waiter<'a> {
    pub(super) fn new(store: &'a Arc<Inner>, batch: Arc<Batch>, index: u32, progress: Progress) -> Waiter<'a> {
        Waiter { store, batch, index, progress }
    }

    /// Ready when there is an answer, or the deadline has passed. It is polled for the first time right after it was
    /// asked for, in the same context.
    #[inline]
    pub(in crate::store) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        match self.progress {
            Progress::Asked => {
                self.progress = Progress::Waiting;
                return Poll::Pending;
            }
            Progress::Waiting => {
                let Poll::Ready(answered) = self.batch.poll(self.index, cx) else { return Poll::Pending };
                self.progress = answered.map_or(Progress::Failed, Progress::Answered);
            }
            Progress::Answered(_) | Progress::Failed | Progress::Kept(_) => {}
        }
        Poll::Ready(())
    }

    pub(in crate::store) fn request(&self) -> &SlotRequest {
        &self.batch.request
    }

    /// Whether the request passed in this slot; `None` without an answer.
    pub(in crate::store) fn passed(&self) -> Option<bool> {
        self.answered().map(|(answer, number)| answer.passed(number))
    }

    /// What is said of the charges; nothing without an answer.
    pub(in crate::store) fn decisions(&self) -> &[Decision] {
        self.answered().map_or(&[], |(answer, number)| answer.replayed.decisions(number))
    }

    /// What is said of the charges where they are not made after all; nothing without an answer.
    pub(in crate::store) fn decisions_unmade(&self) -> SmallVec<[Decision; 4]> {
        self.answered().map(|(answer, number)| answer.decisions_unmade(self.request(), number)).unwrap_or_default()
    }

    /// The request passed: what was charged stays. `made` hears of each charge, with its place among the slot's.
    pub(in crate::store) fn keep(&mut self, mut made: impl FnMut(&SlotRequest, usize, Charged)) {
        if let Some((answer, number)) = self.answered() {
            answer.made(number).for_each(|(at, charged)| made(self.request(), at, charged));
            self.progress = Progress::Kept(number);
        }
    }

    fn answered(&self) -> Option<(&BatchAnswer, u32)> {
        let (Progress::Answered(number) | Progress::Kept(number)) = self.progress else { return None };
        Some((self.batch.answer()?, number))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let number = match self.progress {
            Progress::Asked | Progress::Waiting => self.batch.leave(self.index),
            Progress::Answered(number) => Some(number),
            Progress::Failed | Progress::Kept(_) => None,
        };
        if let Some((answer, number)) = self.batch.answer().zip(number) {
            self.store.refund_made(&self.batch.request, answer, number);
        }
    }
}
