//! The response fields.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::LazyLock;

use smallvec::SmallVec;
use tollgate_core::ChargeVerdict as CoreVerdict;
use tollgate_policy::MAX_FIELD_INTEGER;
use tollgate_policy::model::{FieldSet, ResetFormat};
use tollgate_store::Source;

use super::writer::{FieldText, FieldWriter, TextBuffer};
use crate::verdict::{Action, RuleState, Verdict, tightest};

const S_NS: u64 = 1_000_000_000;

/// Marks the index of a quota of which an instance granted its share. No policy has so many quotas.
const SHARE: u32 = 1 << 31;

/// The capacity in bytes for the fields of a response with a few rules.
pub(super) const USUAL_BYTES: usize = 320;

/// Fields, and the ranges of their values in the text.
pub(super) type WrittenFields = SmallVec<[(Field, Range<usize>); 6]>;

/// The published limits that apply, as indexes of their quotas.
pub(super) type ToldQuotas = SmallVec<[u32; 6]>;

/// A response field with the state of a client's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the field of its name")]
pub enum Field {
    RateLimitPolicy,
    RateLimit,
    XRateLimitLimit,
    XRateLimitRemaining,
    XRateLimitReset,
    /// The rules that let the request pass with a warning.
    XRateLimitWarning,
    RetryAfter,
}

impl Field {
    /// Returns its name in lower case.
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

impl Verdict {
    /// Calls `take` with each response field and its value. Shadow rules and rules that the policy does not publish are
    /// left out.
    pub fn fields(&self, mut take: impl FnMut(Field, &str)) {
        let (text, written) = self.write_fields();
        for (field, range) in written {
            // Names and numbers are ASCII.
            take(field, str::from_utf8(&text[range]).unwrap_or_default());
        }
    }

    /// Returns the text of all fields, and the range of each value.
    pub(super) fn write_fields(&self) -> (Vec<u8>, WrittenFields) {
        let mut text = Vec::with_capacity(USUAL_BYTES);
        let mut written = WrittenFields::new();
        let mut writer = FieldWriter::new(&mut text);
        // The text since the last field is the value of this one. Without a value there is no field.
        let mut end = |field, writer: &mut FieldWriter<'_, _>| {
            let range = writer.end_value();
            if !range.is_empty() {
                written.push((field, range));
            }
        };
        let settings = self.policy().fields();
        let jitter_ns = self.jitter_ns();
        for set in &settings.sets {
            match set {
                FieldSet::Ietf => {
                    self.write_policy_list(&mut writer);
                    end(Field::RateLimitPolicy, &mut writer);
                    for state in self.published() {
                        self.write_state(state, jitter_ns, &mut writer);
                    }
                    end(Field::RateLimit, &mut writer);
                }
                FieldSet::XRateLimit => {
                    let Some(state) = self.told_state() else { continue };
                    let known = &self.policy.quotas[state.quota as usize];
                    if state.decision.limit == known.max_remaining {
                        writer.push(&known.limit_text);
                    } else {
                        writer.push_number(state.decision.limit);
                    }
                    end(Field::XRateLimitLimit, &mut writer);
                    writer.push_number(state.decision.remaining);
                    end(Field::XRateLimitRemaining, &mut writer);
                    if let Some(reset_s) = self.reset_s(state) {
                        writer.push_number(reset_s);
                    }
                    end(Field::XRateLimitReset, &mut writer);
                }
            }
        }
        for rule in self.warned().iter().filter(|rule| self.policy.rules[**rule as usize].publish) {
            writer.push_comma_if_begun();
            writer.push(&self.policy.rules[*rule as usize].field_name);
        }
        end(Field::XRateLimitWarning, &mut writer);
        if let Some(seconds) = self.retry_after_s(jitter_ns) {
            writer.push_number(seconds);
        }
        end(Field::RetryAfter, &mut writer);
        (text, written)
    }

    /// Writes the policies that apply, if any is published.
    fn write_policy_list(&self, writer: &mut FieldWriter<'_, Vec<u8>>) {
        let quotas: ToldQuotas = self.published().map(|state| self.told_quota(state)).collect();
        if quotas.is_empty() {
            return;
        }
        match self.policy.policy_lists.get(&quotas, || self.policy_list(&quotas)) {
            Some(list) => writer.push(list),
            None => writer.push(&self.policy_list(&quotas)),
        }
    }

