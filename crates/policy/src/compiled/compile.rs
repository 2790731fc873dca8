//! From a checked policy to a compiled one.

use std::collections::HashMap;
use std::sync::OnceLock;

use tollgate_core::AlgorithmKind;

use super::{CompiledPolicy, CompiledRule};
use crate::compiled::access::CompiledAccess;
use crate::compiled::fast_path::FastPath;
use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::Grants;
use crate::compiled::grants::scopes::Scopes;
use crate::compiled::identity::{CLIENT_IP, Identities, IdentityId, Source};
use crate::compiled::matching::conditions::Conditions;
use crate::compiled::matching::matcher::Matcher;
use crate::compiled::rule::RuleAction;
use crate::model::{CostSource, Grant, OnFailure, Policy, Rule, StoreSettings};
use crate::problem::CheckedPolicy;
use crate::promise::shown::shown;

/// Why a checked policy cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The key that verifies tokens is not one of its algorithm.
    #[error("the key under `jwt` cannot verify tokens: {reason}")]
    JwtKey {
        /// What is wrong with it.
        reason: String,
    },
}

impl CompiledPolicy {
    /// Compiles a policy.
    pub fn new(policy: &CheckedPolicy) -> Result<CompiledPolicy, CompileError> {
        let policy: &Policy = policy;
        let mut identities = Identities::compile(policy)?;
        let mut scopes = Scopes::default();
        let conditions: Vec<Conditions> =
            policy.rules.iter().map(|rule| Conditions::compile(&rule.when, &mut identities)).collect();
        let (of_store, fallback_share) = match &policy.store {
            StoreSettings::Memory(_) => (OnFailure::default(), (1, 1)),
            StoreSettings::Redis(settings) => (settings.on_failure, settings.fallback_share),
        };
        let mut rules = Vec::with_capacity(policy.rules.len());
        for ((at, shown), conditions) in (0..).zip(shown(policy)).zip(conditions) {
            let rule = &policy.rules[at as usize];
            rules.push(CompiledRule {
                name: rule.name.as_str().into(),
                deny: rule.denies(),
                shadow: rule.shadow,
                publish: rule.publish,
                on_limit: rule.on_limit,
                on_failure: rule.on_failure.unwrap_or(of_store),
                fallback_share,
                concurrency: rule
                    .grants()
                    .flat_map(Grant::quotas)
                    .any(|quota| quota.kind() == AlgorithmKind::Concurrency),
                settled_by: rule.cost.settled_by.clone(),
                max_cost: rule.cost.max,
                variable_cost: matches!(rule.cost.source, CostSource::Header { .. } | CostSource::Estimate(_)),
                own_cost: !matches!(rule.cost.source, CostSource::OfTheRequest),
                conditions,
                action: RuleAction::compile(at, rule, &shown, &mut identities, &mut scopes),
                when: shown.when.clone(),
            });
        }
        number_shapes(&mut rules);
        number_replaced(&policy.rules, &mut rules);
        let deny = CompiledAccess::compile(&policy.deny, false, &mut identities);
        let allow = CompiledAccess::compile(&policy.allow, true, &mut identities);
        let matcher = Matcher::compile(&policy.rules, &rules, &identities);
        let asked = asked(&rules, &[&deny, &allow], &identities);
        identities.uses_host =
            policy.rules.iter().any(|rule| !rule.when.hosts.is_empty()) || identities.has_host(asked.iter().copied());
        let needs_client_ip = asked.iter().any(|id| identities.needs_peer(*id));
        let routes = &matcher.routes;
        let fast_path = FastPath::compile(&policy.rules, &rules, &[&deny, &allow], routes, &identities);
        Ok(CompiledPolicy {
            replaces: rules.iter().any(|rule| !rule.action.replaces.is_empty()),
            rules,
            quotas: scopes.quotas,
            fields: policy.fields.clone(),
            needs_client_ip,
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
    fn compile(at: u32, rule: &Rule, shown: &Rule, identities: &mut Identities, scopes: &mut Scopes) -> RuleAction {
        let key: Vec<IdentityId> = rule.key.iter().map(|name| identities.id(name)).collect();
        let may_be = |is_one| key.iter().any(|id| identities.may_be(*id, is_one));
        RuleAction {
            shape: None,
            uses_route: key.iter().any(|id| identities.is_per_rule(*id)),
            counts_readings: may_be(|source| matches!(source, Source::PathSegment(_)))
                && !may_be(|source| matches!(source, Source::Path)),
            grants: Grants::compile(at, rule, shown, &key, identities, scopes),
            cost: CompiledCost::compile(&rule.cost, identities),
            replaces: Vec::new(),
            key,
        }
    }
}

fn number_replaced(rules: &[Rule], compiled: &mut [CompiledRule]) {
    let numbers: HashMap<&str, u32> = rules.iter().map(|rule| rule.name.as_str()).zip(0..).collect();
    for (compiled, rule) in compiled.iter_mut().zip(rules) {
        let replaced = rule.replaces.iter().filter_map(|name| numbers.get(name.as_str()).copied());
        compiled.action.replaces = replaced.collect();
    }
}

fn number_shapes(rules: &mut [CompiledRule]) {
    let mut known: HashMap<Vec<IdentityId>, u32> = HashMap::new();
    for action in rules.iter_mut().map(|rule| &mut rule.action).filter(|action| !action.uses_route) {
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        action.shape = Some(*known.entry(action.key.clone()).or_insert(next));
    }
}

/// The identities that rules and lists ask for.
fn asked(rules: &[CompiledRule], lists: &[&CompiledAccess], identities: &Identities) -> Vec<IdentityId> {
    let tested = rules.iter().flat_map(|rule| rule.conditions.tests.iter().map(|(id, _)| *id));
    let keys = rules.iter().flat_map(|rule| rule.action.key.iter().copied());
    let networks = rules.iter().filter(|rule| rule.conditions.network.is_some()).map(|_| CLIENT_IP);
    let uses_tiers = rules.iter().any(|rule| rule.action.grants.uses_tiers());
    let tiers = uses_tiers.then(|| identities.tiers.source()).flatten();
    let listed = lists.iter().flat_map(|list| list.asked());
    tested.chain(keys).chain(networks).chain(tiers).chain(listed).collect()
}
