use std::time::Duration;

use tollgate_core::{AlgorithmKind, Queue, Quota, QuotaError, Rate};

use super::{Consistency, FailureMode, TextPattern, When};

/// A rule: a limit for the requests that match `when`, counted by `key`, or a denial of these requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The name in responses, metrics and logs, and the scope of the counters.
    pub name: String,
    /// The requests that the rule applies to.
    pub when: When,
    /// The identities that the rule counts by. Without any, all clients share one counter. The rule does not apply to a
    /// request that lacks one of them.
    pub key: Vec<String>,
    /// The grants, or a denial.
    pub allowance: Allowance,
    /// The cost of a request.
    pub cost: Cost,
    /// The escalation for requests above the limit; `None` for plain refusals.
    pub on_limit: Option<OnLimit>,
    /// Whether the rule only counts and reports, and never refuses.
    pub shadow: bool,
    /// Whether clients see the rule.
    pub publish: bool,
    /// Other grants for some keys.
    pub overrides: Vec<Override>,
    /// What happens when the store fails; `None` for the mode of the store's settings.
    pub on_failure: Option<FailureMode>,
    /// Whether tokens are leased, or the limit is divided among regions; `None` for the consistency of the store's
    /// settings.
    pub consistency: Option<Consistency>,
    /// The names of rules that do not apply to requests that this rule applies to.
    pub replaces: Vec<String>,
    /// The codes of warnings and notes about this rule that are accepted.
    pub accept: Vec<String>,
    /// The message in the bodies of refusals by this rule, in place of the default sentence.
    pub message: Option<String>,
    /// The budget that the rule charges, shared with other rules. The key, the allowance and the consistency are then those of
    /// the budget: [`Policy::check`](super::Policy::check) copies them.
    pub budget: Option<String>,
}

/// A limit that several rules share, each at its own cost. It has one counter per key.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The name, and the scope of the counters. No rule has the same name.
    pub name: String,
    /// The identities that the budget counts by. Without any, all clients share one counter.
    pub key: Vec<String>,
    /// The grants.
    pub allowance: Allowance,
    /// Whether tokens are leased, or the limit is divided among regions; `None` for the consistency of the store's
    /// settings.
    pub consistency: Option<Consistency>,
}

impl Rule {
    /// Creates a rule that applies to all requests, has no key, and is unlimited.
    #[must_use]
    pub fn new(name: &str) -> Rule {
        Rule {
            name: name.to_owned(),
            when: When::default(),
            key: Vec::new(),
            allowance: Allowance::Same(Grant::Unlimited),
            cost: Cost::default(),
            on_limit: None,
            shadow: false,
            publish: true,
            overrides: Vec::new(),
            on_failure: None,
            consistency: None,
            replaces: Vec::new(),
            accept: Vec::new(),
            message: None,
            budget: None,
        }
    }

    /// Returns all grants, including those of overrides.
    pub(crate) fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.allowance.grants().map(|(_, grant)| grant).chain(self.overrides.iter().map(|own| &own.grant))
    }

    /// Whether the rule denies its requests. Such a rule has no counter.
    #[must_use]
    pub fn denies(&self) -> bool {
        self.allowance == Allowance::Deny
    }
}

/// The grants of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowance {
    /// The same grant for all clients.
    Same(Grant),
    /// Grants by tier.
    Tiers(Vec<(String, Grant)>),
    /// The requests are denied. Such a rule has no key, and the store counts nothing.
    Deny,
}

/// A limit, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// No limit.
    Unlimited,
    /// All of these quotas apply. Never empty.
    Limited(Vec<Quota>),
}

