//! How a decision is seen, on the thread that made it.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering::Relaxed;

use tollgate::policy::Matched;
use tollgate::{Action, ChargeVerdict, RuleState};

use super::event::Event;
use super::observer::Observer;
use super::violation;
use crate::decided::{Decided, RefusedBy};
use crate::observe::clients::rule_clients::{Client, SAMPLED_ONE_IN, Sighting};
use crate::observe::log::line_budget::LineKind;

const S_NS: u64 = 1_000_000_000;

thread_local! {
    /// How many requests there are up to the next of the sample.
    static UNTIL_DRAWN: Cell<u32> = const { Cell::new(1) };
    /// The random number that said so.
    static RANDOM: Cell<u32> = const { Cell::new(0x2545_F491) };
}

impl Observer {
    /// Sees a decision, with the rules that apply to the request, if they are known, and which limits refused it. Most
    /// pass far from their limits, and cost no more than to see that.
    #[inline(always)]
    pub(crate) fn see(&self, decided: Decided<'_>, matched: Option<&Matched<'_>>, refused_by: RefusedBy) {
        let is_sampled = is_drawn();
        let is_plain = !refused_by.any
            && decided.verdict.action() == Action::Allow
            && decided.deciding.is_none_or(|state| !is_near(state));
        if !is_plain || is_sampled {
            self.look_at(decided, matched, is_sampled, refused_by);
        }
    }

    #[inline(never)]
    fn look_at(&self, decided: Decided<'_>, matched: Option<&Matched<'_>>, is_sampled: bool, refused_by: RefusedBy) {
        let (request, verdict) = (decided.request, decided.verdict);
        let action = verdict.action();
        if action == Action::Deny {
            self.see_watched_denials(decided);
            return match verdict.denied_by() {
                Some(rule) => self.see_denial(decided, rule, false),
                None => self.see_without_rule(decided),
            };
        }
        // Who only asks what remains has done nothing.
        if request.cost == 0 {
            return;
        }
        let worked_out;
        let matched = match matched {
            Some(matched) => matched,
            None => {
                worked_out = verdict.matched(request);
                &worked_out
            }
        };
        if is_sampled {
            self.see_traffic(decided, matched);
        }
        if refused_by.shadow {
            for state in verdict.states().iter().filter(|state| state.shadow && !state.decision.is_allowed()) {
                self.see_under(decided, matched, action, state);
            }
            self.see_watched_denials(decided);
        }
        if verdict.is_uncounted() {
            // Nobody has violated anything.
            return self.say_uncounted(verdict.decided_at_ns());
        }
        match decided.deciding {
            Some(state) => self.see_under(decided, matched, action, state),
            None if !action.is_allowed() => self.see_without_rule(decided),
            None => {}
        }
    }

    /// Sees what a rule says of a request: the one that decided, or one that
    /// is only watched.
    fn see_under(&self, decided: Decided<'_>, matched: &Matched<'_>, action: Action, state: &RuleState) {
        let is_refused = state.shadow || !action.is_allowed();
        let is_near = !is_refused && action != Action::Warn && is_near(state);
        let is_violation = is_refused || action != Action::Allow;
        if !is_near && !is_violation {
            return;
        }
        let Some(charge) = matched.charges.get(state.charge_position()) else { return };
        let key = matched.key(charge);
        let sighting = Sighting {
            // A failure to count is no refusal by the rule. A refusal by this instance's share is.
            is_refused: is_refused && state.decision.verdict != ChargeVerdict::NoRoom,
            is_near,
            is_watched: state.shadow,
            is_violation,
        };
        self.see_client(decided, state.rule_position(), key, sighting, || {
            violation::under_rule(decided, state, self.names.name(key))
        });
    }

    /// Sees which rules are only watched, and would have denied it.
    #[cold]
    fn see_watched_denials(&self, decided: Decided<'_>) {
        for (rule, _) in decided.verdict.denials().filter(|(_, shadow)| *shadow) {
            self.see_denial(decided, rule, true);
        }
    }

