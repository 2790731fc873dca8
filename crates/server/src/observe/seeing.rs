//! How a decision is seen, on the thread that made it.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering::Relaxed;

use tollgate::policy::Matched;
use tollgate::{Action, ChargeVerdict, Request, RuleState, Verdict};

use super::event::Event;
use super::observer::Observer;
use super::violation;
use crate::decided::{Decided, RefusedBy};
use crate::front_end::FrontEnd;
use crate::observe::clients::rule_clients::Sighting;
use crate::observe::clients::sample::is_drawn;
use crate::observe::log::line_budget::LineKind;

const S_NS: u64 = 1_000_000_000;

/// A decision and what led to it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) front_end: FrontEnd,
    pub(super) request: &'a Request<'a>,
    pub(super) verdict: &'a Verdict,
    pub(super) matched: &'a Matched<'a>,
}

impl Observer {
    /// Sees a decision, with the rules that apply to the request, if they are known, and which limits refused it. Most
    /// pass far from their limits, and cost no more than to see that.
    #[inline]
    pub(crate) fn see(&self, decided: &Decided<'_>, matched: Option<&Matched<'_>>, refused_by: RefusedBy) {
        let is_sampled = is_drawn();
        let is_plain =
            !refused_by.any && decided.action == Action::Allow && decided.deciding.is_none_or(|state| !is_near(state));
        if !is_plain || is_sampled {
            match matched {
                Some(matched) => self.look_at(decided, matched, is_sampled, refused_by),
                None => self.look_at(decided, &decided.verdict.matched(decided.request), is_sampled, refused_by),
            }
        }
    }

    #[inline(never)]
    fn look_at(&self, decided: &Decided<'_>, matched: &Matched<'_>, is_sampled: bool, refused_by: RefusedBy) {
        let Decided { front_end, request, verdict, action, deciding, denied_by, states, is_uncounted } = *decided;
        let seen = Seen { front_end, request, verdict, matched };
        if action == Action::Deny {
            self.see_watched_denials(seen);
            return match denied_by {
                Some(rule) => self.see_denial(seen, rule, false),
                None => self.see_without_rule(seen),
            };
        }
        // Who only asks what remains has done nothing.
        if request.cost == 0 {
            return;
        }
        if is_sampled {
            self.see_traffic(seen);
        }
        if refused_by.shadow {
            self.see_watched(seen, action, states);
            self.see_watched_denials(seen);
        }
        if is_uncounted {
            // Nobody has violated anything.
            return self.say_uncounted(verdict.decided_at_ns());
        }
        match deciding {
            Some(state) => self.see_under(seen, action, state),
            None if !action.is_allowed() => self.see_without_rule(seen),
            None => {}
        }
    }

    /// Sees what the rules say that are only watched, and would have refused it.
    #[cold]
    fn see_watched(&self, seen: Seen<'_>, action: Action, states: &[RuleState]) {
        for state in states.iter().filter(|state| state.shadow && !state.decision.is_allowed()) {
            self.see_under(seen, action, state);
        }
    }

    /// Sees what a rule says of a request: the one that decided, or one that
    /// is only watched. A part of its callers: in a flood it is most of what they do.
    #[inline(always)]
    fn see_under(&self, seen: Seen<'_>, action: Action, state: &RuleState) {
        let is_refused = state.shadow || !action.is_allowed();
        let is_near = !is_refused && action != Action::Warn && is_near(state);
        let is_violation = is_refused || action != Action::Allow;
        if !is_near && !is_violation {
            return;
        }
        let Some(charge) = seen.matched.charges.get(state.charge_position()) else { return };
        let key = seen.matched.key(charge);
        let now_ns = seen.verdict.decided_at_ns();
        let sighting = Sighting {
            fingerprint: self.fingerprint(key),
            now_ns,
            // A failure to count is no refusal by the rule. A refusal by this instance's share is.
            is_refused: is_refused && state.decision.verdict != ChargeVerdict::NoRoom,
            is_near,
            is_sampled: false,
            is_watched: state.shadow,
            is_violation,
        };
        let spent = self.budget.spent(now_ns / S_NS);
        let rules = seen.verdict.policy().rules();
        let mut tables = self.shards.lock_any();
        let line = tables.see(rules, state.rule_position(), sighting, spent, || self.names.name(key));
        drop(tables);
        if let Some(kind) = line {
            self.take_line(now_ns, kind, || violation::under_rule(seen, state, self.names.name(key)));
        }
    }

