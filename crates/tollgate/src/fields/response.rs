//! The response fields.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::LazyLock;

use smallvec::SmallVec;
use tollgate_core::Verdict as CoreVerdict;
use tollgate_policy::MAX_FIELD_INTEGER;
use tollgate_policy::model::{FieldSet, Reset};
use tollgate_store::Source;

use super::writer::{FieldText, FieldWriter, TextBuffer};
use crate::verdict::{Action, RuleState, Verdict, tightest};

const S_NS: u64 = 1_000_000_000;

/// Marks the position of a quota of which an instance granted its share. No policy has so many.
const SHARE: u32 = 1 << 31;

/// What the fields of a response under a few rules take.
pub(super) const USUAL_BYTES: usize = 320;

/// Fields, and where the value of each stands in the text.
pub(super) type WrittenFields = SmallVec<[(Field, Range<usize>); 6]>;

/// The limits that clients are told of, by the positions of their quotas.
pub(super) type ToldQuotas = SmallVec<[u32; 6]>;

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

impl Verdict {
    /// Gives the response fields to `take`, each with its value. Rules that are
    /// shadows, or that the policy does not publish, do not appear.
    pub fn fields(&self, mut take: impl FnMut(Field, &str)) {
        let (text, written) = self.write_fields();
        for (field, range) in written {
            // Names and numbers are plain text.
            take(field, str::from_utf8(&text[range]).unwrap_or_default());
        }
    }

    /// The text of all fields, and where the value of each stands in it.
    pub(super) fn write_fields(&self) -> (Vec<u8>, WrittenFields) {
        let mut text = Vec::with_capacity(USUAL_BYTES);
        let mut written = WrittenFields::new();
        let mut writer = FieldWriter::new(&mut text);
        // What was written since the last field is the value of this one; without a value there is no field.
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
                    if state.decision.limit == known.limit {
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

    /// Writes the policies that apply to it, if clients are told of any.
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

    /// The value of `RateLimit-Policy`.
    #[cold]
    pub(super) fn policy_list(&self, quotas: &[u32]) -> FieldText {
        let item = |quota: &u32| match quota & SHARE {
            0 => &*self.policy.quotas[*quota as usize].policy_item,
            _ => &*self.policy.quotas[(quota & !SHARE) as usize].share_item,
        };
        FieldText::new(quotas.iter().map(item).collect::<Vec<_>>().join(", "))
    }

    /// The position of a state's quota, and whether only a share of it was granted.
    #[inline]
    pub(super) fn told_quota(&self, state: &RuleState) -> u32 {
        let is_share =
            self.source == Source::Fallback && state.decision.limit < self.policy.quotas[state.quota as usize].limit;
        state.quota | if is_share { SHARE } else { 0 }
    }

    /// Writes an item of `RateLimit`. Returns where it says what remains.
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

    /// When all of a limit is there again, as the policy wants it told. It is not known when a permit without a lease
    /// comes back.
    #[inline]
    pub(super) fn reset_s(&self, state: &RuleState) -> Option<u64> {
        let after_ns = state.decision.reset_after;
        if after_ns == u64::MAX {
            return None;
        }
        Some(ceil_s(match self.policy().fields().reset {
            Reset::Epoch => self.now_ns.saturating_add(after_ns),
            Reset::Delta => after_ns,
        }))
    }

    #[inline]
    pub(super) fn published(&self) -> impl Iterator<Item = &RuleState> {
        self.states.iter().filter(|state| self.policy.rules[state.rule as usize].publish)
    }

    /// The deciding state, if clients may know of it. Of an allowed request,
    /// else, the tightest that they may know of.
    pub(super) fn told_state(&self) -> Option<&RuleState> {
        let publish = |state: &RuleState| self.policy.rules[state.rule as usize].publish;
        match self.deciding() {
            Some(deciding) if publish(deciding) => Some(deciding),
            Some(_) if self.is_allowed() => tightest(self.published()),
            _ => None,
        }
    }

    /// Whole seconds, rounded up, at least 1, and never before `t`; an estimate where a permit is missing. `None` for a
    /// request that passes.
    #[inline]
    pub(super) fn retry_after_s(&self, jitter_ns: u64) -> Option<u64> {
        if self.is_allowed() {
            return None;
        }
        let retry_ns = self.retry_after_ns().or_else(|| self.estimated_retry_ns());
        if retry_ns.is_none() && self.is_trouble() {
            return Some(1);
        }
        Some(ceil_s(retry_ns?.saturating_add(jitter_ns)).max(1))
    }

    /// For a refusal that lasts until a permit comes back: as long as permits
    /// of that rule were held lately, or longer where another limit says so.
    /// `None` where the time is known, or where the request will never pass.
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

    /// Up to as much as the policy says, at random, so that those who were
    /// refused together do not come back together.
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
