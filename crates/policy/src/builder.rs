//! A policy put together in a program.

use std::time::Duration;

use ipnet::IpNet;
use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Queue, Quota, Rate};

use crate::checked::{CheckedPolicy, PolicyErrors};
use crate::model::{
    Allowance, BUILT_IN_IDENTITIES, Block, Cost, CostSource, Grant, Identity, IdentitySource, OnLimit, Policy, Rule,
    TIER, When,
};
use crate::problem::{Place, Problem};

/// Puts a policy together. What is wrong with it is told when it is finished, all at once.
#[derive(Clone, Debug, Default)]
pub struct PolicyBuilder {
    policy: Policy,
    rules: Vec<RuleBuilder>,
    problems: Vec<Problem>,
}

/// Begins a rule: `rule("per-ip").per("client_ip").limit("100/min")`.
pub fn rule(name: &str) -> RuleBuilder {
    RuleBuilder {
        rule: Rule::new(name),
        rates: Vec::new(),
        tiers: Vec::new(),
        permits: None,
        algorithm: AlgorithmKind::TokenBucket,
        queue: None,
        max_debt: None,
    }
}

/// Puts a rule together.
#[derive(Clone, Debug)]
#[must_use = "a rule holds once it is part of a policy"]
pub struct RuleBuilder {
    rule: Rule,
    rates: Vec<String>,
    tiers: Vec<(String, String)>,
    permits: Option<(u64, Option<Duration>)>,
    algorithm: AlgorithmKind,
    queue: Option<Queue>,
    max_debt: Option<u64>,
}

/// How long a permit is held without being renewed, where nothing else is said.
const DEFAULT_LEASE: Duration = Duration::from_secs(60);

impl RuleBuilder {
    /// Counts by this identity; called again, by both together.
    pub fn per(mut self, identity: &str) -> RuleBuilder {
        self.rule.key.push(identity.to_owned());
        self
    }

    /// So much: `100/s`, `5/min burst 20`. Called again, both limits hold.
    pub fn limit(mut self, rate: &str) -> RuleBuilder {
        self.rates.push(rate.to_owned());
        self
    }

    /// So much for clients of this tier; `unlimited` is a limit too.
    pub fn tier(mut self, tier: &str, rate: &str) -> RuleBuilder {
        self.tiers.push((tier.to_owned(), rate.to_owned()));
        self
    }

    /// So many under way at once.
    pub fn concurrency(mut self, permits: u64) -> RuleBuilder {
        self.permits = Some((permits, Some(DEFAULT_LEASE)));
        self
    }

    /// Under which algorithm. A token bucket where nothing is said.
    pub fn algorithm(mut self, algorithm: AlgorithmKind) -> RuleBuilder {
        self.algorithm = algorithm;
        self
    }

    /// Delays what comes too fast instead of refusing it, as a leaky bucket
    /// that holds up to `size` requests: the one that departed last, until the
    /// next can, and those that wait.
    pub fn queue(mut self, size: u64, max_wait: Duration) -> RuleBuilder {
        self.algorithm = AlgorithmKind::LeakyQueue;
        self.queue = Some(Queue { size, max_wait: Some(max_wait) });
        self
    }

    /// Only for this path: exact, or with `/*` at the end for all below it.
    /// Called again, for either.
    pub fn path(mut self, pattern: &str) -> RuleBuilder {
        self.rule.when.paths.push(pattern.to_owned());
        self
    }

    /// Only for this method. Called again, for either.
    pub fn method(mut self, method: &str) -> RuleBuilder {
        self.rule.when.methods.push(method.to_ascii_uppercase());
        self
    }

    /// For requests of which more is asked.
    pub fn when(mut self, when: When) -> RuleBuilder {
        self.rule.when = when;
        self
    }

    /// What each request costs.
    pub fn cost(mut self, cost: u64) -> RuleBuilder {
        self.rule.cost.source = CostSource::Fixed(cost);
        self
    }

    /// What each request is taken to cost until it is settled.
    pub fn estimate(mut self, cost: u64) -> RuleBuilder {
        self.rule.cost = Cost { source: CostSource::Estimate(cost), max: MAX_AMOUNT, settled_by: None };
        self
    }

    /// How much a key may owe when costs are settled above their estimate; 0
    /// for none. As much as its limit holds where nothing is said.
    pub fn max_debt(mut self, max_debt: u64) -> RuleBuilder {
        self.max_debt = Some(max_debt);
        self
    }

    /// Lets so many violations within `span` pass with a warning, and blocks
    /// for `block`, if given, whoever goes on after so many.
    pub fn on_limit(mut self, warn_first: u64, span: Duration, block: Option<(u64, Duration)>) -> RuleBuilder {
        let block = block.map(|(after, duration)| Block { after, duration_ns: ns(duration) });
        self.rule.on_limit = Some(OnLimit { warn_first, span_ns: ns(span), block });
        self
    }

    /// Counts and reports, and never refuses.
    pub fn shadow(mut self) -> RuleBuilder {
        self.rule.shadow = true;
        self
    }

    /// Says nothing of it to clients.
    pub fn unpublished(mut self) -> RuleBuilder {
        self.rule.publish = false;
        self
    }

