//! A limiter that decides the requests of a log, and what it counts.

use std::sync::Arc;

use tollgate::limiter::LimiterError;
use tollgate::policy::model::{MemorySettings, Policy, StoreSettings};
use tollgate::policy::{CheckedPolicy, CompiledPolicy};
use tollgate::quota::ChargeVerdict;
use tollgate::store::Stats;
use tollgate::verdict::Verdict;
use tollgate::{Action, Limiter, ManualClock, Request};

use super::report::ActionCounts;
use crate::record::LogRecord;
use crate::tally::to_u32;

/// The capacity in place of Redis, which has no limit on the number of keys.
const ENTRIES_FOR_REDIS: u64 = 4_000_000;

/// The identity of [`LogRecord::user`].
const USER: &str = "user";

/// A policy under simulation.
pub(super) struct PolicyRun {
    limiter: Limiter,
    clock: ManualClock,
    now_ns: u64,
    policy: Arc<CompiledPolicy>,
    accepts_user: bool,
    pub(super) actions: ActionCounts,
    pub(super) rules: Vec<RuleTally>,
    pub(super) longest_delay_ns: u64,
}

/// What is counted for a rule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RuleTally {
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) warned: u64,
    pub(super) delayed: u64,
    pub(super) blocked: u64,
}

impl PolicyRun {
    pub(super) fn new(policy: &CheckedPolicy) -> Result<PolicyRun, LimiterError> {
        let clock = ManualClock::at(0);
        let limiter = Limiter::with_clock(&for_logs(policy)?, clock.clone())?;
        let policy = limiter.policy();
        Ok(PolicyRun {
            accepts_user: policy.accepts_identity(USER),
            rules: vec![RuleTally::default(); policy.rules().len()],
            policy,
            limiter,
            clock,
            now_ns: 0,
            actions: ActionCounts::default(),
            longest_delay_ns: 0,
        })
    }

    /// Decides a request, and calls `on_refusal` for each rule that refuses it, shadow rules included.
    pub(super) fn decide(&mut self, record: &LogRecord<'_>, now_ns: u64, on_refusal: impl FnMut(u32)) -> Action {
        // Many requests have the same time, and setting the clock takes a lock.
        if self.now_ns != now_ns {
            self.clock.set(now_ns);
            self.now_ns = now_ns;
        }
        let verdict = self.check(record, now_ns);
        let action = verdict.action();
        self.actions.count(action);
        if action == Action::Delay {
            let delay_ns = u64::try_from(verdict.delay().as_nanos()).unwrap_or(u64::MAX);
            self.longest_delay_ns = self.longest_delay_ns.max(delay_ns);
        }
        self.count_rules(&verdict, on_refusal);
        action
    }

    /// Returns the compiled policy.
    pub(super) fn policy(&self) -> &CompiledPolicy {
        &self.policy
    }

    /// Returns the state of the store.
    pub(super) fn store_stats(&self) -> Stats {
        self.limiter.store().stats()
    }

    fn check(&self, record: &LogRecord<'_>, now_ns: u64) -> Verdict {
        let request = Request {
            method: record.method,
            host: record.host,
            target: record.target,
            unix_time_s: Some(now_ns / 1_000_000_000),
            ..Request::from_peer(record.client_ip)
        };
        if record.fields.is_empty() && (record.user.is_none() || !self.accepts_user) {
            return self.limiter.check(&request);
        }
        let user = record.user.filter(|_| self.accepts_user).map(|user| (USER, user));
        let named = record.fields.iter().copied().filter(|(name, _)| self.policy.accepts_identity(name));
        let identities: Vec<(&str, &str)> = user.into_iter().chain(named).collect();
        self.limiter.check(&Request { headers: &record.fields, identities: &identities, ..request })
    }

    fn count_rules(&mut self, verdict: &Verdict, mut on_refusal: impl FnMut(u32)) {
        let is_warned = |rule: usize| verdict.warned_rules().any(|warned| warned == rule);
        let mut last = None;
        for state in verdict.states() {
            let rule = state.rule_position();
            let refuses = matches!(state.decision.verdict, ChargeVerdict::Refused { .. } | ChargeVerdict::Impossible);
            if last == Some((rule, true)) || (last == Some((rule, false)) && !refuses) {
                continue;
            }
            let tally = &mut self.rules[rule];
            if last == Some((rule, false)) {
                // Another limit of the rule allows it.
                tally.allowed -= 1;
            }
            last = Some((rule, refuses));
            if !refuses {
                tally.allowed += 1;
                tally.delayed += u64::from(matches!(state.decision.verdict, ChargeVerdict::Allowed { delay: 1.. }));
            } else if is_warned(rule) {
                tally.warned += 1;
            } else {
                tally.refused += 1;
                on_refusal(to_u32(rule));
            }
        }
        for (rule, _) in verdict.denials() {
            self.rules[rule].refused += 1;
            on_refusal(to_u32(rule));
        }
        if verdict.action() == Action::Block
            && let Some(state) = verdict.deciding()
        {
            self.rules[state.rule_position()].blocked += 1;
        }
    }
}

/// Returns the policy as it applies to a log: the address is the client's, and counters are in memory.
fn for_logs(policy: &CheckedPolicy) -> Result<CheckedPolicy, LimiterError> {
    let mut for_logs: Policy = Policy::clone(policy);
    for_logs.client_ip.trusted_proxies.clear();
    // One process decides, so there is nothing to lease.
    for_logs.rules.iter_mut().for_each(|rule| rule.consistency = None);
    for_logs.budgets.iter_mut().for_each(|budget| budget.consistency = None);
    for_logs.store = StoreSettings::Memory(match &policy.store {
        StoreSettings::Memory(settings) => MemorySettings { snapshot: None, ..settings.clone() },
        StoreSettings::Redis(_) => MemorySettings { entries: ENTRIES_FOR_REDIS, ..MemorySettings::default() },
    });
    for_logs.check().map_err(LimiterError::Policy)
}
