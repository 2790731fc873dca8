//! The state of the service as JSON: one item of the live stream.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::sampler::{LiveRates, PassRates, RateHistory, RuleRates};
use super::store_body::{StoreBody, StoreLosses};
use crate::engine::Engine;
use crate::observe::{RefusedClient, Timestamp};
use crate::rule_metrics::RuleCounts;

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000_000_000;

/// The most rules of a status: those that decide most. A policy may have a thousand.
const MAX_RULES: usize = 250;

/// The most clients of a status.
const MAX_CLIENTS: usize = 20;

/// The state of the service.
#[derive(Debug, Serialize)]
pub(super) struct StatusBody {
    time: Timestamp,
    version: &'static str,
    started_at: Timestamp,
    /// The interval of the rates; null before the second reading.
    interval_ms: Option<u64>,
    decisions: DecisionsBody,
    latency: LatencyBody,
    store: StoreBody,
    rules: Vec<RuleStatusBody>,
    omitted_rules: usize,
    clients: Vec<RefusedClientBody>,
    /// The format of client IDs.
    identities: &'static str,
    policy: PolicyStateBody,
    /// The open live streams.
    subscribers: usize,
}

#[derive(Debug, Serialize)]
struct DecisionsBody {
    allowed_per_second: u64,
    refused_per_second: u64,
    allowed: u64,
    refused: u64,
}

/// Upper bounds of the buckets in which the percentiles are; null without decisions, or above the largest bound.
#[derive(Debug, Serialize)]
struct LatencyBody {
    decisions: u64,
    over_ms: u64,
    p50_at_most_ns: Option<u64>,
    p99_at_most_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct RuleStatusBody {
    rule: Arc<str>,
    allowed_per_second: u64,
    refused_per_second: u64,
    would_refuse_per_second: u64,
    allowed: u64,
    refused: u64,
    would_refuse: u64,
    headroom_percent: Option<u64>,
    near_limit_percent: Option<u64>,
}

#[derive(Debug, Serialize)]
struct RefusedClientBody {
    rule: Arc<str>,
    client: Arc<str>,
    count: u64,
    error: u64,
    per_minute: u64,
    last_seen: Timestamp,
}

#[derive(Debug, Serialize)]
struct PolicyStateBody {
    fingerprint: String,
    loaded_at: Timestamp,
    /// The outcome of the last reload; null before the first.
    last_reload: Option<LastReloadBody>,
}

#[derive(Debug, Serialize)]
struct LastReloadBody {
    time: Timestamp,
    done: bool,
}

impl StatusBody {
    pub(super) fn new(
        engine: &Engine,
        rates: &LiveRates,
        losses: StoreLosses,
        started_ns: u64,
        subscribers: usize,
    ) -> StatusBody {
        let (rules, omitted_rules) = rule_bodies(engine, rates);
        StatusBody {
            time: engine.observer().now(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: Timestamp(started_ns),
            interval_ms: rates.measured_ns.map(|ns| ns / MS_NS),
            decisions: DecisionsBody {
                allowed_per_second: rates.all.allowed,
                refused_per_second: rates.all.refused,
                allowed: rates.totals.allowed,
                refused: rates.totals.refused,
            },
            latency: LatencyBody {
                decisions: rates.latency.decisions(),
                over_ms: rates.latency_over_ns / MS_NS,
                p50_at_most_ns: rates.latency.percentile_ns(50),
                p99_at_most_ns: rates.latency.percentile_ns(99),
            },
            store: StoreBody::new(engine, losses),
            rules,
            omitted_rules,
            clients: engine.observer().most_refused(MAX_CLIENTS).iter().map(RefusedClientBody::from).collect(),
            identities: engine.observer().identity_format().name(),
            policy: policy_state(engine),
            subscribers,
        }
    }
}

/// Returns the active rules in the order of the policy, and the number of those that are left out.
fn rule_bodies(engine: &Engine, rates: &LiveRates) -> (Vec<RuleStatusBody>, usize) {
    let policy = engine.limiter().policy();
    let totals = |name: &str| rates.totals.rule(name);
    let mut names: Vec<&Arc<str>> = policy.rules().iter().map(|rule| &rule.name).collect();
    let omitted = names.len().saturating_sub(MAX_RULES);
    if omitted > 0 {
        let mut checked: Vec<u64> = names.iter().map(|name| totals(name).checked).collect();
        checked.sort_unstable_by(|one, other| other.cmp(one));
        let fewest = checked[MAX_RULES - 1];
        names.retain(|name| totals(name).checked >= fewest);
        names.truncate(MAX_RULES);
    }
    let body = |name: &Arc<str>| {
        let figures = rates.rules.get(&**name).copied().unwrap_or_default();
        RuleStatusBody::new(Arc::clone(name), &figures, totals(name))
    };
    (names.into_iter().map(body).collect(), omitted)
}

fn policy_state(engine: &Engine) -> PolicyStateBody {
    let last = engine.policy_history().state().outcomes.pop_front();
    PolicyStateBody {
        fingerprint: engine.with_fingerprint(str::to_owned),
        loaded_at: Timestamp(engine.policy_loaded_at_s() * S_NS),
        last_reload: last.map(|last| LastReloadBody { time: last.time, done: last.done }),
    }
}

impl RuleStatusBody {
    fn new(rule: Arc<str>, figures: &RuleRates, totals: RuleCounts) -> RuleStatusBody {
        RuleStatusBody {
            rule,
            allowed_per_second: figures.passed.allowed,
            refused_per_second: figures.passed.refused,
            would_refuse_per_second: figures.passed.would_refuse,
            allowed: totals.allowed(),
            refused: totals.refused,
            would_refuse: totals.would_refuse,
            headroom_percent: figures.recent.headroom_percent(),
            near_limit_percent: figures.recent.near_limit_percent(),
        }
    }
}

impl From<&RefusedClient> for RefusedClientBody {
    fn from(refused: &RefusedClient) -> RefusedClientBody {
        RefusedClientBody {
            rule: Arc::clone(&refused.rule),
            client: Arc::clone(&refused.known.client),
            count: refused.known.count,
            error: refused.known.error,
            per_minute: refused.per_minute,
            last_seen: Timestamp(refused.known.last_seen_ns),
        }
    }
}

/// Returns the history of rates as JSON: lists of requests a second, the newest last.
pub(super) fn history_body(history: &RateHistory) -> Value {
    let lists = |rates: &VecDeque<PassRates>| {
        let list = |part: fn(&PassRates) -> u64| rates.iter().map(part).collect::<Vec<u64>>();
        json!({
            "allowed": list(|rates| rates.allowed),
            "refused": list(|rates| rates.refused),
            "would_refuse": list(|rates| rates.would_refuse),
        })
    };
    let rules: serde_json::Map<String, Value> =
        history.rules.iter().map(|(name, rates)| (name.to_string(), lists(rates))).collect();
    json!({ "decisions": lists(&history.all), "rules": rules })
}
