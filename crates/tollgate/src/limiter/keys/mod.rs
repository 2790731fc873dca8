//! The admin API for single keys: inspect, reset, override.

pub(in crate::limiter) mod overrides;
pub(in crate::limiter) mod report;

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Decision, MAX_SPAN_NS};
use tollgate_policy::GrantSource;
use tollgate_store::{ChangeError, Charge, Limit, Mode, Source};

use crate::limiter::active::ActivePolicy;
use crate::limiter::async_limiter::AsyncLimiter;
use overrides::KeyOverride;
use report::{KeyCounter, KeyError, KeyReport};

/// A key is named by its rule and by the text that `tollgate explain` shows for
/// it: the values of the rule's identities, with bars between them. Values may
/// also be as a request would bring them: [`CompiledPolicy::read_key`](tollgate_policy::CompiledPolicy::read_key).
impl AsyncLimiter {
    /// How a key stands. It charges nothing, makes no place for the key, and changes no answer.
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
            // Each grant by itself: two of them may count the same key in different ways.
            let limit = |quota: &u32| policy.limit(policy.quotas[*quota as usize].limit_at);
            let limits: SmallVec<[&Limit; 4]> = quotas.iter().map(limit).collect();
            let standings = self.standings(&limits, key).await?;
            counters.extend(quotas.iter().zip(standings).map(|(quota, standing)| {
                let planned = policy.quota(*quota);
                KeyCounter { source: source.clone(), name: planned.scope.clone(), quota: planned.quota, standing }
            }));
        }
        let escalation = policy.rules[at as usize].escalation.as_ref();
        let limit = |at: Option<u32>| at.map(|at| policy.limit(at));
        let violations = self.standing(limit(escalation.and_then(|step| step.violations)), key).await?;
        let block = self.standing(limit(escalation.and_then(|step| step.block)), key).await?;
        Ok(KeyReport {
            rule: rule.to_owned(),
            key: key.to_owned(),
            counters,
            violations,
            blocked_for_ns: block.filter(|block| block.remaining == 0).map(|block| block.reset_after),
            key_override: self.key_overrides().into_iter().find(|set| set.rule == rule && set.key == key),
        })
    }

    /// Makes a key as if untouched under a rule: what was used, violations and a
    /// block are forgotten, on every instance that shares the store. Permits
    /// that are held are forgotten too: who holds one goes on, and letting go
    /// of it then does nothing. A limit that was set by hand stays.
    ///
    /// It may be asked for again where the answer is that none came.
    pub async fn reset_key(&self, rule: &str, key: &str) -> Result<(), KeyError> {
        let policy = self.active_policy();
        let (at, key) = named(&policy, rule, key)?;
        let key = key.as_str();
        let quotas = (0..).map_while(|quota| policy.try_quota(quota)).zip(&policy.quotas);
        let of_rule = quotas.filter(|(planned, _)| planned.rule == at).map(|(_, quota)| quota);
        let counters = of_rule.flat_map(|quota| std::iter::once(quota.limit_at).chain(quota.former_limit_at));
        let escalation = policy.rules[at as usize].escalation.iter().flat_map(|escalation| escalation.limits());
        let keys: Vec<(&Limit, &[u8])> =
            counters.chain(escalation).map(|at| (policy.limit(at), key.as_bytes())).collect();
        Ok(self.backend().admin()?.reset(&keys).await?)
    }

    /// Sets another limit for a key, for a time, on every instance that shares
    /// the store: a rate such as `200/min`, several with commas between them, a
    /// number of permits, or `unlimited`. It holds instead of what the policy
    /// grants to this key, ends by itself, and outlives a change of the policy.
    /// What was used stays used.
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
        for planned in compiled.override_quotas(at, &grant) {
            // Told here, because nobody hears it on the other instances.
            let taken = policy.override_limit(&planned, self.backend());
            taken.map_err(|error| KeyError::NotTaken(error.to_string()))?;
        }
        let until_ns = self.now_ns().saturating_add(lasts_ns);
        let set = KeyOverride { rule: rule.to_owned(), key: key.to_owned(), limit: limit.trim().to_owned(), until_ns };
        self.backend().admin()?.set_override(set.stored()).await?;
        Ok(set)
    }

    /// Ends a limit that was set by hand, on every instance that shares the
    /// store, and says whether one was known here.
    pub async fn end_override(&self, rule: &str, key: &str) -> Result<bool, KeyError> {
        // The rule may be gone by now, and the key is then what the list of overrides calls it.
        let meant = named(&self.active_policy(), rule, key).map_or_else(|_| key.to_owned(), |(_, key)| key);
        let is_known = self.key_overrides().iter().any(|set| set.rule == rule && set.key == meant);
        self.backend().admin()?.remove_override(&KeyOverride::name_of(rule, &meant)).await?;
        Ok(is_known)
    }

    /// The limits that stand at present by hand, those of rules that are gone included.
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

    /// How a key stands under limits, by the counters themselves and not by what happens when they cannot be asked.
    async fn standings(&self, limits: &[&Limit], key: &str) -> Result<SmallVec<[Decision; 4]>, KeyError> {
        if limits.is_empty() {
            return Ok(SmallVec::new());
        }
        let charges: SmallVec<[Charge<'_>; 4]> =
            limits.iter().map(|limit| Charge::new(limit, key.as_bytes(), 0).with_mode(Mode::Watch)).collect();
        let outcome = self.backend().decide(&charges).await;
        if outcome.source == Source::Fallback {
            return Err(KeyError::Change(ChangeError::NoAnswer));
        }
        Ok(outcome.decisions)
    }
}

/// The position of a rule, and the key of it that a text means.
fn named(policy: &ActivePolicy, rule: &str, key: &str) -> Result<(u32, String), KeyError> {
    let compiled = &policy.compiled;
    let at = compiled.rule_named(rule).ok_or_else(|| KeyError::NoSuchRule(rule.to_owned()))?;
    Ok((at, compiled.read_key(at, key).map_err(KeyError::InvalidKey)?))
}
