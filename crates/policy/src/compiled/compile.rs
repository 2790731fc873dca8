//! Compiles a checked policy.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use tollgate_core::AlgorithmKind;

use super::{CompiledPolicy, CompiledRule};
use crate::compiled::access::CompiledAccess;
use crate::compiled::fast_path::FastPath;
use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::Grants;
use crate::compiled::grants::scopes::Scopes;
use crate::compiled::identity::{CLIENT_IP, IdentityId, IdentityTable, ValueSource};
use crate::compiled::matching::conditions::Conditions;
use crate::compiled::matching::matcher::Matcher;
use crate::compiled::rule::RuleAction;
use crate::model::{CostSource, FailureMode, Grant, Policy, Regions, Rule, StoreSettings};
use crate::problem::CheckedPolicy;
use crate::promise::shown::shown;

/// The reason why a checked policy cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The key that verifies tokens does not fit its algorithm.
    #[error("the key under `jwt` cannot verify tokens: {reason}")]
    JwtKey {
        /// The fault of the key.
        reason: String,
    },
}

impl CompiledPolicy {
    /// Compiles a policy.
    pub fn new(policy: &CheckedPolicy) -> Result<CompiledPolicy, CompileError> {
        let policy: &Policy = policy;
        let mut identities = IdentityTable::compile(policy)?;
        let mut scopes = Scopes::default();
        let conditions: Vec<Conditions> =
            policy.rules.iter().map(|rule| Conditions::compile(&rule.when, &mut identities)).collect();
        let (store_on_failure, fallback_share) = match &policy.store {
            StoreSettings::Memory(_) => (FailureMode::default(), (1, 1)),
            StoreSettings::Redis(settings) => (settings.on_failure, settings.fallback_share),
        };
        let own_share = policy.regions.as_ref().and_then(Regions::own_share);
        let mut rules = Vec::with_capacity(policy.rules.len());
        let mut first_of_budget: HashMap<&str, u32> = HashMap::new();
        for ((index, redacted), conditions) in (0..).zip(shown(policy)).zip(conditions) {
            let rule = &policy.rules[index as usize];
            let counts_as = match &rule.budget {
                Some(budget) => *first_of_budget.entry(budget.as_str()).or_insert(index),
                None => index,
            };
            rules.push(CompiledRule {
                name: rule.name.as_str().into(),
                deny: rule.denies(),
                shadow: rule.shadow,
                publish: rule.publish,
                budget: rule.budget.as_deref().map(Box::from),
                counts_as,
                message: rule.message.as_deref().map(Box::from),
                on_limit: rule.on_limit,
                on_failure: rule.on_failure.unwrap_or(store_on_failure),
                fallback_share: match own_share.filter(|_| rule.is_regional(&policy.store)) {
                    Some(share) => share_of(fallback_share, share.rate),
                    None => fallback_share,
                },
                lease: rule.lease_ns(&policy.store).map(Duration::from_nanos),
                regional: rule.is_regional(&policy.store),
                concurrency: rule
                    .grants()
                    .flat_map(Grant::quotas)
                    .any(|quota| quota.kind() == AlgorithmKind::Concurrency),
                settled_by: rule.cost.settled_by.clone(),
                max_cost: rule.cost.max,
                variable_cost: matches!(rule.cost.source, CostSource::Header { .. } | CostSource::Estimate(_)),
                own_cost: !matches!(rule.cost.source, CostSource::OfTheRequest),
                conditions,
                action: RuleAction::compile(counts_as, rule, &redacted, &mut identities, &mut scopes),
                when: redacted.when.clone(),
            });
        }
        assign_key_shapes(&mut rules);
        resolve_replaced(&policy.rules, &mut rules);
        let deny = CompiledAccess::compile(&policy.deny, false, &mut identities);
        let allow = CompiledAccess::compile(&policy.allow, true, &mut identities);
        let matcher = Matcher::compile(&policy.rules, &rules, &identities);
        let in_use = identities_in_use(&rules, &[&deny, &allow], &identities);
        identities.uses_host = policy.rules.iter().any(|rule| !rule.when.hosts.is_empty())
            || identities.may_read_host(in_use.iter().copied());
        let needs_client_ip = in_use.iter().any(|id| identities.needs_peer(*id));
        let routes = &matcher.routes;
        let fast_path = FastPath::compile(&policy.rules, &rules, &[&deny, &allow], routes, &identities);
        Ok(CompiledPolicy {
            replaces: rules.iter().any(|rule| !rule.action.replaces.is_empty()),
            has_budgets: rules.iter().any(|rule| rule.budget.is_some()),
            rules,
            quotas: scopes.quotas,
            fields: policy.fields.clone(),
            needs_client_ip,
            region_share: own_share.or_else(|| policy.regions.as_ref().and_then(Regions::smallest_share)),
            identities,
            deny,
            allow,
            matcher,
            fast_path,
            attachment: OnceLock::new(),
        })
    }
}

