//! Builds a policy in a program.

use std::time::Duration;

use ipnet::IpNet;
use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Queue, Quota, QuotaError, Rate};

use crate::check::rate_hint::rate_hint;
use crate::check::words::{either, nearest};
use crate::check::{codes, members};
use crate::model::{
    Allowance, BUILT_IN_IDENTITIES, Block, Budget, Consistency, Cost, CostSource, DEFAULT_LEASE, Grant, Identity,
    IdentitySource, OnLimit, Policy, Regions, Rule, SecretKey, TIER, Tier, TierSource, When, quota_of,
};
use crate::problem::{CheckedPolicy, PolicyErrors, PolicyPath, Problem};

/// Builds a policy. [`PolicyBuilder::build`] reports all problems at once.
///
/// ```
/// use tollgate_policy::{PolicyBuilder, rule};
///
/// let policy = PolicyBuilder::default()
///     .rule(rule("per-ip").per("client_ip").limit("100/min"))
///     .rule(rule("login").path("/auth/login").per("client_ip").limit("5/min"))
///     .build()?;
/// assert_eq!(policy.rules.len(), 2);
/// # Ok::<(), tollgate_policy::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PolicyBuilder {
    policy: Policy,
    budgets: Vec<BudgetBuilder>,
    rules: Vec<RuleBuilder>,
    problems: Vec<Problem>,
}

/// Starts a rule: `rule("per-ip").per("client_ip").limit("100/min")`.
///
/// | methods of the [`RuleBuilder`] | set |
/// | --- | --- |
/// | [`path`](RuleBuilder::path), [`method`](RuleBuilder::method), [`when`](RuleBuilder::when) | the requests that the rule is for; all without them |
/// | [`per`](RuleBuilder::per) | the key: each value has its own counter; one counter without it |
/// | [`limit`](RuleBuilder::limit), [`tier`](RuleBuilder::tier), [`concurrency`](RuleBuilder::concurrency), [`budget`](RuleBuilder::budget) or [`deny`](RuleBuilder::deny) | what the rule grants: one of these |
/// | [`algorithm`](RuleBuilder::algorithm), [`queue`](RuleBuilder::queue) | another algorithm than the token bucket; waiting instead of refusing |
/// | [`cost`](RuleBuilder::cost), [`cost_for_path`](RuleBuilder::cost_for_path), [`estimate`](RuleBuilder::estimate), [`max_debt`](RuleBuilder::max_debt) | the cost of a request; 1, or the cost that the caller gives, without them |
/// | [`on_limit`](RuleBuilder::on_limit) | warnings and blocks for repeated violations |
/// | [`message`](RuleBuilder::message), [`unpublished`](RuleBuilder::unpublished) | what clients learn |
/// | [`shadow`](RuleBuilder::shadow) | counting without refusing |
/// | [`consistency`](RuleBuilder::consistency) | leases of tokens with a shared store; limits that regions share |
pub fn rule(name: &str) -> RuleBuilder {
    RuleBuilder {
        rule: Rule::new(name),
        rates: Vec::new(),
        tiers: Vec::new(),
        permits: None,
        algorithm: None,
        queue: None,
        max_debt: None,
        members: Vec::new(),
    }
}

/// Starts a budget that several rules share: `budget("tokens").per("user").limit("1000/min")`.
pub fn budget(name: &str) -> BudgetBuilder {
    BudgetBuilder(rule(name))
}

/// Builds a budget.
#[derive(Clone, Debug)]
#[must_use = "a budget has no effect until it is added to a policy"]
pub struct BudgetBuilder(RuleBuilder);

impl BudgetBuilder {
    /// Adds an identity to the key. Several identities form one key.
    pub fn per(self, identity: &str) -> BudgetBuilder {
        BudgetBuilder(self.0.per(identity))
    }

    /// Sets a limit, such as `100/s` or `5/min burst 20`. Several limits all apply.
    pub fn limit(self, rate: &str) -> BudgetBuilder {
        BudgetBuilder(self.0.limit(rate))
    }

    /// Sets the limit of a tier; `unlimited` is accepted.
    pub fn tier(self, tier: &str, rate: &str) -> BudgetBuilder {
        BudgetBuilder(self.0.tier(tier, rate))
    }

    /// Sets the algorithm. The default is the token bucket.
    pub fn algorithm(self, algorithm: AlgorithmKind) -> BudgetBuilder {
        BudgetBuilder(self.0.algorithm(algorithm))
    }

    /// Sets how much a key may owe when costs are settled above their estimate; 0 for none.
    pub fn max_debt(self, max_debt: u64) -> BudgetBuilder {
        BudgetBuilder(self.0.max_debt(max_debt))
    }

