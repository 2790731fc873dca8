//! The grants of a rule. A grant is the list of quotas that the rule applies to a key; an empty list is unlimited.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use tollgate_core::Quota;

use crate::compiled::grants::scopes::Scopes;
use crate::compiled::grants::tier::Tiers;
use crate::compiled::identity::{FoundValue, IdentityId, IdentityTable, RequestValues};
use crate::compiled::key::key_bytes::{self, KeyBuffer};
use crate::compiled::matching::conditions::Pattern;
use crate::compiled::{GrantSource, PossibleGrant};
use crate::model::{Allowance, Grant, Rule};

/// All grants of a rule.
#[derive(Debug)]
pub(crate) struct Grants {
    base: BaseGrants,
    overrides: Vec<CompiledOverride>,
    /// The overrides without wildcards, by their key.
    exact: HashMap<Box<[u8]>, u32, FixedState>,
    /// The overrides with wildcards, the most specific first.
    wildcards: Vec<u32>,
}

/// The grants of a rule without its overrides.
#[derive(Clone, Debug)]
pub(crate) enum BaseGrants {
    Same(Vec<u32>),
    /// The grants of tiers, and the index of the grant for each tier of the policy and for requests without a tier.
    Tiers {
        grants: Vec<(u32, Vec<u32>)>,
        by_tier: Vec<usize>,
        default: usize,
    },
}

#[derive(Debug)]
struct CompiledOverride {
    text: String,
    quotas: Vec<u32>,
    patterns: Vec<Pattern>,
    /// Whether the override grants no more than the rule grants to every client.
    restricts: bool,
}

/// The grant of a request: its quotas, none if it is unlimited, and its origin.
pub(crate) struct ChosenGrant<'a> {
    pub(crate) quotas: &'a [u32],
    origin: GrantOrigin,
}

#[derive(Clone, Copy)]
enum GrantOrigin {
    Rule,
    Tier(u32),
    Override(u32),
}

impl Grants {
    pub(crate) fn compile(
        rule_index: u32,
        rule: &Rule,
        redacted: &Rule,
        key: &[IdentityId],
        identities: &IdentityTable,
        scopes: &mut Scopes,
    ) -> Grants {
        let scope = rule.budget.as_ref().unwrap_or(&rule.name);
        let base = match &rule.allowance {
            Allowance::Same(grant) => BaseGrants::Same(scopes.add(rule_index, scope, grant)),
            Allowance::Tiers(tiers) => compile_tiers(rule_index, scope, tiers, &identities.tiers, scopes),
            Allowance::Deny => BaseGrants::Same(Vec::new()),
        };
        let mut grants = Grants { base, overrides: Vec::new(), exact: HashMap::default(), wildcards: Vec::new() };
        for (written, redacted) in rule.overrides.iter().zip(&redacted.overrides) {
            let compiled = CompiledOverride {
                text: redacted.key.iter().map(|pattern| pattern.0.as_str()).collect::<Vec<_>>().join(" | "),
                quotas: scopes.add(rule_index, &rule.name, &written.grant),
                patterns: key.iter().zip(&written.key).map(|(id, pattern)| identities.pattern(*id, pattern)).collect(),
                restricts: restricts(&written.grant, &rule.allowance),
            };
            grants.add_override(compiled, key, identities);
        }
        let Grants { overrides, wildcards, .. } = &mut grants;
        wildcards.sort_by_key(|number| specificity(&overrides[*number as usize].patterns));
        grants
    }

    fn add_override(&mut self, compiled: CompiledOverride, key: &[IdentityId], identities: &IdentityTable) {
        let number = u32::try_from(self.overrides.len()).unwrap_or(u32::MAX);
        if compiled.patterns.iter().any(|pattern| pattern.text.is_wildcard()) {
            self.wildcards.push(number);
        } else {
            for key in exact_keys(&compiled.patterns, key, identities) {
                self.exact.entry(key.to_vec().into()).or_insert(number);
            }
        }
        self.overrides.push(compiled);
    }

