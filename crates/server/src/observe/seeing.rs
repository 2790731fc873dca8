//! How a decision is seen, on the thread that made it.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering::Relaxed;

use tollgate::policy::Met;
use tollgate::{Action, Request, RuleState, Verdict};

use super::event::Event;
use super::line_budget::LineKind;
use super::observer::Observer;
use super::rule_clients::Sighting;
use super::sample::is_drawn;
use super::violation;
use crate::front_end::FrontEnd;

const S_NS: u64 = 1_000_000_000;

/// A decision and what led to it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) front_end: FrontEnd,
    pub(super) request: &'a Request<'a>,
    pub(super) verdict: &'a Verdict,
    pub(super) met: &'a Met,
}

impl Observer {
    /// Sees a decision, with what the request met. Most pass far from their
    /// limits, and cost no more than to see that.
    #[inline]
    pub(crate) fn see(&self, front_end: FrontEnd, request: &Request<'_>, verdict: &Verdict, met: &Met) {
        let is_sampled = is_drawn();
        let is_plain = verdict.action() == Action::Allow
            && verdict.deciding().is_none_or(|state| !is_near(state))
            && verdict.states().iter().all(|state| state.decision.is_allowed());
        if !is_plain || is_sampled {
            self.look_at(front_end, request, verdict, met, is_sampled);
        }
    }

    fn look_at(&self, front_end: FrontEnd, request: &Request<'_>, verdict: &Verdict, met: &Met, is_sampled: bool) {
        let seen = Seen { front_end, request, verdict, met };
        if verdict.action() == Action::Deny {
            return self.see_without_rule(seen);
        }
        // Who only asks what remains has done nothing.
        if request.cost == 0 {
            return;
        }
        if is_sampled {
            self.see_traffic(seen);
        }
        for state in verdict.states().iter().filter(|state| state.shadow && !state.decision.is_allowed()) {
            self.see_under(seen, state);
        }
        match verdict.deciding() {
            Some(state) => self.see_under(seen, state),
            None if !verdict.is_allowed() => self.see_without_rule(seen),
            None => {}
        }
    }

    /// Sees what a rule says of a request: the one that decided, or one that is only watched.
    fn see_under(&self, seen: Seen<'_>, state: &RuleState) {
        let Some(charge) = seen.met.charges.get(state.charge_position()) else { return };
        let key = seen.met.key(charge);
        let (action, now_ns) = (seen.verdict.action(), seen.verdict.decided_at_ns());
        let is_refused = state.shadow || !action.is_allowed();
        let is_near = matches!(action, Action::Allow | Action::Delay) && !state.shadow && is_near(state);
        let is_violation = is_refused || matches!(action, Action::Warn | Action::Delay);
        if !is_near && !is_violation {
            return;
        }
        let sighting = Sighting {
            fingerprint: self.fingerprint(key),
            now_ns,
            // That the store fails is not the client's doing.
            is_refused: is_refused && !seen.verdict.is_trouble(),
            is_near,
            is_sampled: false,
            is_watched: state.shadow,
            is_violation,
        };
        let spent = self.budget.spent(now_ns / S_NS);
        let rules = seen.verdict.plan().rules();
        let line = self.shards.see(rules, state.rule_position(), sighting, spent, || self.names.name(key));
        if let Some(kind) = line {
            self.take_line(now_ns, kind, || violation::under_rule(seen, state, self.names.name(key)));
        }
    }

    /// Counts a request of the sample under every rule that it met, so that a
    /// client has the same past whichever rule decides.
    fn see_traffic(&self, seen: Seen<'_>) {
        let now_ns = seen.verdict.decided_at_ns();
        let mut last = None;
        for state in seen.verdict.states() {
            // A rule with several limits is one rule.
            let is_again = last.replace(state.rule_position()) == Some(state.rule_position());
            let Some(charge) = seen.met.charges.get(state.charge_position()).filter(|_| !is_again) else { continue };
            let key = seen.met.key(charge);
            let sighting = Sighting {
                fingerprint: self.fingerprint(key),
                now_ns,
                is_refused: false,
                is_near: false,
                is_sampled: true,
                is_watched: state.shadow,
                is_violation: false,
            };
            let (rules, spent) = (seen.verdict.plan().rules(), self.budget.spent(now_ns / S_NS));
            self.shards.see(rules, state.rule_position(), sighting, spent, || self.names.name(key));
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
            let plan = seen.verdict.plan();
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
