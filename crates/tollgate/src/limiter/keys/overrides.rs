//! Overrides: limits that an operator has set for single keys, for a time.

use std::collections::HashMap;

use tollgate_policy::{CompiledPolicy, RuleQuota};
use tollgate_store::StoredOverride;

/// The prefix of the names of key overrides in the store. Rules and keys contain no line feed.
const OVERRIDE: &str = "override";

/// An override: another limit for one key, until it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOverride {
    /// The name of the rule, or of the budget if rules share one.
    pub rule: String,
    /// The key, as `explain` prints it.
    pub key: String,
    /// The limit, as in a policy.
    pub limit: String,
    /// When it ends by the store's clock, in nanoseconds since 1970.
    pub until_ns: u64,
}

impl KeyOverride {
    pub(in crate::limiter) fn name_of(rule: &str, key: &str) -> String {
        format!("{OVERRIDE}\n{rule}\n{key}")
    }

    pub(in crate::limiter) fn stored(&self) -> StoredOverride {
        let name = KeyOverride::name_of(&self.rule, &self.key).into();
        StoredOverride { name, text: self.limit.as_str().into(), until_ns: self.until_ns }
    }

    /// Parses a stored override; `None` if it is not of a key.
    pub(in crate::limiter) fn read(stored: &StoredOverride) -> Option<KeyOverride> {
        let mut parts = stored.name.splitn(3, '\n');
        let (OVERRIDE, rule, key) = (parts.next()?, parts.next()?, parts.next()?) else { return None };
        Some(KeyOverride {
            rule: rule.to_owned(),
            key: key.to_owned(),
            limit: stored.text.to_string(),
            until_ns: stored.until_ns,
        })
    }
}

/// The overrides of the keys of a policy's rules, prepared for matching.
#[derive(Debug, Default)]
pub(in crate::limiter) struct ActiveOverrides {
    /// For each rule of the policy, by key. Empty if there are none.
    rules: Vec<HashMap<Box<[u8]>, KeyGrant>>,
}

/// The override of one key.
#[derive(Debug)]
struct KeyGrant {
    until_ns: u64,
    /// Indexes after those of the policy's quotas. Empty if the key is unlimited.
    quotas: Vec<u32>,
}

impl ActiveOverrides {
    /// Prepares the overrides that apply under a policy, with their quotas. Those that no rule of the policy accepts
    /// are left out; `is_taken` returns whether the store accepts a quota.
    pub(in crate::limiter) fn read(
        compiled: &CompiledPolicy,
        stored: &[StoredOverride],
        now_ns: u64,
        mut is_taken: impl FnMut(&RuleQuota) -> bool,
    ) -> (ActiveOverrides, Vec<RuleQuota>) {
        let (mut overrides, mut quotas) = (ActiveOverrides::default(), Vec::<RuleQuota>::new());
        for set in stored.iter().filter(|stored| stored.until_ns > now_ns).filter_map(KeyOverride::read) {
            let Some(rule) = compiled.counters_named(&set.rule) else { continue };
            let Ok(grant) = compiled.read_grant(rule, &set.limit) else { continue };
            let granted = compiled.override_quotas(rule, &grant);
            let mut positions = Vec::with_capacity(granted.len());
            for quota in granted {
                let at = quotas.iter().position(|known| *known == quota).or_else(|| {
                    is_taken(&quota).then(|| {
                        quotas.push(quota);
                        quotas.len() - 1
                    })
                });
                positions.push(at.and_then(|at| u32::try_from(compiled.quotas().len() + at).ok()));
            }
            let Some(positions) = positions.into_iter().collect::<Option<Vec<u32>>>() else { continue };
            overrides.rules.resize_with(compiled.rules().len(), HashMap::new);
            let grant = KeyGrant { until_ns: set.until_ns, quotas: positions };
            overrides.rules[rule as usize].insert(set.key.into_bytes().into(), grant);
        }
        (overrides, quotas)
    }

    pub(in crate::limiter) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the quotas that override those of a rule for a key.
    pub(in crate::limiter) fn find(&self, rule: u32, key: &[u8], now_ns: u64) -> Option<&[u32]> {
        let grant = self.rules.get(rule as usize)?.get(key)?;
        (now_ns < grant.until_ns).then_some(&grant.quotas)
    }
}
