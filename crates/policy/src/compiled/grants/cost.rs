//! What a request costs under a rule.

use tollgate_core::MAX_AMOUNT;

use crate::compiled::identity::{Identities, IdentityId, RequestValues};
use crate::compiled::matching::methods::{GET, HEAD};
use crate::model::{Cost, CostSource};
use crate::request::Request;

/// A compiled cost.
#[derive(Clone, Debug)]
pub(crate) enum CompiledCost {
    OfTheRequest { max: u64 },
    Fixed(u64),
    Header { header: IdentityId, default: u64, max: u64 },
    Methods { costs: Vec<(Vec<u8>, u64)>, default: u64 },
}

impl CompiledCost {
    pub(crate) fn compile(cost: &Cost, identities: &mut Identities) -> CompiledCost {
        // A maximum of the largest amount is none. As a clamp it would make a cost above every limit
        // one that fits the largest.
        let max = if cost.max >= MAX_AMOUNT { u64::MAX } else { cost.max.max(1) };
        match &cost.source {
            CostSource::OfTheRequest => CompiledCost::OfTheRequest { max },
            CostSource::Fixed(cost) | CostSource::Estimate(cost) => CompiledCost::Fixed(*cost),
            CostSource::Header { name, default } => {
                CompiledCost::Header { header: identities.header(name), default: *default, max }
            }
            CostSource::Methods { costs, default } => {
                let upper = |(method, cost): &(String, u64)| (method.to_ascii_uppercase().into_bytes(), *cost);
                CompiledCost::Methods { costs: costs.iter().map(upper).collect(), default: *default }
            }
        }
    }

    /// Whether it depends on the method.
    pub(crate) fn is_by_method(&self) -> bool {
        matches!(self, CompiledCost::Methods { .. })
    }

    /// What the policy says is taken as it is, what a request says only between 1 and the rule's
    /// maximum. Without a maximum, a cost above 10^12 is above every limit and refused for good.
    ///
    /// `method` is in upper case. `read_number` reads the number in a header, if it is one.
    #[inline]
    pub(crate) fn of(
        &self,
        request: &Request<'_>,
        method: &[u8],
        read_number: impl FnOnce(IdentityId) -> Option<u64>,
    ) -> u64 {
        // A request that only asks is charged nothing, whatever a rule says.
        if request.cost == 0 {
            return 0;
        }
        match self {
            CompiledCost::OfTheRequest { max } => request.cost.clamp(1, *max),
            CompiledCost::Fixed(cost) => *cost,
            CompiledCost::Header { header, default, max } => {
                read_number(*header).map_or(*default, |cost| cost.clamp(1, *max))
            }
            CompiledCost::Methods { costs, default } => {
                let cost_of = |method: &[u8]| costs.iter().find(|(known, _)| known == method).map(|(_, cost)| *cost);
                let is_like_get = method == HEAD && request.descriptor.is_none();
                cost_of(method).or_else(|| cost_of(GET).filter(|_| is_like_get)).unwrap_or(*default)
            }
        }
    }

    /// The cost of a request with these values.
    #[inline]
    pub(crate) fn of_values(&self, values: &RequestValues<'_>) -> u64 {
        let read_number = |header| number(values.find_usable(header, None)?.text);
        self.of(values.request, &values.method, read_number)
    }
}

/// Digits only. A number beyond 64 bits is the largest of 64 bits, which is above every limit.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
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
    fn only_digits_are_a_number() {
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
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }
}
