//! Which tier a client belongs to.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::compiled::identity::{Identities, IdentityId, RequestValues, said_by_caller};
use crate::compiled::matching::conditions::TextMap;
use crate::model::{Allowance, Condition, Policy, TIER, TextPattern, TierSource};

/// All tiers that a policy knows, by number.
#[derive(Debug, Default)]
pub(crate) struct Tiers {
    names: Vec<String>,
    numbers: HashMap<Box<[u8]>, u32, FixedState>,
    /// The identity by whose value it is found.
    source: Option<IdentityId>,
    /// The tiers of values, where a value itself is none.
    listed: Option<TextMap<u32>>,
    /// Of everybody whose tier is absent or not known.
    default: Option<u32>,
}

impl Tiers {
    pub(crate) fn compile(policy: &Policy, identities: &mut Identities) -> Tiers {
        let mut tiers = Tiers::default();
        for name in named(policy) {
            tiers.number_or_add(name);
        }
        let Some(tier) = &policy.tier else { return tiers };
        tiers.default = Some(tiers.number_or_add(&tier.default));
        tiers.source = Some(match &tier.source {
            TierSource::Direct(source) => identities.tier_source(source, tier.trusted),
            TierSource::Listed { by, tiers: listed } => {
                let by = identities.id(by);
                let mut map = TextMap::new();
                for (value, name) in listed {
                    *map.entry(identities.pattern(by, &TextPattern(value.clone()))) = tiers.number_or_add(name);
                }
                tiers.listed = Some(map);
                by
            }
        });
        tiers
    }

    fn number_or_add(&mut self, name: &str) -> u32 {
        if let Some(number) = self.number(name.as_bytes()) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.numbers.insert(name.as_bytes().into(), number);
        number
    }

    pub(crate) fn number(&self, name: &[u8]) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }

    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn default_number(&self) -> Option<u32> {
        self.default
    }

    /// The identity by whose value it is found.
    pub(crate) fn source(&self) -> Option<IdentityId> {
        self.source
    }

    /// The tier under a value of its source, which was found under `found`: the default for one that is not known.
    pub(crate) fn of_value(&self, found: IdentityId, text: &[u8]) -> Option<u32> {
        let number = match &self.listed {
            Some(tiers) => tiers.find(found, text).next().copied(),
            None => self.number(text),
        };
        number.or(self.default)
    }

    /// The tier that a caller names.
    pub(crate) fn of_name(&self, name: &[u8]) -> Option<u32> {
        self.number(name).or(self.default)
    }

    /// The tier of a request. A value that no part of the policy knows is the
    /// default: nobody becomes somebody else by a word of their own.
    pub(crate) fn find(&self, values: &RequestValues<'_>) -> Option<u32> {
        if let Some(name) = said_by_caller(values.request, TIER) {
            return self.of_name(name);
        }
        match self.source.and_then(|source| values.find_usable(source, None)) {
            Some(found) => self.of_value(found.id, values.as_sent(found).as_deref().unwrap_or(found.text)),
            None => self.default,
        }
    }
}

/// The tiers that rules name, in what they grant or in what they ask for.
fn named(policy: &Policy) -> Vec<&str> {
    let mut names = Vec::new();
    for rule in &policy.rules {
        if let Allowance::Tiers(tiers) = &rule.allowance {
            names.extend(tiers.iter().map(|(name, _)| name.as_str()));
        }
        for (identity, condition) in &rule.when.identities {
            if let (TIER, Condition::OneOf(patterns)) = (identity.as_str(), condition) {
                names
                    .extend(patterns.iter().filter(|pattern| !pattern.is_wildcard()).map(|pattern| pattern.0.as_str()));
            }
        }
    }
    names
}
