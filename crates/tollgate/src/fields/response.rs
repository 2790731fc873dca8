//! The response fields.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use tollgate_policy::model::{FieldSet, Reset};

use crate::facts::MAX_FIELD_INTEGER;
use crate::verdict::{RuleState, Verdict};

const S_NS: u64 = 1_000_000_000;

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
        let settings = self.facts.plan.fields();
        let mut text = String::with_capacity(96);
        let jitter_ns = self.jitter_ns();
        for set in &settings.sets {
            match set {
                FieldSet::Ietf => self.ietf(&mut text, jitter_ns, &mut take),
                FieldSet::XRateLimit => self.x_ratelimit(settings.reset, &mut text, &mut take),
            }
        }
        if self.warned.iter().any(|rule| self.facts.rules[*rule as usize].publish) {
            self.warning(&mut text, &mut take);
        }
        if let Some(seconds) = self.retry_after_s(jitter_ns) {
            take(Field::RetryAfter, number(&mut text, seconds));
        }
    }

    fn published(&self) -> impl Iterator<Item = &RuleState> {
        self.states.iter().filter(|state| self.facts.rules[state.rule as usize].publish)
    }

    /// The deciding state, if clients may know of it; else the tightest that they may know of.
    pub(super) fn told(&self) -> Option<&RuleState> {
        let publish = |state: &&RuleState| self.facts.rules[state.rule as usize].publish;
        match self.deciding() {
            Some(deciding) => Some(deciding).filter(publish),
            None => None,
        }
    }

    fn ietf(&self, text: &mut String, jitter_ns: u64, take: &mut impl FnMut(Field, &str)) {
        text.clear();
        for state in self.published() {
            separate(text);
            text.push_str(&self.facts.quotas[state.quota as usize].policy_item);
        }
        if text.is_empty() {
            return;
        }
        take(Field::RateLimitPolicy, text);
        text.clear();
        for state in self.published() {
            separate(text);
            text.push_str(&self.facts.quotas[state.quota as usize].state_item);
            push_number(text, state.decision.remaining.min(MAX_FIELD_INTEGER));
            let is_refusing = !state.decision.is_allowed();
            let more_ns = state.decision.next_after;
            if more_ns > 0 {
                text.push_str(";t=");
                push_number(text, ceil_s(more_ns.saturating_add(if is_refusing { jitter_ns } else { 0 })));
            }
        }
        take(Field::RateLimit, text);
    }

    fn x_ratelimit(&self, reset: Reset, text: &mut String, take: &mut impl FnMut(Field, &str)) {
        let Some(state) = self.told() else { return };
        take(Field::XRateLimitLimit, number(text, state.decision.limit));
        take(Field::XRateLimitRemaining, number(text, state.decision.remaining));
        let after_ns = state.decision.reset_after;
        // Nobody knows when a permit without a lease comes back.
        if after_ns < u64::MAX {
            let reset_ns = match reset {
                Reset::Epoch => self.now_ns.saturating_add(after_ns),
                Reset::Delta => after_ns,
            };
            take(Field::XRateLimitReset, number(text, ceil_s(reset_ns)));
        }
    }

    fn warning(&self, text: &mut String, take: &mut impl FnMut(Field, &str)) {
        text.clear();
        for rule in self.warned.iter().filter(|rule| self.facts.rules[**rule as usize].publish) {
            separate(text);
            text.push_str(&self.facts.plan.rules()[*rule as usize].name);
        }
        take(Field::XRateLimitWarning, text);
    }

    /// Whole seconds, rounded up, at least 1, and never before `t`.
    pub(super) fn retry_after_s(&self, jitter_ns: u64) -> Option<u64> {
        let retry_ns = if self.is_allowed() { None } else { self.retry_after_ns() };
        if retry_ns.is_none() && self.is_trouble() {
            return Some(1);
        }
        Some(ceil_s(retry_ns?.saturating_add(jitter_ns)).max(1))
    }

    /// Up to as much as the policy says, at random, so that those who were
    /// refused together do not come back together.
    pub(super) fn jitter_ns(&self) -> u64 {
        static DICE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let most_ns = self.facts.plan.fields().jitter_ns;
        if most_ns == 0 || self.is_allowed() {
            return 0;
        }
        DICE.hash_one((self.now_ns, self.retry_after_ns())) % most_ns.saturating_add(1)
    }
}

fn separate(list: &mut String) {
    if !list.is_empty() {
        list.push_str(", ");
    }
}

fn ceil_s(ns: u64) -> u64 {
    ns.div_ceil(S_NS).min(MAX_FIELD_INTEGER)
}

fn number(text: &mut String, number: u64) -> &str {
    text.clear();
    push_number(text, number);
    text
}

fn push_number(text: &mut String, number: u64) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{number}");
}
