//! The response fields.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use tollgate_policy::model::{FieldSet, Reset};
use tollgate_store::Source;

use super::line::{Line, with_number};
use super::policy_lists::{PolicyList, Quotas};
use crate::limiter::{ActiveQuota, MAX_FIELD_INTEGER};
use crate::verdict::{RuleState, Verdict, tightest};

const S_NS: u64 = 1_000_000_000;

/// Marks the position of a quota of which an instance granted its share. No policy has so many.
const SHARE: u32 = 1 << 31;

/// A response field that tells a client where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the field of its name")]
pub enum Field {
    RateLimitPolicy,
    RateLimit,
    XRateLimitLimit,
    XRateLimitRemaining,
    XRateLimitReset,
    /// Which rules let the request pass with a warning.
    XRateLimitWarning,
    RetryAfter,
}

impl Field {
    /// Its name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Field::RateLimitPolicy => "ratelimit-policy",
            Field::RateLimit => "ratelimit",
            Field::XRateLimitLimit => "x-ratelimit-limit",
            Field::XRateLimitRemaining => "x-ratelimit-remaining",
            Field::XRateLimitReset => "x-ratelimit-reset",
            Field::XRateLimitWarning => "x-ratelimit-warning",
            Field::RetryAfter => "retry-after",
        }
    }
}

