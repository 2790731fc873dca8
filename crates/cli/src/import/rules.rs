//! From nested descriptors to rules.
//!
//! There a request's descriptor walks down a tree: of the descriptors for an
//! entry's key it takes the one with its value, else the first wildcard that
//! fits, else the one for all values; it never turns back, and a limit holds
//! only at the end of the walk. Here every rule asks for exactly the entries of
//! its walk, and for none of the values that would have led elsewhere.

use tollgate::policy::model::TextPattern;

use super::configuration::{Amount, Configuration, Descriptor, Limit, Value};
use super::identity_names::{Identity, identity_of};
use super::rule_names::RuleNames;

/// A rule of the policy.
#[derive(Debug)]
pub(super) struct ImportedRule {
    pub(super) name: String,
    pub(super) domain: String,
    pub(super) asked: Vec<Asked>,
    pub(super) amount: Amount,
    pub(super) shadow: bool,
    pub(super) replaces: Vec<String>,
}

/// What a rule asks of one entry.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) identity: Identity,
    pub(super) is: Option<String>,
    pub(super) not: Vec<String>,
    /// Whether each value has a counter of its own.
    pub(super) counted: bool,
}

pub(super) fn rules(configurations: &[Configuration]) -> Vec<ImportedRule> {
    let mut names = RuleNames::default();
    let mut rules = Vec::new();
    for Configuration { domain, descriptors, .. } in configurations {
        let mut found = Vec::new();
        walk(descriptors, &mut Vec::new(), domain, &mut |text, asked, descriptor, limit| {
            found.push((names.take(text), asked.to_vec(), descriptor.shadow, limit));
        });
        let called = |name: &String| {
            let is_called = |(_, _, _, limit): &&(String, _, _, &Limit)| limit.name.as_ref() == Some(name);
            found.iter().filter(is_called).map(|(rule, ..)| rule.clone()).collect::<Vec<_>>()
        };
        rules.extend(found.iter().map(|(name, asked, shadow, limit)| ImportedRule {
            name: name.clone(),
            domain: domain.clone(),
            asked: asked.clone(),
            amount: limit.amount.clone(),
            shadow: *shadow,
            replaces: limit.replaces.iter().flat_map(called).filter(|other| other != name).collect(),
        }));
    }
    rules
}

/// Calls `found` for every limit, with a text for its name and what the entries on the way to it must be.
fn walk<'c>(
    descriptors: &'c [Descriptor],
    path: &mut Vec<Asked>,
    text: &str,
    found: &mut impl FnMut(&str, &[Asked], &'c Descriptor, &'c Limit),
) {
    for (at, descriptor) in descriptors.iter().enumerate() {
        // That there is one was checked when it was read.
        let Some(identity) = identity_of(&descriptor.key) else { continue };
        let not = elsewhere(descriptors, at);
        let (is, counted, shown) = match &descriptor.value {
            Value::Exact(value) => (Some(value.clone()), false, format!("_{value}")),
            Value::Wildcard(value) => (Some(value.clone()), !descriptor.shared, format!("_{value}")),
            Value::Any => (None, true, String::new()),
        };
        path.push(Asked { identity, is, not, counted });
        let text = format!("{text}.{}{shown}", descriptor.key);
        if let Some(limit) = &descriptor.limit {
            found(&text, path, descriptor, limit);
        }
        walk(&descriptor.descriptors, path, &text, found);
        path.pop();
    }
}

/// The values that another descriptor of the same key takes before this one.
fn elsewhere(descriptors: &[Descriptor], at: usize) -> Vec<String> {
    let own = &descriptors[at];
    let same_key = descriptors.iter().enumerate().filter(|(_, other)| other.key == own.key);
    same_key
        .filter_map(|(other_at, other)| match (&own.value, &other.value) {
            (Value::Any, Value::Exact(value) | Value::Wildcard(value)) => Some(value.clone()),
            (Value::Wildcard(own), Value::Exact(value)) => {
                TextPattern(own.clone()).matches(value.as_bytes()).then(|| value.clone())
            }
            (Value::Wildcard(_), Value::Wildcard(value)) => (other_at < at).then(|| value.clone()),
            _ => None,
        })
        .collect()
}
