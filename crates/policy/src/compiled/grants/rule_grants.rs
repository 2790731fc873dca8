//! How much somebody is granted under a rule.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use tollgate_core::Quota;

use crate::compiled::grants::scopes::Scopes;
use crate::compiled::grants::tier::Tiers;
use crate::compiled::identity::{Found, Identities, IdentityId, RequestValues};
use crate::compiled::key::key_bytes::{self, Keys};
use crate::compiled::matching::conditions::Pattern;
use crate::compiled::{GrantSource, PossibleGrant};
use crate::model::{Allowance, Grant, Rule};

/// All grants of a rule.
#[derive(Debug)]
pub(crate) struct Grants {
    base: Base,
    overrides: Vec<CompiledOverride>,
    /// Overrides without stars, by the key that they mean.
    exact: HashMap<Box<[u8]>, u32, FixedState>,
    /// The others, the most exact first.
    wild: Vec<u32>,
}

/// What a rule grants without its overrides.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    Same(Vec<u32>),
    /// The grants, and for each tier of the policy, and for no tier, which of them holds.
    Tiers {
        grants: Vec<(u32, Vec<u32>)>,
        by_tier: Vec<usize>,
        without: usize,
    },
}

#[derive(Debug)]
struct CompiledOverride {
    text: String,
    quotas: Vec<u32>,
    patterns: Vec<Pattern>,
    /// Whether it grants no more than the rule does to any client.
    restricts: bool,
}

/// A grant that was chosen: its quotas, none if it is unlimited, and where it comes from.
pub(crate) struct Chosen<'a> {
    pub(crate) quotas: &'a [u32],
    from: From,
}

#[derive(Clone, Copy)]
enum From {
    Rule,
    Tier(u32),
    Override(u32),
}

impl Grants {
    pub(crate) fn compile(
        at: u32,
        rule: &Rule,
        shown: &Rule,
        key: &[IdentityId],
        identities: &Identities,
        scopes: &mut Scopes,
    ) -> Grants {
        let base = match &rule.allowance {
            Allowance::Same(grant) => Base::Same(scopes.add(at, &rule.name, grant)),
            Allowance::Tiers(tiers) => by_tier(at, &rule.name, tiers, &identities.tiers, scopes),
            Allowance::Deny => Base::Same(Vec::new()),
        };
        let mut grants = Grants { base, overrides: Vec::new(), exact: HashMap::default(), wild: Vec::new() };
        for (given, shown) in rule.overrides.iter().zip(&shown.overrides) {
            let made = CompiledOverride {
                text: shown.key.iter().map(|pattern| pattern.0.as_str()).collect::<Vec<_>>().join(" | "),
                quotas: scopes.add(at, &rule.name, &given.grant),
                patterns: key.iter().zip(&given.key).map(|(id, pattern)| identities.pattern(*id, pattern)).collect(),
                restricts: restricts(&given.grant, &rule.allowance),
            };
            grants.add_override(made, key, identities);
        }
        let Grants { overrides, wild, .. } = &mut grants;
        wild.sort_by_key(|number| specificity(&overrides[*number as usize].patterns));
        grants
    }

    fn add_override(&mut self, made: CompiledOverride, key: &[IdentityId], identities: &Identities) {
        let number = u32::try_from(self.overrides.len()).unwrap_or(u32::MAX);
        if made.patterns.iter().any(|pattern| pattern.text.is_wildcard()) {
            self.wild.push(number);
        } else {
            for key in keys_meant(&made.patterns, key, identities) {
                self.exact.entry(key.to_vec().into()).or_insert(number);
            }
        }
        self.overrides.push(made);
    }

