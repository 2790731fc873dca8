use tollgate_core::MAX_AMOUNT;

use super::Reader;
use super::identity::TOKEN;
use super::members::Members;
use super::rule::AMOUNT;
use crate::check::codes;
use crate::model::{Cost, CostSource};
use crate::yaml::schema::{Field, Kind, Shape, defaulted, field, required, shape};
use crate::yaml::tree::Node;

pub(super) static COST: [Kind; 4] =
    [AMOUNT, Kind::Object(&COST_HEADER), Kind::Object(&COST_METHOD), Kind::Object(&COST_ESTIMATE)];

const COST_MAX: Field = field("max", AMOUNT, "The most that it counts.");

pub(super) static COST_HEADER: Shape = shape(
    "cost_header",
    "A cost that a request header tells.",
    &[
        required("header", Kind::Pattern(TOKEN), "The request header with the number."),
        COST_MAX,
        defaulted("default", AMOUNT, "Where the header is absent or no number.", "1"),
    ],
);

pub(super) static COST_METHOD: Shape = shape(
    "cost_method",
    "A cost by method.",
    &[
        required("method", Kind::Map(&AMOUNT), "Methods and their costs."),
        defaulted("default", AMOUNT, "For every other method.", "1"),
    ],
);

pub(super) static COST_ESTIMATE: Shape = shape(
    "cost_estimate",
    "A cost that is known only after the response: a guess, settled later.",
    &[
        required("estimate", AMOUNT, "What is charged at first."),
        field("settle", Kind::Pattern(TOKEN), "The response header that tells the true cost."),
        COST_MAX,
    ],
);

impl Reader<'_> {
    pub(super) fn cost(&mut self, node: &Node) -> Option<Cost> {
        if node.scalar().is_some() {
            let source = CostSource::Fixed(self.number(node, 1..=MAX_AMOUNT)?);
            return Some(Cost { source, ..Cost::default() });
        }
        if node.member("header").is_some() {
            return self.cost_header(node);
        }
        if node.member("method").is_some() {
            return self.cost_method(node);
        }
        if node.member("estimate").is_some() {
            return self.cost_estimate(node);
        }
        let message =
            format!("expected a number or a map with `header`, `method` or `estimate`, found {}", node.described());
        let hint = "for example `cost: 5`, or `cost: { header: X-Cost, max: 100 }`";
        self.error(codes::CHOOSE_ONE, node.span, message, hint);
        None
    }

    fn cost_header(&mut self, node: &Node) -> Option<Cost> {
        let members = self.members(node, &COST_HEADER)?;
        let name = self.text(members.get("header")?, "the name of a header")?.to_ascii_lowercase();
        let default = self.amount(&members, "default").unwrap_or(1);
        Some(Cost { source: CostSource::Header { name, default }, max: self.cost_max(&members), settled_by: None })
    }

    fn cost_method(&mut self, node: &Node) -> Option<Cost> {
        let members = self.members(node, &COST_METHOD)?;
        let methods = members.get("method")?;
        let expected = "a map of methods and costs, such as { GET: 1, POST: 5 }";
        let costs = self.each_member(methods, expected, |reader, method, cost| {
            Some((method.to_ascii_uppercase(), reader.number(cost, 1..=MAX_AMOUNT)?))
        });
        let default = self.amount(&members, "default").unwrap_or(1);
        Some(Cost { source: CostSource::Methods { costs, default }, ..Cost::default() })
    }

    fn cost_estimate(&mut self, node: &Node) -> Option<Cost> {
        let members = self.members(node, &COST_ESTIMATE)?;
        let source = CostSource::Estimate(self.amount(&members, "estimate")?);
        let settled_by = members.get("settle").and_then(|node| self.text(node, "the name of a response header"));
        let settled_by = settled_by.map(|name| name.to_ascii_lowercase());
        Some(Cost { source, max: self.cost_max(&members), settled_by })
    }

    fn cost_max(&mut self, members: &Members<'_>) -> u64 {
        self.amount(members, "max").unwrap_or(MAX_AMOUNT)
    }

    fn amount(&mut self, members: &Members<'_>, name: &str) -> Option<u64> {
        members.get(name).and_then(|node| self.number(node, 1..=MAX_AMOUNT))
    }
}
