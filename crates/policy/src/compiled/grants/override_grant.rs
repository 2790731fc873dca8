//! What an operator grants to one key for a time (an override): read as the policy
//! would read it, and counted where the policy would count it.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, MAX_SPAN_NS, ParseRateError, Queue, Quota, QuotaError, Rate};

use crate::compiled::grants::scopes::Scopes;
use crate::compiled::{CompiledPolicy, GrantSource, RuleQuota};
use crate::model::{DEFAULT_LEASE, Grant, quota_of};

/// A grant that a key may have, with the positions of its quotas among
/// [`CompiledPolicy::quotas`]. None: unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossibleGrant {
    /// Where it comes from.
    pub source: GrantSource,
    /// Its quotas.
    pub quotas: Vec<u32>,
}

/// Why a text is no limit for a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidLimit(String);

impl CompiledPolicy {
    /// The position of a rule among [`CompiledPolicy::rules`].
    #[must_use]
    pub fn rule_named(&self, name: &str) -> Option<u32> {
        (0..).zip(&self.rules).find(|(_, rule)| &*rule.name == name).map(|(at, _)| at)
    }

    /// The names of the identities by which a rule counts.
    #[must_use]
    pub fn key_names(&self, rule: u32) -> Vec<&str> {
        let key = self.rules.get(rule as usize).map_or(&[][..], |rule| &rule.action.key);
        key.iter().map(|id| self.identities.known(*id).name.as_str()).collect()
    }

    /// Reads a limit for a rule as the policy would be written: a rate, several
    /// rates with commas between them, a number of permits where the rule has
    /// permits, or `unlimited`. The rule's own algorithm goes with it.
    pub fn read_grant(&self, rule: u32, text: &str) -> Result<Grant, InvalidLimit> {
        if self.rules.get(rule as usize).is_some_and(|rule| rule.deny) {
            return Err(InvalidLimit("a rule that denies has no limit".to_owned()));
        }
        if text.trim().eq_ignore_ascii_case("unlimited") {
            return Ok(Grant::Unlimited);
        }
        let own = self.quotas.iter().find(|planned| planned.rule == rule).map(|planned| planned.quota);
        let quotas = text.split(',').map(|part| read_quota(part.trim(), own)).collect::<Result<Vec<_>, _>>()?;
        let permits = quotas.iter().filter(|quota| quota.kind() == AlgorithmKind::Concurrency).count();
        if permits > 0 && quotas.len() > 1 {
            return Err(InvalidLimit("a rule with permits has one number".to_owned()));
        }
        Ok(Grant::Limited(quotas))
    }

    /// The quotas of an override, under the scopes in which the rule counts
    /// grants like it: what was used stays used.
    #[must_use]
    pub fn override_quotas(&self, rule: u32, grant: &Grant) -> Vec<RuleQuota> {
        let Some(name) = self.rules.get(rule as usize).map(|rule| &rule.name) else { return Vec::new() };
        let mut scopes = Scopes::owned_as(&self.quotas);
        scopes.add(rule, name, grant);
        scopes.quotas
    }

    /// The grants that a key may have under a rule: that of an override which
    /// means this very key, else all that the rule knows, because a key alone
    /// does not say whose tier it is.
    #[must_use]
    pub fn possible_grants(&self, rule: u32, key: &[u8]) -> Vec<PossibleGrant> {
        self.rules
            .get(rule as usize)
            .map_or_else(Vec::new, |rule| rule.action.grants.possible(key, &self.identities.tiers))
    }
}