impl RuleAction {
    fn compile(
        index: u32,
        rule: &Rule,
        redacted: &Rule,
        identities: &mut IdentityTable,
        scopes: &mut Scopes,
    ) -> RuleAction {
        let key: Vec<IdentityId> = rule.key.iter().map(|name| identities.id(name)).collect();
        let may_come_from = |is_source| key.iter().any(|id| identities.may_come_from(*id, is_source));
        RuleAction {
            key_shape: None,
            uses_route: key.iter().any(|id| identities.is_per_rule(*id)),
            counts_readings: may_come_from(|source| matches!(source, ValueSource::PathSegment(_)))
                && !may_come_from(|source| matches!(source, ValueSource::Path)),
            grants: Grants::compile(index, rule, redacted, &key, identities, scopes),
            cost: CompiledCost::compile(&rule.cost, identities),
            replaces: Vec::new(),
            key,
        }
    }
}

/// Returns the part of a fallback share that is a region's, whose rate is in thousandths: numerator and denominator.
fn share_of((part, whole): (u32, u32), thousandths: u32) -> (u32, u32) {
    let (mut part, mut whole) = (u64::from(part) * u64::from(thousandths), u64::from(whole) * 1_000);
    // Halving until both fit rounds the share down.
    while whole > u64::from(u32::MAX) {
        (part, whole) = (part / 2, whole.div_ceil(2));
    }
    (u32::try_from(part).unwrap_or(u32::MAX), u32::try_from(whole).unwrap_or(u32::MAX))
}

/// Replaces the names of replaced rules by their positions.
fn resolve_replaced(rules: &[Rule], compiled: &mut [CompiledRule]) {
    let positions: HashMap<&str, u32> = rules.iter().map(|rule| rule.name.as_str()).zip(0..).collect();
    for (compiled, rule) in compiled.iter_mut().zip(rules) {
        let replaced = rule.replaces.iter().filter_map(|name| positions.get(name.as_str()).copied());
        compiled.action.replaces = replaced.collect();
    }
}

/// Gives rules whose keys have the same parts the same number.
fn assign_key_shapes(rules: &mut [CompiledRule]) {
    let mut known: HashMap<Vec<IdentityId>, u32> = HashMap::new();
    for action in rules.iter_mut().map(|rule| &mut rule.action).filter(|action| !action.uses_route) {
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        action.key_shape = Some(*known.entry(action.key.clone()).or_insert(next));
    }
}

/// Returns the identities that rules and access lists use.
fn identities_in_use(rules: &[CompiledRule], lists: &[&CompiledAccess], identities: &IdentityTable) -> Vec<IdentityId> {
    let tested = rules.iter().flat_map(|rule| rule.conditions.tests.iter().map(|(id, _)| *id));
    let keys = rules.iter().flat_map(|rule| rule.action.key.iter().copied());
    let networks = rules.iter().filter(|rule| rule.conditions.network.is_some()).map(|_| CLIENT_IP);
    let uses_tiers = rules.iter().any(|rule| rule.action.grants.uses_tiers());
    let tiers = uses_tiers.then(|| identities.tiers.source()).flatten();
    let listed = lists.iter().flat_map(|list| list.identities_in_use());
    tested.chain(keys).chain(networks).chain(tiers).chain(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallback_share_is_multiplied_by_the_share_of_the_region() {
        assert_eq!(share_of((1, 4), 500), (500, 4_000));
        let (part, whole) = share_of((u32::MAX, u32::MAX), 300);
        assert!(u64::from(part) * 10 <= u64::from(whole) * 3, "{part}/{whole}");
        assert!(u64::from(part) * 1_000 >= u64::from(whole) * 299, "{part}/{whole}");
    }
}