    /// Sees that a rule denies a request, or would. It has no key, so the client is its address.
    #[cold]
    fn see_denial(&self, decided: Decided<'_>, rule: usize, is_watched: bool) {
        let client = decided.verdict.policy().client_key(decided.request);
        let key = client.as_deref().unwrap_or_default().as_bytes();
        let sighting = Sighting { is_refused: true, is_near: false, is_watched, is_violation: true };
        self.see_client(decided, rule, key, sighting, || {
            violation::denial(decided, rule, is_watched, client.as_ref().map(|_| self.names.name(key)))
        });
    }

    /// Counts the client of a key under a rule, and writes a line if one is to be written. A part of its callers: in a
    /// flood it is most of what they do.
    #[inline(always)]
    fn see_client(
        &self,
        decided: Decided<'_>,
        rule: usize,
        key: &[u8],
        sighting: Sighting,
        event: impl FnOnce() -> Event,
    ) {
        let now_ns = decided.verdict.decided_at_ns();
        let (client, spent) = (self.client(key, now_ns), self.budget.spent(now_ns / S_NS));
        let rules = decided.verdict.policy().rules();
        let mut tables = self.shards.lock_any();
        let line = tables.see(rules, rule, client, sighting, spent, || self.names.name(key));
        drop(tables);
        if let Some(kind) = line {
            self.take_line(now_ns, kind, event);
        }
    }

    /// Counts a request of the sample under every rule that it met, so that a
    /// client has the same past whichever rule decides.
    #[inline(never)]
    fn see_traffic(&self, decided: Decided<'_>, matched: &Matched<'_>) {
        let now_ns = decided.verdict.decided_at_ns();
        let rules = decided.verdict.policy().rules();
        let mut tables = self.shards.lock_any();
        let mut last = None;
        for state in decided.verdict.states() {
            // A rule with several limits is one rule.
            let is_again = last.replace(state.rule_position()) == Some(state.rule_position());
            let Some(charge) = matched.charges.get(state.charge_position()).filter(|_| !is_again) else {
                continue;
            };
            let key = matched.key(charge);
            let client = self.client(key, now_ns);
            tables.see_traffic(rules, state.rule_position(), client, || self.names.name(key));
        }
    }

    /// Sees what a list or a caller's own limit refused.
    #[cold]
    fn see_without_rule(&self, decided: Decided<'_>) {
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

    /// What tells the clients of a rule apart. It hashes one piece of text and nothing else, so it needs no length.
    #[inline]
    fn client(&self, key: &[u8], now_ns: u64) -> Client {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        Client { fingerprint: hasher.finish(), now_ns }
    }

    #[cold]
    fn take_line(&self, now_ns: u64, kind: LineKind, event: impl FnOnce() -> Event) {
        if self.budget.take(now_ns / S_NS, kind) {
            self.tell(event());
        } else {
            self.left_out.fetch_add(1, Relaxed);
        }
    }
}

/// Draws one in 16. By chance and not by turns, so that a client that asks at regular intervals is drawn too.
#[inline(always)]
fn is_drawn() -> bool {
    let left = UNTIL_DRAWN.get() - 1;
    UNTIL_DRAWN.set(left);
    left == 0 && draw_next()
}

/// Draws how many requests there are up to the next: from 1 to 31, each as likely, which is 16 on average.
#[inline(never)]
fn draw_next() -> bool {
    let mut number = RANDOM.get();
    number ^= number << 13;
    number ^= number >> 17;
    number ^= number << 5;
    RANDOM.set(number);
    UNTIL_DRAWN.set(1 + number % (2 * SAMPLED_ONE_IN - 1));
    true
}

/// At most a tenth of the limit is left.
#[inline]
fn is_near(state: &RuleState) -> bool {
    state.decision.remaining <= state.decision.limit / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_sixteen_is_drawn() {
        let drawn = (0..160_000).filter(|_| is_drawn()).count();
        assert!((9_500..10_500).contains(&drawn), "{drawn}");
    }
}
