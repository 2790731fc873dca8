//! The event of a request that exceeded a limit.

use std::sync::Arc;

use tollgate::store::Source;
use tollgate::verdict::RuleState;
use tollgate::{Action, AlgorithmKind};

use super::event::{Event, Violation};
use super::timestamp::Timestamp;
use crate::decided::DecidedRequest;

/// Longer names of rules and routes are cut, to bound the line length.
const MAX_SHOWN_BYTES: usize = 128;

/// The methods that are logged. Any other value could be arbitrary text.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];

/// Replaces any other method.
const OTHER_METHOD: &str = "other";

const MS_NS: u128 = 1_000_000;

/// Returns the event of the rule that decided, or of a shadow rule.
pub(super) fn under_rule(decided: DecidedRequest<'_>, state: &RuleState, client: Arc<str>) -> Event {
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

/// Returns the event of a rule that denies, or of a shadow rule that would.
pub(super) fn denial(decided: DecidedRequest<'_>, rule: usize, shadow: bool, client: Option<Arc<str>>) -> Event {
    let policy = decided.verdict.policy();
    Event::Violation(Violation {
        rule: policy.rules().get(rule).map(|rule| shown(&rule.name)),
        action: Action::Deny.name(),
        shadow,
        route: policy.route(Some(rule), decided.request).map(shown),
        client,
        ..plain(decided)
    })
}

/// Returns the event of a deny list or a caller-supplied limit.
pub(super) fn without_rule(decided: DecidedRequest<'_>, client: Option<Arc<str>>) -> Event {
    let verdict = decided.verdict;
    Event::Violation(Violation {
        route: verdict.policy().route(None, decided.request).map(shown),
        retry_after_ms: verdict.retry_after().map(|wait| ms(wait.as_nanos())),
        client,
        ..plain(decided)
    })
}

fn plain(decided: DecidedRequest<'_>) -> Violation {
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

/// Returns a name of the policy in printable ASCII, cut to the maximum length.
fn shown(text: &str) -> Arc<str> {
    let is_plain = |character: &char| matches!(character, ' '..='~' if !matches!(character, '"' | '\\'));
    let shown = text.chars().take(MAX_SHOWN_BYTES);
    shown.map(|character| if is_plain(&character) { character } else { '?' }).collect::<String>().into()
}

/// Rounds up, so that a retry after that time is not too early.
fn ms(ns: u128) -> u64 {
    u64::try_from(ns.div_ceil(MS_NS)).unwrap_or(u64::MAX)
}
