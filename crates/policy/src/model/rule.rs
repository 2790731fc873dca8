use std::time::Duration;

use tollgate_core::{AlgorithmKind, Queue, Quota, QuotaError, Rate};

use super::{OnFailure, TextPattern, When};

/// One rule: for these requests, counted by this key, so much; or for these requests, nothing at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, in answers, metrics and logs; the scope of its counters.
    pub name: String,
    /// Which requests it is for.
    pub when: When,
    /// The identities by which it counts. None: one counter for everybody.
    /// A request that lacks one of them does not meet the rule.
    pub key: Vec<String>,
    /// How much is granted, or that requests are denied.
    pub allowance: Allowance,
    /// What a request costs.
    pub cost: Cost,
    /// What happens to requests beyond the limit, if it is not a plain refusal.
    pub on_limit: Option<OnLimit>,
    /// Counted and reported, never refusing.
    pub shadow: bool,
    /// Whether clients are told of it.
    pub publish: bool,
    /// Other grants for some keys.
    pub overrides: Vec<Override>,
    /// What happens when the store fails, if not what the store's settings say.
    pub on_failure: Option<OnFailure>,
    /// The names of rules that do not apply where this one does.
    pub replaces: Vec<String>,
}

impl Rule {
    /// A rule that meets every request, counts everybody together and limits
    /// nothing: what one begins with.
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
            replaces: Vec::new(),
        }
    }

    /// What it grants to anybody, overrides among it.
    pub(crate) fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.allowance.grants().map(|(_, grant)| grant).chain(self.overrides.iter().map(|own| &own.grant))
    }

    /// Whether it denies the requests that it is for, and counts none of them.
    #[must_use]
    pub fn denies(&self) -> bool {
        self.allowance == Allowance::Deny
    }
}

/// How much a rule grants.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowance {
    /// The same to everybody.
    Same(Grant),
    /// By tier.
    Tiers(Vec<(String, Grant)>),
    /// Nothing: the request is denied. Such a rule has no key, and nothing is counted in the store.
    Deny,
}

/// How much somebody may have.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// As much as they like.
    Unlimited,
    /// All of these at once. Never empty.
    Limited(Vec<Quota>),
}

impl Allowance {
    /// What is granted, with the tier to which it is.
    pub(crate) fn grants(&self) -> impl Iterator<Item = (Option<&str>, &Grant)> {
        let (same, tiers): (Option<&Grant>, &[(String, Grant)]) = match self {
            Allowance::Same(grant) => (Some(grant), &[]),
            Allowance::Tiers(tiers) => (None, tiers),
            Allowance::Deny => (None, &[]),
        };
        let tiers = tiers.iter().map(|(tier, grant)| (Some(tier.as_str()), grant));
        same.into_iter().map(|grant| (None, grant)).chain(tiers)
    }

    /// The quotas of all that is granted; none if nothing is limited.
    pub(crate) fn quotas(&self) -> impl Iterator<Item = &Quota> {
        self.grants().flat_map(|(_, grant)| grant.quotas())
    }

    /// The longest period of all that is granted; `None` if nothing is limited.
    pub(crate) fn longest_period_ns(&self) -> Option<u64> {
        self.quotas().map(Quota::period_ns).max()
    }
}

impl Grant {
    /// Its quotas; none where it is unlimited.
    pub(crate) fn quotas(&self) -> &[Quota] {
        match self {
            Grant::Unlimited => &[],
            Grant::Limited(quotas) => quotas,
        }
    }
}

/// A grant for the keys that a pattern means. The most exact pattern counts:
/// without stars before with, longer before shorter.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// One pattern for each part of the rule's key.
    pub key: Vec<TextPattern>,
    /// What these keys get instead, whatever their tier.
    pub grant: Grant,
}

/// What a request costs under a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Where the cost comes from.
    pub source: CostSource,
    /// The most that a cost taken from a request counts; the least is 1. [`MAX_AMOUNT`](tollgate_core::MAX_AMOUNT),
    /// the default, is no maximum: a larger cost is above every limit and refused for good.
    pub max: u64,
    /// The response header that tells the true cost afterwards.
    pub settled_by: Option<String>,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost { source: CostSource::OfTheRequest, max: tollgate_core::MAX_AMOUNT, settled_by: None }
    }
}

/// Where a cost comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// What the caller says the request costs, else 1. Where a rule says nothing.
    OfTheRequest,
    /// Always the same.
    Fixed(u64),
    /// A request header.
    Header {
        /// Its name.
        name: String,
        /// Where it is absent or no number.
        default: u64,
    },
    /// By method.
    Methods {
        /// Methods and costs.
        costs: Vec<(String, u64)>,
        /// For every other method.
        default: u64,
    },
    /// A guess, to be settled once the true cost is known.
    Estimate(u64),
}

/// What happens beyond the limit, step by step. Violations are requests that
/// the rule's limit refuses; they are counted per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnLimit {
    /// So many violations within the span pass with a warning, uncharged.
    pub warn_first: u64,
    /// The span over which violations are counted.
    pub span_ns: u64,
    /// What happens to those who go on.
    pub block: Option<Block>,
}

/// Turned away altogether for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first violation after so many within the span starts it.
    pub after: u64,
    /// How long it lasts.
    pub duration_ns: u64,
}

/// How long a permit is held without being renewed, where nothing else is said: a holder that says nothing for a
/// minute is taken for dead.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(60);

/// The quota of a rate under an algorithm. A leaky bucket with a queue delays requests.
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
