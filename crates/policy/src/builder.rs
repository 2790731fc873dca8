//! A policy put together in a program.

mod finish;

use std::time::Duration;

use ipnet::IpNet;
use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Queue};

use crate::check::codes;
use crate::check::words::nearest;
use crate::model::{
    BUILT_IN_IDENTITIES, Block, Cost, CostSource, Identity, IdentitySource, OnLimit, Policy, Rule, SecretKey, TIER,
    When,
};
use crate::problem::{CheckedPolicy, PolicyErrors};
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
        algorithm: None,
        queue: None,
        max_debt: None,
        said: Vec::new(),
    }
}

/// Puts a rule together.
#[derive(Clone, Debug)]
#[must_use = "a rule holds once it is part of a policy"]
pub struct RuleBuilder {
    rule: Rule,
    rates: Vec<String>,
    tiers: Vec<(String, String)>,
    permits: Option<u64>,
    algorithm: Option<AlgorithmKind>,
    queue: Option<Queue>,
    max_debt: Option<u64>,
    /// The calls so far, as members of a file.
    said: Vec<&'static str>,
}

impl RuleBuilder {
    /// Counts by this identity; called again, by both together.
    pub fn per(mut self, identity: &str) -> RuleBuilder {
        self.rule.key.push(identity.to_owned());
        self
    }

    /// So much: `100/s`, `5/min burst 20`. Called again, both limits hold.
    pub fn limit(mut self, rate: &str) -> RuleBuilder {
        self.rates.push(rate.to_owned());
        self.saying("limit")
    }

    /// So much for clients of this tier; `unlimited` is a limit too.
    pub fn tier(mut self, tier: &str, rate: &str) -> RuleBuilder {
        self.tiers.push((tier.to_owned(), rate.to_owned()));
        self.saying("tiers")
    }

    /// So many under way at once.
    pub fn concurrency(mut self, permits: u64) -> RuleBuilder {
        self.permits = Some(permits);
        self.saying("concurrency")
    }

    /// Denies the requests that it is for, and counts nothing.
    pub fn deny(self) -> RuleBuilder {
        self.saying("deny")
    }

    /// Under which algorithm. A token bucket where nothing is said.
    pub fn algorithm(mut self, algorithm: AlgorithmKind) -> RuleBuilder {
        self.algorithm = Some(algorithm);
        self.saying("algorithm")
    }

    /// Delays what comes too fast instead of refusing it, as a leaky bucket
    /// (no other algorithm goes with it) that holds up to `size` requests: the one that departed last, until the
    /// next can, and those that wait.
    pub fn queue(mut self, size: u64, max_wait: Duration) -> RuleBuilder {
        self.queue = Some(Queue { size, max_wait: Some(max_wait) });
        self.saying("queue")
    }

    /// Only for this path: exact, or with `/*` at the end for all below it.
    /// Called again, for either.
    pub fn path(mut self, pattern: &str) -> RuleBuilder {
        self.rule.when.paths.push(pattern.to_owned());
        self.saying("path")
    }

    /// Only for this method. Called again, for either.
    pub fn method(mut self, method: &str) -> RuleBuilder {
        self.rule.when.methods.push(method.to_ascii_uppercase());
        self.saying("method")
    }

    /// For requests of which more is asked. Paths and methods are added after it.
    pub fn when(mut self, when: When) -> RuleBuilder {
        self.rule.when = when;
        self.saying("when")
    }

    /// What each request costs.
    pub fn cost(mut self, cost: u64) -> RuleBuilder {
        self.rule.cost.source = CostSource::Fixed(cost);
        self.saying("cost")
    }

    /// What each request is taken to cost until it is settled.
    pub fn estimate(mut self, cost: u64) -> RuleBuilder {
        self.rule.cost = Cost { source: CostSource::Estimate(cost), max: MAX_AMOUNT, settled_by: None };
        self.saying("cost")
    }

