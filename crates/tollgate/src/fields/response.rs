//! The response fields.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use smallvec::SmallVec;
use tollgate_policy::model::{FieldSet, Reset};

use super::policy_lists::{PolicyList, Quotas};
use crate::facts::MAX_FIELD_INTEGER;
use crate::verdict::{RuleState, Verdict, tightest};

const S_NS: u64 = 1_000_000_000;

/// Room for what a few rules say.
type Text = SmallVec<[u8; 160]>;

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
        let policies = |list: &PolicyList| take(Field::RateLimitPolicy, &list.text);
        self.policy_list(policies);
        // Names and numbers are plain text.
        self.changing_fields(|field, text| take(field, std::str::from_utf8(text).unwrap_or_default()));
    }

    /// Shows the list of the policies that it met to `read`, if clients are told.
    pub(crate) fn policy_list<R>(&self, read: impl FnOnce(&PolicyList) -> R) -> Option<R> {
        let facts = &self.told.facts;
        if !facts.tells_ietf {
            return None;
        }
        let quotas: Quotas = self.published().map(|state| state.quota).collect();
        let write = |quotas: &Quotas| {
            let items = quotas.iter().map(|quota| facts.quotas[*quota as usize].policy_item.as_str());
            items.collect::<Vec<_>>().join(", ")
        };
        (!quotas.is_empty()).then(|| facts.policy_lists.with(&quotas, write, read))
    }

    /// Gives the fields that are another at every request to `take`, each with its value.
    pub(crate) fn changing_fields(&self, mut take: impl FnMut(Field, &[u8])) {
        let settings = self.told.facts.plan.fields();
        let jitter_ns = self.jitter_ns();
        for set in &settings.sets {
            match set {
                FieldSet::Ietf => self.ratelimit(jitter_ns, &mut take),
                FieldSet::XRateLimit => self.x_ratelimit(settings.reset, &mut take),
            }
        }
        if self.told.warned.iter().any(|rule| self.told.facts.rules[*rule as usize].publish) {
            self.warning(&mut take);
        }
        if let Some(seconds) = self.retry_after_s(jitter_ns) {
            number(Field::RetryAfter, seconds, &mut take);
        }
    }

    fn published(&self) -> impl Iterator<Item = &RuleState> {
        self.told.states.iter().filter(|state| self.told.facts.rules[state.rule as usize].publish)
    }

    /// The deciding state, if clients may know of it. Of an allowed request,
    /// else, the tightest that they may know of.
    pub(super) fn told(&self) -> Option<&RuleState> {
        let publish = |state: &RuleState| self.told.facts.rules[state.rule as usize].publish;
        match self.deciding() {
            Some(deciding) if publish(deciding) => Some(deciding),
            Some(_) if self.is_allowed() => tightest(self.published().enumerate()).map(|(_, state)| state),
            _ => None,
        }
    }

    /// What `X-RateLimit-Limit` usually says, written down once.
    #[cfg(feature = "tower")]
    pub(crate) fn limit_value(&self) -> Option<&http::HeaderValue> {
        self.told().map(|state| &self.told.facts.quotas[state.quota as usize].limit_value)
    }

    fn ratelimit(&self, jitter_ns: u64, take: &mut impl FnMut(Field, &[u8])) {
        let mut text = Text::new();
        for state in self.published() {
            separate(&mut text);
            text.extend_from_slice(self.told.facts.quotas[state.quota as usize].state_item.as_bytes());
            push_number(&mut text, state.decision.remaining.min(MAX_FIELD_INTEGER));
            let more_ns = state.decision.next_after;
            if more_ns > 0 {
                let later_ns = if state.decision.is_allowed() { 0 } else { jitter_ns };
                text.extend_from_slice(b";t=");
                push_number(&mut text, ceil_s(more_ns.saturating_add(later_ns)));
            }
        }
        if !text.is_empty() {
            take(Field::RateLimit, &text);
        }
    }

    fn x_ratelimit(&self, reset: Reset, take: &mut impl FnMut(Field, &[u8])) {
        let Some(state) = self.told() else { return };
        number(Field::XRateLimitLimit, state.decision.limit, take);
        number(Field::XRateLimitRemaining, state.decision.remaining, take);
        let after_ns = state.decision.reset_after;
        // Nobody knows when a permit without a lease comes back.
        if after_ns < u64::MAX {
            let reset_ns = match reset {
                Reset::Epoch => self.told.now_ns.saturating_add(after_ns),
                Reset::Delta => after_ns,
            };
            number(Field::XRateLimitReset, ceil_s(reset_ns), take);
        }
    }

    fn warning(&self, take: &mut impl FnMut(Field, &[u8])) {
        let mut text = Text::new();
        for rule in self.told.warned.iter().filter(|rule| self.told.facts.rules[**rule as usize].publish) {
            separate(&mut text);
            text.extend_from_slice(self.told.facts.plan.rules()[*rule as usize].name.as_bytes());
        }
        take(Field::XRateLimitWarning, &text);
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
        let most_ns = self.told.facts.plan.fields().jitter_ns;
        if most_ns == 0 || self.is_allowed() {
            return 0;
        }
        DICE.hash_one((self.told.now_ns, self.retry_after_ns())) % most_ns.saturating_add(1)
    }
}

fn separate(list: &mut Text) {
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
}

fn ceil_s(ns: u64) -> u64 {
    ns.div_ceil(S_NS).min(MAX_FIELD_INTEGER)
}

fn number(field: Field, number: u64, take: &mut impl FnMut(Field, &[u8])) {
    take(field, Digits::of(number).as_bytes());
}

fn push_number(text: &mut Text, number: u64) {
    text.extend_from_slice(Digits::of(number).as_bytes());
}

/// A number as `write!` would write it, at a fraction of its price: every response has several of them.
struct Digits {
    digits: [u8; Digits::LEN],
    start: usize,
}

impl Digits {
    /// As long as the longest.
    const LEN: usize = 20;

    fn of(mut number: u64) -> Digits {
        let mut digits = [b'0'; Digits::LEN];
        let mut start = Digits::LEN;
        while number >= 100 {
            start -= 2;
            digits[start..start + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
        }
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[number as usize]);
        Digits { digits, start: start + usize::from(number < 10) }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::Digits;

    #[test]
    fn numbers_are_written_as_ever() {
        for value in [0, 7, 10, 99, 100, 12_345_678_901, u64::MAX] {
            assert_eq!(Digits::of(value).as_bytes(), value.to_string().as_bytes());
        }
    }
}
