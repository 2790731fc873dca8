use serde::Serialize;
use tollgate::{Action, Decision, RuleState, Verdict};

use crate::receipts::ReceiptName;

const MS_NS: u64 = 1_000_000;

/// A verdict as callers read it. Where no rule decided, there is no limit to tell.
#[derive(Serialize)]
pub(super) struct AnswerBody {
    allowed: bool,
    action: &'static str,
    rule: Option<String>,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    /// How long the caller waits before it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    source: &'static str,
    /// With what to refund, settle or release it.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    rules: Vec<RuleBody>,
}

#[derive(Serialize)]
struct RuleBody {
    rule: String,
    allowed: bool,
    limit: u64,
    remaining: u64,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    shadow: bool,
}

impl AnswerBody {
    pub(super) fn new(verdict: &Verdict, receipt: Option<ReceiptName>) -> AnswerBody {
        let decision = verdict.deciding().map(|state| &state.decision);
        AnswerBody {
            allowed: verdict.is_allowed(),
            action: verdict.action().name(),
            rule: verdict.rule().map(str::to_owned),
            limit: decision.map(|decision| decision.limit),
            remaining: decision.map(|decision| decision.remaining),
            reset_after_ms: decision.and_then(reset_after_ms),
            retry_after_ms: verdict.retry_after().map(|wait| ms(wait.as_nanos())),
            delay_ms: (verdict.action() == Action::Delay).then(|| ms(verdict.delay().as_nanos())),
            source: verdict.source().name(),
            receipt: receipt.map(|receipt| receipt.to_string()),
            rules: verdict.states().iter().map(|state| RuleBody::new(verdict, state)).collect(),
        }
    }
}

impl RuleBody {
    fn new(verdict: &Verdict, state: &RuleState) -> RuleBody {
        let decision = &state.decision;
        RuleBody {
            rule: verdict.rule_name(state).to_owned(),
            allowed: decision.is_allowed(),
            limit: decision.limit,
            remaining: decision.remaining,
            reset_after_ms: reset_after_ms(decision),
            retry_after_ms: decision.retry_after().map(|wait_ns| ms(wait_ns.into())),
            shadow: state.shadow,
        }
    }
}

/// Nobody knows when a permit without a lease comes back.
fn reset_after_ms(decision: &Decision) -> Option<u64> {
    (decision.reset_after < u64::MAX).then(|| ms(decision.reset_after.into()))
}

/// Rounds up: who comes back after that many milliseconds does not come too early.
fn ms(ns: u128) -> u64 {
    u64::try_from(ns.div_ceil(MS_NS.into())).unwrap_or(u64::MAX)
}
