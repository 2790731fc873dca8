//! The response fields.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use tollgate_policy::MAX_FIELD_INTEGER;
use tollgate_policy::model::{FieldSet, Reset};
use tollgate_store::Source;

use super::writer::{FieldText, FieldWriter, TextBuffer, WrittenFields};
use crate::verdict::{RuleState, Verdict, tightest};

const S_NS: u64 = 1_000_000_000;

/// Marks the position of a quota of which an instance granted its share. No policy has so many.
const SHARE: u32 = 1 << 31;

/// What the fields of a response under a few rules take.
pub(super) const USUAL_BYTES: usize = 320;

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
        let mut text = Vec::with_capacity(USUAL_BYTES);
        for written in self.write_fields(&mut text) {
            // Names and numbers are plain text.
            take(written.field, str::from_utf8(&text[written.range()]).unwrap_or_default());
        }
    }

    /// Writes the fields into an empty buffer.
    #[inline]
    pub(super) fn write_fields<B: TextBuffer>(&self, buffer: &mut B) -> WrittenFields {
        let settings = self.policy().fields();
        let jitter_ns = self.jitter_ns();
        let mut writer = FieldWriter::new(buffer);
        for set in &settings.sets {
            match set {
                FieldSet::Ietf => {
                    self.write_policy_list(&mut writer);
                    self.write_ratelimit(jitter_ns, &mut writer);
                }
                FieldSet::XRateLimit => self.write_x_ratelimit(settings.reset, &mut writer),
            }
        }
        for rule in self.warned().iter().filter(|rule| self.policy.rules[**rule as usize].publish) {
            writer.push_comma_if_begun();
            writer.push(&self.policy.rules[*rule as usize].field_name);
        }
        writer.end(Field::XRateLimitWarning);
        if let Some(seconds) = self.retry_after_s(jitter_ns) {
            writer.push_number(seconds);
            writer.end(Field::RetryAfter);
        }
        writer.finish()
    }

    /// The policies that apply to it, if clients are told of any.
    #[inline]
    fn write_policy_list<B: TextBuffer>(&self, writer: &mut FieldWriter<'_, B>) {
        let quotas = self.published().map(|state| self.told_quota(state));
        if quotas.clone().next().is_none() {
            return;
        }
        match self.policy.policy_lists.get(quotas.clone(), || self.policy_list(quotas.clone())) {
            Some(list) => writer.push(list),
            None => writer.push(&self.policy_list(quotas)),
        }
        writer.end(Field::RateLimitPolicy);
    }

    #[cold]
    fn policy_list(&self, quotas: impl Iterator<Item = u32>) -> FieldText {
        let item = |quota: u32| match quota & SHARE {
            0 => &*self.policy.quotas[quota as usize].policy_item,
            _ => &*self.policy.quotas[(quota & !SHARE) as usize].share_item,
        };
        FieldText::new(quotas.map(item).collect::<Vec<_>>().join(", "))
    }

    /// The position of a state's quota, and whether only a share of it was granted.
    fn told_quota(&self, state: &RuleState) -> u32 {
        let is_share =
            self.source == Source::Fallback && state.decision.limit < self.policy.quotas[state.quota as usize].limit;
        state.quota | if is_share { SHARE } else { 0 }
    }

    fn published(&self) -> impl Iterator<Item = &RuleState> + Clone {
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

    #[inline]
    fn write_ratelimit<B: TextBuffer>(&self, jitter_ns: u64, writer: &mut FieldWriter<'_, B>) {
        for state in self.published() {
            writer.push_comma_if_begun();
            writer.push(&self.policy.quotas[state.quota as usize].state_item);
            writer.push_number(state.decision.remaining.min(MAX_FIELD_INTEGER));
            let more_ns = state.decision.next_after;
            if more_ns > 0 {
                let later_ns = if state.decision.is_allowed() { 0 } else { jitter_ns };
                writer.push_t();
                writer.push_number(ceil_s(more_ns.saturating_add(later_ns)));
            }
        }
        writer.end(Field::RateLimit);
    }

    #[inline]
    fn write_x_ratelimit<B: TextBuffer>(&self, reset: Reset, writer: &mut FieldWriter<'_, B>) {
        let Some(state) = self.told_state() else { return };
        let known = &self.policy.quotas[state.quota as usize];
        if state.decision.limit == known.limit {
            writer.push(&known.limit_text);
        } else {
            writer.push_number(state.decision.limit);
        }
        writer.end(Field::XRateLimitLimit);
        writer.push_number(state.decision.remaining);
        writer.end(Field::XRateLimitRemaining);
        let after_ns = state.decision.reset_after;
        // It is not known when a permit without a lease comes back.
        if after_ns < u64::MAX {
            let reset_ns = match reset {
                Reset::Epoch => self.now_ns.saturating_add(after_ns),
                Reset::Delta => after_ns,
            };
            writer.push_number(ceil_s(reset_ns));
            writer.end(Field::XRateLimitReset);
        }
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