    /// Sets whether tokens are leased from a shared store, or the limit is divided among regions. The default is the
    /// consistency of the store's settings.
    pub fn consistency(self, consistency: Consistency) -> BudgetBuilder {
        BudgetBuilder(self.0.consistency(consistency))
    }
}

/// Builds a rule.
#[derive(Clone, Debug)]
#[must_use = "a rule has no effect until it is added to a policy"]
pub struct RuleBuilder {
    rule: Rule,
    rates: Vec<String>,
    tiers: Vec<(String, String)>,
    permits: Option<u64>,
    algorithm: Option<AlgorithmKind>,
    queue: Option<Queue>,
    max_debt: Option<u64>,
    /// The members that were set so far, by their names in a file.
    members: Vec<&'static str>,
}

impl RuleBuilder {
    /// Adds an identity to the key. Several identities form one key.
    pub fn per(mut self, identity: &str) -> RuleBuilder {
        self.rule.key.push(identity.to_owned());
        self
    }

    /// Sets a limit, such as `100/s` or `5/min burst 20`. Several limits all apply.
    pub fn limit(mut self, rate: &str) -> RuleBuilder {
        self.rates.push(rate.to_owned());
        self.set("limit")
    }

    /// Sets the limit of a tier; `unlimited` is accepted. [`PolicyBuilder::tier_from`] sets the source of the tier.
    pub fn tier(mut self, tier: &str, rate: &str) -> RuleBuilder {
        self.tiers.push((tier.to_owned(), rate.to_owned()));
        self.set("tiers")
    }

    /// Limits how many requests are in flight at once.
    ///
    /// A permit that is neither released nor renewed expires with its lease, which is one minute; a policy file can set
    /// another (`lease`).
    pub fn concurrency(mut self, permits: u64) -> RuleBuilder {
        self.permits = Some(permits);
        self.set("concurrency")
    }

    /// Charges the shared budget of this name. A request that matches several rules of one budget is charged once, with
    /// the largest of their costs.
    pub fn budget(mut self, name: &str) -> RuleBuilder {
        self.rule.budget = Some(name.to_owned());
        self.set("budget")
    }

    /// Denies the matching requests. The rule has no counter.
    pub fn deny(self) -> RuleBuilder {
        self.set("deny")
    }

    /// Sets the algorithm. The default is the token bucket.
    pub fn algorithm(mut self, algorithm: AlgorithmKind) -> RuleBuilder {
        self.algorithm = Some(algorithm);
        self.set("algorithm")
    }

    /// Delays requests above the rate instead of refusing them, for up to `max_wait`.
    ///
    /// The algorithm is the leaky bucket; no other can be combined with a queue. The queue holds up to `size`
    /// requests: those that wait, and the one that departed last, until the next can depart.
    pub fn queue(mut self, size: u64, max_wait: Duration) -> RuleBuilder {
        self.queue = Some(Queue { size, max_wait: Some(max_wait) });
        self.set("queue")
    }

    /// Matches requests to this path, or to everything below it with `/*` at the end. With several paths, one of them
    /// must match.
    pub fn path(mut self, pattern: &str) -> RuleBuilder {
        self.rule.when.paths.push(pattern.to_owned());
        self.set("path")
    }

    /// Matches requests with this method. With several methods, one of them must match.
    pub fn method(mut self, method: &str) -> RuleBuilder {
        self.rule.when.methods.push(method.to_ascii_uppercase());
        self.set("method")
    }

    /// Sets all conditions at once. Call `path` and `method` after it to add to them.
    pub fn when(mut self, when: When) -> RuleBuilder {
        self.rule.when = when;
        self.set("when")
    }

    /// Sets the cost of each request.
    pub fn cost(mut self, cost: u64) -> RuleBuilder {
        self.rule.cost.source = CostSource::Fixed(cost);
        self.set("cost")
    }

    /// Sets the cost of requests to this path, a pattern as in [`path`](RuleBuilder::path). Call it once per path;
    /// requests to other paths cost 1. If several patterns match, the most specific one applies.
    pub fn cost_for_path(mut self, pattern: &str, cost: u64) -> RuleBuilder {
        if let CostSource::Paths { costs, .. } = &mut self.rule.cost.source {
            costs.push((pattern.to_owned(), cost));
            return self;
        }
        self.rule.cost.source = CostSource::Paths { costs: vec![(pattern.to_owned(), cost)], default: 1 };
        self.set("cost")
    }

