//! Finds the tier of a client.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::compiled::identity::{IdentityId, IdentityTable, RequestValues, caller_value};
use crate::compiled::matching::conditions::TextMap;
use crate::model::{Allowance, Condition, Policy, TIER, TextPattern, TierSource};

/// All tiers of a policy, by number.
#[derive(Debug, Default)]
pub(crate) struct Tiers {
    names: Vec<String>,
    numbers: HashMap<Box<[u8]>, u32, FixedState>,
    /// The identity whose value determines the tier.
    source: Option<IdentityId>,
    /// The tier of each value, if the value itself is not the name of a tier.
    listed: Option<TextMap<u32>>,
    /// The tier of clients whose tier is absent or unknown.
    default: Option<u32>,
}

impl Tiers {
    pub(crate) fn compile(policy: &Policy, identities: &mut IdentityTable) -> Tiers {
        let mut tiers = Tiers::default();
        for name in named_tiers(policy) {
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

    /// Returns the identity whose value determines the tier.
    pub(crate) fn source(&self) -> Option<IdentityId> {
        self.source
    }

    /// Returns the tier for a value of the source, which was found under the identity `found`; the default if the value
    /// is unknown.
    pub(crate) fn for_value(&self, found: IdentityId, text: &[u8]) -> Option<u32> {
        let number = match &self.listed {
            Some(tiers) => tiers.find(found, text).next().copied(),
            None => self.number(text),
        };
        number.or(self.default)
    }

    /// Returns the tier that a caller names; the default if it is unknown.
    pub(crate) fn for_name(&self, name: &[u8]) -> Option<u32> {
        self.number(name).or(self.default)
    }

    /// Returns the tier of a request. An unknown value yields the default: a client cannot obtain a tier by inventing a
    /// name.
    pub(crate) fn find(&self, values: &RequestValues<'_>) -> Option<u32> {
        if let Some(name) = caller_value(values.request, TIER) {
            return self.for_name(name);
        }
        match self.source.and_then(|source| values.find_usable(source, None)) {
            Some(found) => self.for_value(found.id, values.as_sent(found).as_deref().unwrap_or(found.text)),
            None => self.default,
        }
    }
}

/// Returns the tiers that rules name, in their grants or in their conditions.
fn named_tiers(policy: &Policy) -> Vec<&str> {
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
