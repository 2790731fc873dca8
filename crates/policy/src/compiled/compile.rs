//! From a checked policy to a plan.

use std::collections::HashMap;

use tollgate_core::AlgorithmKind;

use super::access::CompiledAccess;
use super::companion::Companion;
use super::conditions::Conditions;
use super::cost::CompiledCost;
use super::fast_path::FastPath;
use super::grants::Grants;
use super::identity::{Identities, IdentityId, Source};
use super::matcher::Matcher;
use super::scopes::Scopes;
use super::words::Words;
use super::{CompileError, CompiledPolicy, CompiledRule};
use crate::checked::CheckedPolicy;
use crate::model::{CostSource, OnFailure, Policy, Rule, StoreSettings};
use crate::shown::shown;

/// What happens once the conditions of a rule hold.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) key: Vec<IdentityId>,
    /// Rules with the same parts in their keys have the same number, unless the pattern that matched is one of them.
    pub(super) shape: Option<u32>,
    /// Whether the key depends on the pattern that matched.
    pub(super) uses_route: bool,
    /// Whether each reading of a path that gives another key is charged, and not the first alone: a segment of the
    /// path says whose request it is, and any of the readings may be the one that is served.
    pub(super) counts_readings: bool,
    pub(super) grants: Grants,
    pub(super) cost: CompiledCost,
    /// Whether it denies, and charges nothing.
    pub(super) denies: bool,
    /// The rules that do not apply where this one does.
    pub(super) replaces: Vec<u32>,
}

impl CompiledPolicy {
    /// Compiles a policy.
    pub fn new(policy: &CheckedPolicy) -> Result<CompiledPolicy, CompileError> {
        let policy: &Policy = policy;
        let mut identities = Identities::compile(policy)?;
        let mut scopes = Scopes::default();
        let conditions: Vec<Conditions> =
            policy.rules.iter().map(|rule| Conditions::compile(&rule.when, &mut identities)).collect();
        let mut bodies: Vec<Body> =
            (0..).zip(&policy.rules).map(|(at, rule)| Body::compile(at, rule, &mut identities, &mut scopes)).collect();
        number_shapes(&mut bodies);
        number_replaced(&policy.rules, &mut bodies);
        let deny = CompiledAccess::compile(&policy.deny, false, &mut identities);
        let allow = CompiledAccess::compile(&policy.allow, true, &mut identities);
        let matcher = Matcher::compile(&policy.rules, &conditions, &identities);
        let needs_client_ip = needs_peer(&conditions, &bodies, &[&deny, &allow], &identities);
        let mut rules: Vec<CompiledRule> = policy.rules.iter().map(|rule| planned(rule, &policy.store)).collect();
        for quota in scopes.quotas.iter().filter(|quota| quota.quota.kind() == AlgorithmKind::Concurrency) {
            rules[quota.rule as usize].concurrency = true;
        }
        let routes = &matcher.routes.index;
        let fast_path = FastPath::compile(&policy.rules, &bodies, &[&deny, &allow], routes, &identities);
        Ok(CompiledPolicy {
            rules,
            quotas: scopes.quotas,
            fields: policy.fields.clone(),
            needs_client_ip,
            replaces: bodies.iter().any(|body| !body.replaces.is_empty()),
            identities,
            deny,
            allow,
            matcher,
            conditions,
            bodies,
            words: policy.rules.iter().map(|rule| Words::of(&shown(rule, policy).when)).collect(),
            companion: Companion::default(),
            fast_path,
        })
    }
}

impl Body {
    fn compile(at: u32, rule: &Rule, identities: &mut Identities, scopes: &mut Scopes) -> Body {
        let key: Vec<IdentityId> = rule.key.iter().map(|name| identities.id(name)).collect();
        let may_be = |is_one| key.iter().any(|id| identities.may_be(*id, is_one));
        Body {
            shape: None,
            uses_route: key.iter().any(|id| identities.known(*id).per_rule),
            counts_readings: may_be(|source| matches!(source, Source::PathSegment(_)))
                && !may_be(|source| matches!(source, Source::Path)),
            grants: Grants::compile(at, rule, &key, identities, scopes),
            cost: CompiledCost::compile(&rule.cost, identities),
            denies: rule.denies(),
            replaces: Vec::new(),
            key,
        }
    }
}

fn number_replaced(rules: &[Rule], bodies: &mut [Body]) {
    let numbers: HashMap<&str, u32> = rules.iter().map(|rule| rule.name.as_str()).zip(0..).collect();
    for (body, rule) in bodies.iter_mut().zip(rules) {
        body.replaces = rule.replaces.iter().filter_map(|name| numbers.get(name.as_str()).copied()).collect();
    }
}

fn number_shapes(bodies: &mut [Body]) {
    let mut known: HashMap<Vec<IdentityId>, u32> = HashMap::new();
    for body in bodies.iter_mut().filter(|body| !body.uses_route) {
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        body.shape = Some(*known.entry(body.key.clone()).or_insert(next));
    }
}

/// What a verdict needs of a rule; whether it has permits is seen from its quotas.
fn planned(rule: &Rule, store: &StoreSettings) -> CompiledRule {
    let (of_store, fallback_share) = match store {
        StoreSettings::Memory(_) => (OnFailure::default(), (1, 1)),
        StoreSettings::Redis(settings) => (settings.on_failure, settings.fallback_share),
    };
    CompiledRule {
        name: rule.name.as_str().into(),
        deny: rule.denies(),
        shadow: rule.shadow,
        publish: rule.publish,
        on_limit: rule.on_limit,
        on_failure: rule.on_failure.unwrap_or(of_store),
        fallback_share,
        concurrency: false,
        settled_by: rule.cost.settled_by.clone(),
        max_cost: rule.cost.max,
        variable_cost: matches!(rule.cost.source, CostSource::Header { .. } | CostSource::Estimate(_)),
        own_cost: !matches!(rule.cost.source, CostSource::OfTheRequest),
    }
}

fn needs_peer(conditions: &[Conditions], bodies: &[Body], lists: &[&CompiledAccess], identities: &Identities) -> bool {
    let asked = conditions.iter().flat_map(|conditions| conditions.tests.iter().map(|(id, _)| *id));
    let keys = bodies.iter().flat_map(|body| body.key.iter().copied());
    let tiers = bodies.iter().any(|body| body.grants.uses_tiers()).then(|| identities.tiers.source()).flatten();
    conditions.iter().any(|conditions| conditions.network.is_some())
        || asked.chain(keys).chain(tiers).any(|id| identities.needs_peer(id))
        || lists.iter().any(|list| list.needs_peer(identities))
}