    /// Sets the estimated cost of each request, which is charged until the request is settled.
    pub fn estimate(mut self, cost: u64) -> RuleBuilder {
        self.rule.cost = Cost { source: CostSource::Estimate(cost), max: MAX_AMOUNT, settled_by: None };
        self.set("cost")
    }

    /// Sets how much a key may owe when costs are settled above their estimate; 0 for none. The default is the
    /// capacity of the limit.
    pub fn max_debt(mut self, max_debt: u64) -> RuleBuilder {
        self.max_debt = Some(max_debt);
        self.set("max_debt")
    }

    /// Sets the escalation: the first `warn_first` violations within `span` pass with a warning. With
    /// `block = Some((after, duration))`, the first violation after `after` of them blocks the key for `duration`.
    ///
    /// A request that passes with a warning is not charged by this rule; other rules charge it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_policy::rule;
    ///
    /// const MINUTE: Duration = Duration::from_secs(60);
    /// // Of the violations within 10 minutes, the first passes with a warning, the next two are rejected, and the
    /// // fourth blocks the address for 15 minutes.
    /// let login = rule("login").per("client_ip").limit("3/min").on_limit(1, 10 * MINUTE, Some((3, 15 * MINUTE)));
    /// ```
    pub fn on_limit(mut self, warn_first: u64, span: Duration, block: Option<(u64, Duration)>) -> RuleBuilder {
        let block = block.map(|(after, duration)| Block { after, duration_ns: ns(duration) });
        self.rule.on_limit = Some(OnLimit { warn_first, span_ns: ns(span), block });
        self.set("on_limit")
    }

    /// Counts and reports without refusing.
    pub fn shadow(mut self) -> RuleBuilder {
        self.rule.shadow = true;
        self
    }

    /// Sets whether tokens are leased from a shared store, or the limit is divided among regions. The default is the
    /// consistency of the store's settings.
    pub fn consistency(mut self, consistency: Consistency) -> RuleBuilder {
        self.rule.consistency = Some(consistency);
        self.set("consistency")
    }

    /// Hides the rule from clients.
    pub fn unpublished(mut self) -> RuleBuilder {
        self.rule.publish = false;
        self
    }

    /// Sets the message in the bodies of refusals by this rule, in place of the default sentence: printable text of at
    /// most 200 characters.
    pub fn message(mut self, message: &str) -> RuleBuilder {
        self.rule.message = Some(message.to_owned());
        self.set("message")
    }

    /// Accepts a warning or a note about this rule by its code: it is not among [`CheckedPolicy::warnings`].
    pub fn accept(mut self, code: &str) -> RuleBuilder {
        self.rule.accept.push(code.to_owned());
        self
    }

    fn set(mut self, member: &'static str) -> RuleBuilder {
        self.members.push(member);
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

    /// Adds a budget that several rules share.
    #[must_use]
    pub fn budget(mut self, budget: BudgetBuilder) -> PolicyBuilder {
        self.budgets.push(budget);
        self
    }

    /// Declares the regions that divide the limits of regional rules.
    #[must_use]
    pub fn regions(mut self, regions: Regions) -> PolicyBuilder {
        self.policy.regions = Some(regions);
        self
    }

    /// Declares the source of an identity.
    ///
    /// A rule may also count by an identity that is not declared: the caller sets its value with the request. A name
    /// that looks like a misspelt known one is an error. For the tier, see [`PolicyBuilder::tier_from`].
    #[must_use]
    pub fn identity(mut self, name: &str, source: IdentitySource) -> PolicyBuilder {
        self.policy.identities.push(Identity::new(name, source));
        self
    }

    /// Sets the source of a client's tier, and the tier of clients whose tier is absent or unknown.
    ///
    /// Rules set limits by tier with [`RuleBuilder::tier`]. With [`IdentitySource::Given`] the program sets the tier with
    /// each request, as an identity named `tier`. A source that clients can choose freely, such as a header, draws the
    /// warning `untrusted-tier`.
    #[must_use]
    pub fn tier_from(mut self, source: IdentitySource, default: &str) -> PolicyBuilder {
        let source = TierSource::Direct(source);
        self.policy.tier = Some(Tier { source, default: default.to_owned(), trusted: false });
        self
    }

    /// Declares an identity whose values are credentials. They become keys only as hashes.
    #[must_use]
    pub fn secret_identity(mut self, name: &str, source: IdentitySource) -> PolicyBuilder {
        self.policy.identities.push(Identity { secret: true, ..Identity::new(name, source) });
        self
    }

    /// Sets the key for hashing the values of secret identities: at least 32 bytes, the same on all instances that
    /// share a store.
    #[must_use]
    pub fn secret_key(mut self, key: impl Into<Vec<u8>>) -> PolicyBuilder {
        self.policy.secret_key = Some(SecretKey(key.into()));
        self
    }

    /// Adds proxies whose forwarding header is trusted for the client address.
    #[must_use]
    pub fn trusted_proxies(mut self, networks: impl IntoIterator<Item = IpNet>) -> PolicyBuilder {
        self.policy.client_ip.trusted_proxies.extend(networks);
        self
    }

    /// Accepts warnings and notes of this code, wherever they occur: they are not among [`CheckedPolicy::warnings`].
    #[must_use]
    pub fn accept(mut self, code: &str) -> PolicyBuilder {
        self.policy.accept.push(code.to_owned());
        self
    }

    /// Changes any other part of the policy.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Policy)) -> PolicyBuilder {
        change(&mut self.policy);
        self
    }

