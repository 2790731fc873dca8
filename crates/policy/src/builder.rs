//! A policy put together in a program.

use std::time::Duration;

use ipnet::IpNet;
use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Queue, Quota, QuotaError, Rate};

use crate::check::words::{either, nearest};
use crate::check::{codes, members};
use crate::model::{
    Allowance, BUILT_IN_IDENTITIES, Block, Cost, CostSource, DEFAULT_LEASE, Grant, Identity, IdentitySource, OnLimit,
    Policy, Rule, SecretKey, TIER, When, quota_of,
};
use crate::problem::{CheckedPolicy, Place, PolicyErrors, Problem};

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
            self.policy.rules.push(finish(builder, &place, &mut self.problems));
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

const UNLIMITED: &str = "unlimited";

/// Calls of which the last would win.
const ONCE: [&str; 7] = ["concurrency", "algorithm", "queue", "max_debt", "when", "cost", "on_limit"];

/// From the calls of a rule's builder to a rule, with what is wrong about the calls themselves.
///
/// A file says each member once, and the reader refuses those that exclude each other. Calls can say the same, so the
/// same is refused here, in the same words. What concerns the finished rule is checked with the policy.
fn finish(builder: RuleBuilder, place: &Place, problems: &mut Vec<Problem>) -> Rule {
    let before = problems.len();
    let mut finishing = Finishing { builder: &builder, place, problems };
    finishing.repeated();
    let granting = finishing.granting();
    finishing.misplaced(granting);
    let allowance = finishing.allowance(granting);
    let mut rule = Rule { allowance, ..builder.rule };
    if problems.len() > before {
        // Steps beyond a limit that could not be read are no mistake of their own.
        rule.on_limit = None;
    }
    rule
}

struct Finishing<'b> {
    builder: &'b RuleBuilder,
    place: &'b Place,
    problems: &'b mut Vec<Problem>,
}

impl Finishing<'_> {
    fn repeated(&mut self) {
        let said = &self.builder.said;
        for member in ONCE.into_iter().filter(|once| said.iter().filter(|said| *said == once).count() > 1) {
            self.wrong(codes::DUPLICATE_MEMBER, member, members::twice(member));
        }
        // Called in the other order, they add to it.
        let when = said.iter().rposition(|said| *said == "when").unwrap_or(0);
        if let Some(lost) = said[..when].iter().find(|said| matches!(**said, "path" | "method")) {
            let message = format!("`when` is there twice: `.when(..)` replaces what `.{lost}(..)` said before it");
            let hint = format!("call `.{lost}(..)` after `.when(..)`, or put it into the `When`");
            self.wrong(codes::DUPLICATE_MEMBER, "when", (message, hint));
        }
    }

    /// The member that says how much is granted. There must be one, and no other.
    fn granting(&mut self) -> Option<&'static str> {
        let mut granting = self.builder.said.iter().copied().filter(|said| members::GRANTS.contains(said));
        let one = granting.next();
        let other = granting.find(|other| Some(*other) != one);
        match (one, other) {
            (None, _) => {
                self.problem(codes::CHOOSE_ONE, self.place.clone(), members::none_of("this rule", members::GRANTS));
            }
            (Some(one), Some(other)) => {
                self.wrong(codes::CHOOSE_ONE, other, members::one_beside(other, one, members::GRANTS));
            }
            (Some(_), None) => {}
        }
        one
    }

    fn misplaced(&mut self, granting: Option<&str>) {
        let RuleBuilder { said, algorithm, queue, .. } = self.builder;
        let is_of_rates = !matches!(granting, Some("concurrency" | "deny"));
        match (algorithm, queue) {
            (Some(AlgorithmKind::Concurrency), _) if is_of_rates => {
                let known = either(members::ALGORITHMS.iter().map(|(name, _)| *name));
                let message = format!("expected {known}, found `{}`", AlgorithmKind::Concurrency);
                let hint = "say `.concurrency(..)` instead of `.limit(..)` to limit how many requests are in flight";
                return self.wrong(codes::UNKNOWN_WORD, "algorithm", (message, hint.to_owned()));
            }
            (Some(AlgorithmKind::LeakyQueue), None) if is_of_rates => {
                let hint = "add `.queue(size, max_wait)`, or choose the leaky bucket";
                let message = "`queue` is missing in this rule".to_owned();
                self.wrong(codes::MISSING_MEMBER, "queue", (message, hint.to_owned()));
            }
            _ => {}
        }
        for (member, wrong) in members::misplaced(granting.unwrap_or("limit"), *algorithm, |name| said.contains(&name))
        {
            self.wrong(codes::MISPLACED_MEMBER, member, wrong);
        }
    }

    fn allowance(&mut self, granting: Option<&str>) -> Allowance {
        let builder = self.builder;
        match granting {
            Some("deny") => Allowance::Deny,
            Some("concurrency") => {
                let permits = Quota::concurrency(builder.permits.unwrap_or(0), Some(DEFAULT_LEASE));
                Allowance::Same(
                    self.built(permits, self.place.member("concurrency"))
                        .map_or(Grant::Unlimited, |quota| Grant::Limited(vec![quota])),
                )
            }
            Some("tiers") => {
                let tiers = builder.tiers.iter().map(|(tier, rate)| {
                    let place = self.place.member("tiers").member(tier);
                    (tier.clone(), self.grant(std::slice::from_ref(rate), &place))
                });
                Allowance::Tiers(tiers.collect())
            }
            _ => Allowance::Same(self.grant(&builder.rates, &self.place.member("limit"))),
        }
    }

    /// One rate or `unlimited`, or several rates. What cannot be read is told.
    fn grant(&mut self, rates: &[String], place: &Place) -> Grant {
        match rates {
            [only] if only.trim().eq_ignore_ascii_case(UNLIMITED) => Grant::Unlimited,
            [] => Grant::Unlimited,
            rates => {
                let quotas: Vec<Quota> = rates.iter().filter_map(|rate| self.quota(rate, place)).collect();
                if quotas.is_empty() { Grant::Unlimited } else { Grant::Limited(quotas) }
            }
        }
    }

    fn quota(&mut self, rate: &str, place: &Place) -> Option<Quota> {
        let rate = rate.parse::<Rate>().map_err(|error| {
            let message = format!("not a rate: {}", error.expected());
            self.problem(codes::BAD_RATE, place.clone(), (message, String::new()));
        });
        let RuleBuilder { algorithm, queue, max_debt, .. } = *self.builder;
        // A queue alone says that the bucket is a leaky one.
        let implied = if queue.is_some() { AlgorithmKind::LeakyBucket } else { AlgorithmKind::TokenBucket };
        self.built(quota_of(rate.ok()?, algorithm.unwrap_or(implied), queue, max_debt), place.clone())
    }

    fn built(&mut self, quota: Result<Quota, QuotaError>, place: Place) -> Option<Quota> {
        quota.map_err(|error| self.problem(codes::BAD_QUOTA, place, (error.to_string(), String::new()))).ok()
    }

    fn wrong(&mut self, code: &'static str, member: &str, said: members::Said) {
        self.problem(code, self.place.member(member), said);
    }

    fn problem(&mut self, code: &'static str, place: Place, (message, hint): members::Said) {
        self.problems.push(Problem::new(code, place, message, hint));
    }
}
