//! What an answer tells of its keys for later: those that are full are remembered.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_store::{Mode, Refusals};

use super::answer::BatchAnswer;
use super::request::SlotRequest;
use crate::script::{Standing, standings};
use crate::store::Inner;
use crate::store::breaker::shards::Watch;
use crate::store::refusals::Full;

impl Inner {
    /// Remembers what the answer tells of its keys. After a refusal, keys that nothing can be charged to stay as they
    /// are.
    pub(super) fn remember(
        &self,
        request: &SlotRequest,
        answer: &BatchAnswer,
        watch: &Watch,
        sent_at: Instant,
        heard_at: Instant,
    ) {
        if !self.settings.remembers_refusals {
            return;
        }
        let passed = answer.replayed.passed();
        let is_refused = passed < answer.times;
        // Of what comes too late, the age is not known well enough.
        let known = (is_refused && heard_at <= watch.deadline)
            .then(|| standings(&request.charges, answer.now, passed, &answer.views))
            .flatten()
            .unwrap_or_default();
        for (at, (charge, key)) in request.charges.iter().zip(&request.keys).enumerate() {
            // Where a key is charged twice, each stands in the other's way.
            let is_alone = request.charges.iter().filter(|other| other.target.key == charge.target.key).count() == 1;
            let full = known.get(at).filter(|standing| is_alone && !standing.is_large()).and_then(|standing| {
                let lasts = self.lasts(request, at, &known, answer.now)?;
                Some(Full { standing: standing.clone(), at_us: answer.now, sent_at, heard_at, lasts })
            });
            let is_changed = passed > 0 && (charge.is_made() || charge.is_shadow());
            if is_refused || is_changed {
                self.refusals.replace(&charge.target.limit, key, full, heard_at);
            }
        }
    }

    /// How long nothing can be charged to a key: because it is full, or because all guards before it refuse.
    fn lasts(&self, request: &SlotRequest, at: usize, known: &[Standing], now_us: u64) -> Option<Duration> {
        let is_full_for = |at: usize| known[at].is_full_for(&request.charges[at].target.limit, now_us);
        let charge = &request.charges[at];
        let mut lasts_us = is_full_for(at);
        if charge.target.limit.options().refusals == Refusals::Guarded && charge.cost > 0 {
            let is_guard = |other: &usize| {
                let guard = &request.charges[*other];
                let is_final = guard.target.limit.options().refusals == Refusals::Final;
                is_final && request.keys[*other] == request.keys[at] && guard.mode == Mode::Guard
            };
            // `None` is less than any time, so a guard that lets pass is the shortest.
            let guarded_us = (0..known.len()).filter(is_guard).map(is_full_for).min().flatten();
            lasts_us = lasts_us.max(guarded_us);
        }
        lasts_us.map(Duration::from_micros)
    }
}