    /// How much a key may owe when costs are settled above their estimate; 0
    /// for none. As much as its limit holds where nothing is said.
    pub fn max_debt(mut self, max_debt: u64) -> RuleBuilder {
        self.max_debt = Some(max_debt);
        self.saying("max_debt")
    }

    /// Lets so many violations within `span` pass with a warning, and blocks
    /// for `block`, if given, whoever goes on after so many.
    pub fn on_limit(mut self, warn_first: u64, span: Duration, block: Option<(u64, Duration)>) -> RuleBuilder {
        let block = block.map(|(after, duration)| Block { after, duration_ns: ns(duration) });
        self.rule.on_limit = Some(OnLimit { warn_first, span_ns: ns(span), block });
        self.saying("on_limit")
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

    fn saying(mut self, member: &'static str) -> RuleBuilder {
        self.said.push(member);
        self
    }
}

impl PolicyBuilder {
    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: RuleBuilder) -> PolicyBuilder {
        self.rules.push(rule);
        self
    }

    /// Says where an identity is found. A rule may also count by one that is
    /// not declared: it is what the caller gives with the request, unless its
    /// name looks like a typing mistake for a known one, which is an error.
    #[must_use]
    pub fn identity(mut self, name: &str, source: IdentitySource) -> PolicyBuilder {
        self.policy.identities.push(Identity::new(name, source));
        self
    }

    /// The same for an identity whose values are credentials: they become keys only as hashes.
    #[must_use]
    pub fn secret_identity(mut self, name: &str, source: IdentitySource) -> PolicyBuilder {
        self.policy.identities.push(Identity { secret: true, ..Identity::new(name, source) });
        self
    }

    /// The key with which the values of secret identities are hashed: at least 32 bytes, the same for all instances
    /// that share a store.
    #[must_use]
    pub fn secret_key(mut self, key: impl Into<Vec<u8>>) -> PolicyBuilder {
        self.policy.secret_key = Some(SecretKey(key.into()));
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

    /// Checks it: what a file would be refused for is an error here, too. What
    /// is legal but likely wrong is in [`CheckedPolicy::warnings`].
    pub fn build(mut self) -> Result<CheckedPolicy, PolicyErrors> {
        for builder in self.rules {
            let place = Place::top().member("rules").item(self.policy.rules.len());
            self.policy.rules.push(finish::finish(builder, &place, &mut self.problems));
        }
        declare_given(&mut self.policy);
        match (self.policy.check(), self.problems.is_empty()) {
            (Ok(policy), true) => Ok(policy),
            (Ok(_), false) => Err(PolicyErrors(self.problems)),
            (Err(PolicyErrors(more)), _) => {
                self.problems.extend(more.into_iter().map(with_declaration));
                Err(PolicyErrors(self.problems))
            }
        }
    }
}

/// Declares the identities that rules count by and that are not declared, except for those whose names are nearly
/// known ones: a rule by `client_pi` would apply to no request.
fn declare_given(policy: &mut Policy) {
    let declared: Vec<String> = policy.identities.iter().map(|identity| identity.name.clone()).collect();
    let known = || BUILT_IN_IDENTITIES.into_iter().chain([TIER]).chain(declared.iter().map(String::as_str));
    let used: Vec<String> = policy.rules.iter().flat_map(|rule| rule.key.iter().cloned()).collect();
    for name in used {
        let is_new = policy.identities.iter().all(|identity| identity.name != name);
        if is_new && nearest(&name, known()).is_none() {
            policy.identities.push(Identity { trusted: true, ..Identity::new(&name, IdentitySource::Given) });
        }
    }
}

/// An identity that was not declared for its name may be meant all the same.
fn with_declaration(mut problem: Problem) -> Problem {
    if problem.code == codes::UNKNOWN_IDENTITY {
        let hint = problem.hint.take().unwrap_or_default();
        problem.hint = Some(format!("{hint}\nor declare it with `.identity(..)`, as `IdentitySource::Given`"));
    }
    problem
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