    /// Returns the grant of a key: that of a matching override, else that of the tier, else the rule's own.
    #[inline]
    pub(crate) fn choose<'a>(
        &self,
        values: &RequestValues<'_>,
        key: &[u8],
        parts: &[IdentityId],
        route: impl Fn() -> Option<&'a [u8]>,
    ) -> ChosenGrant<'_> {
        if !self.overrides.is_empty() {
            let route = route();
            let found: SmallVec<[_; 4]> = parts.iter().map(|id| values.find(*id, route)).collect();
            if let Some(number) = self.find_override(values, key, &found) {
                return ChosenGrant {
                    quotas: &self.overrides[number as usize].quotas,
                    origin: GrantOrigin::Override(number),
                };
            }
        }
        self.base.choose(|| values.tier())
    }

    /// Returns the grants of the rule without its overrides.
    pub(crate) fn base(&self) -> &BaseGrants {
        &self.base
    }

    /// Whether no override has a wildcard.
    pub(crate) fn has_exact_overrides(&self) -> bool {
        self.wildcards.is_empty()
    }

    /// Returns the keys and quotas of the overrides without wildcards.
    pub(crate) fn exact_overrides(&self) -> impl Iterator<Item = (&[u8], &[u32])> {
        self.exact.iter().map(|(key, number)| (&**key, self.overrides[*number as usize].quotas.as_slice()))
    }

    /// Returns the override that matches a key and the values that it consists of.
    fn find_override(&self, values: &RequestValues<'_>, key: &[u8], found: &[Option<FoundValue<'_>>]) -> Option<u32> {
        if found.iter().flatten().any(|found| values.as_sent(*found).is_some()) {
            return self.find_override_embedded(values, key, found);
        }
        let exact = self.exact.get(key).copied();
        exact.or_else(|| {
            self.wildcards.iter().copied().find(|number| self.override_matches(*number, values, found, false))
        })
    }

    /// The same if the key contains the IPv4 address that the client's IPv6 address embeds (NAT64, 6to4). An override
    /// for the IPv6 address as it was sent always applies; one for the embedded IPv4 address only if it grants no more
    /// than the rule.
    #[cold]
    fn find_override_embedded(
        &self,
        values: &RequestValues<'_>,
        key: &[u8],
        found: &[Option<FoundValue<'_>>],
    ) -> Option<u32> {
        let sent =
            (0..).take(self.overrides.len()).filter(|number| self.override_matches(*number, values, found, true));
        let most_specific = sent.min_by_key(|number| specificity(&self.overrides[*number as usize].patterns));
        let restricts = |number: &u32| self.overrides[*number as usize].restricts;
        most_specific.or_else(|| self.exact.get(key).copied().filter(restricts)).or_else(|| {
            let mut wildcards = self.wildcards.iter().copied().filter(restricts);
            wildcards.find(|number| self.override_matches(*number, values, found, false))
        })
    }

    /// Whether an override matches the values of a key. No override matches an unusable value.
    fn override_matches(
        &self,
        number: u32,
        values: &RequestValues<'_>,
        found: &[Option<FoundValue<'_>>],
        as_sent: bool,
    ) -> bool {
        let patterns = &self.overrides[number as usize].patterns;
        let part_matches = |(pattern, found): (&Pattern, &Option<FoundValue<'_>>)| {
            found.filter(FoundValue::is_usable).is_some_and(|found| {
                let sent = if as_sent { values.as_sent(found) } else { None };
                pattern.matches(found.id, sent.as_deref().unwrap_or(found.text))
            })
        };
        patterns.iter().zip(found).all(part_matches)
    }

    /// Returns the origin of a grant, with its name.
    pub(crate) fn source(&self, chosen: &ChosenGrant<'_>, tiers: &Tiers) -> GrantSource {
        match chosen.origin {
            GrantOrigin::Rule => GrantSource::Rule,
            GrantOrigin::Tier(tier) => GrantSource::Tier(tiers.name(tier).to_owned()),
            GrantOrigin::Override(number) => GrantSource::Override(self.overrides[number as usize].text.clone()),
        }
    }

    /// Returns the grants that a key may have. An override without wildcards for this key is the only one.
    pub(crate) fn possible(&self, key: &[u8], tiers: &Tiers) -> Vec<PossibleGrant> {
        let override_grant = |number: &u32| {
            let CompiledOverride { text, quotas, .. } = &self.overrides[*number as usize];
            PossibleGrant { source: GrantSource::Override(text.clone()), quotas: quotas.clone() }
        };
        if let Some(number) = self.exact.get(key) {
            return vec![override_grant(number)];
        }
        let mut possible: Vec<PossibleGrant> = match &self.base {
            BaseGrants::Same(quotas) => vec![PossibleGrant { source: GrantSource::Rule, quotas: quotas.clone() }],
            BaseGrants::Tiers { grants, .. } => {
                let of_tier = |(tier, quotas): &(u32, Vec<u32>)| PossibleGrant {
                    source: GrantSource::Tier(tiers.name(*tier).to_owned()),
                    quotas: quotas.clone(),
                };
                grants.iter().map(of_tier).collect()
            }
        };
        possible.extend(self.wildcards.iter().map(override_grant));
        possible
    }

    pub(crate) fn uses_tiers(&self) -> bool {
        self.base.uses_tiers()
    }
}

impl BaseGrants {
    #[inline]
    pub(crate) fn uses_tiers(&self) -> bool {
        matches!(self, BaseGrants::Tiers { .. })
    }

    #[inline]
    pub(crate) fn choose(&self, tier: impl FnOnce() -> Option<u32>) -> ChosenGrant<'_> {
        match self {
            BaseGrants::Same(quotas) => ChosenGrant { quotas, origin: GrantOrigin::Rule },
            BaseGrants::Tiers { grants, by_tier, default } => {
                let index = tier().and_then(|tier| by_tier.get(tier as usize)).unwrap_or(default);
                let Some((tier, quotas)) = grants.get(*index) else {
                    return ChosenGrant { quotas: &[], origin: GrantOrigin::Rule };
                };
                ChosenGrant { quotas, origin: GrantOrigin::Tier(*tier) }
            }
        }
    }
}

