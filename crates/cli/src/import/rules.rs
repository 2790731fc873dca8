//! Converts nested descriptors to rules.
//!
//! envoyproxy/ratelimit matches the entries of a request against a tree. For each
//! entry it selects, among the descriptors with the entry's key, the one with the
//! same value, else the first wildcard that matches, else the one without a value.
//! It does not backtrack, and only the limit of the last selected descriptor
//! applies. A rule therefore requires exactly the entries on the path to its
//! limit, and excludes the values for which another descriptor is selected.

use tollgate::policy::model::TextPattern;

use super::configuration::{EnvoyAmount, EnvoyConfiguration, EnvoyDescriptor, EnvoyLimit, EnvoyValue};
use super::identity_names::{EntryIdentity, identity_of};
use super::rule_names::RuleNames;

/// A rule of the policy.
#[derive(Debug)]
pub(super) struct ImportedRule {
    pub(super) name: String,
    pub(super) domain: String,
    pub(super) conditions: Vec<EntryCondition>,
    pub(super) amount: EnvoyAmount,
    pub(super) shadow: bool,
    pub(super) replaces: Vec<String>,
}

/// The condition of a rule on one entry.
#[derive(Clone, Debug)]
pub(super) struct EntryCondition {
    pub(super) identity: EntryIdentity,
    pub(super) is: Option<String>,
    pub(super) not: Vec<String>,
    /// Whether each value has its own counter.
    pub(super) counted: bool,
}

pub(super) fn rules(configurations: &[EnvoyConfiguration]) -> Vec<ImportedRule> {
    let mut names = RuleNames::default();
    let mut rules = Vec::new();
    for EnvoyConfiguration { domain, descriptors, .. } in configurations {
        let mut found = Vec::new();
        visit_limits(descriptors, &mut Vec::new(), domain, &mut |text, conditions, descriptor, limit| {
            found.push((names.take(text), conditions.to_vec(), descriptor.shadow, limit));
        });
        let rules_with_limit_name = |name: &String| {
            let has_name = |(_, _, _, limit): &&(String, _, _, &EnvoyLimit)| limit.name.as_ref() == Some(name);
            found.iter().filter(has_name).map(|(rule, ..)| rule.clone()).collect::<Vec<_>>()
        };
        rules.extend(found.iter().map(|(name, conditions, shadow, limit)| ImportedRule {
            name: name.clone(),
            domain: domain.clone(),
            conditions: conditions.clone(),
            amount: limit.amount.clone(),
            shadow: *shadow,
            replaces: limit.replaces.iter().flat_map(rules_with_limit_name).filter(|other| other != name).collect(),
        }));
    }
    rules
}

/// Calls `found` for every limit, with a text for its name and the conditions on the entries of its path.
fn visit_limits<'c>(
    descriptors: &'c [EnvoyDescriptor],
    path: &mut Vec<EntryCondition>,
    text: &str,
    found: &mut impl FnMut(&str, &[EntryCondition], &'c EnvoyDescriptor, &'c EnvoyLimit),
) {
    for (at, descriptor) in descriptors.iter().enumerate() {
        // The reader has rejected keys without an identity.
        let Some(identity) = identity_of(&descriptor.key) else { continue };
        let not = values_of_others(descriptors, at);
        let (is, counted, shown) = match &descriptor.value {
            EnvoyValue::Exact(value) => (Some(value.clone()), false, format!("_{value}")),
            EnvoyValue::Wildcard(value) => (Some(value.clone()), !descriptor.shared, format!("_{value}")),
            EnvoyValue::Any => (None, true, String::new()),
        };
        path.push(EntryCondition { identity, is, not, counted });
        let text = format!("{text}.{}{shown}", descriptor.key);
        if let Some(limit) = &descriptor.limit {
            found(&text, path, descriptor, limit);
        }
        visit_limits(&descriptor.descriptors, path, &text, found);
        path.pop();
    }
}

/// The values for which another descriptor with the same key is selected before this one.
fn values_of_others(descriptors: &[EnvoyDescriptor], at: usize) -> Vec<String> {
    let own = &descriptors[at];
    let same_key = descriptors.iter().enumerate().filter(|(_, other)| other.key == own.key);
    same_key
        .filter_map(|(other_at, other)| match (&own.value, &other.value) {
            (EnvoyValue::Any, EnvoyValue::Exact(value) | EnvoyValue::Wildcard(value)) => Some(value.clone()),
            (EnvoyValue::Wildcard(own), EnvoyValue::Exact(value)) => {
                TextPattern(own.clone()).matches(value.as_bytes()).then(|| value.clone())
            }
            (EnvoyValue::Wildcard(_), EnvoyValue::Wildcard(value)) => (other_at < at).then(|| value.clone()),
            _ => None,
        })
        .collect()
}
