//! The most that a quota lets pass, how long it refuses, and what may be owed.

use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick, most_admitted,
    most_admitted_unheld,
};

use super::Warned;
use crate::check::grants::{capacity, capacity_of};
use crate::model::{Cost, CostSource, Rule};

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
        /// In any span as long as the quota's period, where answers are held
        /// back or callers wait as they are told.
        in_period: Most,
        /// In the worst second, likewise.
        in_second: Most,
        /// In any span as long as the quota's period, where nothing waits.
        unheld_in_period: Most,
        /// In the worst second, likewise.
        unheld_in_second: Most,
        /// So many it holds: those that wait, and the one that departed last.
        places: u64,
        /// One of them waits for so long at most.
        longest_wait_ns: u64,
    },
    /// So many at once, however many in a span.
    AtOnce {
        /// So many.
        permits: u64,
        /// Beyond them so many that pass with a warning and hold no permit.
        warned: Option<Warned>,
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
    pub(super) fn of(quota: &Quota, warned: Option<Warned>, largest_cost: u64) -> Bound {
        let is_queue = quota.kind() == AlgorithmKind::LeakyQueue;
        // What leaves a queue leaves whole, and waits for its first unit only.
        let whole = if is_queue { largest_cost.saturating_sub(1) } else { 0 };
        let with_warned =
            |charged: u64, span_ns| Most { charged, warned: warned.map_or(0, |warned| most_warned(warned, span_ns)) };
        let most = |span_ns| Some(with_warned(most_admitted(quota, span_ns)?.saturating_add(whole), span_ns));
        let unheld = |span_ns| Some(with_warned(most_admitted_unheld(quota, span_ns)?, span_ns));
        let period_ns = quota.period_ns();
        match (most(period_ns), most(S_NS), unheld(period_ns), unheld(S_NS)) {
            (Some(in_period), Some(in_second), Some(unheld_in_period), Some(unheld_in_second)) if is_queue => {
                let (places, longest_wait_ns) = waiting(quota);
                Bound::Queue { in_period, in_second, unheld_in_period, unheld_in_second, places, longest_wait_ns }
            }
            (Some(in_period), Some(in_second), ..) => Bound::Spans { in_period, in_second },
            _ => Bound::AtOnce { permits: quota.amount(), warned, lease_ns: lease_ns(quota) },
        }
    }
}

/// A warning is given if, together with the violations of the span that ends
/// with it, it is among the first. So a span of that length has at most as
/// many, and a longer one is covered by several.
fn most_warned(warned: Warned, span_ns: u64) -> u64 {
    warned.first.saturating_mul(span_ns.div_ceil(warned.within_ns.max(1)))
}

/// How many a queue holds, and the longest that one of them waits: it is full
/// when its places are taken, or when the next would wait too long.
fn waiting(quota: &Quota) -> (u64, u64) {
    // The first of them departs at once.
    let waiting = u128::from(quota.queue_size().saturating_sub(1));
    let all_places_ns = (waiting * u128::from(quota.period_ns())).div_ceil(quota.amount().into());
    (capacity_of(quota), u64::try_from(all_places_ns).unwrap_or(u64::MAX).min(quota.ahead_ns()))
}

fn lease_ns(quota: &Quota) -> Option<u64> {
    (quota.period_ns() < tollgate_core::MAX_SPAN_NS).then(|| quota.period_ns())
}

