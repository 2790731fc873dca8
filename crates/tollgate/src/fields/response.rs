//! The response fields.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use tollgate_policy::model::{FieldSet, Reset};

use super::policy_lists::{PolicyList, Quotas};
use crate::facts::MAX_FIELD_INTEGER;
use crate::verdict::{RuleState, Verdict, tightest};

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
        let policies = |list: &PolicyList| take(Field::RateLimitPolicy, &list.text);
        self.policy_list(policies);
        let mut text = Vec::with_capacity(96);
        // Names and numbers are plain text.
        self.changing_fields(&mut text, |field, text, start| {
            take(field, std::str::from_utf8(&text[start..]).unwrap_or_default());
        });
    }

    /// Shows the list of the policies that it met to `read`, if clients are told.
    pub(crate) fn policy_list<R>(&self, read: impl FnOnce(&PolicyList) -> R) -> Option<R> {
        let facts = &self.facts;
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

    /// Writes the fields that are another at every request, one behind the
    /// other: `took` hears of each, and where in `text` its value begins. What
    /// comes before it is not needed any more.
    pub(crate) fn changing_fields(&self, text: &mut Vec<u8>, mut took: impl FnMut(Field, &[u8], usize)) {
        let settings = self.facts.plan.fields();
        let jitter_ns = self.jitter_ns();
        for set in &settings.sets {
            match set {
                FieldSet::Ietf => self.ratelimit(text, jitter_ns, &mut took),
                FieldSet::XRateLimit => self.x_ratelimit(settings.reset, text, &mut took),
            }
        }
        if self.warned.iter().any(|rule| self.facts.rules[*rule as usize].publish) {
            self.warning(text, &mut took);
        }
        if let Some(seconds) = self.retry_after_s(jitter_ns) {
            number(Field::RetryAfter, seconds, text, &mut took);
        }
    }

    fn published(&self) -> impl Iterator<Item = &RuleState> {
        self.states.iter().filter(|state| self.facts.rules[state.rule as usize].publish)
    }

    /// The deciding state, if clients may know of it. Of an allowed request,
    /// else, the tightest that they may know of.
    pub(super) fn told(&self) -> Option<&RuleState> {
        let publish = |state: &RuleState| self.facts.rules[state.rule as usize].publish;
        match self.deciding() {
            Some(deciding) if publish(deciding) => Some(deciding),
            Some(_) if self.is_allowed() => tightest(self.published().enumerate()).map(|(_, state)| state),
            _ => None,
        }
    }

    fn ratelimit(&self, text: &mut Vec<u8>, jitter_ns: u64, took: &mut impl FnMut(Field, &[u8], usize)) {
        let start = text.len();
        for state in self.published() {
            separate(text, start);
            text.extend_from_slice(self.facts.quotas[state.quota as usize].state_item.as_bytes());
            push_number(text, state.decision.remaining.min(MAX_FIELD_INTEGER));
            let more_ns = state.decision.next_after;
            if more_ns > 0 {
                let later_ns = if state.decision.is_allowed() { 0 } else { jitter_ns };
                text.extend_from_slice(b";t=");
                push_number(text, ceil_s(more_ns.saturating_add(later_ns)));
            }
        }
        if text.len() > start {
            took(Field::RateLimit, text, start);
        }
    }

    fn x_ratelimit(&self, reset: Reset, text: &mut Vec<u8>, took: &mut impl FnMut(Field, &[u8], usize)) {
        let Some(state) = self.told() else { return };
        number(Field::XRateLimitLimit, state.decision.limit, text, took);
        number(Field::XRateLimitRemaining, state.decision.remaining, text, took);
        let after_ns = state.decision.reset_after;
        // Nobody knows when a permit without a lease comes back.
        if after_ns < u64::MAX {
            let reset_ns = match reset {
                Reset::Epoch => self.now_ns.saturating_add(after_ns),
                Reset::Delta => after_ns,
            };
            number(Field::XRateLimitReset, ceil_s(reset_ns), text, took);
        }
    }

    fn warning(&self, text: &mut Vec<u8>, took: &mut impl FnMut(Field, &[u8], usize)) {
        let start = text.len();
        for rule in self.warned.iter().filter(|rule| self.facts.rules[**rule as usize].publish) {
            separate(text, start);
            text.extend_from_slice(self.facts.plan.rules()[*rule as usize].name.as_bytes());
        }
        took(Field::XRateLimitWarning, text, start);
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

fn separate(list: &mut Vec<u8>, start: usize) {
    if list.len() > start {
        list.extend_from_slice(b", ");
    }
}

fn ceil_s(ns: u64) -> u64 {
    ns.div_ceil(S_NS).min(MAX_FIELD_INTEGER)
}

fn number(field: Field, number: u64, text: &mut Vec<u8>, took: &mut impl FnMut(Field, &[u8], usize)) {
    let start = text.len();
    push_number(text, number);
    took(field, text, start);
}

/// What `write!` does, at a fraction of its price: every response has several of them.
fn push_number(text: &mut Vec<u8>, mut number: u64) {
    /// As long as the longest.
    const LEN: usize = 20;
    let mut digits = [b'0'; LEN];
    let mut start = LEN;
    while number >= 100 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    start -= 2;
    digits[start..start + 2].copy_from_slice(&PAIRS[number as usize]);
    start += usize::from(number < 10);
    text.extend_from_slice(&digits[start..]);
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
    use super::push_number;

    #[test]
    fn numbers_are_written_as_ever() {
        for value in [0, 7, 10, 99, 100, 12_345_678_901, u64::MAX] {
            let mut text = Vec::new();
            push_number(&mut text, value);
            assert_eq!(text, value.to_string().as_bytes());
        }
    }
}
