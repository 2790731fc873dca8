//! The response fields.

#[cfg(feature = "tower")]
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use tollgate_policy::MAX_FIELD_INTEGER;
use tollgate_policy::model::{FieldSet, Reset};
use tollgate_store::Source;

use super::policy_lists::{PolicyList, Quotas};
use super::writer::{FieldWriter, TextBuffer, WrittenFields};
use crate::limiter::ActiveQuota;
use crate::verdict::{RuleState, Verdict, tightest};

const S_NS: u64 = 1_000_000_000;

/// Marks the position of a quota of which an instance granted its share. No policy has so many.
const SHARE: u32 = 1 << 31;

/// What the changing fields of a response under a few rules take.
const USUAL_BYTES: usize = 160;

#[cfg(feature = "tower")]
thread_local! {
    /// Responses of a thread share a buffer as long as it has room, so that most of them allocate nothing.
    static FIELD_BYTES: RefCell<bytes::BytesMut> = RefCell::new(bytes::BytesMut::with_capacity(4 << 10));
}

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

/// A field whose value was written before: it is the same for every response under the same limits.
pub(crate) enum PreparedField<'a> {
    PolicyList(&'a PolicyList),
    Limit(&'a ActiveQuota),
}

impl PreparedField<'_> {
    fn field(&self) -> Field {
        match self {
            PreparedField::PolicyList(_) => Field::RateLimitPolicy,
            PreparedField::Limit(_) => Field::XRateLimitLimit,
        }
    }
}

impl Verdict {
    /// Gives the response fields to `take`, each with its value. Rules that are
    /// shadows, or that the policy does not publish, do not appear.
    pub fn fields(&self, mut take: impl FnMut(Field, &str)) {
        let mut text = Vec::with_capacity(USUAL_BYTES);
        let written = self.write_fields(&mut text, |prepared| match &prepared {
            PreparedField::PolicyList(list) => take(prepared.field(), &list.text),
            PreparedField::Limit(quota) => take(prepared.field(), &quota.limit_text),
        });
        for (field, range) in written {
            // Names and numbers are plain text.
            take(field, str::from_utf8(&text[range]).unwrap_or_default());
        }
    }

    /// The same as values of header fields. What changes from response to response shares one buffer.
    #[cfg(feature = "tower")]
    pub(crate) fn header_fields(&self, mut take: impl FnMut(Field, http::HeaderValue)) {
        let (text, written) = FIELD_BYTES.with_borrow_mut(|buffer| {
            buffer.reserve(USUAL_BYTES);
            let written = self.write_fields(buffer, |prepared| match &prepared {
                PreparedField::PolicyList(list) => take(prepared.field(), list.value.clone()),
                PreparedField::Limit(quota) => take(prepared.field(), quota.limit_value.clone()),
            });
            (buffer.split().freeze(), written)
        });
        for (field, range) in written {
            // Names of rules and numbers are always printable; a value that were not would be left out.
            if let Ok(value) = http::HeaderValue::from_maybe_shared(text.slice(range)) {
                take(field, value);
            }
        }
    }

    /// Writes the fields that change from response to response, and gives the others to `prepared`.
    #[inline]
    fn write_fields<B: TextBuffer>(
        &self,
        buffer: &mut B,
        mut prepared: impl FnMut(PreparedField<'_>),
    ) -> WrittenFields {
        let settings = self.policy().fields();
        let jitter_ns = self.jitter_ns();
        let mut writer = FieldWriter::new(buffer);
        for set in &settings.sets {
            match set {
                FieldSet::Ietf => {
                    match self.policy_list() {
                        Ok(Some(list)) => prepared(PreparedField::PolicyList(list)),
                        Ok(None) => {}
                        Err(quotas) => self.write_policy_list(&quotas, &mut writer),
                    }
                    self.write_ratelimit(jitter_ns, &mut writer);
                }
                FieldSet::XRateLimit => self.write_x_ratelimit(settings.reset, &mut writer, &mut prepared),
            }
        }
        for rule in self.warned().iter().filter(|rule| self.policy.rules[**rule as usize].publish) {
            writer.push_comma_if_begun();
            writer.push(self.policy.rule_name(*rule).as_bytes());
        }
        writer.end(Field::XRateLimitWarning);
        if let Some(seconds) = self.retry_after_s(jitter_ns) {
            writer.push_number(seconds);
            writer.end(Field::RetryAfter);
        }
        writer.finish()
    }

    /// The list of the policies that apply to it, if clients are told of any; the quotas in it where their list is not
    /// kept.
    fn policy_list(&self) -> Result<Option<&PolicyList>, Quotas> {
        let quotas: Quotas = self.published().map(|state| self.told_quota(state)).collect();
        if quotas.is_empty() {
            return Ok(None);
        }
        let write = |quotas: &Quotas| {
            let mut text = Vec::new();
            self.write_policy_list(quotas, &mut FieldWriter::new(&mut text));
            // Names of rules are plain text.
            String::from_utf8(text).unwrap_or_default()
        };
        match self.policy.policy_lists.get(&quotas, write) {
            Some(list) => Ok(Some(list)),
            None => Err(quotas),
        }
    }

    fn write_policy_list<B: TextBuffer>(&self, quotas: &Quotas, writer: &mut FieldWriter<'_, B>) {
        for quota in quotas {
            writer.push_comma_if_begun();
            let quotas = &self.policy.quotas;
            writer.push(match quota & SHARE {
                0 => quotas[*quota as usize].policy_item.as_bytes(),
                _ => quotas[(quota & !SHARE) as usize].share_item.as_bytes(),
            });
        }
        writer.end(Field::RateLimitPolicy);
    }

    /// The position of a state's quota, and whether only a share of it was granted.
    fn told_quota(&self, state: &RuleState) -> u32 {
        let is_share =
            self.source == Source::Fallback && state.decision.limit < self.policy.quotas[state.quota as usize].limit;
        state.quota | if is_share { SHARE } else { 0 }
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

    #[inline]
    fn write_ratelimit<B: TextBuffer>(&self, jitter_ns: u64, writer: &mut FieldWriter<'_, B>) {
        for state in self.published() {
            writer.push_comma_if_begun();
            writer.push(self.policy.quotas[state.quota as usize].state_item.as_bytes());
            writer.push_number(state.decision.remaining.min(MAX_FIELD_INTEGER));
            let more_ns = state.decision.next_after;
            if more_ns > 0 {
                let later_ns = if state.decision.is_allowed() { 0 } else { jitter_ns };
                writer.push(b";t=");
                writer.push_number(ceil_s(more_ns.saturating_add(later_ns)));
            }
        }
        writer.end(Field::RateLimit);
    }

    #[inline]
    fn write_x_ratelimit<B: TextBuffer>(
        &self,
        reset: Reset,
        writer: &mut FieldWriter<'_, B>,
        prepared: &mut impl FnMut(PreparedField<'_>),
    ) {
        let Some(state) = self.told_state() else { return };
        let known = &self.policy.quotas[state.quota as usize];
        if state.decision.limit == known.limit {
            prepared(PreparedField::Limit(known));
        } else {
            writer.push_number(state.decision.limit);
            writer.end(Field::XRateLimitLimit);
        }
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
