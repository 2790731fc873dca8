//! The cost of a request under a rule.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::MAX_AMOUNT;

use crate::compiled::identity::{IdentityId, IdentityTable, RequestValues};
use crate::compiled::matching::methods::{GET, HEAD};
use crate::compiled::path::normal::NormalPath;
use crate::compiled::path::pattern::PathPattern;
use crate::compiled::path::routes::RouteTable;
use crate::model::{Cost, CostSource, Paths};
use crate::request::Request;

/// A compiled cost.
#[derive(Clone, Debug)]
pub(crate) enum CompiledCost {
    FromRequest { max: u64 },
    Fixed(u64),
    Header { header: IdentityId, default: u64, max: u64 },
    Methods { costs: Vec<(Vec<u8>, u64)>, default: u64 },
    Paths(Arc<PathCosts>),
}

/// Costs by path pattern.
#[derive(Debug)]
pub(crate) struct PathCosts {
    patterns: RouteTable,
    /// The cost of each pattern, by the pattern's number.
    costs: Vec<u64>,
    default: u64,
}

impl PathCosts {
    fn compile(costs: &[(String, u64)], default: u64, paths: Paths) -> PathCosts {
        let patterns = RouteTable::of_texts(costs.iter().map(|(pattern, _)| (0, pattern.as_str())), paths);
        let by_text: HashMap<Vec<u8>, u64> =
            costs.iter().map(|(pattern, cost)| (PathPattern::read(pattern, paths).text, *cost)).collect();
        let costs = patterns.texts().map(|text| by_text.get(text).copied().unwrap_or(default)).collect();
        PathCosts { patterns, costs, default }
    }

    /// Returns the cost of one reading of a path: that of the most specific pattern that it matches.
    pub(crate) fn for_reading(&self, path: &NormalPath<'_>) -> u64 {
        let pattern = self.patterns.find(path).first().copied();
        pattern.and_then(|number| self.costs.get(number as usize)).copied().unwrap_or(self.default)
    }

    /// Returns the largest cost of these readings, so that no spelling of a path makes a request cheaper; the default
    /// if the path is unknown.
    pub(crate) fn largest<'v, 'a: 'v>(&self, readings: impl Iterator<Item = &'v NormalPath<'a>>) -> u64 {
        readings.map(|path| self.for_reading(path)).max().unwrap_or(self.default)
    }
}

impl CompiledCost {
    pub(crate) fn compile(cost: &Cost, identities: &mut IdentityTable) -> CompiledCost {
        // The largest amount as maximum means no maximum. Clamping to it would turn a cost above every limit into one
        // that fits the largest limit.
        let max = if cost.max >= MAX_AMOUNT { u64::MAX } else { cost.max.max(1) };
        match &cost.source {
            CostSource::OfTheRequest => CompiledCost::FromRequest { max },
            CostSource::Fixed(cost) | CostSource::Estimate(cost) => CompiledCost::Fixed(*cost),
            CostSource::Header { name, default } => {
                CompiledCost::Header { header: identities.header(name), default: *default, max }
            }
            CostSource::Methods { costs, default } => {
                let upper = |(method, cost): &(String, u64)| (method.to_ascii_uppercase().into_bytes(), *cost);
                CompiledCost::Methods { costs: costs.iter().map(upper).collect(), default: *default }
            }
            CostSource::Paths { costs, default } => {
                CompiledCost::Paths(Arc::new(PathCosts::compile(costs, *default, identities.paths)))
            }
        }
    }

    /// Whether the cost depends on the method.
    pub(crate) fn is_by_method(&self) -> bool {
        matches!(self, CompiledCost::Methods { .. })
    }

    /// Whether the cost depends on the path.
    pub(crate) fn is_by_path(&self) -> bool {
        matches!(self, CompiledCost::Paths(_))
    }

    /// Computes the cost of a request. A cost from the policy is used unchanged, a cost from the request is clamped
    /// between 1 and the rule's maximum. Without a maximum, a cost above 10^12 is above every limit and always refused.
    ///
    /// `method` is in upper case. `read_number` reads the value of a header as a number, if it is one. `path_cost`
    /// finds the largest cost of the path's readings.
    #[inline]
    pub(crate) fn compute(
        &self,
        request: &Request<'_>,
        method: &[u8],
        read_number: impl FnOnce(IdentityId) -> Option<u64>,
        path_cost: impl FnOnce(&PathCosts) -> u64,
    ) -> u64 {
        // A peek is charged nothing, whatever the rule's cost.
        if request.cost == 0 {
            return 0;
        }
        match self {
            CompiledCost::FromRequest { max } => request.cost.clamp(1, *max),
            CompiledCost::Fixed(cost) => *cost,
            CompiledCost::Header { header, default, max } => {
                read_number(*header).map_or(*default, |cost| cost.clamp(1, *max))
            }
            CompiledCost::Methods { costs, default } => {
                let cost_of = |method: &[u8]| costs.iter().find(|(known, _)| known == method).map(|(_, cost)| *cost);
                let is_like_get = method == HEAD && request.descriptor.is_none();
                cost_of(method).or_else(|| cost_of(GET).filter(|_| is_like_get)).unwrap_or(*default)
            }
            CompiledCost::Paths(costs) => path_cost(costs),
        }
    }

    /// Computes the cost of a request with these values.
    #[inline]
    pub(crate) fn for_values(&self, values: &RequestValues<'_>) -> u64 {
        let read_number = |header| parse_number(values.find_usable(header, None)?.text);
        self.compute(values.request, &values.method, read_number, |costs| costs.largest(values.all_readings()))
    }
}

/// Parses a number of digits only. A number beyond 64 bits becomes the largest of 64 bits, which is above every limit.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |number: u64, byte: &u8| number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    Some(text.iter().fold(0, digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_digits_only_is_parsed_and_saturates() {
        for (text, expected) in [
            ("5", Some(5)),
            ("007", Some(7)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1, 2", None),
            ("", None),
        ] {
            assert_eq!(parse_number(text.as_bytes()), expected, "{text}");
        }
    }
}
