//! Quotas under their scopes, each of them once.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;
use tollgate_core::{AlgorithmKind, Quota, Rate};

use crate::compiled::{AdvertisedQuota, RuleQuota};
use crate::model::Grant;

/// Collects what can be charged.
#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) quotas: Vec<RuleQuota>,
    known: HashMap<(String, Quota), u32, FixedState>,
    /// Whose a scope is: two rules never count in the same one.
    owners: HashMap<String, u32, FixedState>,
}

impl Scopes {
    /// Nothing collected, with the scopes belonging to the rules that these quotas say.
    pub(crate) fn owned_as(quotas: &[RuleQuota]) -> Scopes {
        let owners = quotas.iter().map(|planned| (planned.scope.clone(), planned.rule)).collect();
        Scopes { owners, ..Scopes::default() }
    }

    /// The positions of a grant's quotas; none if it is unlimited.
    ///
    /// The first quota counts under the rule's own name and the others under
    /// their period, so that a limit which becomes a list, or a list which
    /// becomes a limit, goes on where it was.
    pub(crate) fn add(&mut self, rule: u32, name: &str, grant: &Grant) -> Vec<u32> {
        let Grant::Limited(quotas) = grant else { return Vec::new() };
        let mut taken: Vec<String> = Vec::new();
        for (at, quota) in quotas.iter().enumerate() {
            let wanted = if at == 0 { name.to_owned() } else { format!("{name}/{}", shape(quota)) };
            let scope = self.free(rule, wanted, &taken);
            self.owners.insert(scope.clone(), rule);
            taken.push(scope);
        }
        let former = quotas.first().filter(|_| quotas.len() > 1).map(|first| format!("{name}/{}", shape(first)));
        // Two limits over one period: the name is the second one's now.
        let mut former = former.filter(|scope| !taken.contains(scope));
        let position = |(scope, quota)| self.position(rule, scope, quota, former.take());
        taken.into_iter().zip(quotas.iter().copied()).map(position).collect()
    }

    /// The scope itself, or with a number behind it where this grant or another rule has it already.
    fn free(&self, rule: u32, wanted: String, taken: &[String]) -> String {
        let is_free =
            |scope: &String| !taken.contains(scope) && self.owners.get(scope).is_none_or(|owner| *owner == rule);
        let numbered = (2..).map(|number| format!("{wanted}#{number}"));
        std::iter::once(wanted.clone()).chain(numbered).find(is_free).unwrap_or(wanted)
    }

    fn position(&mut self, rule: u32, scope: String, quota: Quota, former_scope: Option<String>) -> u32 {
        let next = u32::try_from(self.quotas.len()).unwrap_or(u32::MAX);
        let position = *self.known.entry((scope.clone(), quota)).or_insert(next);
        if position == next {
            let advertised = AdvertisedQuota::of(&quota);
            self.quotas.push(RuleQuota { rule, scope, quota, former_scope, advertised });
        } else if former_scope.is_some() {
            self.quotas[position as usize].former_scope = former_scope;
        }
        position
    }
}

/// What tells the quotas of a grant apart: the period, as people write it.
fn shape(quota: &Quota) -> String {
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
    fn first_quota_counts_under_the_rule_and_the_others_under_their_period() {
        let mut all = Scopes::default();
        assert_eq!(all.add(0, "a", &limited(&["5/min"])), [0]);
        assert_eq!(all.add(0, "a", &Grant::Unlimited), [0; 0]);
        assert_eq!(all.add(1, "b", &limited(&["5/s", "10 per 90s", "100/h"])), [1, 2, 3]);
        assert_eq!(scopes(&all), ["a", "b", "b/90s", "b/1h"]);
        let former: Vec<_> = all.quotas.iter().map(|quota| quota.former_scope.as_deref()).collect();
        assert_eq!(former, [None, Some("b/1s"), None, None]);
    }

    #[test]
    fn tiers_share_scopes_and_equal_quotas_are_one() {
        let mut all = Scopes::default();
        assert_eq!(all.add(0, "a", &limited(&["5/min"])), [0]);
        assert_eq!(all.add(0, "a", &limited(&["50/min"])), [1]);
        assert_eq!(all.add(0, "a", &limited(&["5/min"])), [0]);
        assert_eq!(scopes(&all), ["a", "a"]);
    }

    #[test]
    fn no_two_quotas_of_a_grant_and_no_two_rules_share_a_scope() {
        let mut all = Scopes::default();
        let permits = Quota::concurrency(3, None).unwrap();
        let fast = Quota::token_bucket("5/min".parse().unwrap()).unwrap();
        let slow = Quota::fixed_window("7/min".parse().unwrap()).unwrap();
        all.add(0, "a", &Grant::Limited(vec![permits, fast, slow]));
        all.add(1, "a/1min", &limited(&["5/min"]));
        assert_eq!(scopes(&all), ["a", "a/1min", "a/1min#2", "a/1min#3"]);
    }
}
