//! What was counted, by the names of rules, and how Prometheus reads it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tollgate::Action;

use super::NO_RULE;
use super::histograms::{DURATION_BOUNDS_NS, DURATION_ROW, DURATION_SUM, headroom_bounds};
use super::policy_counters::{HEADROOM, HEADROOM_SUM, Outcome, REFUSALS, ROW, SHADOW_REFUSALS, WARNINGS, decisions_of};
use crate::front_end::FrontEnd;
use crate::metrics::exposition::{Exposition, Kind, escaped};
use crate::throttle::THROTTLE_SCOPE;

/// About what the lines of a rule take, so that the text need not move while it grows.
const BYTES_A_RULE: usize = 2_048;

/// Counts of rules, also of those that are no longer in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    rules: BTreeMap<Box<str>, Box<[u64; ROW]>>,
    /// The rules that deny, in the newest policy that has them.
    denying: BTreeSet<Box<str>>,
    /// By rule and endpoint: allowed and refused.
    endpoints: BTreeMap<(Box<str>, Box<str>), [u64; 2]>,
    /// How long decisions took, by front end.
    pub(super) durations: [[u64; DURATION_ROW]; FrontEnd::ALL.len()],
}

impl Totals {
    /// The counts of a rule; all zero if it was never heard of.
    pub(super) fn rule(&mut self, name: &str) -> &mut [u64; ROW] {
        self.rules.entry(Box::from(name)).or_insert_with(|| Box::new([0; ROW]))
    }

    pub(super) fn set_denies(&mut self, rule: &str, denies: bool) {
        if denies {
            self.denying.insert(Box::from(rule));
        } else {
            self.denying.remove(rule);
        }
    }

    /// Adds what was allowed and refused. An endpoint that was never asked for has no series.
    pub(super) fn add_endpoint(&mut self, rule: &str, endpoint: &str, counts: [u64; 2]) {
        if counts != [0, 0] {
            let total = self.endpoints.entry((Box::from(rule), Box::from(endpoint))).or_default();
            total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
    }

    /// About how long they are as text.
    pub(crate) fn text_bytes(&self) -> usize {
        self.rules.len() * BYTES_A_RULE
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        self.write_durations(exposition);
        self.write_decisions(exposition);
        self.write_endpoints(exposition);
        self.write_refusals(exposition);
        self.write_warnings(exposition);
        self.write_headroom(exposition);
    }

    fn write_durations(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_decision_duration_seconds";
        let help = "How long deciding took, without reading the request or writing the answer.";
        exposition.describe(NAME, Kind::Histogram, help);
        for (front_end, row) in FrontEnd::ALL.iter().zip(&self.durations) {
            let counts = DURATION_BOUNDS_NS.into_iter().zip(row.iter().copied());
            let longer = row[DURATION_BOUNDS_NS.len()];
            exposition.durations(NAME, Some(("frontend", front_end.name())), counts, longer, row[DURATION_SUM]);
        }
    }

    fn write_decisions(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_decisions_total";
        exposition.describe(NAME, Kind::Counter, "Requests decided, by the rule that decided, outcome and front end.");
        for (rule, counts) in &self.rules {
            let (name, denies) = (escaped(rule), self.denying.contains(rule));
            for front_end in FrontEnd::ALL {
                for outcome in Outcome::ALL {
                    let count = counts[decisions_of(front_end, outcome)];
                    if count > 0 || is_expected(rule, denies, front_end, outcome) {
                        let labels = [("rule", &*name), ("outcome", outcome.name()), ("frontend", front_end.name())];
                        exposition.sample(NAME, &labels, count);
                    }
                }
            }
        }
    }

    fn write_endpoints(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_endpoint_decisions_total";
        exposition.describe(
            NAME,
            Kind::Counter,
            "Requests decided, by the most specific path pattern of the policy that they match and the rule that decided.",
        );
        for ((rule, endpoint), counts) in &self.endpoints {
            let (rule, endpoint) = (escaped(rule), escaped(endpoint));
            for (outcome, count) in ["allowed", "refused"].into_iter().zip(*counts) {
                exposition.sample(NAME, &[("endpoint", &endpoint), ("rule", &rule), ("outcome", outcome)], count);
            }
        }
    }

    fn write_refusals(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_rule_refusals_total";
        exposition.describe(
            NAME,
            Kind::Counter,
            "How often a rule's own limit said no or the rule denied, also where another rule decided or the rule is only watched.",
        );
        for (name, counts) in self.real_rules() {
            exposition.sample(NAME, &[("rule", &name), ("mode", "enforce")], counts[REFUSALS]);
            if counts[SHADOW_REFUSALS] > 0 {
                exposition.sample(NAME, &[("rule", &name), ("mode", "shadow")], counts[SHADOW_REFUSALS]);
            }
        }
    }

    fn write_warnings(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_rule_warnings_total";
        exposition.describe(NAME, Kind::Counter, "Requests that a rule let pass beyond its limit, with a warning.");
        for (name, counts) in self.real_rules().filter(|(_, counts)| counts[WARNINGS] > 0) {
            exposition.sample(NAME, &[("rule", &name)], counts[WARNINGS]);
        }
    }

    fn write_headroom(&self, exposition: &mut Exposition<'_>) {
        exposition.describe(
            "tollgate_headroom_ratio",
            Kind::Histogram,
            "What remained of a rule's limit for a key after a decision, as a share of the limit.",
        );
        for (name, counts) in self.real_rules() {
            if counts[HEADROOM..HEADROOM_SUM].iter().all(|count| *count == 0) {
                continue;
            }
            let mut so_far = 0;
            for (bound, count) in headroom_bounds().zip(&counts[HEADROOM..]) {
                so_far += count;
                exposition.sample("tollgate_headroom_ratio_bucket", &[("rule", &name), ("le", bound)], so_far);
            }
            let labels = [("rule", &*name)];
            exposition.millionths("tollgate_headroom_ratio_sum", &labels, counts[HEADROOM_SUM]);
            exposition.sample("tollgate_headroom_ratio_count", &labels, so_far);
        }
    }

    /// The rules of policies, which have limits of their own.
    fn real_rules(&self) -> impl Iterator<Item = (Cow<'_, str>, &[u64; ROW])> {
        let real = self.rules.iter().filter(|(name, _)| !matches!(&***name, NO_RULE | THROTTLE_SCOPE));
        real.map(|(name, counts)| (escaped(name), &**counts))
    }
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
