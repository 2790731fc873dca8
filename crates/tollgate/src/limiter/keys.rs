//! An operator's hand on single keys.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Decision, MAX_SPAN_NS};
use tollgate_policy::GrantSource;
use tollgate_store::{ChangeError, KeyedCharge, Mode, Source, Store};

use super::Limiter;
use super::active::Active;
use super::key_report::{KeyCounter, KeyError, KeyReport};
use super::overrides::KeyOverride;

/// A key is named by its rule and by the text that `tollgate explain` shows for
/// it: the values of the rule's identities, with bars between them. Values may
/// also be as a request would bring them: [`CompiledPolicy::read_key`](tollgate_policy::CompiledPolicy::read_key).
impl<S: Store> Limiter<S> {
    /// How a key stands. It charges nothing, makes no place for the key, and changes no answer.
    pub async fn inspect_key(&self, rule: &str, key: &str) -> Result<KeyReport, KeyError> {
        let active = self.active();
        let (at, key) = named(&active, rule, key)?;
        let key = key.as_str();
        let now_ns = self.shared.store.now_ns();
        let grants: Vec<(Option<GrantSource>, Vec<u32>)> = match active.overrides.find(at, key.as_bytes(), now_ns) {
            Some(quotas) => vec![(None, quotas.to_vec())],
            None => {
                let possible = active.facts.plan.possible_grants(at, key.as_bytes()).into_iter();
                possible.map(|grant| (Some(grant.source), grant.quotas)).collect()
            }
        };
        let mut counters = Vec::new();
        for (source, quotas) in grants {
            // Each grant by itself: two of them may count the same key in different ways.
            let limits: SmallVec<[&S::Limit; 4]> = quotas.iter().map(|quota| &active.limits[*quota as usize]).collect();
            let standings = self.standings(&limits, key).await?;
            counters.extend(quotas.iter().zip(standings).map(|(quota, standing)| {
                let planned = active.facts.quota(*quota);
                KeyCounter { source: source.clone(), name: planned.scope.clone(), quota: planned.quota, standing }
            }));
        }
        let graduated = active.graduated[at as usize].as_ref();
        let violations = self.standing(graduated.and_then(|graduated| graduated.violations.as_ref()), key).await?;
        let block = self.standing(graduated.and_then(|graduated| graduated.block.as_ref()), key).await?;
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
        let active = self.active();
        let (at, key) = named(&active, rule, key)?;
        let key = key.as_str();
        let quotas = (0..).map_while(|quota| active.facts.try_quota(quota)).zip(&active.limits);
        let counters = quotas.filter(|(planned, _)| planned.rule == at).map(|(_, limit)| limit);
        let former = active.facts.plan.quotas().iter().zip(&active.former).filter(|(planned, _)| planned.rule == at);
        let counters = counters.chain(former.filter_map(|(_, limit)| limit.as_ref()));
        let graduated = active.graduated[at as usize].iter();
        let beside = graduated
            .flat_map(|graduated| [&graduated.violations, &graduated.pace, &graduated.block].into_iter().flatten());
        let keys: Vec<(&S::Limit, &[u8])> = counters.chain(beside).map(|limit| (limit, key.as_bytes())).collect();
        Ok(self.shared.store.reset(&keys).await?)
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
        let active = self.active();
        let (at, key) = named(&active, rule, key)?;
        let key = key.as_str();
        let lasts_ns = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
        if lasts_ns == 0 || lasts_ns > MAX_SPAN_NS {
            return Err(KeyError::Duration);
        }
        let plan = &active.facts.plan;
        let grant = plan.read_grant(at, limit).map_err(KeyError::InvalidLimit)?;
        for planned in plan.override_quotas(at, &grant) {
            // Told here, because nobody hears it on the other instances.
            let taken = active.prepare_override(&planned, &self.shared.store);
            taken.map_err(|error| KeyError::NotTaken(error.to_string()))?;
        }
        let until_ns = self.shared.store.now_ns().saturating_add(lasts_ns);
        let set = KeyOverride { rule: rule.to_owned(), key: key.to_owned(), limit: limit.trim().to_owned(), until_ns };
        self.shared.store.post(set.notice()).await?;
        Ok(set)
    }

    /// Ends a limit that was set by hand, on every instance that shares the
    /// store, and says whether one was known here.
    pub async fn end_override(&self, rule: &str, key: &str) -> Result<bool, KeyError> {
        // The rule may be gone by now, and the key is then what the list of overrides calls it.
        let meant = named(&self.active(), rule, key).map_or_else(|_| key.to_owned(), |(_, key)| key);
        let is_known = self.key_overrides().iter().any(|set| set.rule == rule && set.key == meant);
        self.shared.store.remove(&KeyOverride::name_of(rule, &meant)).await?;
        Ok(is_known)
    }

    /// The limits that stand at present by hand, those of rules that are gone included.
    #[must_use]
    pub fn key_overrides(&self) -> Vec<KeyOverride> {
        let Some(board) = self.shared.store.board() else { return Vec::new() };
        let now_ns = self.shared.store.now_ns();
        let (_, notices) = board.read();
        notices.iter().filter(|notice| notice.until_ns > now_ns).filter_map(KeyOverride::read).collect()
    }

    async fn standing(&self, limit: Option<&S::Limit>, key: &str) -> Result<Option<Decision>, KeyError> {
        match limit {
            Some(limit) => Ok(self.standings(&[limit], key).await?.pop()),
            None => Ok(None),
        }
    }

    /// How a key stands under limits, by the counters themselves and not by what happens when they cannot be asked.
    async fn standings(&self, limits: &[&S::Limit], key: &str) -> Result<SmallVec<[Decision; 4]>, KeyError> {
        if limits.is_empty() {
            return Ok(SmallVec::new());
        }
        let mut charges: SmallVec<[KeyedCharge<'_, S::Limit>; 4]> = SmallVec::new();
        for limit in limits {
            charges.push(KeyedCharge { limit, key: key.as_bytes(), cost: 0, mode: Mode::Watch, receipt: false });
        }
        let outcome = self.shared.store.decide(&charges).await;
        if outcome.source == Source::Fallback {
            return Err(KeyError::Change(ChangeError::NoAnswer));
        }
        Ok(outcome.decisions)
    }
}

/// The position of a rule, and the key of it that a text means.
fn named<L>(active: &Active<L>, rule: &str, key: &str) -> Result<(u32, String), KeyError> {
    let plan = &active.facts.plan;
    let at = plan.rule_named(rule).ok_or_else(|| KeyError::NoSuchRule(rule.to_owned()))?;
    Ok((at, plan.read_key(at, key).map_err(KeyError::InvalidKey)?))
}
