//! What was counted, by the names of rules.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::ROW;

/// Counts of rules, also of those that are no longer in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    rules: BTreeMap<Box<str>, Box<[u64; ROW]>>,
    /// The rules that deny, in the newest policy that has them.
    denying: BTreeSet<Box<str>>,
    /// By rule and kind of endpoint: allowed and refused.
    endpoints: BTreeMap<(Box<str>, Box<str>), [u64; 2]>,
}

impl Totals {
    /// The counts of a rule; all zero if it was never heard of.
    pub(super) fn rule(&mut self, name: &str) -> &mut [u64; ROW] {
        self.rules.entry(Box::from(name)).or_insert_with(|| Box::new([0; ROW]))
    }

    pub(super) fn set_denies(&mut self, rule: &str, denies: bool) {
        if denies {
            self.denying.insert(Box::from(rule));
        } else {
            self.denying.remove(rule);
        }
    }

    pub(super) fn denies(&self, rule: &str) -> bool {
        self.denying.contains(rule)
    }

    pub(super) fn add_endpoint(&mut self, rule: &str, endpoint: &str, counts: [u64; 2]) {
        let total = self.endpoints.entry((Box::from(rule), Box::from(endpoint))).or_default();
        total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = (&str, &[u64; ROW])> {
        self.rules.iter().map(|(name, counts)| (&**name, &**counts))
    }

    pub(super) fn endpoints(&self) -> impl Iterator<Item = (&str, &str, [u64; 2])> {
        self.endpoints.iter().map(|((rule, endpoint), counts)| (&**rule, &**endpoint, *counts))
    }
}
