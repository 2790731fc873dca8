//! What requests can cost under a rule, as far as its figures depend on it.

use tollgate_core::Quota;

use crate::check::capacity;
use crate::model::{Cost, CostSource};

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
        let capacity = quotas.iter().map(capacity::of_quota).min().unwrap_or(u64::MAX);
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
