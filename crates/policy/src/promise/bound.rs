use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, BucketState, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick, most_admitted,
};

use super::Warned;

const S_NS: u64 = 1_000_000_000;

/// The most that a quota lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// So much in any span.
    Spans {
        /// In any span as long as the quota's period.
        in_period: Most,
        /// In the worst second.
        in_second: Most,
    },
    /// So much leaves a queue in any span.
    Queue {
        /// In any span as long as the quota's period.
        in_period: Most,
        /// In the worst second.
        in_second: Most,
        /// So many can wait at once.
        places: u64,
        /// For so long at most.
        longest_wait_ns: u64,
    },
    /// So many at once, however many in a span.
    AtOnce {
        /// So many.
        permits: u64,
        /// One that is never released counts for so long; `None` for ever.
        lease_ns: Option<u64>,
    },
}

/// The most that passes in some span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Within the limit.
    pub charged: u64,
    /// Beyond it, with a warning and uncharged.
    pub warned: u64,
}

impl Most {
    /// Both together. They can be added where requests are counted; a warned
    /// request's cost is not limited.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.charged.saturating_add(self.warned)
    }
}

impl Bound {
    pub(super) fn of(quota: &Quota, warned: Option<Warned>) -> Bound {
        let most = |span_ns| {
            let charged = most_admitted(quota, span_ns)?;
            Some(Most { charged, warned: warned.map_or(0, |warned| most_warned(warned, span_ns)) })
        };
        match (quota.kind(), most(quota.period_ns()), most(S_NS)) {
            (AlgorithmKind::LeakyQueue, Some(in_period), Some(in_second)) => {
                let (places, longest_wait_ns) = waiting(quota);
                Bound::Queue { in_period, in_second, places, longest_wait_ns }
            }
            (_, Some(in_period), Some(in_second)) => Bound::Spans { in_period, in_second },
            _ => Bound::AtOnce { permits: quota.amount(), lease_ns: lease_ns(quota) },
        }
    }
}

/// A warning is given if, together with the violations of the span that ends
/// with it, it is among the first. So a span of that length has at most as
/// many, and a longer one is covered by several.
fn most_warned(warned: Warned, span_ns: u64) -> u64 {
    warned.first.saturating_mul(span_ns.div_ceil(warned.within_ns.max(1)))
}

/// How many can wait, and the longest that one of them does: a queue is full
/// when its places are taken, or when the next would wait too long.
fn waiting(quota: &Quota) -> (u64, u64) {
    let look = |bucket: Bucket| bucket.look(&BucketState::default(), 0, 0).limit;
    // One more is on its way at once.
    let places = Bucket::new(quota, Tick::Nanosecond).map_or(0, look).saturating_sub(1);
    let all_places_ns =
        (u128::from(quota.queue_size()) * u128::from(quota.period_ns())).div_ceil(quota.amount().into());
    (places, saturated(all_places_ns).min(quota.ahead_ns()))
}

fn lease_ns(quota: &Quota) -> Option<u64> {
    (quota.period_ns() < tollgate_core::MAX_SPAN_NS).then(|| quota.period_ns())
}

/// How long a request of this cost can be refused: asked of the algorithm
/// itself, right after everything was spent at the worst moment, which is the
/// start of a window.
pub(super) fn longest_refusal_ns(quota: &Quota, cost: u64) -> Option<u64> {
    fn ask<A: Algorithm>(algorithm: &A, at_ns: u64, cost: u64) -> Option<u64> {
        let mut state = A::State::default();
        algorithm.force(&mut state, at_ns, u64::MAX);
        algorithm.look(&state, at_ns, cost).retry_after()
    }
    let at_ns = quota.period_ns();
    match quota.kind() {
        AlgorithmKind::FixedWindow => ask(&FixedWindow::new(quota, Tick::Nanosecond)?, at_ns, cost),
        AlgorithmKind::SlidingWindowCounter => ask(&SlidingCounter::new(quota, Tick::Nanosecond)?, at_ns, cost),
        AlgorithmKind::SlidingWindowLog => ask(&SlidingLog::new(quota, Tick::Nanosecond)?, at_ns, cost),
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
            ask(&Bucket::new(quota, Tick::Nanosecond)?, at_ns, cost)
        }
        AlgorithmKind::Concurrency => None,
    }
}

fn saturated(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}
