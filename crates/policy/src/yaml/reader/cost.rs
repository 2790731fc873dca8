use tollgate_core::MAX_AMOUNT;

use super::PolicyReader;
use super::identity::TOKEN;
use super::members::KnownMembers;
use super::rule::AMOUNT;
use crate::check::{codes, members};
use crate::model::{Cost, CostSource};
use crate::yaml::schema::{MapSchema, MemberSchema, ValueSchema, defaulted, field, required, shape};
use crate::yaml::tree::YamlNode;

pub(super) static COST: [ValueSchema; 5] = [
    AMOUNT,
    ValueSchema::Object(&COST_HEADER),
    ValueSchema::Object(&COST_METHOD),
    ValueSchema::Object(&COST_PATH),
    ValueSchema::Object(&COST_ESTIMATE),
];

const COST_MAX: MemberSchema = field("max", AMOUNT, "The largest cost that is charged.");

pub(super) static COST_HEADER: MapSchema = shape(
    "cost_header",
    "A cost that is read from a request header.",
    &[
        required("header", ValueSchema::Pattern(TOKEN), "The request header with the cost."),
        COST_MAX,
        defaulted("default", AMOUNT, "The cost if the header is absent or not a number.", "1"),
    ],
);

pub(super) static COST_METHOD: MapSchema = shape(
    "cost_method",
    "A cost by the method of the request.",
    &[
        required("method", ValueSchema::Map(&AMOUNT), "Methods and their costs."),
        defaulted("default", AMOUNT, "The cost of all other methods.", "1"),
    ],
);

pub(super) static COST_PATH: MapSchema = shape(
    "cost_path",
    "A cost by the path of the request.",
    &[
        required("path", ValueSchema::Map(&AMOUNT), "Path patterns, as in `when`, and their costs."),
        defaulted("default", AMOUNT, "The cost of all other paths.", "1"),
    ],
);

pub(super) static COST_ESTIMATE: MapSchema = shape(
    "cost_estimate",
    "An estimate that is charged first, for a cost that is known only after the response.",
    &[
        required("estimate", AMOUNT, "The cost that is charged before the response."),
        field("settle", ValueSchema::Pattern(TOKEN), "The response header with the actual cost."),
        COST_MAX,
    ],
);

/// The members that set where a cost comes from. A cost has exactly one of them.
const KINDS: &[&str] = &["header", "method", "path", "estimate"];

/// The member with the cost of all other requests.
const DEFAULT: &str = "default";

impl PolicyReader<'_> {
    pub(super) fn cost(&mut self, node: &YamlNode) -> Option<Cost> {
        if node.scalar().is_some() {
            let source = CostSource::Fixed(self.number(node, 1..=MAX_AMOUNT)?);
            return Some(Cost { source, ..Cost::default() });
        }
        let mut kinds = node.members().iter().filter(|member| KINDS.contains(&&*member.name));
        match (kinds.next(), kinds.next()) {
            (Some(one), Some(other)) => {
                let (message, hint) = members::one_beside(&other.name, &one.name, KINDS);
                self.error(codes::CHOOSE_ONE, other.name_span, message, hint);
                return None;
            }
            (Some(kind), None) => {
                return match &*kind.name {
                    "header" => self.cost_header(node),
                    "method" => self.cost_method(node),
                    "path" => self.cost_path(node),
                    _ => self.cost_estimate(node),
                };
            }
            (None, _) => {}
        }
        let message = format!(
            "expected a number or a map with `header`, `method`, `path` or `estimate`, found {}",
            node.described()
        );
        let hint = "for example `cost: 5`, or `cost: { header: X-Cost, max: 100 }`";
        self.error(codes::CHOOSE_ONE, node.span, message, hint);
        None
    }

    fn cost_header(&mut self, node: &YamlNode) -> Option<Cost> {
        let members = self.members(node, &COST_HEADER)?;
        let name = self.text(members.get("header")?, "the name of a header")?.to_ascii_lowercase();
        let default = self.amount(&members, DEFAULT).unwrap_or(1);
        Some(Cost { source: CostSource::Header { name, default }, max: self.cost_max(&members), settled_by: None })
    }

    fn cost_method(&mut self, node: &YamlNode) -> Option<Cost> {
        let members = self.members(node, &COST_METHOD)?;
        let methods = members.get("method")?;
        let expected = "a map of methods and costs, such as { GET: 1, POST: 5 }";
        let costs = self.each_member(methods, expected, |reader, method, cost| {
            let cost = reader.number(cost, 1..=MAX_AMOUNT)?;
            (method != DEFAULT).then(|| (method.to_ascii_uppercase(), cost))
        });
        self.misplaced_default(methods, "method");
        let default = self.amount(&members, DEFAULT).unwrap_or(1);
        Some(Cost { source: CostSource::Methods { costs, default }, ..Cost::default() })
    }

    fn cost_path(&mut self, node: &YamlNode) -> Option<Cost> {
        let members = self.members(node, &COST_PATH)?;
        let expected = "a map of path patterns and costs, such as { /search: 5, /export/*: 50 }";
        let paths = members.get("path")?;
        let costs = self.each_member(paths, expected, |reader, pattern, cost| {
            let cost = reader.number(cost, 1..=MAX_AMOUNT)?;
            (pattern != DEFAULT).then(|| (pattern.to_owned(), cost))
        });
        self.misplaced_default(paths, "path");
        let default = self.amount(&members, DEFAULT).unwrap_or(1);
        Some(Cost { source: CostSource::Paths { costs, default }, ..Cost::default() })
    }

    /// Reports a `default` among the methods or paths: it belongs beside their map.
    fn misplaced_default(&mut self, map: &YamlNode, kind: &str) {
        let Some(member) = map.member(DEFAULT) else { return };
        let message = format!("`default` is in the map `{kind}`, and belongs beside it");
        let cost = member.value.scalar().map_or("1", |scalar| &*scalar.text);
        let hint = format!("move it out: `cost: {{ {kind}: {{ .. }}, default: {cost} }}`");
        self.misplaced(member.name_span, &message, &hint);
    }

    fn cost_estimate(&mut self, node: &YamlNode) -> Option<Cost> {
        let members = self.members(node, &COST_ESTIMATE)?;
        let source = CostSource::Estimate(self.amount(&members, "estimate")?);
        let settled_by = members.get("settle").and_then(|node| self.text(node, "the name of a response header"));
        let settled_by = settled_by.map(|name| name.to_ascii_lowercase());
        Some(Cost { source, max: self.cost_max(&members), settled_by })
    }

    fn cost_max(&mut self, members: &KnownMembers<'_>) -> u64 {
        self.amount(members, "max").unwrap_or(MAX_AMOUNT)
    }

    fn amount(&mut self, members: &KnownMembers<'_>, name: &str) -> Option<u64> {
        members.get(name).and_then(|node| self.number(node, 1..=MAX_AMOUNT))
    }
}
