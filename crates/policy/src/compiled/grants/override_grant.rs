//! Overrides that an operator sets for one key for a time: their limits are parsed like those of the policy, and
//! counted in the same scopes.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, MAX_SPAN_NS, ParseRateError, Queue, Quota, QuotaError, Rate};

use crate::compiled::grants::scopes::Scopes;
use crate::compiled::{CompiledPolicy, CompiledRule, GrantSource, RuleQuota};
use crate::model::{DEFAULT_LEASE, Grant, quota_of};
use crate::promise::limit_words;

/// A grant that a key may have, with the positions of its quotas among [`CompiledPolicy::quotas`]. Without quotas, it
/// is unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossibleGrant {
    /// The origin of the grant.
    pub source: GrantSource,
    /// The positions of the quotas.
    pub quotas: Vec<u32>,
}

/// The reason why a text is not a limit for a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidLimit(String);

impl CompiledPolicy {
    /// Returns the position of a rule among [`CompiledPolicy::rules`].
    #[must_use]
    pub fn rule_named(&self, name: &str) -> Option<u32> {
        (0..).zip(&self.rules).find(|(_, rule)| &*rule.name == name).map(|(index, _)| index)
    }

    /// Returns the position of the rule under which the counters of a name are listed. The name is that of a rule, or
    /// of a budget, whose counters are listed under its first rule.
    #[must_use]
    pub fn counters_named(&self, name: &str) -> Option<u32> {
        let of_rule = self.rule_named(name).map(|index| self.counts_as(index));
        let is_budget = |rule: &&CompiledRule| rule.budget.as_deref() == Some(name);
        of_rule.or_else(|| self.rules.iter().find(is_budget).map(|rule| rule.counts_as))
    }

    /// Returns the position of the rule under which the counters of a rule are listed: the first rule of its budget, or
    /// the rule itself.
    #[inline]
    #[must_use]
    pub fn counts_as(&self, rule: u32) -> u32 {
        self.rules.get(rule as usize).map_or(rule, |known| known.counts_as)
    }

    /// Returns the name of the counters of a rule: that of its budget, or its own.
    #[must_use]
    pub fn counters_name(&self, rule: u32) -> &str {
        self.rules.get(rule as usize).map_or("", |rule| rule.budget.as_deref().unwrap_or(&rule.name))
    }

    /// Returns the names of the identities by which a rule counts.
    #[must_use]
    pub fn key_names(&self, rule: u32) -> Vec<&str> {
        let key = self.rules.get(rule as usize).map_or(&[][..], |rule| &rule.action.key);
        key.iter().map(|id| self.identities.get(*id).name.as_str()).collect()
    }

    /// Parses a limit for a rule, as it is written in policies: a rate, several rates separated by commas, a number of
    /// permits for a rule with permits, or `unlimited`. It has the rule's algorithm.
    pub fn read_grant(&self, rule: u32, text: &str) -> Result<Grant, InvalidLimit> {
        if self.rules.get(rule as usize).is_some_and(|rule| rule.deny) {
            return Err(InvalidLimit("a rule that denies has no limit".to_owned()));
        }
        if text.trim().eq_ignore_ascii_case("unlimited") {
            return Ok(Grant::Unlimited);
        }
        let owner = self.counts_as(rule);
        let own = self.quotas.iter().find(|quota| quota.rule == owner).map(|quota| quota.quota);
        let quotas = text.split(',').map(|part| read_quota(part.trim(), own)).collect::<Result<Vec<_>, _>>()?;
        if let Some(quota) = quotas.iter().find(|quota| self.is_too_small_for_region(rule, quota)) {
            let rate = limit_words(quota);
            return Err(InvalidLimit(format!("`{rate}` leaves a region less than one token: raise the burst")));
        }
        let permits = quotas.iter().filter(|quota| quota.kind() == AlgorithmKind::Concurrency).count();
        if permits > 0 && quotas.len() > 1 {
            return Err(InvalidLimit("a rule with permits takes one number".to_owned()));
        }
        Ok(Grant::Limited(quotas))
    }

    /// Whether a region's share of a regional limit is less than one token.
    fn is_too_small_for_region(&self, rule: u32, quota: &Quota) -> bool {
        let is_regional = self.rules.get(rule as usize).is_some_and(|rule| rule.regional);
        is_regional && self.region_share.is_some_and(|share| share.quota(quota).is_err())
    }

    /// Returns the quotas of an override, with the scopes in which the rule counts grants of the same period: usage
    /// before the override still counts.
    #[must_use]
    pub fn override_quotas(&self, rule: u32, grant: &Grant) -> Vec<RuleQuota> {
        if self.rules.get(rule as usize).is_none() {
            return Vec::new();
        }
        let mut scopes = Scopes::with_owners_of(&self.quotas);
        scopes.add(self.counts_as(rule), self.counters_name(rule), grant);
        scopes.quotas
    }