/// How long a request of this cost can be refused, perhaps where all is owed that may be: asked of the algorithm
/// itself, right after everything was spent at the worst moment, which is the start of a window.
pub(super) fn longest_refusal_ns(quota: &Quota, cost: u64, is_owing: bool) -> Option<u64> {
    let at_ns = quota.period_ns();
    let tick = Tick::Nanosecond;
    match quota.kind() {
        AlgorithmKind::FixedWindow => refusal_ns(&FixedWindow::new(quota, tick)?, at_ns, cost, is_owing),
        AlgorithmKind::SlidingWindowCounter => refusal_ns(&SlidingCounter::new(quota, tick)?, at_ns, cost, is_owing),
        AlgorithmKind::SlidingWindowLog => refusal_ns(&SlidingLog::new(quota, tick)?, at_ns, cost, is_owing),
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
            let bucket = Bucket::new(quota, tick)?;
            if is_owing {
                return refusal_ns(&bucket, at_ns, cost, is_owing);
            }
            // Of one in which nothing remains, all that it costs must come back.
            let price = bucket.span_of(cost)?;
            Some(price.ticks.saturating_add(u64::from(price.part > 0)))
        }
        AlgorithmKind::Concurrency => None,
    }
}

fn refusal_ns<A: Algorithm>(algorithm: &A, at_ns: u64, cost: u64, is_owing: bool) -> Option<u64> {
    let mut state = A::State::default();
    if is_owing {
        algorithm.owe(&mut state, at_ns, u64::MAX);
    } else {
        let limit = algorithm.look(&state, at_ns, 0).limit;
        algorithm.force(&mut state, at_ns, limit);
    }
    algorithm.look(&state, at_ns, cost).retry_after()
}

/// What may be owed, where costs can be settled above their estimate.
///
/// Whatever is settled, no more than this is charged in any span: the bound of
/// the limit, and once the debt. What cannot even be owed is lost, and each
/// request that was under way when the key ran empty can add to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// So much at most.
    pub most: u64,
    /// The most that is charged in any span as long as the quota's period.
    pub charged_in_period: u64,
    /// How long a request can be refused where all of it is owed.
    pub longest_refusal_ns: Option<u64>,
}

impl Debt {
    /// What a request of `cost` has to reckon with under a quota of a rule.
    pub(super) fn of(rule: &Rule, quota: &Quota, cost: u64) -> Option<Debt> {
        let is_settled = match rule.cost.source {
            CostSource::Estimate(_) => true,
            // A caller that names a cost may settle it, but most never do: told where the rule speaks of it.
            CostSource::OfTheRequest => !quota.owes_by_default(),
            _ => false,
        };
        if !is_settled || quota.kind() == AlgorithmKind::Concurrency {
            return None;
        }
        Some(Debt {
            most: quota.max_debt(),
            charged_in_period: most_admitted(quota, quota.period_ns())?.saturating_add(quota.max_debt()),
            longest_refusal_ns: longest_refusal_ns(quota, cost, true),
        })
    }
}

/// The costs of requests that one grant is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Costs {
    /// The largest that can be admitted; `None` if none can.
    pub(super) largest_admitted: Option<u64>,
    /// The largest that all of its quotas can ever hold, if the rule can charge more than that.
    pub(super) never_above: Option<u64>,
}

impl Costs {
    pub(super) fn of(cost: &Cost, quotas: &[Quota]) -> Costs {
        let capacity = capacity(quotas);
        let among = |costs: &mut dyn Iterator<Item = u64>| {
            let (mut largest_admitted, mut is_above) = (None, false);
            for cost in costs {
                is_above |= cost > capacity;
                largest_admitted = largest_admitted.max((cost <= capacity).then_some(cost.max(1)));
            }
            Costs { largest_admitted, never_above: is_above.then_some(capacity) }
        };
        match &cost.source {
            // What a caller says is the caller's affair: the figures are those of requests that cost 1.
            CostSource::OfTheRequest => Costs { largest_admitted: Some(1), never_above: None },
            CostSource::Fixed(cost) | CostSource::Estimate(cost) => among(&mut [*cost].into_iter()),
            CostSource::Methods { costs, default } => among(&mut costs.iter().map(|(_, cost)| *cost).chain([*default])),
            // A client can say any number up to `max`.
            CostSource::Header { default, .. } => among(&mut [cost.max.min(capacity), cost.max, *default].into_iter()),
        }
    }
}
