use serde::Serialize;
use tollgate::limiter::{KeyCounter, KeyOverride, KeyReport};
use tollgate::policy::GrantSource;
use tollgate::policy::promise::limit_words;

use crate::observe::Timestamp;

const MS_NS: u64 = 1_000_000;

/// The state of a key as JSON.
#[derive(Serialize)]
pub(in crate::http::admin) struct KeyBody {
    rule: String,
    key: String,
    /// The client ID in logs, events and lists.
    client: String,
    counters: Vec<CounterBody>,
    violations: Option<u64>,
    blocked_for_ms: Option<u64>,
    #[serde(rename = "override")]
    key_override: Option<OverrideBody>,
}

#[derive(Serialize)]
struct CounterBody {
    name: String,
    /// The source of the limit: the rule, a tier, an override in the policy, or an override set through the admin API
    /// (`hand`).
    of: &'static str,
    /// The tier, or the pattern of the override.
    which: Option<String>,
    limit: String,
    algorithm: String,
    used: u64,
    remaining: u64,
    most: u64,
    held: Option<u64>,
    reset_after_ms: Option<u64>,
}

/// An override as JSON.
#[derive(Serialize)]
pub(in crate::http::admin) struct OverrideBody {
    rule: String,
    key: String,
    limit: String,
    until: Timestamp,
}

impl KeyBody {
    pub(in crate::http::admin) fn new(report: &KeyReport, client: &str) -> KeyBody {
        KeyBody {
            rule: report.rule.clone(),
            key: report.key.clone(),
            client: client.to_owned(),
            counters: report.counters.iter().map(CounterBody::from).collect(),
            violations: report.violations.map(|_| report.violations_counted()),
            blocked_for_ms: report.blocked_for_ns.map(ms),
            key_override: report.key_override.as_ref().map(OverrideBody::from),
        }
    }
}

impl From<&KeyCounter> for CounterBody {
    fn from(counter: &KeyCounter) -> CounterBody {
        let (of, which) = match &counter.source {
            Some(GrantSource::Rule) => ("rule", None),
            Some(GrantSource::Tier(tier)) => ("tier", Some(tier.clone())),
            Some(GrantSource::Override(pattern)) => ("override", Some(pattern.clone())),
            None => ("hand", None),
        };
        CounterBody {
            name: counter.name.clone(),
            of,
            which,
            limit: limit_words(&counter.quota),
            algorithm: counter.quota.kind().to_string(),
            used: counter.used(),
            remaining: counter.standing.remaining,
            most: counter.standing.limit,
            held: counter.held(),
            // It is unknown when a permit without a lease is released.
            reset_after_ms: Some(counter.standing.reset_after).filter(|after| *after < u64::MAX).map(ms),
        }
    }
}

impl From<&KeyOverride> for OverrideBody {
    fn from(set: &KeyOverride) -> OverrideBody {
        OverrideBody {
            rule: set.rule.clone(),
            key: set.key.clone(),
            limit: set.limit.clone(),
            until: Timestamp(set.until_ns),
        }
    }
}

/// Rounds up.
fn ms(ns: u64) -> u64 {
    ns.div_ceil(MS_NS)
}