/// Compiles the grants of tiers. A tier that the rule does not name has the grant of the default tier. The check
/// refuses rules that do not name the default tier either; for them, the first named tier is used, because no grant at
/// all would make the rule avoidable.
fn compile_tiers(
    rule_index: u32,
    name: &str,
    tiers: &[(String, Grant)],
    known: &Tiers,
    scopes: &mut Scopes,
) -> BaseGrants {
    let number = |tier: &str| known.number(tier.as_bytes()).unwrap_or(u32::MAX);
    let grants: Vec<(u32, Vec<u32>)> = tiers
        .iter()
        .map(|(tier, grant)| (number(tier), scopes.add_for_tier(rule_index, name, Some(tier), grant)))
        .collect();
    let position = |tier: u32| grants.iter().position(|(named, _)| *named == tier);
    let default = known.default_number().and_then(position).unwrap_or(0);
    let by_tier = (0..).take(known.count()).map(|tier| position(tier).unwrap_or(default)).collect();
    BaseGrants::Tiers { grants, by_tier, default }
}

/// Returns the keys that patterns without wildcards match: several if a part may come from one of several identities.
fn exact_keys(patterns: &[Pattern], key: &[IdentityId], identities: &IdentityTable) -> Vec<KeyBuffer> {
    let mut keys = vec![KeyBuffer::new()];
    for (part_index, (pattern, id)) in patterns.iter().zip(key).enumerate() {
        let mut longer = Vec::new();
        for prefix in &keys {
            for source in identities.candidates(*id).filter(|source| pattern.only.is_none_or(|only| only == *source)) {
                let mut key = prefix.clone();
                push_part(&mut key, part_index, *id, source, pattern.text.0.as_bytes(), identities);
                longer.push(key);
            }
        }
        keys = longer;
    }
    keys
}

/// Writes one part of a key: the value of `id`, which was found under `source`.
#[inline]
pub(crate) fn push_part(
    keys: &mut KeyBuffer,
    part_index: usize,
    id: IdentityId,
    source: IdentityId,
    value: &[u8],
    identities: &IdentityTable,
) {
    begin_part(keys, part_index, id, source, identities);
    identities.push_value(keys, source, value);
}

/// The same for a value as it was found. An unusable value is replaced by the client's address.
#[inline]
pub(crate) fn push_found(
    keys: &mut KeyBuffer,
    part_index: usize,
    id: IdentityId,
    found: FoundValue<'_>,
    identities: &IdentityTable,
) {
    if found.is_usable() {
        return push_part(keys, part_index, id, found.id, found.text, identities);
    }
    begin_part(keys, part_index, id, found.id, identities);
    key_bytes::push_unusable(keys, found.text);
}

#[inline]
fn begin_part(keys: &mut KeyBuffer, part_index: usize, id: IdentityId, source: IdentityId, identities: &IdentityTable) {
    if part_index > 0 {
        key_bytes::push_separator(keys);
    }
    if identities.is_list(id) {
        key_bytes::push_name(keys, &identities.get(source).name);
    }
}

/// Whether a grant is no more than the rule grants to any tier.
fn restricts(grant: &Grant, allowance: &Allowance) -> bool {
    let own = grant.quotas();
    let is_less = |base: &Grant| base.quotas().iter().all(|base| own.iter().any(|own| is_within(own, base)));
    // A rule that denies has no overrides.
    !own.is_empty() && *allowance != Allowance::Deny && allowance.grants().all(|(_, base)| is_less(base))
}

fn is_within(own: &Quota, base: &Quota) -> bool {
    let per_both = |amount: u64, period_ns: u64| u128::from(amount) * u128::from(period_ns);
    own.burst() <= base.burst() && per_both(own.amount(), base.period_ns()) <= per_both(base.amount(), own.period_ns())
}

/// Returns the sort key of overrides: fewer wildcards first, then longer patterns.
fn specificity(patterns: &[Pattern]) -> (usize, std::cmp::Reverse<usize>) {
    let wildcards = patterns.iter().filter(|pattern| pattern.text.is_wildcard()).count();
    (wildcards, std::cmp::Reverse(patterns.iter().map(|pattern| pattern.text.0.len()).sum()))
}
