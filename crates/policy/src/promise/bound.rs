//! The most that a quota admits, how long it refuses, and the debt that it allows.

use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick, max_admitted,
    max_admitted_without_delays,
};

use super::Warned;
use crate::check::grants::{capacity, capacity_of};
use crate::model::{Cost, CostSource, Rule};

const S_NS: u64 = 1_000_000_000;

/// The most that a quota admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionBound {
    /// A bound for any span of time.
    Spans {
        /// The most in any span as long as the quota's period.
        in_period: MostAdmitted,
        /// The most in any second.
        in_second: MostAdmitted,
    },
    /// A bound for the departures from a queue.
    Queue {
        /// The most in any span as long as the quota's period, if responses are delayed or callers wait as instructed.
        in_period: MostAdmitted,
        /// The most in any second, likewise.
        in_second: MostAdmitted,
        /// The most in any span as long as the quota's period, if nothing waits.
        unheld_in_period: MostAdmitted,
        /// The most in any second, likewise.
        unheld_in_second: MostAdmitted,
        /// The number of requests in the queue: those that wait, and the one that departed last.
        places: u64,
        /// The longest time that one of them waits.
        longest_wait_ns: u64,
    },
    /// A bound for requests in flight, not for a span of time.
    AtOnce {
        /// The number of permits.
        permits: u64,
        /// The requests above the limit that pass with a warning and hold no permit.
        warned: Option<Warned>,
        /// The time after which a permit that is not released expires; `None` for never.
        lease_ns: Option<u64>,
    },
}

/// The most that passes in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MostAdmitted {
    /// The cost of the requests within the limit.
    pub charged: u64,
    /// The number of requests above the limit that pass with a warning, uncharged.
    pub warned: u64,
}

impl MostAdmitted {
    /// Returns the sum of both. It is meaningful only if requests are counted, because the cost of a warned request is not
    /// limited.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.charged.saturating_add(self.warned)
    }
}

impl AdmissionBound {
    pub(super) fn of(quota: &Quota, warned: Option<Warned>, largest_cost: u64) -> AdmissionBound {
        let is_queue = quota.kind() == AlgorithmKind::LeakyQueue;
        // A request leaves a queue with its whole cost, and waits for the first unit only.
        let whole = if is_queue { largest_cost.saturating_sub(1) } else { 0 };
        let with_warned = |charged: u64, span_ns| MostAdmitted {
            charged,
            warned: warned.map_or(0, |warned| most_warned(warned, span_ns)),
        };
        let most = |span_ns| Some(with_warned(max_admitted(quota, span_ns)?.saturating_add(whole), span_ns));
        let unheld = |span_ns| Some(with_warned(max_admitted_without_delays(quota, span_ns)?, span_ns));
        let period_ns = quota.period_ns();
        match (most(period_ns), most(S_NS), unheld(period_ns), unheld(S_NS)) {
            (Some(in_period), Some(in_second), Some(unheld_in_period), Some(unheld_in_second)) if is_queue => {
                let (places, longest_wait_ns) = waiting(quota);
                AdmissionBound::Queue {
                    in_period,
                    in_second,
                    unheld_in_period,
                    unheld_in_second,
                    places,
                    longest_wait_ns,
                }
            }
            (Some(in_period), Some(in_second), ..) => AdmissionBound::Spans { in_period, in_second },
            _ => AdmissionBound::AtOnce { permits: quota.amount(), warned, lease_ns: lease_ns(quota) },
        }
    }
}

/// Returns the most requests that pass with a warning in a span.
///
/// A violation passes with a warning if it is among the first of the span that ends with it. So a span of that length
/// has at most `first` warnings, and a longer span is covered by several.
fn most_warned(warned: Warned, span_ns: u64) -> u64 {
    warned.first.saturating_mul(span_ns.div_ceil(warned.within_ns.max(1)))
}

/// Returns the number of requests in a queue, and the longest time that one of them waits. A queue is full when its
/// positions are taken, or when the next request would wait too long.
fn waiting(quota: &Quota) -> (u64, u64) {
    // The first request departs at once.
    let waiting = u128::from(quota.queue_size().saturating_sub(1));
    let whole_queue_ns = (waiting * u128::from(quota.period_ns())).div_ceil(quota.amount().into());
    (capacity_of(quota), u64::try_from(whole_queue_ns).unwrap_or(u64::MAX).min(quota.ahead_ns()))
}

fn lease_ns(quota: &Quota) -> Option<u64> {
    (quota.period_ns() < tollgate_core::MAX_SPAN_NS).then(|| quota.period_ns())
}

/// Returns how long a request of this cost can be refused, under full debt if `is_owing`. The algorithm itself computes
/// it, for a limit that was used up at the worst time, the start of a window.
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
            // An empty bucket must refill by the whole cost.
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
        let limit = algorithm.peek(&state, at_ns, 0).limit;
        algorithm.force(&mut state, at_ns, limit);
    }
    algorithm.peek(&state, at_ns, cost).retry_after()
}

/// The debt of a key, if costs can be settled above their estimate.
///
/// Whatever costs are settled, at most the bound of the limit plus the debt is charged in any span. Cost beyond the debt
/// is charged to no key, and each request that was in flight when the limit was used up can add to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebtBound {
    /// The largest debt.
    pub most: u64,
    /// The most that is charged in any span as long as the quota's period.
    pub charged_in_period: u64,
    /// The longest time for which a request can be refused under full debt.
    pub longest_refusal_ns: Option<u64>,
}

impl DebtBound {
    /// Returns the debt under a quota of a rule, as it affects a request of `cost`.
    pub(super) fn of(rule: &Rule, quota: &Quota, cost: u64) -> Option<DebtBound> {
        let is_settled = match rule.cost.source {
            CostSource::Estimate(_) => true,
            // A caller that states a cost may settle it, but most never do. It is shown only if the rule sets `max_debt`.
            CostSource::OfTheRequest => !quota.has_default_max_debt(),
            _ => false,
        };
        if !is_settled || quota.kind() == AlgorithmKind::Concurrency {
            return None;
        }
        Some(DebtBound {
            most: quota.max_debt(),
            charged_in_period: max_admitted(quota, quota.period_ns())?.saturating_add(quota.max_debt()),
            longest_refusal_ns: longest_refusal_ns(quota, cost, true),
        })
    }
}

/// The costs that are charged to one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Costs {
    /// The largest cost that can be admitted; `None` if none can.
    pub(super) largest_admitted: Option<u64>,
    /// The largest cost that all quotas can ever allow, if the rule can charge more than that.
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
            // The costs that callers state are unknown: the figures are those of requests that cost 1.
            CostSource::OfTheRequest => Costs { largest_admitted: Some(1), never_above: None },
            CostSource::Fixed(cost) | CostSource::Estimate(cost) => among(&mut [*cost].into_iter()),
            CostSource::Methods { costs, default } | CostSource::Paths { costs, default } => {
                among(&mut costs.iter().map(|(_, cost)| *cost).chain([*default]))
            }
            // A client can state any cost up to `max`.
            CostSource::Header { default, .. } => among(&mut [cost.max.min(capacity), cost.max, *default].into_iter()),
        }
    }
}
