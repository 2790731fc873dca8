//! The identities of a policy, and checks of the names and value patterns that refer to them.

use std::collections::{HashMap, HashSet};

use super::words::{all_of, either, nearest};
use super::{Reporter, codes, quoted};
use crate::model::{BUILT_IN_IDENTITIES, Identity, IdentitySource, Policy, TIER, TextPattern};

/// The most identities that a hint lists.
const MAX_LISTED: usize = 20;

/// The most patterns that a hint suggests.
const MAX_SUGGESTED: usize = 4;

/// The pattern that matches every value of every identity, so it needs no identity's name.
const ANY: &str = "*";

/// The identities of a policy by name.
pub(crate) struct IdentityNames<'p> {
    declared: HashMap<&'p str, &'p Identity>,
    /// All names in the order of the policy, for hints.
    all: Vec<&'p str>,
}

impl<'p> IdentityNames<'p> {
    pub(crate) fn of(policy: &'p Policy) -> IdentityNames<'p> {
        let declared = policy.identities.iter().map(|identity| (identity.name.as_str(), identity));
        let tier = policy.tier.is_some().then_some(TIER);
        let names = policy.identities.iter().map(|identity| identity.name.as_str());
        let all = BUILT_IN_IDENTITIES.into_iter().chain(tier).chain(names).collect();
        IdentityNames { declared: declared.collect(), all }
    }

    pub(crate) fn source(&self, name: &str) -> Option<&'p IdentitySource> {
        self.declared(name).map(|identity| &identity.source)
    }

    pub(crate) fn declared(&self, name: &str) -> Option<&'p Identity> {
        self.declared.get(name).copied()
    }

    /// Reports the name of an unknown identity.
    pub(super) fn check(&self, name: &str, here: &mut Reporter<'_>) {
        if self.declared.contains_key(name) || here.is_full() || self.all.contains(&name) {
            return;
        }
        let known = format!("known identities: {}", all_of(self.all.iter().take(MAX_LISTED).copied()));
        let hint = match nearest(name, self.all.iter().copied()) {
            Some(near) => format!("did you mean {}?\n{known}", quoted(near)),
            None => format!("declare it under `identity:`\n{known}"),
        };
        here.add(codes::UNKNOWN_IDENTITY, format!("unknown identity {}", quoted(name)), hint);
    }

    /// Reports a pattern for a `first` list that does not name one of its identities. Such a pattern would match values
    /// of all of them.
    pub(super) fn check_pattern(&self, identity: &str, pattern: &str, here: &mut Reporter<'_>) {
        let Some(IdentitySource::First(_)) = self.source(identity) else { return };
        // A pattern may name an identity of the list, or the list itself if a caller sets its value.
        let mut known = self.expand_lists(std::iter::once(identity));
        known.push(identity);
        let names_one = |name: &&str| pattern.strip_prefix(*name).is_some_and(|rest| rest.starts_with('='));
        if pattern == ANY || known.iter().any(names_one) {
            return;
        }
        let (text, list) = (quoted(pattern), quoted(identity));
        let message = format!("expected NAME=VALUE with an identity of the list {list}, found {text}");
        // Callers that set the value of the list itself are rare, so it is not suggested.
        let listed = known.iter().filter(|name| **name != identity).take(MAX_SUGGESTED);
        let suggestions: Vec<String> = listed.map(|name| format!("{name}={pattern}")).collect();
        let hint = format!("write {}", either(suggestions.iter().map(String::as_str)));
        here.add(codes::VALUE_WITHOUT_IDENTITY, message, hint);
    }

    /// Calls `check_pattern` for each of these patterns.
    pub(super) fn check_patterns(&self, identity: &str, patterns: &[TextPattern], here: &mut Reporter<'_>) {
        // Patterns may be many, and few identities are a `first` list.
        if let Some(IdentitySource::First(_)) = self.source(identity) {
            here.each(patterns, |pattern, here| self.check_pattern(identity, &pattern.0, here));
        }
    }

    /// Returns these identities and, after each `first` list, its identities, recursively and each once.
    pub(crate) fn with_listed<'n>(&self, these: impl Iterator<Item = &'n str>) -> Vec<&'n str>
    where
        'p: 'n,
    {
        let mut open: Vec<&str> = these.collect();
        open.reverse();
        let (mut found, mut known) = (Vec::new(), HashSet::new());
        while let Some(name) = open.pop() {
            if known.insert(name) {
                found.push(name);
                if let Some(IdentitySource::First(others)) = self.source(name) {
                    open.extend(others.iter().rev().map(String::as_str));
                }
            }
        }
        found
    }

    /// Like `with_listed`, without the `first` lists themselves: the identities that a value may belong to.
    pub(crate) fn expand_lists<'n>(&self, these: impl Iterator<Item = &'n str>) -> Vec<&'n str>
    where
        'p: 'n,
    {
        let mut found = self.with_listed(these);
        found.retain(|name| !matches!(self.source(name), Some(IdentitySource::First(_))));
        found
    }
}
