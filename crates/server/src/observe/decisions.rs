//! Recording a decision, on the thread that made it.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering::Relaxed;

use tollgate::Action;
use tollgate::policy::Matched;
use tollgate::quota::ChargeVerdict;
use tollgate::verdict::RuleState;

use super::event::Event;
use super::observer::Observer;
use super::violation;
use crate::decided::{DecidedRequest, RefusedBy};
use crate::observe::clients::rule_clients::{ClientSample, Observation, SAMPLED_ONE_IN};
use crate::observe::log::line_budget::LineKind;

const S_NS: u64 = 1_000_000_000;

thread_local! {
    /// The number of requests until the next sample.
    static UNTIL_SAMPLED: Cell<u32> = const { Cell::new(1) };
    /// The state of the random number generator.
    static RANDOM: Cell<u32> = const { Cell::new(0x2545_F491) };
}

impl Observer {
    /// Records a decision with the matched rules, if known, and the limits that refused it. Most requests are allowed
    /// far from their limits, and cost only this check.
    #[inline(always)]
    pub(crate) fn record(&self, decided: DecidedRequest<'_>, matched: Option<&Matched<'_>>, refused_by: RefusedBy) {
        let is_sampled = is_sampled_now();
        let is_plain = !refused_by.any
            && decided.verdict.action() == Action::Allow
            && decided.deciding.is_none_or(|state| !is_near(state));
        if !is_plain || is_sampled {
            self.record_details(decided, matched, is_sampled, refused_by);
        }
    }

    #[inline(never)]
    fn record_details(
        &self,
        decided: DecidedRequest<'_>,
        matched: Option<&Matched<'_>>,
        is_sampled: bool,
        refused_by: RefusedBy,
    ) {
        let (request, verdict) = (decided.request, decided.verdict);
        let action = verdict.action();
        if action == Action::Deny {
            self.record_shadow_denials(decided);
            return match verdict.denied_by() {
                Some(rule) => self.record_denial(decided, rule, false),
                None => self.record_without_rule(decided),
            };
        }
        // A peek is not recorded.
        if request.cost == 0 {
            return;
        }
        let computed;
        let matched = match matched {
            Some(matched) => matched,
            None => {
                computed = verdict.matched(request);
                &computed
            }
        };
        if is_sampled {
            self.record_traffic(decided, matched);
        }
        if refused_by.shadow {
            for state in verdict.states().iter().filter(|state| state.shadow && !state.decision.is_allowed()) {
                self.record_rule(decided, matched, action, state);
            }
            self.record_shadow_denials(decided);
        }
        if verdict.is_uncounted() {
            // A request that could not be counted is not a violation.
            return self.log_uncounted(verdict.decided_at_ns());
        }
        match decided.deciding {
            Some(state) => self.record_rule(decided, matched, action, state),
            None if !action.is_allowed() => self.record_without_rule(decided),
            None => {}
        }
    }

    /// Records the result of a rule: the one that decided, or a shadow rule.
    fn record_rule(&self, decided: DecidedRequest<'_>, matched: &Matched<'_>, action: Action, state: &RuleState) {
        let is_refused = state.shadow || !action.is_allowed();
        let is_near = !is_refused && action != Action::Warn && is_near(state);
        let is_violation = is_refused || action != Action::Allow;
        if !is_near && !is_violation {
            return;
        }
        let Some(charge) = matched.charges.get(state.charge_position()) else { return };
        let key = matched.key(charge);
        let observation = Observation {
            // A failure to count is not a refusal by the rule. A refusal by the fallback share is.
            is_refused: is_refused && state.decision.verdict != ChargeVerdict::Unavailable,
            is_near,
            is_shadow: state.shadow,
            is_violation,
        };
        self.record_client(decided, state.rule_position(), key, observation, || {
            violation::under_rule(decided, state, self.names.name(key))
        });
    }

    /// Records the shadow rules that would have denied the request.
    #[cold]
    fn record_shadow_denials(&self, decided: DecidedRequest<'_>) {
        for (rule, _) in decided.verdict.denials().filter(|(_, shadow)| *shadow) {
            self.record_denial(decided, rule, true);
        }
    }