    /// Returns the value of `RateLimit-Policy`.
    #[cold]
    pub(super) fn policy_list(&self, quotas: &[u32]) -> FieldText {
        let item = |quota: &u32| match quota & SHARE {
            0 => &*self.policy.quotas[*quota as usize].policy_item,
            _ => &*self.policy.quotas[(quota & !SHARE) as usize].share_item,
        };
        FieldText::new(quotas.iter().map(item).collect::<Vec<_>>().join(", "))
    }

    /// Returns the index of a state's quota, marked if only a share of it was granted.
    #[inline]
    pub(super) fn told_quota(&self, state: &RuleState) -> u32 {
        let is_share = self.source == Source::Fallback
            && state.decision.limit < self.policy.quotas[state.quota as usize].max_remaining;
        state.quota | if is_share { SHARE } else { 0 }
    }

    /// Writes an item of `RateLimit`. Returns the range of the remaining amount.
    #[inline]
    pub(super) fn write_state<B: TextBuffer>(
        &self,
        state: &RuleState,
        jitter_ns: u64,
        writer: &mut FieldWriter<'_, B>,
    ) -> Range<usize> {
        writer.push_comma_if_begun();
        writer.push(&self.policy.quotas[state.quota as usize].state_item);
        let remaining = writer.push_number(state.decision.remaining.min(MAX_FIELD_INTEGER));
        let more_ns = state.decision.next_after;
        if more_ns > 0 {
            let later_ns = if state.decision.is_allowed() { 0 } else { jitter_ns };
            writer.push_t();
            writer.push_number(ceil_s(more_ns.saturating_add(later_ns)));
        }
        remaining
    }

    /// Returns when the whole limit is available again, in the policy's form. `None` for a permit without a lease,
    /// whose release time is unknown.
    #[inline]
    pub(super) fn reset_s(&self, state: &RuleState) -> Option<u64> {
        let after_ns = state.decision.reset_after;
        if after_ns == u64::MAX {
            return None;
        }
        Some(ceil_s(match self.policy().fields().reset {
            ResetFormat::Epoch => self.now_ns.saturating_add(after_ns),
            ResetFormat::Delta => after_ns,
        }))
    }

    #[inline]
    pub(super) fn published(&self) -> impl Iterator<Item = &RuleState> {
        self.states.iter().filter(|state| self.policy.rules[state.rule as usize].publish)
    }

    /// Returns the deciding state if it is published, else for an allowed request the tightest published one.
    pub(super) fn told_state(&self) -> Option<&RuleState> {
        let publish = |state: &RuleState| self.policy.rules[state.rule as usize].publish;
        match self.deciding() {
            Some(deciding) if publish(deciding) => Some(deciding),
            Some(_) if self.is_allowed() => tightest(self.published()),
            _ => None,
        }
    }

    /// Returns `Retry-After` in whole seconds, rounded up, at least 1 and never before `t`; an estimate if a permit is
    /// missing. `None` for an allowed request.
    #[inline]
    pub(super) fn retry_after_s(&self, jitter_ns: u64) -> Option<u64> {
        if self.is_allowed() {
            return None;
        }
        let retry_ns = self.retry_after_ns().or_else(|| self.estimated_retry_ns());
        if retry_ns.is_none() && self.is_store_failure() {
            return Some(1);
        }
        Some(ceil_s(retry_ns?.saturating_add(jitter_ns)).max(1))
    }

    /// Estimates when a missing permit is released: the recent holding time of the rule's permits, or longer if another
    /// limit says so. `None` if the time is known or the request can never pass.
    pub(super) fn estimated_retry_ns(&self) -> Option<u64> {
        if self.action != Action::Reject || self.retry_after_ns().is_some() {
            return None;
        }
        let expected_ns = |state: &RuleState| match state.decision.verdict {
            CoreVerdict::Refused { retry_after: None } => {
                let lease_ns = self.policy.quotas[state.quota as usize].lease_ns;
                Some(self.policy.rules[state.rule as usize].holding.estimate_ns(lease_ns))
            }
            _ => state.retry_after_ns(),
        };
        let refusing = self.states.iter().filter(|state| !state.shadow && !state.decision.is_allowed());
        refusing.map(expected_ns).reduce(|one, other| Some(one?.max(other?))).flatten()
    }

    /// Returns a random jitter up to the policy's setting, so that clients that were refused together do not retry
    /// together.
    #[inline]
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