    /// The grant for a key: an override that means it, else that of the tier, else the rule's own.
    #[inline]
    pub(crate) fn choose<'a>(
        &self,
        values: &RequestValues<'_>,
        key: &[u8],
        parts: &[IdentityId],
        route: impl Fn() -> Option<&'a [u8]>,
    ) -> Chosen<'_> {
        if !self.overrides.is_empty() {
            let route = route();
            let found: SmallVec<[_; 4]> = parts.iter().map(|id| values.find(*id, route)).collect();
            if let Some(number) = self.overriding(values, key, &found) {
                return Chosen { quotas: &self.overrides[number as usize].quotas, from: From::Override(number) };
            }
        }
        self.base.choose(|| values.tier())
    }

    /// What the rule grants without its overrides.
    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    /// Whether each override means certain keys, and no pattern of keys.
    pub(crate) fn has_exact_overrides(&self) -> bool {
        self.wild.is_empty()
    }

    /// The quotas of the overrides that mean certain keys, by key.
    pub(crate) fn exact_overrides(&self) -> impl Iterator<Item = (&[u8], &[u32])> {
        self.exact.iter().map(|(key, number)| (&**key, self.overrides[*number as usize].quotas.as_slice()))
    }

    /// The override that means a key, which was made of these values.
    fn overriding(&self, values: &RequestValues<'_>, key: &[u8], found: &[Option<Found<'_>>]) -> Option<u32> {
        if found.iter().flatten().any(|found| values.as_sent(*found).is_some()) {
            return self.overriding_carried(values, key, found);
        }
        let exact = self.exact.get(key).copied();
        exact.or_else(|| self.wild.iter().copied().find(|number| self.means(*number, values, found, false)))
    }

    /// The same where the key has an IPv4 address that the client's own address only carries: what is granted to
    /// that one counts where it is no more than the rule grants, and else only what is granted to the address as sent.
    #[cold]
    fn overriding_carried(&self, values: &RequestValues<'_>, key: &[u8], found: &[Option<Found<'_>>]) -> Option<u32> {
        let sent = (0..).take(self.overrides.len()).filter(|number| self.means(*number, values, found, true));
        let most_exact = sent.min_by_key(|number| specificity(&self.overrides[*number as usize].patterns));
        let restricts = |number: &u32| self.overrides[*number as usize].restricts;
        most_exact.or_else(|| self.exact.get(key).copied().filter(restricts)).or_else(|| {
            let mut wild = self.wild.iter().copied().filter(restricts);
            wild.find(|number| self.means(*number, values, found, false))
        })
    }

    /// Whether an override means the values of a key. A value that cannot be used is none.
    fn means(&self, number: u32, values: &RequestValues<'_>, found: &[Option<Found<'_>>], as_sent: bool) -> bool {
        let patterns = &self.overrides[number as usize].patterns;
        let is_meant = |(pattern, found): (&Pattern, &Option<Found<'_>>)| {
            found.filter(Found::is_usable).is_some_and(|found| {
                let sent = if as_sent { values.as_sent(found) } else { None };
                pattern.matches(found.id, sent.as_deref().unwrap_or(found.text))
            })
        };
        patterns.iter().zip(found).all(is_meant)
    }

    /// Where a grant comes from, in words.
    pub(crate) fn source(&self, chosen: &Chosen<'_>, tiers: &Tiers) -> GrantSource {
        match chosen.from {
            From::Rule => GrantSource::Rule,
            From::Tier(tier) => GrantSource::Tier(tiers.name(tier).to_owned()),
            From::Override(number) => GrantSource::Override(self.overrides[number as usize].text.clone()),
        }
    }

    /// The grants that a key may have: an exact override for it is the only one.
    pub(crate) fn possible(&self, key: &[u8], tiers: &Tiers) -> Vec<PossibleGrant> {
        let overriding = |number: &u32| {
            let CompiledOverride { text, quotas, .. } = &self.overrides[*number as usize];
            PossibleGrant { source: GrantSource::Override(text.clone()), quotas: quotas.clone() }
        };
        if let Some(number) = self.exact.get(key) {
            return vec![overriding(number)];
        }
        let mut possible: Vec<PossibleGrant> = match &self.base {
            Base::Same(quotas) => vec![PossibleGrant { source: GrantSource::Rule, quotas: quotas.clone() }],
            Base::Tiers { grants, .. } => {
                let of_tier = |(tier, quotas): &(u32, Vec<u32>)| PossibleGrant {
                    source: GrantSource::Tier(tiers.name(*tier).to_owned()),
                    quotas: quotas.clone(),
                };
                grants.iter().map(of_tier).collect()
            }
        };
        possible.extend(self.wild.iter().map(overriding));
        possible
    }

    pub(crate) fn uses_tiers(&self) -> bool {
        self.base.uses_tiers()
    }
}

