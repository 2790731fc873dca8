use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tollgate::policy::Plan;
use tollgate::{Action, Decision, Request, Verdict};

use crate::front_end::FrontEnd;
use crate::outcome::Outcome;
use crate::throttle::THROTTLE_SCOPE;

/// Every decision ever counted, also by rules that are no longer in force.
pub(crate) type Decisions = Family<DecisionLabels, Counter>;

/// Nothing here is labelled by a client: a label has as many series as it has
/// values, and clients have no end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DecisionLabels {
    rule: Arc<str>,
    outcome: &'static str,
    frontend: &'static str,
}

/// A label's value where no rule decided; Prometheus reads it as no label.
const NO_RULE: &str = "";

/// The counters of the policy in force, at hand so that counting takes no lock.
pub(crate) struct DecisionCounters {
    /// One for each rule of the policy, by the name of the deciding rule.
    by_rule: HashMap<Arc<str>, RuleCounters, RandomState>,
    without_rule: RuleCounters,
    all: Decisions,
}

/// One for each front end and each outcome, at their positions.
struct RuleCounters([[Counter; Outcome::ALL.len()]; FrontEnd::ALL.len()]);

impl DecisionCounters {
    pub(crate) fn new(plan: &Plan, all: &Decisions) -> DecisionCounters {
        let rules = plan.rules().iter().map(|rule| &rule.name);
        DecisionCounters {
            by_rule: rules.map(|name| (Arc::clone(name), RuleCounters::new(name, all))).collect(),
            without_rule: RuleCounters::new(&Arc::from(NO_RULE), all),
            all: all.clone(),
        }
    }

    pub(crate) fn count(&self, front_end: FrontEnd, request: &Request<'_>, verdict: &Verdict) {
        let outcome = Outcome::of(request, verdict);
        let counters = match verdict.rule() {
            None => &self.without_rule,
            Some(rule) => match self.by_rule.get(rule) {
                Some(counters) => counters,
                // It was decided before the policy was replaced, by a rule that is gone.
                None => {
                    self.all.get_or_create_owned(&labels(&Arc::from(rule), outcome, front_end)).inc();
                    return;
                }
            },
        };
        counters.0[front_end.position()][outcome.position()].inc();
    }
}

impl RuleCounters {
    fn new(rule: &Arc<str>, all: &Decisions) -> RuleCounters {
        let counter = |front_end, outcome| all.get_or_create_owned(&labels(rule, outcome, front_end));
        RuleCounters(FrontEnd::ALL.map(|front_end| Outcome::ALL.map(|outcome| counter(front_end, outcome))))
    }
}

/// The counters of limits that callers bring along, over RESP.
pub(crate) struct ThrottleCounters([Counter; Outcome::ALL.len()]);

impl ThrottleCounters {
    pub(crate) fn new(all: &Decisions) -> ThrottleCounters {
        let scope = Arc::from(THROTTLE_SCOPE);
        let counter = |outcome| all.get_or_create_owned(&labels(&scope, outcome, FrontEnd::Resp));
        ThrottleCounters(Outcome::ALL.map(counter))
    }

    pub(crate) fn count(&self, cost: u64, decision: &Decision) {
        let outcome = match decision.is_allowed() {
            _ if cost == 0 => Outcome::Peek,
            true => Outcome::Decided(Action::Allow),
            false => Outcome::Decided(Action::Reject),
        };
        self.0[outcome.position()].inc();
    }
}

fn labels(rule: &Arc<str>, outcome: Outcome, front_end: FrontEnd) -> DecisionLabels {
    DecisionLabels { rule: Arc::clone(rule), outcome: outcome.name(), frontend: front_end.name() }
}
