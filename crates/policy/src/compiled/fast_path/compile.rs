//! Which policies are simple, and their steps.

use super::FastPath;
use super::common::CommonStep;
use super::step::{Step, StepKey};
use crate::compiled::access::CompiledAccess;
use crate::compiled::identity::{CLIENT_IP, Identities, IdentityId, Source};
use crate::compiled::matching::methods::meant;
use crate::compiled::path::routes::Routes;
use crate::compiled::rule::CompiledRule;
use crate::model::{Rule, When};

/// Beyond so many rules an index is faster than to ask each of them.
const RULES_MAX: usize = 32;
/// There is a bit for each of them.
const PATTERNS_MAX: usize = 64;
const METHODS_MAX: usize = 16;

impl FastPath {
    /// The steps of a policy; `None` if it is not simple.
    pub(in crate::compiled) fn compile(
        rules: &[Rule],
        compiled: &[CompiledRule],
        lists: &[&CompiledAccess],
        routes: &Routes,
        identities: &Identities,
    ) -> Option<FastPath> {
        let is_small = rules.len() <= RULES_MAX && routes.texts().len() <= PATTERNS_MAX;
        if !is_small || lists.iter().any(|list| !list.is_empty()) {
            return None;
        }
        let methods = methods(rules);
        if methods.len() > METHODS_MAX {
            return None;
        }
        let mut steps: Vec<Step> = Vec::with_capacity(rules.len());
        let mut common = Vec::with_capacity(rules.len());
        for (at, (rule, compiled)) in (0..).zip(rules.iter().zip(compiled)) {
            let mut step = step(at, rule, compiled, identities)?;
            step.methods = method_bits(&rule.when.methods, &methods);
            step.patterns = pattern_bits(at, rule, routes)?;
            step.shares_key = step.shape.is_some() && steps.iter().any(|before| before.shape == step.shape);
            common.push(common_step(&step, compiled, identities));
            steps.push(step);
        }
        let tier = identities.tiers.source().filter(|_| steps.iter().any(|step| step.base.uses_tiers()));
        let read = || compiled.iter().flat_map(|rule| &rule.action.key).copied().chain(tier);
        let reads = |is_one| read().any(|id| identities.may_be(id, is_one));
        let is_of_path = |source: &Source| matches!(source, Source::Path | Source::PathSegment(_) | Source::Route);
        let mut fast_path = FastPath {
            reads_method: !methods.is_empty()
                || reads(|source| matches!(source, Source::Method))
                || steps.iter().any(|step| step.cost.is_by_method()),
            reads_path: routes.texts().len() > 0 || reads(is_of_path),
            reads_client: common.iter().any(CommonStep::is_by_client),
            patterns: routes.iter().map(|(pattern, _)| pattern.clone()).collect(),
            paths: identities.paths,
            methods,
            steps,
            common,
            exact_paths: Vec::new(),
        };
        fast_path.find_exact_paths();
        Some(fast_path)
    }
}

/// What a rule does, without its conditions on method and path. `None` if it asks for more than those, or more is
/// needed for its key and its grant than to read a few values.
fn step(at: u32, rule: &Rule, compiled: &CompiledRule, identities: &Identities) -> Option<Step> {
    let action = &compiled.action;
    let base = action.grants.base();
    let tier_source = if base.uses_tiers() { identities.tiers.source() } else { None };
    let is_simple = has_simple_conditions(&rule.when)
        && action.replaces.is_empty()
        && action.grants.has_exact_overrides()
        && action.key.iter().all(|id| is_readable(*id, identities))
        && tier_source.is_none_or(|id| is_readable(id, identities) && !identities.needs_peer(id));
    is_simple.then(|| Step {
        rule: at,
        methods: 0,
        patterns: 0,
        denies: compiled.deny,
        key: match *action.key {
            [CLIENT_IP] if !identities.known(CLIENT_IP).needs_writing() => StepKey::Client,
            [only] => StepKey::One(only),
            ref parts => StepKey::Several(parts.into()),
        },
        uses_route: action.uses_route,
        shape: action.shape,
        shares_key: false,
        base: base.clone(),
        overrides: action.grants.exact_overrides().map(|(key, quotas)| (key.into(), quotas.into())).collect(),
        cost: action.cost.clone(),
    })
}

fn common_step(step: &Step, compiled: &CompiledRule, identities: &Identities) -> CommonStep {
    let mut common = CommonStep::new(step.rule, step.methods, step.patterns);
    if !step.denies && step.overrides.is_empty() {
        common.make_common(&compiled.action.key, &step.base, &step.cost, identities);
    }
    common
}

/// Whether a rule asks for nothing but methods and paths.
fn has_simple_conditions(when: &When) -> bool {
    *when == When { methods: when.methods.clone(), paths: when.paths.clone(), ..When::default() }
}

/// Whether the value of an identity is read without a token or a tier.
fn is_readable(id: IdentityId, identities: &Identities) -> bool {
    !identities.may_be(id, |source| matches!(source, Source::Tier | Source::Jwt { .. }))
}

/// The methods that rules ask for.
fn methods(rules: &[Rule]) -> Vec<Box<[u8]>> {
    let mut methods: Vec<Box<[u8]>> = Vec::new();
    for name in rules.iter().flat_map(|rule| &rule.when.methods).flat_map(|name| meant(name)) {
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
    wanted.iter().flat_map(|name| meant(name)).filter_map(position).fold(0, |bits, at| bits | 1_u32 << at)
}

/// The bits of a rule's patterns. `None` if it asks for paths and has no pattern, which none of them matches.
fn pattern_bits(at: u32, rule: &Rule, routes: &Routes) -> Option<u64> {
    let own = (0..).zip(routes.iter()).filter(|(_, (_, rules))| rules.contains(at));
    let bits = own.fold(0, |bits, (number, _)| bits | 1_u64 << number);
    (rule.when.paths.is_empty() == (bits == 0)).then_some(bits)
}
