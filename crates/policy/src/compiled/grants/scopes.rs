//! Assigns scopes to quotas, and collects each quota once.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;
use tollgate_core::{AlgorithmKind, Quota, Rate};

use crate::compiled::{AdvertisedQuota, RuleQuota};
use crate::model::Grant;

/// Collects the quotas that can be charged.
#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) quotas: Vec<RuleQuota>,
    /// The positions of the collected quotas. Equal quotas of different tiers are separate, so that each has its tier.
    known: HashMap<(String, Quota, Option<Box<str>>), u32, FixedState>,
    /// The rule of each scope: two rules never count in the same scope.
    owners: HashMap<String, u32, FixedState>,
}

impl Scopes {
    /// Returns an empty collection in which the scopes of these quotas belong to their rules.
    pub(crate) fn with_owners_of(quotas: &[RuleQuota]) -> Scopes {
        let owners = quotas.iter().map(|quota| (quota.scope.clone(), quota.rule)).collect();
        Scopes { owners, ..Scopes::default() }
    }

    /// Adds the quotas of a grant and returns their positions; none if it is unlimited.
    ///
    /// The scope of the first quota is the rule's name, and those of the others contain their period. The counters are
    /// kept when a limit becomes a list, or a list becomes a limit.
    pub(crate) fn add(&mut self, rule: u32, name: &str, grant: &Grant) -> Vec<u32> {
        self.add_for_tier(rule, name, None, grant)
    }

    /// The same for the grant of a tier.
    pub(crate) fn add_for_tier(&mut self, rule: u32, name: &str, tier: Option<&str>, grant: &Grant) -> Vec<u32> {
        let Grant::Limited(quotas) = grant else { return Vec::new() };
        let mut taken: Vec<String> = Vec::new();
        for (index, quota) in quotas.iter().enumerate() {
            let wanted = if index == 0 { name.to_owned() } else { format!("{name}/{}", period_name(quota)) };
            let scope = self.available_scope(rule, wanted, &taken);
            self.owners.insert(scope.clone(), rule);
            taken.push(scope);
        }
        let former = quotas.first().filter(|_| quotas.len() > 1).map(|first| format!("{name}/{}", period_name(first)));
        // With two limits over one period, the second limit has that scope now.
        let mut former = former.filter(|scope| !taken.contains(scope));
        let position = |(scope, quota)| self.add_quota(rule, scope, quota, former.take(), tier);
        taken.into_iter().zip(quotas.iter().copied()).map(position).collect()
    }

    /// Returns the scope itself, or with a number appended if this grant or another rule has it already.
    fn available_scope(&self, rule: u32, wanted: String, taken: &[String]) -> String {
        let is_available =
            |scope: &String| !taken.contains(scope) && self.owners.get(scope).is_none_or(|owner| *owner == rule);
        let numbered = (2..).map(|number| format!("{wanted}#{number}"));
        std::iter::once(wanted.clone()).chain(numbered).find(is_available).unwrap_or(wanted)
    }

    /// Adds a quota, unless it is known, and returns its position.
    fn add_quota(
        &mut self,
        rule: u32,
        scope: String,
        quota: Quota,
        former_scope: Option<String>,
        tier: Option<&str>,
    ) -> u32 {
        let next = u32::try_from(self.quotas.len()).unwrap_or(u32::MAX);
        let tier: Option<Box<str>> = tier.map(Box::from);
        let position = *self.known.entry((scope.clone(), quota, tier.clone())).or_insert(next);
        if position == next {
            let advertised = AdvertisedQuota::of(&quota);
            self.quotas.push(RuleQuota { rule, scope, quota, former_scope, advertised, tier });
        } else if former_scope.is_some() {
            self.quotas[position as usize].former_scope = former_scope;
        }
        position
    }
}

/// Returns the period of a quota as it is written in policies. It distinguishes the quotas of a grant.
fn period_name(quota: &Quota) -> String {
    if quota.kind() == AlgorithmKind::Concurrency {
        return "concurrency".to_owned();
    }
    let once = Rate::new(1, Duration::from_nanos(quota.period_ns())).map(|rate| rate.to_string());
    let period = once.as_deref().ok().and_then(|text| text.strip_prefix("1/")).unwrap_or("period");
    if period.starts_with(|first: char| first.is_ascii_digit()) { period.to_owned() } else { format!("1{period}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(rates: &[&str]) -> Grant {
        Grant::Limited(rates.iter().map(|rate| Quota::token_bucket(rate.parse().unwrap()).unwrap()).collect())
    }

    fn scopes(scopes: &Scopes) -> Vec<&str> {
        scopes.quotas.iter().map(|quota| quota.scope.as_str()).collect()
    }

    #[test]
    fn first_scope_is_the_rule_name_and_others_contain_their_period() {
        let mut all = Scopes::default();
        assert_eq!(all.add(0, "a", &limited(&["5/min"])), [0]);
        assert_eq!(all.add(0, "a", &Grant::Unlimited), [0; 0]);
        assert_eq!(all.add(1, "b", &limited(&["5/s", "10 per 90s", "100/h"])), [1, 2, 3]);
        assert_eq!(scopes(&all), ["a", "b", "b/90s", "b/1h"]);
        let former: Vec<_> = all.quotas.iter().map(|quota| quota.former_scope.as_deref()).collect();
        assert_eq!(former, [None, Some("b/1s"), None, None]);
    }

    #[test]
    fn tiers_share_scopes_and_equal_quotas_are_collected_once() {
        let mut all = Scopes::default();
        assert_eq!(all.add(0, "a", &limited(&["5/min"])), [0]);
        assert_eq!(all.add(0, "a", &limited(&["50/min"])), [1]);
        assert_eq!(all.add(0, "a", &limited(&["5/min"])), [0]);
        assert_eq!(scopes(&all), ["a", "a"]);
    }

    #[test]
    fn quotas_of_one_grant_and_of_different_rules_have_different_scopes() {
        let mut all = Scopes::default();
        let permits = Quota::concurrency(3, None).unwrap();
        let fast = Quota::token_bucket("5/min".parse().unwrap()).unwrap();
        let slow = Quota::fixed_window("7/min".parse().unwrap()).unwrap();
        all.add(0, "a", &Grant::Limited(vec![permits, fast, slow]));
        all.add(1, "a/1min", &limited(&["5/min"]));
        assert_eq!(scopes(&all), ["a", "a/1min", "a/1min#2", "a/1min#3"]);
    }
}