    /// Records that a rule denies a request, or would. It has no key, so the client is its address.
    #[cold]
    fn record_denial(&self, decided: DecidedRequest<'_>, rule: usize, is_shadow: bool) {
        let client = decided.verdict.policy().client_key(decided.request);
        let key = client.as_deref().unwrap_or_default().as_bytes();
        let observation = Observation { is_refused: true, is_near: false, is_shadow, is_violation: true };
        self.record_client(decided, rule, key, observation, || {
            violation::denial(decided, rule, is_shadow, client.as_ref().map(|_| self.names.name(key)))
        });
    }

    /// Counts the client of a key under a rule, and writes a line if the budget allows it. Inlined into its callers:
    /// in a flood it is most of their work.
    #[inline(always)]
    fn record_client(
        &self,
        decided: DecidedRequest<'_>,
        rule: usize,
        key: &[u8],
        observation: Observation,
        event: impl FnOnce() -> Event,
    ) {
        let now_ns = decided.verdict.decided_at_ns();
        let (client, spent) = (self.client(key, now_ns), self.budget.spent(now_ns / S_NS));
        let rules = decided.verdict.policy().rules();
        let mut tables = self.shards.lock_any();
        let line = tables.record(rules, rule, client, observation, spent, || self.names.name(key));
        drop(tables);
        if let Some(kind) = line {
            self.take_line(now_ns, kind, event);
        }
    }

    /// Counts a sampled request under every rule that matched, so that a client has the same history whichever rule
    /// decides.
    #[inline(never)]
    fn record_traffic(&self, decided: DecidedRequest<'_>, matched: &Matched<'_>) {
        let now_ns = decided.verdict.decided_at_ns();
        let rules = decided.verdict.policy().rules();
        let mut tables = self.shards.lock_any();
        let mut last = None;
        for state in decided.verdict.states() {
            // A rule with several limits counts once.
            let is_repeated = last.replace(state.rule_position()) == Some(state.rule_position());
            let Some(charge) = matched.charges.get(state.charge_position()).filter(|_| !is_repeated) else {
                continue;
            };
            let key = matched.key(charge);
            let client = self.client(key, now_ns);
            tables.record_traffic(rules, state.rule_position(), client, || self.names.name(key));
        }
    }

    /// Records a refusal by a deny list or a caller-supplied limit.
    #[cold]
    fn record_without_rule(&self, decided: DecidedRequest<'_>) {
        let now_ns = decided.verdict.decided_at_ns();
        if !self.budget.spent(now_ns / S_NS).allows(LineKind::Other) {
            self.left_out.fetch_add(1, Relaxed);
            return;
        }
        self.take_line(now_ns, LineKind::Other, || {
            let policy = decided.verdict.policy();
            let address = policy.client_address(decided.request).map(|address| address.to_string());
            let client = address.or_else(|| policy.denied_value(decided.request));
            violation::without_rule(decided, client.map(|client| self.names.name(client.as_bytes())))
        });
    }

    /// Returns the fingerprint of a client. It hashes a single byte string, so no length is needed.
    #[inline]
    fn client(&self, key: &[u8], now_ns: u64) -> ClientSample {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        ClientSample { fingerprint: hasher.finish(), now_ns }
    }

    #[cold]
    fn take_line(&self, now_ns: u64, kind: LineKind, event: impl FnOnce() -> Event) {
        if self.budget.take(now_ns / S_NS, kind) {
            self.emit(event());
        } else {
            self.left_out.fetch_add(1, Relaxed);
        }
    }
}

/// Returns whether the request is sampled, one in 16. Random, so that a client with regular intervals is sampled too.
#[inline(always)]
fn is_sampled_now() -> bool {
    let left = UNTIL_SAMPLED.get() - 1;
    UNTIL_SAMPLED.set(left);
    left == 0 && draw_next_sample()
}

/// Draws the distance to the next sample: from 1 to 31, uniformly, which is 16 on average.
#[inline(never)]
fn draw_next_sample() -> bool {
    let mut number = RANDOM.get();
    number ^= number << 13;
    number ^= number >> 17;
    number ^= number << 5;
    RANDOM.set(number);
    UNTIL_SAMPLED.set(1 + number % (2 * SAMPLED_ONE_IN - 1));
    true
}

/// Returns whether at most a tenth of the limit is left.
#[inline]
fn is_near(state: &RuleState) -> bool {
    state.decision.remaining <= state.decision.limit / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_in_16_is_sampled() {
        let sampled = (0..160_000).filter(|_| is_sampled_now()).count();
        assert!((9_500..10_500).contains(&sampled), "{sampled}");
    }
}
