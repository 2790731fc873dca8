//! Charges that somebody must either keep or give back.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Charged;

use super::Inner;
use super::planted::Planted;
use super::question::Question;
use crate::call::Line;
use crate::transport::Transport;

/// Charges in one slot that were made for a request whose whole is not decided
/// yet. Whoever drops them gives them back: a caller that gave up, an answer
/// that nobody waits for any more, a request that another slot refused.
pub(super) struct Made<T: Transport> {
    store: Arc<Inner<T>>,
    /// Who they are, for the few that somebody has to name again.
    question: Arc<Question>,
    charges: SmallVec<[MadeCharge; 4]>,
    is_kept: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MadeCharge {
    /// Which of the slot's charges it is.
    pub(super) at: usize,
    pub(super) charged: Charged,
}

impl<T: Transport> Made<T> {
    pub(super) fn new(store: Arc<Inner<T>>, question: Arc<Question>, charges: SmallVec<[MadeCharge; 4]>) -> Made<T> {
        Made { store, question, charges, is_kept: false }
    }

    /// The whole passed.
    pub(super) fn keep(mut self) -> SmallVec<[MadeCharge; 4]> {
        self.is_kept = true;
        std::mem::take(&mut self.charges)
    }

    /// Nobody waits for it any more.
    pub(super) fn came_too_late(self) {
        if self.store.is_planted(Planted::KeepLateCharge) {
            self.keep();
        }
    }

    /// Another slot refused.
    pub(super) fn was_in_vain(self) {
        if self.store.is_planted(Planted::ForgetRefund) {
            self.keep();
        }
    }
}

impl<T: Transport> Drop for Made<T> {
    fn drop(&mut self) {
        if !self.is_kept && !self.charges.is_empty() {
            let charges = std::mem::take(&mut self.charges);
            self.store.take_back(&self.question, &charges);
        }
    }
}

impl MadeCharge {
    pub(super) fn back(&self, question: &Question) -> Line {
        let target = question.charges[self.at].target.clone();
        Line::GiveBack { target, charged: self.charged, amount: self.charged.cost }
    }
}
