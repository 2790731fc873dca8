//! What becomes of those who go on beyond a limit: warned, rejected, blocked.

use smallvec::SmallVec;
use tollgate_core::{Decision, Verdict};
use tollgate_policy::{Matched, MatchedCharge};
use tollgate_store::{KeyedCharge, Mode, Store};

use super::Limiter;
use super::active::Active;
use super::admit::Asking;

/// What a violation leads to.
pub(super) enum Step {
    Warn,
    Reject,
    Block { for_ns: u64 },
}

impl<S: Store> Limiter<S> {
    /// Counts one violation of the rule of `charge`, and says what it leads to.
    pub(super) async fn violation(
        &self,
        active: &Active<S::Limit>,
        matched: &Matched<'_>,
        charge: &MatchedCharge,
        asking: Asking,
    ) -> Step {
        let Some(graduated) = &active.graduated[charge.rule as usize] else { return Step::Reject };
        let Some(violations) = &graduated.violations else { return Step::Reject };
        let key = matched.key(charge);
        let mode = if asking == Asking::Look { Mode::Guard } else { Mode::Enforce };
        let charge = |limit| KeyedCharge { limit, key, cost: 1, mode, receipt: false };
        let charges: SmallVec<[_; 2]> =
            [Some(violations), graduated.pace.as_ref()].into_iter().flatten().map(charge).collect();
        let outcome = self.shared.store.decide(&charges).await;
        if graduated.pace.is_some() && !outcome.passed {
            // As many as are warned came a moment ago.
            return Step::Reject;
        }
        let counted = outcome.decisions[0];
        match (counted.verdict, &graduated.block) {
            (Verdict::Allowed { .. }, _) => {
                // One that is only looked at is not among those that were counted.
                let looked = u64::from(mode == Mode::Guard);
                let so_many = counted.limit - counted.remaining + looked;
                if so_many <= graduated.warn_first { Step::Warn } else { Step::Reject }
            }
            (Verdict::Refused { .. }, Some(block)) => {
                let begun = self.one(block, key, mode).await;
                // Somebody else may have begun it a moment ago.
                Step::Block { for_ns: begun.retry_after().unwrap_or(graduated.block_ns) }
            }
            _ => Step::Reject,
        }
    }

    async fn one(&self, limit: &S::Limit, key: &[u8], mode: Mode) -> Decision {
        let charge = KeyedCharge { limit, key, cost: 1, mode, receipt: false };
        self.shared.store.decide(&[charge]).await.decisions[0]
    }
}