fn read_quota(text: &str, own: Option<Quota>) -> Result<Quota, InvalidLimit> {
    let kind = own.map_or(AlgorithmKind::TokenBucket, |own| own.kind());
    if let (AlgorithmKind::Concurrency, Some(own)) = (kind, own) {
        let permits: u64 = text.parse().map_err(|_| InvalidLimit(format!("`{text}` is no number of permits")))?;
        let lease = if own.period_ns() < MAX_SPAN_NS { Duration::from_nanos(own.period_ns()) } else { DEFAULT_LEASE };
        return Quota::concurrency(permits, Some(lease)).map_err(not_built);
    }
    let rate: Rate = text
        .parse()
        .map_err(|error: ParseRateError| InvalidLimit(format!("`{text}` is no rate: {}", error.expected())))?;
    let queue = own.filter(|_| kind == AlgorithmKind::LeakyQueue).map(|own| {
        let max_wait = (own.ahead_ns() < MAX_SPAN_NS).then(|| Duration::from_nanos(own.ahead_ns()));
        Queue { size: own.queue_size(), max_wait }
    });
    // A rule that says how much may be owed says so of this limit, too.
    let max_debt = own.filter(|own| !own.owes_by_default()).map(|own| own.max_debt());
    quota_of(rate, kind, queue, max_debt).map_err(not_built)
}

fn not_built(error: QuotaError) -> InvalidLimit {
    InvalidLimit(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{PolicyBuilder, rule};
    use crate::request::Request;

    fn plan() -> CompiledPolicy {
        let policy = PolicyBuilder::default()
            .rule(rule("per-user").per("user").limit("5/min").algorithm(AlgorithmKind::SlidingWindowLog))
            .rule(rule("reports").per("user").concurrency(3))
            .build()
            .unwrap();
        CompiledPolicy::new(&policy).unwrap()
    }

    #[test]
    fn an_override_is_counted_as_the_rule_counts() {
        let plan = plan();
        let grant = plan.read_grant(0, "50/min").unwrap();
        assert_eq!(grant, Grant::Limited(vec![Quota::sliding_window_log("50/min".parse().unwrap()).unwrap()]));
        let quotas = plan.override_quotas(0, &grant);
        assert_eq!((quotas.len(), quotas[0].scope.as_str()), (1, "per-user"));
        let Grant::Limited(permits) = plan.read_grant(1, "7").unwrap() else { panic!("not limited") };
        assert_eq!((permits[0].kind(), permits[0].amount()), (AlgorithmKind::Concurrency, 7));
        assert_eq!(plan.read_grant(0, " Unlimited "), Ok(Grant::Unlimited));
        let several = plan.override_quotas(0, &plan.read_grant(0, "5/s, 100/h").unwrap());
        assert_eq!(several.iter().map(|quota| quota.scope.as_str()).collect::<Vec<_>>(), ["per-user", "per-user/1h"]);
    }

    #[test]
    fn an_override_owes_what_the_rule_says() {
        let of = |built| CompiledPolicy::new(&PolicyBuilder::default().rule(built).build().unwrap()).unwrap();
        let owes = |plan: &CompiledPolicy| match plan.read_grant(0, "50/min").unwrap() {
            Grant::Limited(quotas) => quotas[0].max_debt(),
            Grant::Unlimited => panic!("not limited"),
        };
        assert_eq!(owes(&of(rule("r").per("user").limit("5/min"))), 50);
        assert_eq!(owes(&of(rule("r").per("user").limit("5/min").max_debt(7))), 7);
    }

    #[test]
    fn what_is_no_limit_is_told() {
        let plan = plan();
        for (rule, text) in
            [(0, "many"), (0, ""), (0, "5/min burst 9"), (0, "5/s,"), (1, "5/min"), (1, "3, 4"), (1, "0")]
        {
            assert!(plan.read_grant(rule, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_is_charged_under_its_override() {
        let plan = plan();
        let alice = Request { identities: &[("user", "alice")], ..Request::from_peer(None) };
        let overrides = [7_u32];
        let matched =
            plan.match_request_with(&alice, |rule, key| (rule == 0 && key == b"alice").then_some(&overrides[..]));
        assert_eq!(matched.charges.iter().map(|charge| charge.quota).collect::<Vec<_>>(), [7, 1]);
        let matched = plan.match_request_with(&alice, |rule, _| (rule == 0).then_some(&[][..]));
        assert!(matched.unlimited && matched.charges.len() == 1);
        assert_eq!(matched.key(&matched.charges[0]), b"alice");
    }
}
