use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{AlgorithmKind, Quota};
pub(crate) use tollgate_policy::MAX_FIELD_INTEGER;
use tollgate_policy::model::FieldSet;
use tollgate_policy::{AdvertisedQuota, CompiledPolicy, RuleQuota};

use crate::fields::PolicyLists;
use crate::holding::HoldingTime;

/// What is said of the policy in force, apart from any request: shared by its verdicts.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) plan: Arc<CompiledPolicy>,
    pub(crate) rules: Vec<RuleFacts>,
    /// The quotas that were set by hand, whose positions are behind those of the plan.
    overrides: Vec<RuleQuota>,
    pub(crate) quotas: Vec<QuotaFacts>,
    /// Whether charges may have to be given back or settled: permits, places in a queue, estimates.
    #[cfg_attr(not(feature = "tower"), allow(dead_code))]
    pub(crate) needs_receipts: bool,
    /// Whether clients are told of their limits as the IETF has it.
    pub(crate) tells_ietf: bool,
    pub(crate) policy_lists: PolicyLists,
}

/// What the road of a request needs of a rule.
#[derive(Debug)]
pub(crate) struct RuleFacts {
    pub(crate) shadow: bool,
    pub(crate) publish: bool,
    pub(crate) variable_cost: bool,
    pub(crate) own_cost: bool,
    /// How long its permits are held.
    pub(crate) holding: Arc<HoldingTime>,
}

/// What is told of a quota.
#[derive(Debug)]
pub(crate) struct QuotaFacts {
    pub(crate) is_concurrency: bool,
    pub(crate) lease_ns: u64,
    /// Its item of `RateLimit-Policy`.
    pub(crate) policy_item: String,
    /// The same for the share that an instance grants alone while the store fails.
    pub(crate) share_item: String,
    /// Its item of `RateLimit` up to the number that remains.
    pub(crate) state_item: String,
    /// The largest that can remain.
    pub(crate) limit: u64,
    /// The same as `X-RateLimit-Limit` tells it.
    #[cfg(feature = "tower")]
    pub(crate) limit_value: http::HeaderValue,
}

impl Facts {
    pub(crate) fn new(plan: Arc<CompiledPolicy>, overrides: Vec<RuleQuota>) -> Facts {
        let rules = plan.rules().iter().map(|rule| RuleFacts {
            shadow: rule.shadow,
            publish: rule.publish && !rule.shadow,
            variable_cost: rule.variable_cost,
            own_cost: rule.own_cost,
            holding: Arc::default(),
        });
        let all = || plan.quotas().iter().chain(&overrides);
        let quotas = all().map(|planned| {
            let share = plan.rules()[planned.rule as usize].fallback_share;
            QuotaFacts::new(&planned.scope, &planned.quota, share)
        });
        let held = |kind| matches!(kind, AlgorithmKind::Concurrency | AlgorithmKind::LeakyQueue);
        let needs_receipts = all().any(|planned| held(planned.quota.kind()))
            || plan.rules().iter().any(|rule| rule.variable_cost || rule.settled_by.is_some());
        Facts {
            rules: rules.collect(),
            quotas: quotas.collect(),
            needs_receipts,
            tells_ietf: plan.fields().sets.contains(&FieldSet::Ietf),
            policy_lists: PolicyLists::new(),
            overrides,
            plan,
        }
    }

    /// Goes on measuring from what was measured under another policy: a rule of the same name is the same rule.
    pub(crate) fn go_on_from(&self, other: &Facts) {
        let rules = other.plan.rules().iter().zip(&other.rules);
        let before: HashMap<_, &RuleFacts> = rules.map(|(rule, facts)| (&*rule.name, facts)).collect();
        for (rule, facts) in self.plan.rules().iter().zip(&self.rules) {
            if let Some(before) = before.get(&*rule.name) {
                facts.holding.go_on_from(&before.holding);
            }
        }
    }

    /// The quota at a position, if there is one.
    pub(crate) fn try_quota(&self, at: u32) -> Option<&RuleQuota> {
        let (at, planned) = (at as usize, self.plan.quotas());
        planned.get(at).or_else(|| self.overrides.get(at - planned.len()))
    }

    /// The quota of a charge.
    pub(crate) fn quota(&self, at: u32) -> &RuleQuota {
        self.try_quota(at).unwrap_or_else(|| unreachable!("charges are of quotas that are in force"))
    }
}

impl QuotaFacts {
    fn new(name: &str, quota: &Quota, share: (u32, u32)) -> QuotaFacts {
        let limit = AdvertisedQuota::of(quota).limit;
        QuotaFacts {
            is_concurrency: quota.kind() == AlgorithmKind::Concurrency,
            lease_ns: quota.period_ns(),
            policy_item: policy_item(name, quota),
            share_item: policy_item(name, &quota.share(share)),
            state_item: format!("\"{name}\";r="),
            limit,
            #[cfg(feature = "tower")]
            limit_value: http::HeaderValue::from(limit),
        }
    }
}

/// Names of rules are printable and have neither quotes nor backslashes.
fn policy_item(name: &str, quota: &Quota) -> String {
    let AdvertisedQuota { limit, refill_s } = AdvertisedQuota::of(quota);
    if quota.kind() == AlgorithmKind::Concurrency {
        format!("\"{name}\";q={limit};qu=\"concurrent-requests\"")
    } else {
        format!("\"{name}\";q={limit};w={refill_s}")
    }
}
