use serde::Serialize;
use tollgate::policy::published::{Published, PublishedField, PublishedGrant, PublishedLimit, PublishedRule};

const MS_NS: u64 = 1_000_000;

/// Published limits as JSON: the body of `GET /v1/limits`, and what `tollgate limits` prints.
#[derive(Debug, Serialize)]
pub struct LimitsBody {
    rules: Vec<RuleBody>,
    fields: Vec<FieldBody>,
    advice: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RuleBody {
    name: String,
    denies: bool,
    counts: String,
    applies_to: String,
    methods: Vec<String>,
    hosts: Vec<String>,
    paths: Vec<String>,
    grants: Vec<GrantBody>,
    cost: Option<String>,
    beyond: Vec<String>,
}

#[derive(Debug, Serialize)]
struct GrantBody {
    tier: Option<String>,
    default: bool,
    unlimited: bool,
    limits: Vec<LimitBody>,
}

#[derive(Debug, Serialize)]
struct LimitBody {
    limit: u64,
    burst: Option<u64>,
    window_ms: Option<u64>,
    algorithm: String,
    summary: String,
    explanation: String,
}

#[derive(Debug, Serialize)]
struct FieldBody {
    name: &'static str,
    meaning: &'static str,
}

impl From<&Published> for LimitsBody {
    fn from(published: &Published) -> LimitsBody {
        LimitsBody {
            rules: published.rules.iter().map(RuleBody::from).collect(),
            fields: published.fields.iter().map(FieldBody::from).collect(),
            advice: published.advice.clone(),
        }
    }
}

impl From<&PublishedRule> for RuleBody {
    fn from(rule: &PublishedRule) -> RuleBody {
        RuleBody {
            name: rule.name.clone(),
            denies: rule.denies,
            counts: rule.counts.clone(),
            applies_to: rule.applies_to.clone(),
            methods: rule.methods.clone(),
            hosts: rule.hosts.clone(),
            paths: rule.paths.clone(),
            grants: rule.grants.iter().map(GrantBody::from).collect(),
            cost: rule.cost.clone(),
            beyond: rule.beyond.clone(),
        }
    }
}

impl From<&PublishedGrant> for GrantBody {
    fn from(grant: &PublishedGrant) -> GrantBody {
        GrantBody {
            tier: grant.tier.clone(),
            default: grant.is_default,
            unlimited: grant.limits.is_empty(),
            limits: grant.limits.iter().map(LimitBody::from).collect(),
        }
    }
}

impl From<&PublishedLimit> for LimitBody {
    fn from(limit: &PublishedLimit) -> LimitBody {
        LimitBody {
            limit: limit.limit,
            burst: limit.burst,
            window_ms: limit.window_ns.map(|window_ns| window_ns / MS_NS),
            algorithm: limit.algorithm.to_string(),
            summary: limit.summary.clone(),
            explanation: limit.explanation.clone(),
        }
    }
}

impl From<&PublishedField> for FieldBody {
    fn from(field: &PublishedField) -> FieldBody {
        FieldBody { name: field.name, meaning: field.meaning }
    }
}