impl Base {
    #[inline]
    pub(crate) fn uses_tiers(&self) -> bool {
        matches!(self, Base::Tiers { .. })
    }

    #[inline]
    pub(crate) fn choose(&self, tier: impl FnOnce() -> Option<u32>) -> Chosen<'_> {
        match self {
            Base::Same(quotas) => Chosen { quotas, from: From::Rule },
            Base::Tiers { grants, by_tier, without } => {
                let at = tier().and_then(|tier| by_tier.get(tier as usize)).unwrap_or(without);
                let Some((tier, quotas)) = grants.get(*at) else { return Chosen { quotas: &[], from: From::Rule } };
                Chosen { quotas, from: From::Tier(*tier) }
            }
        }
    }
}

/// A tier that the rule does not name gets what the default tier gets. A rule
/// that does not name that one either has been refused; the first that it
/// names stands in, since nothing at all would be a way around the rule.
fn by_tier(at: u32, name: &str, tiers: &[(String, Grant)], known: &Tiers, scopes: &mut Scopes) -> Base {
    let number = |tier: &str| known.number(tier.as_bytes()).unwrap_or(u32::MAX);
    let grants: Vec<(u32, Vec<u32>)> =
        tiers.iter().map(|(tier, grant)| (number(tier), scopes.add(at, name, grant))).collect();
    let position = |tier: u32| grants.iter().position(|(named, _)| *named == tier);
    let without = known.default_number().and_then(position).unwrap_or(0);
    let by_tier = (0..).take(known.count()).map(|tier| position(tier).unwrap_or(without)).collect();
    Base::Tiers { grants, by_tier, without }
}

/// The keys that patterns without stars mean: several where a part may come from one of several identities.
fn keys_meant(patterns: &[Pattern], key: &[IdentityId], identities: &Identities) -> Vec<Keys> {
    let mut keys = vec![Keys::new()];
    for (at, (pattern, id)) in patterns.iter().zip(key).enumerate() {
        let mut longer = Vec::new();
        for begun in &keys {
            for source in identities.places(*id).filter(|source| pattern.only.is_none_or(|only| only == *source)) {
                let mut key = begun.clone();
                push_part(&mut key, at, *id, source, pattern.text.0.as_bytes(), identities);
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
    keys: &mut Keys,
    at: usize,
    id: IdentityId,
    source: IdentityId,
    value: &[u8],
    identities: &Identities,
) {
    begin_part(keys, at, id, source, identities);
    identities.push_value(keys, source, value);
}

/// The same for a value as it was found: the client's address stands for one that cannot be used.
#[inline]
pub(crate) fn push_found(keys: &mut Keys, at: usize, id: IdentityId, found: Found<'_>, identities: &Identities) {
    if found.is_usable() {
        return push_part(keys, at, id, found.id, found.text, identities);
    }
    begin_part(keys, at, id, found.id, identities);
    key_bytes::push_unusable(keys, found.text);
}

#[inline]
fn begin_part(keys: &mut Keys, at: usize, id: IdentityId, source: IdentityId, identities: &Identities) {
    if at > 0 {
        key_bytes::push_bar(keys);
    }
    if identities.is_list(id) {
        key_bytes::push_name(keys, &identities.known(source).name);
    }
}

/// Whether a grant is no more than what the rule grants, whatever the tier.
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

/// Without stars before with, longer before shorter.
fn specificity(patterns: &[Pattern]) -> (usize, std::cmp::Reverse<usize>) {
    let stars = patterns.iter().filter(|pattern| pattern.text.is_wildcard()).count();
    (stars, std::cmp::Reverse(patterns.iter().map(|pattern| pattern.text.0.len()).sum()))
}
