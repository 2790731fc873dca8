//! Totals in Prometheus' text format.

use tollgate::Action;

use super::NO_RULE;
use super::cells::{Cell, ROW};
use super::endpoints::Passage;
use super::totals::Totals;
use crate::front_end::FrontEnd;
use crate::metrics::exposition::{Exposition, Kind, escaped};
use crate::outcome::Outcome;
use crate::throttle::THROTTLE_SCOPE;

/// About what the lines of a rule take, so that the text need not move while it grows.
const BYTES_A_RULE: usize = 2_048;

pub(super) fn write(totals: &Totals, text: &mut String) {
    text.reserve(totals.rules().count() * BYTES_A_RULE);
    let exposition = &mut Exposition::behind(text);
    decisions(totals, exposition);
    endpoints(totals, exposition);
    refusals(totals, exposition);
    warnings(totals, exposition);
    headroom(totals, exposition);
}

/// A series that is there before anything is counted shows its first count as
/// an increase. But what has never happened to a rule and hardly will is left
/// out: a policy may have a thousand rules.
fn is_expected(rule: &str, denies: bool, front_end: FrontEnd, outcome: Outcome) -> bool {
    let Outcome::Decided(action) = outcome else { return false };
    match rule {
        NO_RULE => matches!(action, Action::Allow | Action::Deny),
        THROTTLE_SCOPE => front_end == FrontEnd::Resp && matches!(action, Action::Allow | Action::Reject),
        _ if denies => action == Action::Deny,
        _ => matches!(action, Action::Allow | Action::Reject),
    }
}

fn decisions(totals: &Totals, exposition: &mut Exposition<'_>) {
    const NAME: &str = "tollgate_decisions_total";
    exposition.describe(NAME, Kind::Counter, "Requests decided, by the rule that decided, outcome and front end.");
    for (rule, counts) in totals.rules() {
        let (name, denies) = (escaped(rule), totals.denies(rule));
        for front_end in FrontEnd::ALL {
            for outcome in Outcome::ALL {
                let count = counts[Cell::decided(front_end, outcome).position()];
                if count > 0 || is_expected(rule, denies, front_end, outcome) {
                    let labels = [("rule", &*name), ("outcome", outcome.name()), ("frontend", front_end.name())];
                    exposition.sample(NAME, &labels, count);
                }
            }
        }
    }
}

fn endpoints(totals: &Totals, exposition: &mut Exposition<'_>) {
    const NAME: &str = "tollgate_endpoint_decisions_total";
    exposition.describe(
        NAME,
        Kind::Counter,
        "Requests decided, by the most specific path pattern of the policy that they match and the rule that decided.",
    );
    for (rule, endpoint, counts) in totals.endpoints() {
        let (rule, endpoint) = (escaped(rule), escaped(endpoint));
        for (passage, outcome) in Passage::ALL {
            let labels = [("endpoint", &*endpoint), ("rule", &*rule), ("outcome", outcome)];
            exposition.sample(NAME, &labels, counts[passage.position()]);
        }
    }
}

/// The rules of policies, which have limits of their own.
fn real_rules(totals: &Totals) -> impl Iterator<Item = (&str, &[u64; ROW])> {
    totals.rules().filter(|(name, _)| !matches!(*name, NO_RULE | THROTTLE_SCOPE))
}

fn refusals(totals: &Totals, exposition: &mut Exposition<'_>) {
    const NAME: &str = "tollgate_rule_refusals_total";
    exposition.describe(
        NAME,
        Kind::Counter,
        "How often a rule's own limit said no or the rule denied, also where another rule decided or the rule is only watched.",
    );
    for (rule, counts) in real_rules(totals) {
        let name = escaped(rule);
        exposition.sample(NAME, &[("rule", &name), ("mode", "enforce")], counts[Cell::REFUSALS.position()]);
        let watched = counts[Cell::SHADOW_REFUSALS.position()];
        if watched > 0 {
            exposition.sample(NAME, &[("rule", &name), ("mode", "shadow")], watched);
        }
    }
}

fn warnings(totals: &Totals, exposition: &mut Exposition<'_>) {
    const NAME: &str = "tollgate_rule_warnings_total";
    exposition.describe(NAME, Kind::Counter, "Requests that a rule let pass beyond its limit, with a warning.");
    for (rule, counts) in real_rules(totals) {
        let count = counts[Cell::WARNINGS.position()];
        if count > 0 {
            exposition.sample(NAME, &[("rule", &escaped(rule))], count);
        }
    }
}

fn headroom(totals: &Totals, exposition: &mut Exposition<'_>) {
    exposition.describe(
        "tollgate_headroom_ratio",
        Kind::Histogram,
        "What remained of a rule's limit for a key after a decision, as a share of the limit.",
    );
    for (rule, counts) in real_rules(totals) {
        let name = escaped(rule);
        let all: u64 = Cell::headroom_steps().map(|(cell, _)| counts[cell.position()]).sum();
        if all == 0 {
            continue;
        }
        let mut so_far = 0;
        for (cell, bound) in Cell::headroom_steps() {
            so_far += counts[cell.position()];
            exposition.sample("tollgate_headroom_ratio_bucket", &[("rule", &name), ("le", bound)], so_far);
        }
        let labels = [("rule", &*name)];
        exposition.millionths("tollgate_headroom_ratio_sum", &labels, counts[Cell::HEADROOM_SUM.position()]);
        exposition.sample("tollgate_headroom_ratio_count", &labels, all);
    }
}