/// What a field says.
pub(crate) enum FieldValue<'a> {
    Text(&'a [u8]),
    Number(u64),
    /// The limit that the policy gives, which is written down.
    #[cfg_attr(not(feature = "tower"), allow(dead_code, reason = "only responses take what is written down"))]
    Limit(&'a ActiveQuota),
}

impl Verdict {
    /// Gives the response fields to `take`, each with its value. Rules that are
    /// shadows, or that the policy does not publish, do not appear.
    pub fn fields(&self, mut take: impl FnMut(Field, &str)) {
        let policies = |list: &PolicyList| take(Field::RateLimitPolicy, &list.text);
        self.policy_list(policies);
        // Names and numbers are plain text.
        let mut text = |field, bytes: &[u8]| take(field, std::str::from_utf8(bytes).unwrap_or_default());
        self.changing_fields(|field, value| match value {
            FieldValue::Text(bytes) => text(field, bytes),
            FieldValue::Number(number) => with_number(number, |bytes| text(field, bytes)),
            FieldValue::Limit(quota) => with_number(quota.limit, |bytes| text(field, bytes)),
        });
    }

    /// Shows the list of the policies that it met to `read`, if clients are told.
    pub(crate) fn policy_list<R>(&self, read: impl FnOnce(&PolicyList) -> R) -> Option<R> {
        let policy = &self.policy;
        if !policy.tells_ietf {
            return None;
        }
        let quotas: Quotas = self.published().map(|state| self.told_quota(state)).collect();
        let write = |quotas: &Quotas| {
            let items = quotas.iter().map(|quota| match quota & SHARE {
                0 => policy.quotas[*quota as usize].policy_item.as_str(),
                _ => policy.quotas[(quota & !SHARE) as usize].share_item.as_str(),
            });
            items.collect::<Vec<_>>().join(", ")
        };
        (!quotas.is_empty()).then(|| policy.policy_lists.with(&quotas, write, read))
    }

    /// The position of a state's quota, and whether only a share of it was granted.
    fn told_quota(&self, state: &RuleState) -> u32 {
        let is_share =
            self.source == Source::Fallback && state.decision.limit < self.policy.quotas[state.quota as usize].limit;
        state.quota | if is_share { SHARE } else { 0 }
    }

    /// Gives the fields that are another at every request to `take`, each with its value.
    pub(crate) fn changing_fields(&self, mut take: impl FnMut(Field, FieldValue<'_>)) {
        let settings = self.policy().fields();
        let jitter_ns = self.jitter_ns();
        for set in &settings.sets {
            match set {
                FieldSet::Ietf => self.ratelimit(jitter_ns, &mut take),
                FieldSet::XRateLimit => self.x_ratelimit(settings.reset, &mut take),
            }
        }
        if self.warned().iter().any(|rule| self.policy.rules[*rule as usize].publish) {
            self.warning(&mut take);
        }
        if let Some(seconds) = self.retry_after_s(jitter_ns) {
            take(Field::RetryAfter, FieldValue::Number(seconds));
        }
    }

    fn published(&self) -> impl Iterator<Item = &RuleState> {
        self.states.iter().filter(|state| self.policy.rules[state.rule as usize].publish)
    }

    /// The deciding state, if clients may know of it. Of an allowed request,
    /// else, the tightest that they may know of.
    pub(super) fn told_state(&self) -> Option<&RuleState> {
        let publish = |state: &RuleState| self.policy.rules[state.rule as usize].publish;
        match self.deciding() {
            Some(deciding) if publish(deciding) => Some(deciding),
            Some(_) if self.is_allowed() => tightest(self.published().enumerate()).map(|(_, state)| state),
            _ => None,
        }
    }

    fn ratelimit(&self, jitter_ns: u64, take: &mut impl FnMut(Field, FieldValue<'_>)) {
        let mut line = Line::new();
        for state in self.published() {
            if !line.is_empty() {
                line.push(b", ");
            }
            line.push(self.policy.quotas[state.quota as usize].state_item.as_bytes());
            line.push_number(state.decision.remaining.min(MAX_FIELD_INTEGER));
            let more_ns = state.decision.next_after;
            if more_ns > 0 {
                let later_ns = if state.decision.is_allowed() { 0 } else { jitter_ns };
                line.push(b";t=");
                line.push_number(ceil_s(more_ns.saturating_add(later_ns)));
            }
        }
        if !line.is_empty() {
            take(Field::RateLimit, FieldValue::Text(line.as_bytes()));
        }
    }

    fn x_ratelimit(&self, reset: Reset, take: &mut impl FnMut(Field, FieldValue<'_>)) {
        let Some(state) = self.told_state() else { return };
        let known = &self.policy.quotas[state.quota as usize];
        let is_known = state.decision.limit == known.limit;
        let limit = if is_known { FieldValue::Limit(known) } else { FieldValue::Number(state.decision.limit) };
        take(Field::XRateLimitLimit, limit);
        take(Field::XRateLimitRemaining, FieldValue::Number(state.decision.remaining));
        let after_ns = state.decision.reset_after;
        // Nobody knows when a permit without a lease comes back.
        if after_ns < u64::MAX {
            let reset_ns = match reset {
                Reset::Epoch => self.now_ns.saturating_add(after_ns),
                Reset::Delta => after_ns,
            };
            take(Field::XRateLimitReset, FieldValue::Number(ceil_s(reset_ns)));
        }
    }

    fn warning(&self, take: &mut impl FnMut(Field, FieldValue<'_>)) {
        let mut line = Line::new();
        for rule in self.warned().iter().filter(|rule| self.policy.rules[**rule as usize].publish) {
            if !line.is_empty() {
                line.push(b", ");
            }
            line.push(self.policy.rule_name(*rule).as_bytes());
        }
        take(Field::XRateLimitWarning, FieldValue::Text(line.as_bytes()));
    }

    /// Whole seconds, rounded up, at least 1, and never before `t`; an estimate where a permit is missing.
    pub(super) fn retry_after_s(&self, jitter_ns: u64) -> Option<u64> {
        let retry_ns = if self.is_allowed() { None } else { self.retry_after_ns() };
        let retry_ns = retry_ns.or_else(|| self.estimated_retry_ns());
        if retry_ns.is_none() && self.is_trouble() {
            return Some(1);
        }
        Some(ceil_s(retry_ns?.saturating_add(jitter_ns)).max(1))
    }

    /// Up to as much as the policy says, at random, so that those who were
    /// refused together do not come back together.
    pub(super) fn jitter_ns(&self) -> u64 {
        static DICE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let most_ns = self.policy().fields().jitter_ns;
        if most_ns == 0 || self.is_allowed() {
            return 0;
        }
        DICE.hash_one((self.now_ns, self.retry_after_ns())) % most_ns.saturating_add(1)
    }
}

fn ceil_s(ns: u64) -> u64 {
    ns.div_ceil(S_NS).min(MAX_FIELD_INTEGER)
}
