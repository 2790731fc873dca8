//! Compiles the steps of simple policies.

use super::FastPath;
use super::common::CommonStep;
use super::step::{RuleStep, StepKey};
use crate::compiled::access::CompiledAccess;
use crate::compiled::identity::{CLIENT_IP, IdentityId, IdentityTable, ValueSource};
use crate::compiled::matching::methods::matched_methods;
use crate::compiled::path::routes::RouteTable;
use crate::compiled::rule::CompiledRule;
use crate::model::{Rule, When};

/// With more rules than this, an index is faster than checking each rule.
const RULES_MAX: usize = 32;
/// Each pattern has one bit of 64.
const PATTERNS_MAX: usize = 64;
const METHODS_MAX: usize = 16;

impl FastPath {
    /// Compiles the steps of a policy; `None` if it is not simple.
    pub(in crate::compiled) fn compile(
        rules: &[Rule],
        compiled: &[CompiledRule],
        lists: &[&CompiledAccess],
        routes: &RouteTable,
        identities: &IdentityTable,
    ) -> Option<FastPath> {
        // A request that matches several rules of one budget is charged once, at the largest cost: steps cannot do
        // that.
        if rules.iter().any(|rule| rule.budget.is_some()) {
            return None;
        }
        let is_small = rules.len() <= RULES_MAX && routes.texts().len() <= PATTERNS_MAX;
        if !is_small || lists.iter().any(|list| !list.is_empty()) {
            return None;
        }
        let methods = methods(rules);
        if methods.len() > METHODS_MAX {
            return None;
        }
        let mut steps: Vec<RuleStep> = Vec::with_capacity(rules.len());
        let mut common_steps = Vec::with_capacity(rules.len());
        for (index, (rule, compiled)) in (0..).zip(rules.iter().zip(compiled)) {
            let mut step = step(index, rule, compiled, identities)?;
            step.methods = method_bits(&rule.when.methods, &methods);
            step.pattern_bits = pattern_bits(index, rule, routes)?;
            // A rule with overrides computes its key, even if an earlier step has the same key shape. The key of an
            // IPv6 address that embeds an IPv4 address is the IPv4 address. For such a client, an override of the IPv6
            // address applies too, and one of the IPv4 address only if it grants no more than the rule: a search by key
            // cannot decide that. The computation of the key leaves these requests to the indexes
            // (`RuleStep::check_embedded`).
            step.shares_key = step.policy_overrides.is_empty()
                && step.key_shape.is_some()
                && steps.iter().any(|before| before.key_shape == step.key_shape);
            common_steps.push(common_step(&step, compiled, identities));
            steps.push(step);
        }
        let tier_identity = identities.tiers.source().filter(|_| steps.iter().any(|step| step.base.uses_tiers()));
        let identities_read = || compiled.iter().flat_map(|rule| &rule.action.key).copied().chain(tier_identity);
        let reads_source = |is_source| identities_read().any(|id| identities.may_come_from(id, is_source));
        let is_path_source = |source: &ValueSource| {
            matches!(source, ValueSource::Path | ValueSource::PathSegment(_) | ValueSource::Route)
        };
        let mut fast_path = FastPath {
            reads_method: !methods.is_empty()
                || reads_source(|source| matches!(source, ValueSource::Method))
                || steps.iter().any(|step| step.cost.is_by_method()),
            reads_path: routes.texts().len() > 0
                || reads_source(is_path_source)
                || steps.iter().any(|step| step.cost.is_by_path()),
            reads_client: common_steps.iter().any(CommonStep::is_by_client),
            patterns: routes.iter().map(|(pattern, _)| pattern.clone()).collect(),
            paths: identities.paths,
            methods,
            steps,
            common_steps,
            exact_paths: Vec::new(),
        };
        fast_path.index_exact_paths();
        Some(fast_path)
    }
}

/// Compiles a rule without its conditions on method and path. `None` if it has other conditions, replaces rules, has
/// overrides of patterns, or needs identities that are not readable here.
fn step(index: u32, rule: &Rule, compiled: &CompiledRule, identities: &IdentityTable) -> Option<RuleStep> {
    let action = &compiled.action;
    let base = action.grants.base();
    let tier_source = if base.uses_tiers() { identities.tiers.source() } else { None };
    let is_simple = has_simple_conditions(&rule.when)
        && action.replaces.is_empty()
        && action.grants.has_exact_overrides()
        && action.key.iter().all(|id| is_readable(*id, identities))
        && tier_source.is_none_or(|id| is_readable(id, identities) && !identities.needs_peer(id));
    is_simple.then(|| RuleStep {
        rule: index,
        methods: 0,
        pattern_bits: 0,
        denies: compiled.deny,
        key: match *action.key {
            [CLIENT_IP] if !identities.get(CLIENT_IP).needs_encoding() => StepKey::Client,
            [only] => StepKey::One(only),
            ref parts => StepKey::Several(parts.into()),
        },
        uses_route: action.uses_route,
        key_shape: action.key_shape,
        shares_key: false,
        base: base.clone(),
        policy_overrides: action.grants.exact_overrides().map(|(key, quotas)| (key.into(), quotas.into())).collect(),
        cost: action.cost.clone(),
    })
}

fn common_step(step: &RuleStep, compiled: &CompiledRule, identities: &IdentityTable) -> CommonStep {
    let mut common = CommonStep::new(step.rule, step.methods, step.pattern_bits);
    if !step.denies && step.policy_overrides.is_empty() {
        common.make_common(&compiled.action.key, &step.base, &step.cost, identities);
    }
    common
}

/// Whether a rule has no conditions except on methods and paths.
fn has_simple_conditions(when: &When) -> bool {
    *when == When { methods: when.methods.clone(), paths: when.paths.clone(), ..When::default() }
}

/// Whether the value of an identity can be read without parsing a token or finding a tier.
fn is_readable(id: IdentityId, identities: &IdentityTable) -> bool {
    !identities.may_come_from(id, |source| matches!(source, ValueSource::Tier | ValueSource::Jwt { .. }))
}

/// Returns the methods in the conditions of all rules.
fn methods(rules: &[Rule]) -> Vec<Box<[u8]>> {
    let mut methods: Vec<Box<[u8]>> = Vec::new();
    for name in rules.iter().flat_map(|rule| &rule.when.methods).flat_map(|name| matched_methods(name)) {
        if !methods.contains(&name) {
            methods.push(name);
        }
    }
    methods
}

fn method_bits(wanted: &[String], methods: &[Box<[u8]>]) -> u32 {
    if wanted.is_empty() {
        return u32::MAX;
    }
    let position = |name| methods.iter().position(|known| *known == name);
    wanted
        .iter()
        .flat_map(|name| matched_methods(name))
        .filter_map(position)
        .fold(0, |bits, number| bits | 1_u32 << number)
}

/// Returns the bits of a rule's patterns. `None` if the rule has a condition on paths but no pattern: it never matches.
fn pattern_bits(index: u32, rule: &Rule, routes: &RouteTable) -> Option<u64> {
    let own = (0..).zip(routes.iter()).filter(|(_, (_, rules))| rules.contains(index));
    let bits = own.fold(0, |bits, (number, _)| bits | 1_u64 << number);
    (rule.when.paths.is_empty() == (bits == 0)).then_some(bits)
}