    /// Checks and returns the policy. The errors are those of a policy file; warnings are in
    /// [`CheckedPolicy::warnings`].
    pub fn build(mut self) -> Result<CheckedPolicy, PolicyErrors> {
        for BudgetBuilder(builder) in self.budgets {
            let path = PolicyPath::top().member("budgets").member(&builder.rule.name);
            let Rule { name, key, allowance, consistency, .. } = finish(builder, &path, &mut self.problems);
            self.policy.budgets.push(Budget { name, key, allowance, consistency });
        }
        for builder in self.rules {
            let path = PolicyPath::top().member("rules").item(self.policy.rules.len());
            self.policy.rules.push(finish(builder, &path, &mut self.problems));
        }
        self.policy.resolve_budgets();
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

/// Declares the identities that rules count by and that are not declared. Names that are almost known ones are left
/// out: a rule by `client_pi` would apply to no request.
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

/// Replaces hints about the file by the builder call that declares an identity or the tier.
fn with_declaration(mut problem: Problem) -> Problem {
    if problem.code == codes::UNKNOWN_IDENTITY {
        let hint = problem.hint.take().unwrap_or_default();
        problem.hint = Some(format!("{hint}\nor declare it: `.identity(name, IdentitySource::Given)`"));
    }
    if problem.code == codes::TIERS_WITHOUT_TIER {
        problem.hint = Some("set its source: `.tier_from(IdentitySource::Given, \"free\")`".to_owned());
    }
    problem
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const UNLIMITED: &str = "unlimited";

/// Members that may be set only once, because the last call would replace the others.
const ONCE: [&str; 10] =
    ["budget", "concurrency", "algorithm", "queue", "max_debt", "when", "cost", "on_limit", "message", "consistency"];

/// Turns the calls of a rule's builder into a rule, and reports conflicts between the calls.
///
/// The file reader refuses repeated members and those that exclude each other; this refuses the same calls with the
/// same messages. The finished rule is checked with the policy.
fn finish(builder: RuleBuilder, path: &PolicyPath, problems: &mut Vec<Problem>) -> Rule {
    let before = problems.len();
    let mut finishing = RuleFinisher { builder: &builder, path, problems };
    finishing.repeated();
    let granting = finishing.granting();
    finishing.misplaced(granting);
    let allowance = finishing.allowance(granting);
    let mut rule = Rule { allowance, ..builder.rule };
    if problems.len() > before {
        // Without a valid limit, the escalation and the consistency would only cause a second error.
        rule.on_limit = None;
        rule.consistency = None;
    }
    rule
}

struct RuleFinisher<'b> {
    builder: &'b RuleBuilder,
    path: &'b PolicyPath,
    problems: &'b mut Vec<Problem>,
}

impl RuleFinisher<'_> {
    fn repeated(&mut self) {
        let calls = &self.builder.members;
        for member in ONCE.into_iter().filter(|once| calls.iter().filter(|call| *call == once).count() > 1) {
            self.wrong(codes::DUPLICATE_MEMBER, member, members::twice(member));
        }
        // In the other order, the calls add to the conditions.
        let when = calls.iter().rposition(|call| *call == "when").unwrap_or(0);
        if let Some(lost) = calls[..when].iter().find(|call| matches!(**call, "path" | "method")) {
            let message = format!("`when` is given twice: `.when(..)` replaces the earlier `.{lost}(..)`");
            let hint = format!("call `.{lost}(..)` after `.when(..)`, or set it in the `When`");
            self.wrong(codes::DUPLICATE_MEMBER, "when", (message, hint));
        }
    }

    /// Returns the member that sets what the rule grants. Reports none and several.
    fn granting(&mut self) -> Option<&'static str> {
        let mut granting = self.builder.members.iter().copied().filter(|call| members::GRANTS.contains(call));
        let one = granting.next();
        let other = granting.find(|other| Some(*other) != one);
        match (one, other) {
            (None, _) => {
                self.problem(codes::CHOOSE_ONE, self.path.clone(), members::none_of("this rule", members::GRANTS));
            }
            (Some(one), Some(other)) => {
                self.wrong(codes::CHOOSE_ONE, other, members::one_beside(other, one, members::GRANTS));
            }
            (Some(_), None) => {}
        }
        one
    }

