//! The admin API for single keys: inspect, reset, override.

pub(in crate::limiter) mod overrides;
pub(in crate::limiter) mod report;

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Decision, MAX_SPAN_NS};
use tollgate_policy::GrantSource;
use tollgate_store::{ChangeError, Charge, ChargeMode, Limit, Source};

use crate::limiter::active::ActivePolicy;
use crate::limiter::async_limiter::AsyncLimiter;
use overrides::KeyOverride;
use report::{KeyCounter, KeyError, KeyReport};

/// A key is identified by its rule and by the text that `tollgate explain` prints for it: the values of the rule's
/// identities, separated by bars. Values may also have the form in which a request carries them: see
/// [`CompiledPolicy::read_key`](tollgate_policy::CompiledPolicy::read_key).
impl AsyncLimiter {
    /// Returns the state of a key. It charges nothing and creates no entry.
    pub async fn inspect_key(&self, rule: &str, key: &str) -> Result<KeyReport, KeyError> {
        let policy = self.active_policy();
        let (at, key) = named(&policy, rule, key)?;
        let key = key.as_str();
        let now_ns = self.now_ns();
        let grants: Vec<(Option<GrantSource>, Vec<u32>)> = match policy.overrides.find(at, key.as_bytes(), now_ns) {
            Some(quotas) => vec![(None, quotas.to_vec())],
            None => {
                let possible = policy.compiled.possible_grants(at, key.as_bytes()).into_iter();
                possible.map(|grant| (Some(grant.source), grant.quotas)).collect()
            }
        };
        let mut counters = Vec::new();
        for (source, quotas) in grants {
            // For each grant, because two grants may count the same key under different limits.
            let limit = |quota: &u32| policy.limit(policy.quotas[*quota as usize].limit_index);
            let limits: SmallVec<[&Limit; 4]> = quotas.iter().map(limit).collect();
            let standings = self.standings(&limits, key).await?;
            counters.extend(quotas.iter().zip(standings).map(|(quota, standing)| {
                let rule_quota = policy.quota(*quota);
                KeyCounter { source: source.clone(), name: rule_quota.scope.clone(), quota: rule_quota.quota, standing }
            }));
        }
        let escalation = policy.rules[at as usize].escalation.as_ref();
        let limit = |at: Option<u32>| at.map(|at| policy.limit(at));
        let violations = self.standing(limit(escalation.and_then(|escalation| escalation.violations)), key).await?;
        let block = self.standing(limit(escalation.and_then(|escalation| escalation.block)), key).await?;
        Ok(KeyReport {
            rule: rule.to_owned(),
            key: key.to_owned(),
            counters,
            violations,
            blocked_for_ns: block.filter(|block| block.remaining == 0).map(|block| block.reset_after),
            key_override: {
                let counters = policy.compiled.counters_name(at);
                self.key_overrides().into_iter().find(|set| set.rule == counters && set.key == key)
            },
        })
    }

    /// Resets a key under a rule, on every instance that shares the store: its usage, violations and block are deleted.
    /// Held permits are deleted too: their holders continue, and releasing them has no effect. An override remains.
    ///
    /// If a shared store did not reply, the call may be repeated.
    pub async fn reset_key(&self, rule: &str, key: &str) -> Result<(), KeyError> {
        let policy = self.active_policy();
        let (at, key) = named(&policy, rule, key)?;
        let key = key.as_str();
        let quotas = (0..).map_while(|quota| policy.try_quota(quota)).zip(&policy.quotas);
        let of_rule = quotas.filter(|(rule_quota, _)| rule_quota.rule == at).map(|(_, quota)| quota);
        let counters = of_rule.flat_map(|quota| std::iter::once(quota.limit_index).chain(quota.former_limit));
        let escalation = policy.rules[at as usize].escalation.iter().flat_map(|escalation| escalation.limits());
        let keys: Vec<(&Limit, &[u8])> =
            counters.chain(escalation).map(|at| (policy.limit(at), key.as_bytes())).collect();
        self.backend().admin()?.reset(&keys).await?;
        self.wake_waiters();
        Ok(())
    }

