//! Totals by rule name, in Prometheus' format.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tollgate::Action;

use super::NO_RULE;
use super::histograms::{DURATION_BOUNDS_NS, DURATION_ROW, DURATION_SUM, headroom_bounds};
use super::policy_counters::{
    DecisionOutcome, HEADROOM, HEADROOM_SUM, REFUSALS, ROW, SHADOW_REFUSALS, WARNINGS, decisions_of,
};
use crate::front_end::FrontEnd;
use crate::metrics::exposition::{Exposition, MetricKind, escaped};
use crate::throttle::THROTTLE_SCOPE;

/// The approximate size of the lines of a rule, to preallocate the text.
const BYTES_PER_RULE: usize = 2_048;

/// The counts of rules, including former ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    rules: BTreeMap<Box<str>, Box<[u64; ROW]>>,
    /// The requests that were checked under each rule's first limits.
    checked: BTreeMap<Box<str>, u64>,
    /// The rules that deny, in the newest policy that has them.
    denying: BTreeSet<Box<str>>,
    /// By rule and endpoint: allowed and refused.
    endpoints: BTreeMap<(Box<str>, Box<str>), [u64; 2]>,
    /// Decision times, by front end.
    pub(super) durations: [[u64; DURATION_ROW]; FrontEnd::ALL.len()],
}

impl Totals {
    /// Returns the counts of a rule; zero for an unknown one.
    pub(super) fn rule(&mut self, name: &str) -> &mut [u64; ROW] {
        self.rules.entry(Box::from(name)).or_insert_with(|| Box::new([0; ROW]))
    }

    /// Adds requests that were checked under a first limit of the rule.
    pub(super) fn add_checked(&mut self, rule: &str, count: u64) {
        *self.checked.entry(Box::from(rule)).or_default() += count;
    }

    /// Returns the name, the counts and the number of checked requests of each rule. Checks under an override are
    /// counted in the rule's own headroom, once for each of its limits.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Box<str>, &[u64; ROW], u64)> {
        self.rules.iter().map(|(name, row)| (name, &**row, self.checked.get(name).copied().unwrap_or(0)))
    }

    pub(super) fn set_denies(&mut self, rule: &str, denies: bool) {
        if denies {
            self.denying.insert(Box::from(rule));
        } else {
            self.denying.remove(rule);
        }
    }

    /// Adds allowed and refused requests. An endpoint without requests has no series.
    pub(super) fn add_endpoint(&mut self, rule: &str, endpoint: &str, counts: [u64; 2]) {
        if counts != [0, 0] {
            let total = self.endpoints.entry((Box::from(rule), Box::from(endpoint))).or_default();
            total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        }
    }

    /// Returns the approximate length of the text.
    pub(crate) fn text_bytes(&self) -> usize {
        self.rules.len() * BYTES_PER_RULE
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
        let help = "Time to decide, without reading the request or writing the response.";
        exposition.describe(NAME, MetricKind::Histogram, help);
        for (front_end, row) in FrontEnd::ALL.iter().zip(&self.durations) {
            let counts = DURATION_BOUNDS_NS.into_iter().zip(row.iter().copied());
            let longer = row[DURATION_BOUNDS_NS.len()];
            exposition.durations(NAME, Some(("frontend", front_end.name())), counts, longer, row[DURATION_SUM]);
        }
    }

    fn write_decisions(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_decisions_total";
        exposition.describe(NAME, MetricKind::Counter, "Decisions, by deciding rule, outcome and front end.");
        for (rule, counts) in &self.rules {
            let (name, denies) = (escaped(rule), self.denying.contains(rule));
            for front_end in FrontEnd::ALL {
                for outcome in DecisionOutcome::ALL {
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
            MetricKind::Counter,
            "Decisions, by the most specific matching path pattern of the policy and the deciding rule.",
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
            MetricKind::Counter,
            "Refusals by a rule's own limit or a rule that denies, also if another rule decided or the rule is a shadow rule.",
        );
        for (name, counts) in self.policy_rules() {
            exposition.sample(NAME, &[("rule", &name), ("mode", "enforce")], counts[REFUSALS]);
            if counts[SHADOW_REFUSALS] > 0 {
                exposition.sample(NAME, &[("rule", &name), ("mode", "shadow")], counts[SHADOW_REFUSALS]);
            }
        }
    }

    fn write_warnings(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_rule_warnings_total";
        exposition.describe(NAME, MetricKind::Counter, "Requests that a rule allowed beyond its limit with a warning.");
        for (name, counts) in self.policy_rules().filter(|(_, counts)| counts[WARNINGS] > 0) {
            exposition.sample(NAME, &[("rule", &name)], counts[WARNINGS]);
        }
    }

    fn write_headroom(&self, exposition: &mut Exposition<'_>) {
        exposition.describe(
            "tollgate_headroom_ratio",
            MetricKind::Histogram,
            "Remaining share of a rule's limit for a key after a decision.",
        );
        for (name, counts) in self.policy_rules() {
            if counts[HEADROOM..HEADROOM_SUM].iter().all(|count| *count == 0) {
                continue;
            }
            let mut cumulative = 0;
            for (bound, count) in headroom_bounds().zip(&counts[HEADROOM..]) {
                cumulative += count;
                exposition.sample("tollgate_headroom_ratio_bucket", &[("rule", &name), ("le", bound)], cumulative);
            }
            let labels = [("rule", &*name)];
            exposition.millionths("tollgate_headroom_ratio_sum", &labels, counts[HEADROOM_SUM]);
            exposition.sample("tollgate_headroom_ratio_count", &labels, cumulative);
        }
    }

    /// Returns the rules of policies, which have limits.
    fn policy_rules(&self) -> impl Iterator<Item = (Cow<'_, str>, &[u64; ROW])> {
        let rules = self.rules.iter().filter(|(name, _)| !matches!(&***name, NO_RULE | THROTTLE_SCOPE));
        rules.map(|(name, counts)| (escaped(name), &**counts))
    }
}

/// Returns whether a series exists before its first count, so that the first count shows as an increase. Unlikely
/// outcomes of a rule are omitted: a policy may have a thousand rules.
fn is_expected(rule: &str, denies: bool, front_end: FrontEnd, outcome: DecisionOutcome) -> bool {
    let DecisionOutcome::Decided(action) = outcome else { return false };
    match rule {
        NO_RULE => matches!(action, Action::Allow | Action::Deny),
        THROTTLE_SCOPE => front_end == FrontEnd::Resp && matches!(action, Action::Allow | Action::Reject),
        _ if denies => action == Action::Deny,
        _ => matches!(action, Action::Allow | Action::Reject),
    }
}
