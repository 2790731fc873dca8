use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use tollgate::policy::promise::limit_words;
use tollgate::policy::{
    Access, Application, CompiledPolicy, ExplainedRule, Explanation, GrantSource, RuleOutcome, RuleQuota,
};

/// An explanation as JSON: the response to `POST /api/explain`, and the output of `tollgate explain`.
#[derive(Debug, Serialize)]
pub struct ExplanationBody<'a> {
    access: &'static str,
    decided_by: Option<&'a str>,
    client_ip: Option<IpAddr>,
    path: Option<&'a str>,
    readings: &'a [String],
    tier: Option<&'a str>,
    identities: BTreeMap<&'a str, &'a str>,
    rules: Vec<ExplainedRuleBody<'a>>,
}

#[derive(Debug, Default, Serialize)]
struct ExplainedRuleBody<'a> {
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
    limits: Option<Vec<ExplainedLimitBody<'a>>>,
}

#[derive(Debug, Serialize)]
struct ExplainedLimitBody<'a> {
    name: &'a str,
    limit: String,
    algorithm: String,
}

impl<'a> ExplanationBody<'a> {
    /// Creates the body of an explanation by this policy.
    #[must_use]
    pub fn new(policy: &'a CompiledPolicy, explanation: &'a Explanation) -> ExplanationBody<'a> {
        ExplanationBody {
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
            rules: explanation.rules.iter().map(|rule| ExplainedRuleBody::new(policy, rule)).collect(),
        }
    }
}

impl<'a> ExplainedRuleBody<'a> {
    fn new(policy: &'a CompiledPolicy, explained: &'a ExplainedRule) -> ExplainedRuleBody<'a> {
        let shadow = policy.rules().get(explained.rule as usize).is_some_and(|rule| rule.shadow);
        let rule = ExplainedRuleBody { rule: &explained.name, shadow, ..ExplainedRuleBody::default() };
        match &explained.outcome {
            RuleOutcome::Applies(application) => rule.applying(policy, application),
            RuleOutcome::NotApplied { reason } => ExplainedRuleBody { reason: Some(reason), ..rule },
        }
    }

    fn applying(self, policy: &'a CompiledPolicy, application: &'a Application) -> ExplainedRuleBody<'a> {
        if application.denies {
            // A rule that denies counts nothing.
            let (route, limits) = (application.route.as_deref(), Some(Vec::new()));
            return ExplainedRuleBody {
                applies: true,
                route,
                denies: Some(true),
                unlimited: Some(false),
                limits,
                ..self
            };
        }
        let (granted_by, grant_name) = match &application.grant {
            GrantSource::Rule => ("rule", None),
            GrantSource::Tier(tier) => ("tier", Some(tier.as_str())),
            GrantSource::Override(pattern) => ("override", Some(pattern.as_str())),
        };
        let quotas = application.quotas.iter().filter_map(|at| policy.quotas().get(*at as usize));
        ExplainedRuleBody {
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
            limits: Some(quotas.map(ExplainedLimitBody::from).collect()),
            ..self
        }
    }
}

impl<'a> From<&'a RuleQuota> for ExplainedLimitBody<'a> {
    fn from(quota: &'a RuleQuota) -> ExplainedLimitBody<'a> {
        ExplainedLimitBody {
            name: &quota.scope,
            limit: limit_words(&quota.quota),
            algorithm: quota.quota.kind().to_string(),
        }
    }
}
