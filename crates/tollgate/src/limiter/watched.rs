//! Decisions that somebody looks at, for those who tell which clients meet their limits.

use tollgate_policy::{Matched, Request};
use tollgate_store::Store;

use super::admit::Asking;
use super::{AskedTogether, Limiter, Together};
use crate::permit::Permit;
use crate::verdict::Verdict;

/// A limiter whose next decision somebody looks at, together with what the
/// request met: the keys in it are gone once the verdict is returned, so that
/// a verdict is small and says nothing of who asked.
#[must_use]
pub struct Watched<'a, S: Store, W> {
    limiter: &'a Limiter<S>,
    watch: W,
}

impl<S: Store> Limiter<S> {
    /// Shows the next decision to `watch`, before it is returned.
    pub fn watched<W: FnOnce(&Verdict, &Matched<'_>)>(&self, watch: W) -> Watched<'_, S, W> {
        Watched { limiter: self, watch }
    }
}

impl<S: Store, W: FnOnce(&Verdict, &Matched<'_>)> Watched<'_, S, W> {
    /// Like [`Limiter::decide`].
    pub async fn decide(self, request: &Request<'_>) -> Verdict {
        self.limiter.ask_watched(request, Asking::Check, self.watch).await.0
    }

    /// Like [`Limiter::admit`].
    pub async fn admit(self, request: &Request<'_>) -> (Verdict, Option<Permit<S>>) {
        self.admitted(request, Asking::Admit).await
    }

    /// Like [`Limiter::admit_rates`].
    pub async fn admit_rates(self, request: &Request<'_>) -> (Verdict, Option<Permit<S>>) {
        self.admitted(request, Asking::AdmitRates).await
    }

    /// Like [`Limiter::decide_together`]. What is shown is the answer to all of them as one.
    pub async fn decide_together(self, asked: &[AskedTogether<'_, S::Limit>]) -> Together {
        self.limiter.ask_together(asked, self.watch).await
    }

    async fn admitted(self, request: &Request<'_>, asking: Asking) -> (Verdict, Option<Permit<S>>) {
        let (verdict, receipt) = self.limiter.ask_watched(request, asking, self.watch).await;
        let permit = verdict.is_allowed().then(|| Permit::new(self.limiter.clone(), receipt));
        (verdict, permit)
    }
}