    /// Overrides the limit of a key for a time, on every instance that shares the store: with a rate such as `200/min`,
    /// several separated by commas, a number of permits, or `unlimited`. It replaces the limit that the policy grants
    /// to this key, ends by itself, and remains when the policy changes. Usage is kept.
    pub async fn override_key(
        &self,
        rule: &str,
        key: &str,
        limit: &str,
        lasts: Duration,
    ) -> Result<KeyOverride, KeyError> {
        let policy = self.active_policy();
        let (at, key) = named(&policy, rule, key)?;
        let key = key.as_str();
        let lasts_ns = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
        if lasts_ns == 0 || lasts_ns > MAX_SPAN_NS {
            return Err(KeyError::Duration);
        }
        let compiled = &policy.compiled;
        let grant = compiled.read_grant(at, limit).map_err(KeyError::InvalidLimit)?;
        for rule_quota in compiled.override_quotas(at, &grant) {
            // Reported here, because the other instances have no way to report it.
            let taken = policy.override_limit(&rule_quota, self.backend());
            taken.map_err(|error| KeyError::NotTaken(error.to_string()))?;
        }
        let until_ns = self.now_ns().saturating_add(lasts_ns);
        let rule = compiled.counters_name(at).to_owned();
        let set = KeyOverride { rule, key: key.to_owned(), limit: limit.trim().to_owned(), until_ns };
        self.backend().admin()?.set_override(set.stored()).await?;
        Ok(set)
    }

    /// Ends an override on every instance that shares the store. Returns whether this instance knew it.
    pub async fn end_override(&self, rule: &str, key: &str) -> Result<bool, KeyError> {
        // If the rule no longer exists, the key is as the list of overrides names it.
        let policy = self.active_policy();
        let (counters, meant) = match named(&policy, rule, key) {
            Ok((at, key)) => (policy.compiled.counters_name(at), key),
            Err(_) => (rule, key.to_owned()),
        };
        let is_known =
            self.key_overrides().iter().any(|set| [counters, rule].contains(&&*set.rule) && set.key == meant);
        self.backend().admin()?.remove_override(&KeyOverride::name_of(counters, &meant)).await?;
        if counters != rule {
            // An override that was set before the rule used the budget.
            self.backend().admin()?.remove_override(&KeyOverride::name_of(rule, &meant)).await?;
        }
        Ok(is_known)
    }

    /// Returns the active overrides, including those of removed rules.
    #[must_use]
    pub fn key_overrides(&self) -> Vec<KeyOverride> {
        let Some(overrides) = self.backend().overrides() else { return Vec::new() };
        let now_ns = self.now_ns();
        let (_, stored) = overrides.read();
        stored.iter().filter(|stored| stored.until_ns > now_ns).filter_map(KeyOverride::read).collect()
    }

    async fn standing(&self, limit: Option<&Limit>, key: &str) -> Result<Option<Decision>, KeyError> {
        match limit {
            Some(limit) => Ok(self.standings(&[limit], key).await?.pop()),
            None => Ok(None),
        }
    }

    /// Returns the state of a key by its counters, or an error if they cannot be read: no fallback applies.
    async fn standings(&self, limits: &[&Limit], key: &str) -> Result<SmallVec<[Decision; 4]>, KeyError> {
        if limits.is_empty() {
            return Ok(SmallVec::new());
        }
        let charges: SmallVec<[Charge<'_>; 4]> =
            limits.iter().map(|limit| Charge::new(limit, key.as_bytes(), 0).with_mode(ChargeMode::Peek)).collect();
        let outcome = self.backend().check_all(&charges).await;
        if outcome.source == Source::Fallback {
            return Err(KeyError::Change(ChangeError::Timeout));
        }
        Ok(outcome.decisions)
    }
}

/// Returns the index of a rule, and the key that a text denotes.
fn named(policy: &ActivePolicy, rule: &str, key: &str) -> Result<(u32, String), KeyError> {
    let compiled = &policy.compiled;
    let at = compiled.counters_named(rule).ok_or_else(|| KeyError::NoSuchRule(rule.to_owned()))?;
    Ok((at, compiled.read_key(at, key).map_err(KeyError::InvalidKey)?))
}