    fn finish(self, place: &Place, problems: &mut Vec<Problem>) -> Rule {
        let mut grant = |rate: &str, place: Place| match self.quota(rate) {
            Ok(quota) => Some(quota),
            Err(message) => {
                problems.push(Problem { code: "bad-rate", place, message, hint: None });
                None
            }
        };
        let mut allowance = Allowance::Same(Grant::Unlimited);
        if !self.rates.is_empty() {
            let rates = self.rates.iter().filter(|rate| *rate != UNLIMITED);
            let quotas: Vec<Quota> = rates.filter_map(|rate| grant(rate, place.member("limit"))).collect();
            allowance = Allowance::Same(if quotas.is_empty() { Grant::Unlimited } else { Grant::Limited(quotas) });
        } else if !self.tiers.is_empty() {
            let tiers = self.tiers.iter().map(|(tier, rate)| {
                let quota = (rate != UNLIMITED).then(|| grant(rate, place.member("tiers").member(tier))).flatten();
                (tier.clone(), quota.map_or(Grant::Unlimited, |quota| Grant::Limited(vec![quota])))
            });
            allowance = Allowance::Tiers(tiers.collect());
        } else if let Some((permits, lease)) = self.permits {
            let quota = Quota::concurrency(permits, lease);
            match quota.and_then(|quota| self.max_debt.map_or(Ok(quota), |max_debt| quota.with_max_debt(max_debt))) {
                Ok(quota) => allowance = Allowance::Same(Grant::Limited(vec![quota])),
                Err(error) => problems.push(Problem {
                    code: "bad-quota",
                    place: place.member("concurrency"),
                    message: error.to_string(),
                    hint: None,
                }),
            }
        } else {
            problems.push(Problem {
                code: "no-limit",
                place: place.clone(),
                message: format!("the rule `{}` has no limit", self.rule.name),
                hint: Some("say `.limit(\"100/min\")`, `.tier(..)` or `.concurrency(..)`".to_owned()),
            });
        }
        Rule { allowance, ..self.rule }
    }

    fn quota(&self, rate: &str) -> Result<Quota, String> {
        let rate: Rate = rate.parse().map_err(|error| format!("{error}"))?;
        let quota = match (self.algorithm, self.queue) {
            (AlgorithmKind::LeakyQueue, Some(queue)) => Quota::leaky_queue(rate, queue),
            (AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue, _) => Quota::leaky_bucket(rate),
            (AlgorithmKind::FixedWindow, _) => Quota::fixed_window(rate),
            (AlgorithmKind::SlidingWindowCounter, _) => Quota::sliding_window_counter(rate),
            (AlgorithmKind::SlidingWindowLog, _) => Quota::sliding_window_log(rate),
            (AlgorithmKind::TokenBucket | AlgorithmKind::Concurrency, _) => Quota::token_bucket(rate),
        };
        let owing = |quota: Quota| self.max_debt.map_or(Ok(quota), |max_debt| quota.with_max_debt(max_debt));
        quota.and_then(owing).map_err(|error| error.to_string())
    }
}

const UNLIMITED: &str = "unlimited";

impl PolicyBuilder {
    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: RuleBuilder) -> PolicyBuilder {
        self.rules.push(rule);
        self
    }

    /// Says where an identity is found. One that is used and not declared is
    /// what the caller gives with the request.
    #[must_use]
    pub fn identity(mut self, name: &str, source: IdentitySource) -> PolicyBuilder {
        self.policy.identities.push(Identity::new(name, source));
        self
    }

    /// Believes these proxies when they say for whom they speak.
    #[must_use]
    pub fn trusted_proxies(mut self, networks: impl IntoIterator<Item = IpNet>) -> PolicyBuilder {
        self.policy.client_ip.trusted_proxies.extend(networks);
        self
    }

    /// Changes anything else of the policy.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Policy)) -> PolicyBuilder {
        change(&mut self.policy);
        self
    }

    /// Checks it.
    pub fn build(mut self) -> Result<CheckedPolicy, PolicyErrors> {
        for builder in self.rules {
            let place = Place::top().member("rules").item(self.policy.rules.len());
            self.policy.rules.push(builder.finish(&place, &mut self.problems));
        }
        declare_given(&mut self.policy);
        match (self.policy.check(), self.problems.is_empty()) {
            (Ok(policy), true) => Ok(policy),
            (Ok(_), false) => Err(PolicyErrors(self.problems)),
            (Err(PolicyErrors(more)), _) => {
                self.problems.extend(more);
                Err(PolicyErrors(self.problems))
            }
        }
    }
}

/// Declares the identities that rules count by and nobody has declared.
fn declare_given(policy: &mut Policy) {
    let used: Vec<String> = policy.rules.iter().flat_map(|rule| rule.key.iter().cloned()).collect();
    for name in used {
        let is_known = BUILT_IN_IDENTITIES.contains(&name.as_str())
            || name == TIER
            || policy.identities.iter().any(|identity| identity.name == name);
        if !is_known {
            policy.identities.push(Identity { trusted: true, ..Identity::new(&name, IdentitySource::Given) });
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
