//! An explanation for programs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use tollgate::policy::promise::limit_words;
use tollgate::policy::{
    Access, Application, CompiledPolicy, ExplainedRule, Explanation, GrantSource, RuleOutcome, RuleQuota,
};

#[derive(Serialize)]
pub(super) struct Body<'a> {
    access: &'static str,
    decided_by: Option<&'a str>,
    client_ip: Option<IpAddr>,
    path: Option<&'a str>,
    readings: &'a [String],
    tier: Option<&'a str>,
    identities: BTreeMap<&'a str, &'a str>,
    rules: Vec<Rule<'a>>,
}

#[derive(Default, Serialize)]
struct Rule<'a> {
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
    limits: Option<Vec<Limit<'a>>>,
}

#[derive(Serialize)]
struct Limit<'a> {
    name: &'a str,
    limit: String,
    algorithm: String,
}

pub(super) fn body<'a>(plan: &'a CompiledPolicy, explanation: &'a Explanation) -> Body<'a> {
    Body {
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
        rules: explanation.rules.iter().map(|rule| Rule::new(plan, rule)).collect(),
    }
}

impl<'a> Rule<'a> {
    fn new(plan: &'a CompiledPolicy, explained: &'a ExplainedRule) -> Rule<'a> {
        let shadow = plan.rules().get(explained.rule as usize).is_some_and(|rule| rule.shadow);
        let rule = Rule { rule: &explained.name, shadow, ..Rule::default() };
        match &explained.outcome {
            RuleOutcome::Applies(application) => rule.applying(plan, application),
            RuleOutcome::NotApplied { reason } => Rule { reason: Some(reason), ..rule },
        }
    }

    fn applying(self, plan: &'a CompiledPolicy, application: &'a Application) -> Rule<'a> {
        if application.denies {
            // It counts nothing.
            let (route, limits) = (application.route.as_deref(), Some(Vec::new()));
            return Rule { applies: true, route, denies: Some(true), unlimited: Some(false), limits, ..self };
        }
        let (granted_by, grant_name) = match &application.grant {
            GrantSource::Rule => ("rule", None),
            GrantSource::Tier(tier) => ("tier", Some(tier.as_str())),
            GrantSource::Override(pattern) => ("override", Some(pattern.as_str())),
        };
        let quotas = application.quotas.iter().filter_map(|at| plan.quotas().get(*at as usize));
        Rule {
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
            limits: Some(quotas.map(Limit::from).collect()),
            ..self
        }
    }
}

impl<'a> From<&'a RuleQuota> for Limit<'a> {
    fn from(planned: &'a RuleQuota) -> Limit<'a> {
        Limit { name: &planned.scope, limit: limit_words(&planned.quota), algorithm: planned.quota.kind().to_string() }
    }
}
