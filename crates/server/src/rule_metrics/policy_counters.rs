//! The counters of one policy, each at its place, so that counting looks nothing up.

use std::sync::Arc;

use tollgate::Verdict;
use tollgate::policy::Plan;

use super::NO_RULE;
use super::cells::{Cell, ROW};
use super::endpoints::{Endpoints, Passage};
use super::tally::Tally;
use super::totals::Totals;
use crate::sharded_counters::{Shard, ShardedCounters};

/// What was decided under one policy.
#[derive(Debug)]
pub(crate) struct PolicyCounters {
    plan: Arc<Plan>,
    endpoints: Endpoints,
    /// A row for each rule, then one for what no rule decided, then a pair for
    /// each rule and each kind of endpoint.
    counters: ShardedCounters,
}

impl PolicyCounters {
    pub(super) fn new(plan: &Arc<Plan>) -> PolicyCounters {
        let rows = plan.rules().len() + 1;
        let endpoints = Endpoints::of(plan);
        let counters = ShardedCounters::new(rows * (ROW + 2 * endpoints.count()));
        PolicyCounters { plan: Arc::clone(plan), endpoints, counters }
    }

    /// Whether a verdict is of this policy.
    pub(super) fn has_decided(&self, verdict: &Verdict) -> bool {
        Arc::ptr_eq(verdict.plan(), &self.plan)
    }

    /// Where the thread that asks may count.
    pub(super) fn mine(&self) -> PolicyShard<'_> {
        PolicyShard { policy: self, shard: self.counters.mine() }
    }

    pub(super) fn add_to(&self, totals: &mut Totals) {
        let names = self.plan.rules().iter().map(|rule| &*rule.name).chain([NO_RULE]);
        for (row, name) in names.enumerate() {
            let counted = totals.rule(name);
            for (at, total) in counted.iter_mut().enumerate() {
                *total += self.counters.read(row * ROW + at);
            }
            for (endpoint, text) in self.endpoints.names().enumerate() {
                let read = |passage| self.counters.read(self.pair(row, endpoint, passage));
                let pair = [read(Passage::Allowed), read(Passage::Refused)];
                if pair != [0, 0] {
                    totals.add_endpoint(name, text, pair);
                }
            }
        }
    }

    /// The row after those of the rules.
    fn row(&self, rule: Option<usize>) -> usize {
        rule.unwrap_or(self.plan.rules().len())
    }

    fn pair(&self, row: usize, endpoint: usize, passage: Passage) -> usize {
        let rows = (self.plan.rules().len() + 1) * ROW;
        rows + 2 * (row * self.endpoints.count() + endpoint) + passage.position()
    }
}

/// One thread's part of a policy's counters.
#[derive(Clone, Copy)]
pub(super) struct PolicyShard<'a> {
    policy: &'a PolicyCounters,
    shard: Shard<'a>,
}

impl Tally for PolicyShard<'_> {
    fn rule(&mut self, rule: Option<usize>, cell: Cell, amount: u64) {
        self.shard.add(self.policy.row(rule) * ROW + cell.position(), amount);
    }

    fn endpoint(&mut self, rule: Option<usize>, endpoint: Option<usize>, passage: Passage) {
        let endpoint = self.policy.endpoints.position(endpoint);
        self.shard.add(self.policy.pair(self.policy.row(rule), endpoint, passage), 1);
    }
}
