//! What is told of a request that met its limit.

use std::sync::Arc;

use tollgate::{Action, AlgorithmKind, RuleState, Source};

use super::event::{Event, Violation};
use super::timestamp::Timestamp;
use crate::decided::Decided;

/// Names of rules and routes beyond this are cut: they are the operator's own, and a line has an end.
const MAX_SHOWN_BYTES: usize = 128;

/// Methods that are told. What else a client calls a method may be anything.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];

/// What such a method is called.
const OTHER_METHOD: &str = "other";

const MS_NS: u128 = 1_000_000;

/// A rule that decided, or one that is only watched and would have.
pub(super) fn under_rule(decided: Decided<'_>, state: &RuleState, client: Arc<str>) -> Event {
    let verdict = decided.verdict;
    let retry_after_ms = if state.shadow {
        state.decision.retry_after().map(|ns| ms(u128::from(ns)))
    } else {
        verdict.retry_after().map(|wait| ms(wait.as_nanos()))
    };
    let of_rule = Some(state.rule_position());
    Event::Violation(Violation {
        rule: Some(shown(verdict.rule_name(state))),
        action: if state.shadow { "reject" } else { verdict.action().name() },
        shadow: state.shadow,
        limit: Some(state.decision.limit),
        algorithm: Some(algorithm(verdict.quota(state).kind())),
        route: verdict.policy().route(of_rule, decided.request).map(shown),
        retry_after_ms,
        client: Some(client),
        ..plain(decided)
    })
}

/// A rule that denies, or one that is only watched and would.
pub(super) fn denial(decided: Decided<'_>, rule: usize, shadow: bool, client: Option<Arc<str>>) -> Event {
    let plan = decided.verdict.policy();
    Event::Violation(Violation {
        rule: plan.rules().get(rule).map(|rule| shown(&rule.name)),
        action: Action::Deny.name(),
        shadow,
        route: plan.route(Some(rule), decided.request).map(shown),
        client,
        ..plain(decided)
    })
}

/// A list, or a limit that the caller brought along.
pub(super) fn without_rule(decided: Decided<'_>, client: Option<Arc<str>>) -> Event {
    let verdict = decided.verdict;
    Event::Violation(Violation {
        route: verdict.policy().route(None, decided.request).map(shown),
        retry_after_ms: verdict.retry_after().map(|wait| ms(wait.as_nanos())),
        client,
        ..plain(decided)
    })
}

fn plain(decided: Decided<'_>) -> Violation {
    Violation {
        time: Timestamp(decided.verdict.decided_at_ns()),
        rule: None,
        action: decided.verdict.action().name(),
        shadow: false,
        limit: None,
        algorithm: None,
        front_end: decided.front_end.name(),
        method: method(decided.request.method),
        route: None,
        retry_after_ms: None,
        client: None,
        source: source(decided.verdict.source()),
    }
}

pub(super) fn method(method: &str) -> Option<&'static str> {
    if method.is_empty() {
        return None;
    }
    let known = METHODS.into_iter().find(|known| known.eq_ignore_ascii_case(method));
    Some(known.unwrap_or(OTHER_METHOD))
}

fn source(source: Source) -> Option<&'static str> {
    (source != Source::Exact).then(|| source.name())
}

const fn algorithm(kind: AlgorithmKind) -> &'static str {
    match kind {
        AlgorithmKind::TokenBucket => "token-bucket",
        AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => "leaky-bucket",
        AlgorithmKind::FixedWindow => "fixed-window",
        AlgorithmKind::SlidingWindowCounter => "sliding-window-counter",
        AlgorithmKind::SlidingWindowLog => "sliding-window-log",
        AlgorithmKind::Concurrency => "concurrency",
    }
}

/// What the policy calls something, in characters that take one byte each, and not too many.
fn shown(text: &str) -> Arc<str> {
    let is_plain = |character: &char| matches!(character, ' '..='~' if !matches!(character, '"' | '\\'));
    let shown = text.chars().take(MAX_SHOWN_BYTES);
    shown.map(|character| if is_plain(&character) { character } else { '?' }).collect::<String>().into()
}

/// Rounds up: who comes back after that many milliseconds does not come too early.
fn ms(ns: u128) -> u64 {
    u64::try_from(ns.div_ceil(MS_NS)).unwrap_or(u64::MAX)
}
