//! Reads `on_limit`, the escalation of a rule.

use tollgate_core::MAX_AMOUNT;

use super::PolicyReader;
use super::members::KnownMembers;
use super::rule::AMOUNT;
use crate::check::codes;
use crate::check::members;
use crate::model::{Allowance, Block, OnLimit};
use crate::yaml::schema::{MapSchema, ValueSchema, required, shape};
use crate::yaml::tree::YamlNode;

pub(super) static STEP: ValueSchema = ValueSchema::AnyOf(&STEPS);
static STEPS: [ValueSchema; 3] =
    [ValueSchema::Object(&STEP_FIRST), ValueSchema::Object(&STEP_THEN), ValueSchema::Object(&STEP_AFTER)];

pub(super) static STEP_FIRST: MapSchema = shape(
    "step_first",
    "The first violations pass with a warning.",
    &[
        required("first", AMOUNT, "The number of violations that pass."),
        required("action", ValueSchema::Words(&["warn"]), "`warn`: they pass with a warning."),
    ],
);

pub(super) static STEP_THEN: MapSchema = shape(
    "step_then",
    "Further violations are refused.",
    &[required("then", ValueSchema::Words(&["reject"]), "`reject`: they are refused.")],
);

pub(super) static STEP_AFTER: MapSchema = shape(
    "step_after",
    "Keys with too many violations are blocked.",
    &[
        required(
            "after",
            ValueSchema::AnyOf(&[AMOUNT, ValueSchema::Pattern("^[0-9][0-9_]* *in .+$")]),
            "The number of violations before the block, as in `20 in 10min`. Without a duration, within the period of the rule.",
        ),
        required(
            "action",
            ValueSchema::Pattern("^block .+$"),
            "`block` and a duration, as in `block 15min`: all requests of the key are refused for this time.",
        ),
    ],
);

/// The steps that were read so far.
#[derive(Default)]
struct EscalationSteps {
    first: Option<u64>,
    then: bool,
    block: Option<Block>,
    span_ns: Option<u64>,
}

impl PolicyReader<'_> {
    pub(super) fn on_limit(&mut self, rule: &KnownMembers<'_>, allowance: Option<&Allowance>) -> Option<OnLimit> {
        let node = rule.get("on_limit")?;
        let steps = self.steps(node)?;
        if steps.first.is_none() && steps.block.is_none() {
            return None;
        }
        // A limit that could not be read, or `deny` in its place, was reported.
        let period_ns = allowance.filter(|allowance| **allowance != Allowance::Deny)?.longest_period_ns();
        let Some(period_ns) = period_ns else {
            let (message, hint) = match rule.get("budget") {
                Some(_) => members::beside_budget("on_limit"),
                None => members::on_limit_without_limit(),
            };
            self.misplaced(rule.name_span("on_limit"), &message, &hint);
            return None;
        };
        Some(OnLimit {
            warn_first: steps.first.unwrap_or(0),
            span_ns: steps.span_ns.unwrap_or(period_ns),
            block: steps.block,
        })
    }

    fn steps(&mut self, node: &YamlNode) -> Option<EscalationSteps> {
        let items = self.items(node, "a list of steps, such as [ { first: 2, action: warn }, { then: reject } ]")?;
        self.refuse_empty(node);
        let mut steps = EscalationSteps::default();
        for item in items {
            self.step(item, &mut steps);
        }
        Some(steps)
    }

    fn step(&mut self, node: &YamlNode, steps: &mut EscalationSteps) {
        let kind = ["first", "then", "after"].into_iter().find(|name| node.member(name).is_some());
        let (is_late, is_twice) = match kind {
            Some("first") => (steps.then || steps.block.is_some(), steps.first.is_some()),
            Some("then") => (steps.block.is_some(), steps.then),
            _ => (false, steps.block.is_some()),
        };
        if let Some(kind) = kind.filter(|_| is_late || is_twice) {
            let what = if is_twice { "occurs twice" } else { "is out of order" };
            let hint = "write `first`, `then` and `after` in this order, each at most once";
            self.error(codes::BAD_STEP, node.span, format!("the step `{kind}` {what}"), hint);
        }
        match kind {
            Some("first") => steps.first = Some(self.step_first(node).unwrap_or(1)),
            Some("then") => {
                steps.then = true;
                self.step_then(node);
            }
            Some(_) => {
                // A step that cannot be read is replaced by one that causes no further errors.
                let unreadable = || (None, Block { after: steps.first.unwrap_or(1), duration_ns: 1 });
                let (span_ns, block) = self.step_after(node).unwrap_or_else(unreadable);
                (steps.span_ns, steps.block) = (span_ns, Some(block));
            }
            None => {
                let message = format!("expected a step with `first`, `then` or `after`, found {}", node.described());
                let hint =
                    "write { first: 2, action: warn }, { then: reject } or { after: 20 in 10min, action: block 15min }";
                self.error(codes::BAD_STEP, node.span, message, hint);
            }
        }
    }

    fn step_first(&mut self, node: &YamlNode) -> Option<u64> {
        let members = self.members(node, &STEP_FIRST)?;
        if let Some(action) = members.get("action") {
            self.word(action, &[("warn", ())]);
        }
        self.number(members.get("first")?, 1..=MAX_AMOUNT)
    }

    fn step_then(&mut self, node: &YamlNode) {
        let then = self.members(node, &STEP_THEN).and_then(|members| members.get("then"));
        if let Some(then) = then {
            self.word(then, &[("reject", ())]);
        }
    }

    /// `{ after: 20 in 10min, action: block 15min }`
    fn step_after(&mut self, node: &YamlNode) -> Option<(Option<u64>, Block)> {
        let members = self.members(node, &STEP_AFTER)?;
        let duration_ns = members.get("action").and_then(|node| self.block(node));
        let (after, span_ns) = self.after(members.get("after")?)?;
        Some((span_ns, Block { after, duration_ns: duration_ns? }))
    }

    fn block(&mut self, node: &YamlNode) -> Option<u64> {
        let text = self.text(node, "`block` and a duration, such as block 15min")?;
        match text.strip_prefix("block").filter(|rest| rest.starts_with([' ', '\t'])) {
            Some(rest) => self.duration_in(rest.trim(), leading(&text, rest), node),
            None => {
                let message =
                    format!("expected `block` and a duration, such as block 15min, found {}", node.described());
                self.error(codes::BAD_STEP, node.span, message, "");
                None
            }
        }
    }

    /// `20`, or `20 in 10min`
    fn after(&mut self, node: &YamlNode) -> Option<(u64, Option<u64>)> {
        let text = self.text(node, "a number of violations, such as 20 or 20 in 10min")?;
        let Some((count, span)) = text.split_once(" in ") else {
            return Some((self.number(node, 1..=MAX_AMOUNT)?, None));
        };
        let after = count.trim().replace('_', "").parse().ok().filter(|after| (1..=MAX_AMOUNT).contains(after));
        if after.is_none() {
            let message =
                format!("expected a whole number from 1 before `in`, as in 20 in 10min, found {}", node.described());
            self.error(codes::BAD_STEP, node.span, message, "");
        }
        let span_ns = self.duration_in(span.trim(), leading(&text, span), node);
        Some((after?, Some(span_ns?)))
    }
}

/// The number of characters of `text` before the first word of `rest`, which is the end of `text`.
fn leading(text: &str, rest: &str) -> usize {
    text.chars().count() - rest.trim_start().chars().count()
}
