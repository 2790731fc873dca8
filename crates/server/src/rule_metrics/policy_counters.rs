//! The counters of one policy, each at its place, so that counting looks nothing up.

use std::sync::{Arc, Weak};

use tollgate::policy::CompiledPolicy;

use super::NO_RULE;
use super::cells::{Cell, ROW};
use super::endpoints::{Endpoints, Passage};
use super::headroom::{KnownLimit, STEPS};
use super::tally::Tally;
use super::totals::Totals;
use crate::decided::{Decided, RefusedBy};
use crate::metrics::sharded_counters::{Mine, ShardedCounters};

/// What was decided under one policy. It does not keep the policy.
#[derive(Debug)]
pub(crate) struct PolicyCounters {
    policy: Weak<CompiledPolicy>,
    rules: Box<[Arc<str>]>,
    /// For each rule whether it denies.
    denies: Box<[bool]>,
    endpoints: Endpoints,
    quotas: Box<[QuotaHeadroom]>,
    /// A row for each quota, then one for each rule, then one for what no rule decided.
    counters: ShardedCounters,
    row_length: usize,
}

/// Where the headroom of a quota is counted.
#[derive(Debug)]
pub(super) struct QuotaHeadroom {
    rule: usize,
    pub(super) limit: KnownLimit,
}

/// The counters of a quota: its steps of headroom, and the sum.
pub(super) const QUOTA_ROW: usize = STEPS + 1;

impl PolicyCounters {
    pub(super) fn new(compiled: &Arc<CompiledPolicy>) -> PolicyCounters {
        let rules: Box<[Arc<str>]> = compiled.rules().iter().map(|rule| Arc::clone(&rule.name)).collect();
        let denies = compiled.rules().iter().map(|rule| rule.deny).collect();
        let endpoints = Endpoints::of(compiled);
        // What a rule has in common with all rules, then a pair for each kind of endpoint.
        let row_length = ROW + 2 * endpoints.count();
        let of_quota = |rule: u32| QuotaHeadroom { rule: rule as usize, limit: KnownLimit::default() };
        let quotas: Box<[QuotaHeadroom]> = compiled.quotas().iter().map(|quota| of_quota(quota.rule)).collect();
        let counters = ShardedCounters::new((rules.len() + 1) * row_length + quotas.len() * QUOTA_ROW);
        PolicyCounters { policy: Arc::downgrade(compiled), rules, denies, endpoints, quotas, counters, row_length }
    }

    /// Whether they are those of this policy.
    #[inline]
    pub(super) fn are_of(&self, policy: &Arc<CompiledPolicy>) -> bool {
        std::ptr::eq(self.policy.as_ptr(), Arc::as_ptr(policy))
    }

    /// Whether a verdict of the policy may still be counted.
    pub(super) fn is_live(&self) -> bool {
        self.policy.strong_count() > 0
    }

    /// Counts a verdict of this policy, and tells which limits refused it.
    #[inline]
    pub(super) fn count(&self, decided: &Decided<'_>) -> RefusedBy {
        match self.counters.own() {
            Some((counters, adding)) => Tally { policy: self, counters, adding }.count(decided),
            None => self.count_first_or_shared(decided),
        }
    }

    #[cold]
    fn count_first_or_shared(&self, decided: &Decided<'_>) -> RefusedBy {
        match self.counters.mine() {
            Mine::Own(counters, adding) => Tally { policy: self, counters, adding }.count(decided),
            Mine::Shared(counters, adding) => Tally { policy: self, counters, adding }.count(decided),
        }
    }

    pub(super) fn add_to(&self, totals: &mut Totals) {
        let sums = self.counters.sums();
        let names = self.rules.iter().map(|name| &**name).chain([NO_RULE]);
        for (rule, name) in names.enumerate() {
            let row = self.row(Some(rule));
            totals.set_denies(name, self.denies.get(rule).copied().unwrap_or(false));
            let counted = totals.rule(name);
            for (at, total) in counted.iter_mut().enumerate() {
                *total += sums[row + at];
            }
            for (endpoint, text) in self.endpoints.names().enumerate() {
                let read = |passage| sums[row + self.pair(Some(endpoint), passage)];
                let pair = [read(Passage::Allowed), read(Passage::Refused)];
                if pair != [0, 0] {
                    totals.add_endpoint(name, text, pair);
                }
            }
        }
        for (at, quota) in self.quotas.iter().enumerate() {
            let (row, Some(name)) = (at * QUOTA_ROW, self.rules.get(quota.rule)) else { continue };
            let counted = totals.rule(name);
            for step in 0..STEPS {
                counted[Cell::headroom(step).position()] += sums[row + step];
            }
            counted[Cell::HEADROOM_SUM.position()] += quota.limit.share(sums[row + STEPS]);
        }
    }

    /// Where the row of a rule begins, or the one behind those of the rules.
    #[inline]
    pub(super) fn row(&self, rule: Option<usize>) -> usize {
        self.quotas.len() * QUOTA_ROW + rule.unwrap_or(self.rules.len()) * self.row_length
    }

    /// The quotas of the policy. Those of overrides are not among them.
    #[inline]
    pub(super) fn quotas(&self) -> &[QuotaHeadroom] {
        &self.quotas
    }

    /// Where a kind of endpoint is counted in a row.
    #[inline]
    pub(super) fn pair(&self, endpoint: Option<usize>, passage: Passage) -> usize {
        ROW + 2 * self.endpoints.position(endpoint) + passage.position()
    }
}
