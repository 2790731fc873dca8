use serde::Serialize;
use tollgate::Decision;

use crate::answer::{Action, Answer, RuleAnswer};

const MS_NS: u64 = 1_000_000;

/// An answer as callers read it. Where no rule applied, there is no limit to tell.
#[derive(Serialize)]
pub(super) struct AnswerBody {
    allowed: bool,
    action: &'static str,
    rule: Option<&'static str>,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    /// Where the answer comes from. The memory store's are exact.
    source: &'static str,
    rules: Vec<RuleBody>,
}

#[derive(Serialize)]
struct RuleBody {
    rule: &'static str,
    allowed: bool,
    limit: u64,
    remaining: u64,
    reset_after_ms: u64,
    retry_after_ms: Option<u64>,
    shadow: bool,
}

impl From<Answer> for AnswerBody {
    fn from(answer: Answer) -> AnswerBody {
        let decision = answer.rule.map(|rule| rule.decision);
        AnswerBody {
            allowed: answer.action() == Action::Allow,
            action: answer.action().name(),
            rule: answer.rule.map(|rule| rule.name),
            limit: decision.map(|decision| decision.limit),
            remaining: decision.map(|decision| decision.remaining),
            reset_after_ms: decision.map(|decision| ms(decision.reset_after)),
            retry_after_ms: decision.as_ref().and_then(retry_after_ms),
            source: "exact",
            rules: answer.rule.iter().map(RuleBody::from).collect(),
        }
    }
}

impl From<&RuleAnswer> for RuleBody {
    fn from(rule: &RuleAnswer) -> RuleBody {
        let decision = &rule.decision;
        RuleBody {
            rule: rule.name,
            allowed: decision.is_allowed(),
            limit: decision.limit,
            remaining: decision.remaining,
            reset_after_ms: ms(decision.reset_after),
            retry_after_ms: retry_after_ms(decision),
            shadow: false,
        }
    }
}

fn retry_after_ms(decision: &Decision) -> Option<u64> {
    decision.retry_after().map(ms)
}

/// Rounds up: who comes back after that many milliseconds does not come too early.
fn ms(ns: u64) -> u64 {
    ns.div_ceil(MS_NS)
}