    fn misplaced(&mut self, granting: Option<&str>) {
        let RuleBuilder { members: set, algorithm, queue, .. } = self.builder;
        let is_of_rates = !matches!(granting, Some("concurrency" | "deny" | "budget"));
        match (algorithm, queue) {
            (Some(AlgorithmKind::Concurrency), _) if is_of_rates => {
                let known = either(members::ALGORITHMS.iter().map(|(name, _)| *name));
                let message = format!("expected {known}, found `{}`", AlgorithmKind::Concurrency);
                let hint = "call `.concurrency(..)` instead of `.limit(..)` to limit how many requests are in flight";
                return self.wrong(codes::UNKNOWN_WORD, "algorithm", (message, hint.to_owned()));
            }
            (Some(AlgorithmKind::LeakyQueue), None) if is_of_rates => {
                let hint = "add `.queue(size, max_wait)`, or choose the leaky bucket";
                let message = "`queue` is missing in this rule".to_owned();
                self.wrong(codes::MISSING_MEMBER, "queue", (message, hint.to_owned()));
            }
            _ => {}
        }
        for (member, wrong) in members::misplaced(granting.unwrap_or("limit"), *algorithm, |name| set.contains(&name)) {
            self.wrong(codes::MISPLACED_MEMBER, member, wrong);
        }
    }

    fn allowance(&mut self, granting: Option<&str>) -> Allowance {
        let builder = self.builder;
        match granting {
            Some("deny") => Allowance::Deny,
            // `resolve_budgets` copies the grant of the budget.
            Some("budget") => Allowance::Same(Grant::Unlimited),
            Some("concurrency") => {
                let permits = Quota::concurrency(builder.permits.unwrap_or(0), Some(DEFAULT_LEASE));
                Allowance::Same(
                    self.built(permits, self.path.member("concurrency"))
                        .map_or(Grant::Unlimited, |quota| Grant::Limited(vec![quota])),
                )
            }
            Some("tiers") => {
                let tiers = builder.tiers.iter().map(|(tier, rate)| {
                    let path = self.path.member("tiers").member(tier);
                    (tier.clone(), self.grant(std::slice::from_ref(rate), &path))
                });
                Allowance::Tiers(tiers.collect())
            }
            _ => Allowance::Same(self.grant(&builder.rates, &self.path.member("limit"))),
        }
    }

    /// Parses one rate, `unlimited`, or several rates, and reports invalid ones.
    fn grant(&mut self, rates: &[String], path: &PolicyPath) -> Grant {
        match rates {
            [only] if only.trim().eq_ignore_ascii_case(UNLIMITED) => Grant::Unlimited,
            [] => Grant::Unlimited,
            rates => {
                let quotas: Vec<Quota> = rates.iter().filter_map(|rate| self.quota(rate, path)).collect();
                if quotas.is_empty() { Grant::Unlimited } else { Grant::Limited(quotas) }
            }
        }
    }

    fn quota(&mut self, rate: &str, path: &PolicyPath) -> Option<Quota> {
        let parsed = rate.parse::<Rate>().map_err(|error| {
            let message = format!("not a rate: {}", error.expected());
            self.problem(codes::BAD_RATE, path.clone(), (message, rate_hint(rate)));
        });
        let RuleBuilder { algorithm, queue, max_debt, .. } = *self.builder;
        // A queue without an algorithm implies the leaky bucket.
        let implied = if queue.is_some() { AlgorithmKind::LeakyBucket } else { AlgorithmKind::TokenBucket };
        self.built(quota_of(parsed.ok()?, algorithm.unwrap_or(implied), queue, max_debt), path.clone())
    }

    fn built(&mut self, quota: Result<Quota, QuotaError>, path: PolicyPath) -> Option<Quota> {
        quota.map_err(|error| self.problem(codes::BAD_QUOTA, path, (error.to_string(), String::new()))).ok()
    }

    fn wrong(&mut self, code: &'static str, member: &str, text: members::MessageAndHint) {
        self.problem(code, self.path.member(member), text);
    }

    fn problem(&mut self, code: &'static str, path: PolicyPath, (message, hint): members::MessageAndHint) {
        self.problems.push(Problem::new(code, path, message, hint));
    }
}