    /// Sees which rules are only watched, and would have denied it.
    #[cold]
    fn see_watched_denials(&self, seen: Seen<'_>) {
        for (rule, _) in seen.verdict.denials().filter(|(_, shadow)| *shadow) {
            self.see_denial(seen, rule, true);
        }
    }

    /// Sees that a rule denies a request, or would. It has no key, so the client is its address.
    #[cold]
    fn see_denial(&self, seen: Seen<'_>, rule: usize, is_watched: bool) {
        let client = seen.verdict.policy().client_key(seen.request);
        let key = client.as_deref().unwrap_or_default().as_bytes();
        let now_ns = seen.verdict.decided_at_ns();
        let sighting = Sighting {
            fingerprint: self.fingerprint(key),
            now_ns,
            is_refused: true,
            is_near: false,
            is_sampled: false,
            is_watched,
            is_violation: true,
        };
        let spent = self.budget.spent(now_ns / S_NS);
        let rules = seen.verdict.policy().rules();
        let mut tables = self.shards.lock_any();
        let line = tables.see(rules, rule, sighting, spent, || self.names.name(key));
        drop(tables);
        if let Some(kind) = line {
            let name = client.as_ref().map(|client| self.names.name(client.as_bytes()));
            self.take_line(now_ns, kind, || violation::denial(seen, rule, is_watched, name));
        }
    }

    /// Counts a request of the sample under every rule that it met, so that a
    /// client has the same past whichever rule decides.
    #[inline(never)]
    fn see_traffic(&self, seen: Seen<'_>) {
        let now_ns = seen.verdict.decided_at_ns();
        let (rules, spent) = (seen.verdict.policy().rules(), self.budget.spent(now_ns / S_NS));
        let mut tables = self.shards.lock_any();
        let mut last = None;
        for state in seen.verdict.states() {
            // A rule with several limits is one rule.
            let is_again = last.replace(state.rule_position()) == Some(state.rule_position());
            let Some(charge) = seen.matched.charges.get(state.charge_position()).filter(|_| !is_again) else {
                continue;
            };
            let key = seen.matched.key(charge);
            let sighting = Sighting {
                fingerprint: self.fingerprint(key),
                now_ns,
                is_refused: false,
                is_near: false,
                is_sampled: true,
                is_watched: state.shadow,
                is_violation: false,
            };
            tables.see(rules, state.rule_position(), sighting, spent, || self.names.name(key));
        }
    }

    /// Sees what a list or a caller's own limit refused.
    fn see_without_rule(&self, seen: Seen<'_>) {
        let now_ns = seen.verdict.decided_at_ns();
        if !self.budget.spent(now_ns / S_NS).allows(LineKind::Other) {
            self.left_out.fetch_add(1, Relaxed);
            return;
        }
        self.take_line(now_ns, LineKind::Other, || {
            let plan = seen.verdict.policy();
            let address = plan.client_address(seen.request).map(|address| address.to_string());
            let client = address.or_else(|| plan.denied_value(seen.request));
            violation::without_rule(seen, client.map(|client| self.names.name(client.as_bytes())))
        });
    }

    /// What tells the clients of a rule apart. It hashes one piece of text and nothing else, so it needs no length.
    #[inline]
    fn fingerprint(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
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

/// At most a tenth of the limit is left.
fn is_near(state: &RuleState) -> bool {
    state.decision.remaining <= state.decision.limit / 10
}