impl Allowance {
    /// Returns the grants with their tiers.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (Option<&str>, &Grant)> {
        let (same, tiers): (Option<&Grant>, &[(String, Grant)]) = match self {
            Allowance::Same(grant) => (Some(grant), &[]),
            Allowance::Tiers(tiers) => (None, tiers),
            Allowance::Deny => (None, &[]),
        };
        let tiers = tiers.iter().map(|(tier, grant)| (Some(tier.as_str()), grant));
        same.into_iter().map(|grant| (None, grant)).chain(tiers)
    }

    /// Returns the quotas of all grants; none if nothing is limited.
    pub(crate) fn quotas(&self) -> impl Iterator<Item = &Quota> {
        self.grants().flat_map(|(_, grant)| grant.quotas())
    }

    /// Returns the longest period of all grants; `None` if nothing is limited.
    pub(crate) fn longest_period_ns(&self) -> Option<u64> {
        self.quotas().map(Quota::period_ns).max()
    }
}

impl Grant {
    /// Returns the quotas; none if it is unlimited.
    pub(crate) fn quotas(&self) -> &[Quota] {
        match self {
            Grant::Unlimited => &[],
            Grant::Limited(quotas) => quotas,
        }
    }
}

/// A grant for the keys that match a pattern. The most specific pattern applies: one without stars before one with
/// stars, a longer one before a shorter one.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// One pattern for each part of the rule's key.
    pub key: Vec<TextPattern>,
    /// The grant of these keys, whatever their tier.
    pub grant: Grant,
}

/// The cost of a request under a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The source of the cost.
    pub source: CostSource,
    /// The largest cost that is charged; the smallest is 1. [`MAX_AMOUNT`](tollgate_core::MAX_AMOUNT), the default, is no
    /// restriction: a larger cost exceeds every limit and is always refused.
    pub max: u64,
    /// The response header with the actual cost.
    pub settled_by: Option<String>,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost { source: CostSource::OfTheRequest, max: tollgate_core::MAX_AMOUNT, settled_by: None }
    }
}

/// The source of a cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// The cost that the caller states, or 1. The default.
    OfTheRequest,
    /// The same cost for every request.
    Fixed(u64),
    /// A request header.
    Header {
        /// The name of the header.
        name: String,
        /// The cost if the header is absent or not a number.
        default: u64,
    },
    /// The cost depends on the method.
    Methods {
        /// The methods, with their costs.
        costs: Vec<(String, u64)>,
        /// The cost of all other methods.
        default: u64,
    },
    /// The cost depends on the path.
    Paths {
        /// The path patterns, as in [`When::paths`], with their costs. If a path can be read in several ways, the reading
        /// with the largest cost applies; for each reading, the most specific pattern that matches.
        costs: Vec<(String, u64)>,
        /// The cost of all other paths.
        default: u64,
    },
    /// An estimate, which is settled once the actual cost is known.
    Estimate(u64),
}

/// The escalation for requests above the limit. Violations are requests that the rule's limit refuses; they are counted
/// per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnLimit {
    /// The number of violations within the span that pass with a warning, uncharged.
    pub warn_first: u64,
    /// The span over which violations are counted.
    pub span_ns: u64,
    /// The block for keys with further violations.
    pub block: Option<Block>,
}

/// A block: all requests of a key are refused for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The number of violations within the span after which the next one starts the block.
    pub after: u64,
    /// The duration of the block.
    pub duration_ns: u64,
}

/// The default lease of a permit. A permit that is neither renewed nor released for this time expires.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(60);

/// Creates the quota of a rate under an algorithm. A leaky bucket with a queue delays requests.
pub(crate) fn quota_of(
    rate: Rate,
    algorithm: AlgorithmKind,
    queue: Option<Queue>,
    max_debt: Option<u64>,
) -> Result<Quota, QuotaError> {
    let quota = match (algorithm, queue) {
        (AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue, Some(queue)) => Quota::leaky_queue(rate, queue),
        (AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue, None) => Quota::leaky_bucket(rate),
        (AlgorithmKind::FixedWindow, _) => Quota::fixed_window(rate),
        (AlgorithmKind::SlidingWindowLog, _) => Quota::sliding_window_log(rate),
        (AlgorithmKind::SlidingWindowCounter, _) => Quota::sliding_window_counter(rate),
        (AlgorithmKind::TokenBucket | AlgorithmKind::Concurrency, _) => Quota::token_bucket(rate),
    }?;
    max_debt.map_or(Ok(quota), |max_debt| quota.with_max_debt(max_debt))
}