    /// Returns the grants that a key may have under a rule: that of an override for exactly this key, else all of the
    /// rule's grants, because a key does not determine the client's tier.
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
        let permits: u64 = text.parse().map_err(|_| InvalidLimit(format!("`{text}` is not a number of permits")))?;
        let lease = if own.period_ns() < MAX_SPAN_NS { Duration::from_nanos(own.period_ns()) } else { DEFAULT_LEASE };
        return Quota::concurrency(permits, Some(lease)).map_err(invalid_quota);
    }
    let rate: Rate = text
        .parse()
        .map_err(|error: ParseRateError| InvalidLimit(format!("`{text}` is not a rate: {}", error.expected())))?;
    let queue = own.filter(|_| kind == AlgorithmKind::LeakyQueue).map(|own| {
        let max_wait = (own.ahead_ns() < MAX_SPAN_NS).then(|| Duration::from_nanos(own.ahead_ns()));
        Queue { size: own.queue_size(), max_wait }
    });
    // A `max_debt` of the rule holds for this limit, too.
    let max_debt = own.filter(|own| !own.has_default_max_debt()).map(|own| own.max_debt());
    quota_of(rate, kind, queue, max_debt).map_err(invalid_quota)
}

fn invalid_quota(error: QuotaError) -> InvalidLimit {
    InvalidLimit(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{PolicyBuilder, rule};
    use crate::request::Request;

    fn compiled() -> CompiledPolicy {
        let policy = PolicyBuilder::default()
            .rule(rule("per-user").per("user").limit("5/min").algorithm(AlgorithmKind::SlidingWindowLog))
            .rule(rule("reports").per("user").concurrency(3))
            .build()
            .unwrap();
        CompiledPolicy::new(&policy).unwrap()
    }

    #[test]
    fn override_has_the_algorithm_and_scopes_of_its_rule() {
        let compiled = compiled();
        let grant = compiled.read_grant(0, "50/min").unwrap();
        assert_eq!(grant, Grant::Limited(vec![Quota::sliding_window_log("50/min".parse().unwrap()).unwrap()]));
        let quotas = compiled.override_quotas(0, &grant);
        assert_eq!((quotas.len(), quotas[0].scope.as_str()), (1, "per-user"));
        let Grant::Limited(permits) = compiled.read_grant(1, "7").unwrap() else { panic!("not limited") };
        assert_eq!((permits[0].kind(), permits[0].amount()), (AlgorithmKind::Concurrency, 7));
        assert_eq!(compiled.read_grant(0, " Unlimited "), Ok(Grant::Unlimited));
        let several = compiled.override_quotas(0, &compiled.read_grant(0, "5/s, 100/h").unwrap());
        assert_eq!(several.iter().map(|quota| quota.scope.as_str()).collect::<Vec<_>>(), ["per-user", "per-user/1h"]);
    }

    #[test]
    fn override_has_the_max_debt_of_its_rule() {
        let compile = |built| CompiledPolicy::new(&PolicyBuilder::default().rule(built).build().unwrap()).unwrap();
        let max_debt = |compiled: &CompiledPolicy| match compiled.read_grant(0, "50/min").unwrap() {
            Grant::Limited(quotas) => quotas[0].max_debt(),
            Grant::Unlimited => panic!("not limited"),
        };
        assert_eq!(max_debt(&compile(rule("r").per("user").limit("5/min"))), 50);
        assert_eq!(max_debt(&compile(rule("r").per("user").limit("5/min").max_debt(7))), 7);
    }

    #[test]
    fn invalid_limits_are_errors() {
        let compiled = compiled();
        for (rule, text) in
            [(0, "many"), (0, ""), (0, "5/min burst 9"), (0, "5/s,"), (1, "5/min"), (1, "3, 4"), (1, "0")]
        {
            assert!(compiled.read_grant(rule, text).is_err(), "{text}");
        }
    }

    #[test]
    fn request_is_charged_under_the_quotas_of_its_override() {
        let compiled = compiled();
        let alice = Request { identities: &[("user", "alice")], ..Request::from_peer(None) };
        let overrides = [7_u32];
        let matched =
            compiled.match_request_with(&alice, |rule, key| (rule == 0 && key == b"alice").then_some(&overrides[..]));
        assert_eq!(matched.charges.iter().map(|charge| charge.quota).collect::<Vec<_>>(), [7, 1]);
        let matched = compiled.match_request_with(&alice, |rule, _| (rule == 0).then_some(&[][..]));
        assert!(matched.unlimited && matched.charges.len() == 1);
        assert_eq!(matched.key(&matched.charges[0]), b"alice");
    }
}
