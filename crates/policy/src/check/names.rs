//! Which identities there are, and of which a pattern of values is.

use std::collections::{HashMap, HashSet};

use super::words::{all_of, either, nearest};
use super::{Reporter, codes, quoted};
use crate::model::{BUILT_IN_IDENTITIES, Identity, IdentitySource, Policy, TIER, TextPattern};

/// More identities are not listed in a hint.
const MAX_LISTED: usize = 20;

/// More patterns are not suggested in a hint.
const MAX_SUGGESTED: usize = 4;

/// It means every value of every identity, so it confuses none with another.
const ANY: &str = "*";

pub(crate) struct Names<'p> {
    declared: HashMap<&'p str, &'p Identity>,
    /// In the order of the policy, for hints.
    all: Vec<&'p str>,
}

impl<'p> Names<'p> {
    pub(crate) fn of(policy: &'p Policy) -> Names<'p> {
        let declared = policy.identities.iter().map(|identity| (identity.name.as_str(), identity));
        let tier = policy.tier.is_some().then_some(TIER);
        let names = policy.identities.iter().map(|identity| identity.name.as_str());
        let all = BUILT_IN_IDENTITIES.into_iter().chain(tier).chain(names).collect();
        Names { declared: declared.collect(), all }
    }

    pub(crate) fn source(&self, name: &str) -> Option<&'p IdentitySource> {
        self.declared(name).map(|identity| &identity.source)
    }

    pub(crate) fn declared(&self, name: &str) -> Option<&'p Identity> {
        self.declared.get(name).copied()
    }

    /// Reports a name that is not that of an identity.
    pub(super) fn check(&self, name: &str, here: &mut Reporter<'_>) {
        if self.declared.contains_key(name) || here.is_full() || self.all.contains(&name) {
            return;
        }
        let known = format!("known: {}", all_of(self.all.iter().take(MAX_LISTED).copied()));
        let hint = match nearest(name, self.all.iter().copied()) {
            Some(meant) => format!("did you mean {}?\n{known}", quoted(meant)),
            None => format!("declare it under `identity:`\n{known}"),
        };
        here.add(codes::UNKNOWN_IDENTITY, format!("there is no identity {}", quoted(name)), hint);
    }

    /// Reports a pattern for the first of several identities that does not name the one that it means: a value of one
    /// of them would get what is meant for another.
    pub(super) fn check_pattern(&self, identity: &str, pattern: &str, here: &mut Reporter<'_>) {
        let Some(IdentitySource::First(_)) = self.source(identity) else { return };
        // Of one of the list, or of itself where a caller sets it.
        let mut known = self.spread(std::iter::once(identity));
        known.push(identity);
        let names_one = |name: &&str| pattern.strip_prefix(*name).is_some_and(|rest| rest.starts_with('='));
        if pattern == ANY || known.iter().any(names_one) {
            return;
        }
        let (text, list) = (quoted(pattern), quoted(identity));
        let message = format!("{text} does not say of which identity: {list} is the first of several");
        // A caller that sets the identity itself is rare, and knows its name.
        let listed = known.iter().filter(|name| **name != identity).take(MAX_SUGGESTED);
        let meant: Vec<String> = listed.map(|name| format!("{name}={pattern}")).collect();
        let hint = format!("write {}", either(meant.iter().map(String::as_str)));
        here.add(codes::VALUE_WITHOUT_IDENTITY, message, hint);
    }

    /// The same for each of a list.
    pub(super) fn check_patterns(&self, identity: &str, patterns: &[TextPattern], here: &mut Reporter<'_>) {
        // Lists may be long, and few are of such an identity.
        if let Some(IdentitySource::First(_)) = self.source(identity) {
            here.each(patterns, |pattern, here| self.check_pattern(identity, &pattern.0, here));
        }
    }

    /// These identities, and those that they are the first of, each once: what stands first in a list comes first.
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

    /// The same, with the lists among them spread out: identities under which a value may be found.
    pub(crate) fn spread<'n>(&self, these: impl Iterator<Item = &'n str>) -> Vec<&'n str>
    where
        'p: 'n,
    {
        let mut found = self.with_listed(these);
        found.retain(|name| !matches!(self.source(name), Some(IdentitySource::First(_))));
        found
    }
}
