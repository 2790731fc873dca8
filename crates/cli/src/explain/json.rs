//! An explanation as JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use tollgate::policy::promise::limit_words;
use tollgate::policy::{
    Access, Application, CompiledPolicy, ExplainedRule, Explanation, GrantSource, RuleOutcome, RuleQuota,
};

#[derive(Serialize)]
pub(super) struct ExplanationJson<'a> {
    access: &'static str,
    decided_by: Option<&'a str>,
    client_ip: Option<IpAddr>,
    path: Option<&'a str>,
    readings: &'a [String],
    tier: Option<&'a str>,
    identities: BTreeMap<&'a str, &'a str>,
    rules: Vec<RuleJson<'a>>,
}

#[derive(Default, Serialize)]
struct RuleJson<'a> {
    rule: &'a str,
    applies: bool,
    reason: Option<&'a str>,
    shadow: bool,
    key: Option<&'a str>,
    more_keys: Option<&'a [String]>,
    read_as: Option<&'a str>,
    route: Option<&'a str>,
    cost: Option<u64>,
    granted_by: Option<&'static str>,
    grant_name: Option<&'a str>,
    denies: Option<bool>,
    unlimited: Option<bool>,
    limits: Option<Vec<LimitJson<'a>>>,
}

#[derive(Serialize)]
struct LimitJson<'a> {
    name: &'a str,
    limit: String,
    algorithm: String,
}

pub(super) fn body<'a>(policy: &'a CompiledPolicy, explanation: &'a Explanation) -> ExplanationJson<'a> {
    ExplanationJson {
        access: match explanation.access {
            Access::Rules => "rules",
            Access::Allowed => "allowed",
            Access::Denied => "denied",
            Access::Unauthorized => "unauthorized",
        },
        decided_by: explanation.decided_by.as_deref(),
        client_ip: explanation.client_ip,
        path: explanation.path.as_deref(),
        readings: &explanation.readings,
        tier: explanation.tier.as_deref(),
        identities: explanation.identities.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        rules: explanation.rules.iter().map(|rule| RuleJson::new(policy, rule)).collect(),
    }
}

impl<'a> RuleJson<'a> {
    fn new(policy: &'a CompiledPolicy, explained: &'a ExplainedRule) -> RuleJson<'a> {
        let shadow = policy.rules().get(explained.rule as usize).is_some_and(|rule| rule.shadow);
        let rule = RuleJson { rule: &explained.name, shadow, ..RuleJson::default() };
        match &explained.outcome {
            RuleOutcome::Applies(application) => rule.applying(policy, application),
            RuleOutcome::NotApplied { reason } => RuleJson { reason: Some(reason), ..rule },
        }
    }

    fn applying(self, policy: &'a CompiledPolicy, application: &'a Application) -> RuleJson<'a> {
        if application.denies {
            // A rule that denies counts nothing.
            let (route, limits) = (application.route.as_deref(), Some(Vec::new()));
            return RuleJson { applies: true, route, denies: Some(true), unlimited: Some(false), limits, ..self };
        }
        let (granted_by, grant_name) = match &application.grant {
            GrantSource::Rule => ("rule", None),
            GrantSource::Tier(tier) => ("tier", Some(tier.as_str())),
            GrantSource::Override(pattern) => ("override", Some(pattern.as_str())),
        };
        let quotas = application.quotas.iter().filter_map(|at| policy.quotas().get(*at as usize));
        RuleJson {
            applies: true,
            key: Some(&application.key),
            more_keys: Some(&application.more_keys),
            read_as: application.read_as.as_deref(),
            route: application.route.as_deref(),
            cost: Some(application.cost),
            granted_by: Some(granted_by),
            grant_name,
            denies: Some(application.denies),
            unlimited: Some(application.is_unlimited()),
            limits: Some(quotas.map(LimitJson::from).collect()),
            ..self
        }
    }
}

impl<'a> From<&'a RuleQuota> for LimitJson<'a> {
    fn from(quota: &'a RuleQuota) -> LimitJson<'a> {
        LimitJson { name: &quota.scope, limit: limit_words(&quota.quota), algorithm: quota.quota.kind().to_string() }
    }
}
