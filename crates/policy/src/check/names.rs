//! Which identities there are.

use std::collections::HashMap;

use super::codes;
use super::nearest::nearest;
use super::problems::Problems;
use super::words::{all_of, quoted};
use crate::model::{BUILT_IN_IDENTITIES, Identity, IdentitySource, Policy, TIER};
use crate::problem::Place;

/// More are not listed in a hint.
const MAX_LISTED: usize = 20;

pub(super) struct Names<'p> {
    declared: HashMap<&'p str, &'p Identity>,
    /// In the order of the policy, for hints.
    all: Vec<&'p str>,
    has_tier: bool,
}

impl<'p> Names<'p> {
    pub(super) fn of(policy: &'p Policy) -> Names<'p> {
        let has_tier = policy.tier.is_some();
        let declared = policy.identities.iter().map(|identity| identity.name.as_str());
        let all = BUILT_IN_IDENTITIES.into_iter().chain(has_tier.then_some(TIER)).chain(declared).collect();
        let declared = policy.identities.iter().map(|identity| (identity.name.as_str(), identity)).collect();
        Names { declared, all, has_tier }
    }

    pub(super) fn source(&self, name: &str) -> Option<&'p IdentitySource> {
        self.declared(name).map(|identity| &identity.source)
    }

    pub(super) fn declared(&self, name: &str) -> Option<&'p Identity> {
        self.declared.get(name).copied()
    }

    /// Says so where a name is not that of an identity.
    pub(super) fn check(&self, name: &str, place: Place, problems: &mut Problems) {
        let is_built_in = BUILT_IN_IDENTITIES.contains(&name);
        if is_built_in || (name == TIER && self.has_tier) || self.declared.contains_key(name) || problems.is_full() {
            return;
        }
        let known = format!("known: {}", all_of(self.all.iter().take(MAX_LISTED).copied()));
        let hint = match nearest(name, self.all.iter().copied()) {
            Some(meant) => format!("did you mean {}?\n{known}", quoted(meant)),
            None => format!("declare it under `identity:`\n{known}"),
        };
        problems.add(codes::UNKNOWN_IDENTITY, place, format!("there is no identity {}", quoted(name)), hint);
    }
}
