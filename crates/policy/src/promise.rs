//! What each rule promises: the most that can pass, in any span of time.
//!
//! The figures are upper bounds, for one key, in one process or one shared
//! store, with nothing given back. They are those of
//! [`most_admitted`], to which the algorithms are held by
//! their tests; nothing here computes a limit a second time.

mod bound;
mod display;
pub(crate) mod shown;
pub(crate) mod words;

use tollgate_core::Quota;

use crate::model::{CostSource, Grant, OnFailure, Policy, Rule, StoreSettings};

use bound::Costs;
pub use bound::{Bound, Debt, Most};
use shown::shown;
pub use words::{ANY_SPAN, algorithm as algorithm_words, limit as limit_words, most as most_words};

#[cfg(doc)]
use tollgate_core::most_admitted;

/// What one rule promises. Displayed as a block of lines, without a line end at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The rule's name.
    pub rule: String,
    /// Which requests it is for, each condition in words; all hold. None: all requests.
    pub when: Vec<String>,
    /// The identities by which it counts. None: everybody together.
    pub key: Vec<String>,
    /// What its figures count.
    pub unit: Unit,
    /// It denies every request that it is for, and counts nothing: there are no grants.
    pub deny: bool,
    /// It refuses nobody. The figures are those that would hold if it were enforced.
    pub shadow: bool,
    /// What it grants, and to whom. Those who are granted the same stand together.
    pub grants: Vec<GrantPromise>,
    /// Whether requests can cost something else than 1.
    pub says_cost: bool,
    /// How many pass with a warning.
    pub warned: Option<Warned>,
    /// Who is turned away altogether, and for how long.
    pub blocked: Option<Blocked>,
    /// What happens while a shared store fails; `None` where the counters are in the process, or there are none.
    pub on_failure: Option<OnFailure>,
}

/// What figures count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests, each of which costs 1 unless a caller says otherwise.
    Requests,
    /// What requests cost.
    Cost,
}

/// What some clients are promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantPromise {
    /// To whom.
    pub whose: Vec<Whose>,
    /// All of these at once. None: unlimited.
    pub limits: Vec<LimitPromise>,
}

/// To whom something is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// To everybody who is not named otherwise.
    Everybody,
    /// To the clients of this tier.
    Tier(String),
    /// To the keys that these patterns mean, one for each part of the key.
    Keys(Vec<String>),
}

/// What one quota promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitPromise {
    /// The quota.
    pub quota: Quota,
    /// The most that it lets pass.
    pub bound: Bound,
    /// How long a request of [`refusal_cost`](LimitPromise::refusal_cost) can
    /// be refused, if nothing else is spent meanwhile; `None` if that depends on
    /// others, or if no request can pass.
    pub longest_refusal_ns: Option<u64>,
    /// The largest cost that the rule charges and that can be admitted; where
    /// callers say what a request costs, 1.
    pub refusal_cost: u64,
    /// A request that costs more than this is refused for ever; `None` where
    /// the rule charges no such cost.
    pub never_above: Option<u64>,
    /// What is added where costs are settled above their estimate; `None` where none are.
    pub debt: Option<Debt>,
    /// What each instance grants on its own while the store fails.
    pub share: Option<Share>,
}

/// What an instance grants on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The quota, scaled.
    pub quota: Quota,
    /// The most that it lets pass.
    pub bound: Bound,
    /// How long it can refuse a request of [`refusal_cost`](Share::refusal_cost); see [`LimitPromise`].
    pub longest_refusal_ns: Option<u64>,
    /// The largest cost that it can admit of those that the rule charges.
    pub refusal_cost: u64,
}

/// How many requests beyond the limit pass with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warned {
    /// So many.
    pub first: u64,
    /// In any span of this length.
    pub within_ns: u64,
}

/// Who is turned away altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Whoever goes on after so many requests beyond the limit.
    pub after: u64,
    /// Within a span of this length.
    pub within_ns: u64,
    /// For so long.
    pub for_ns: u64,
}

/// What each rule of a policy promises, in the order of the rules.
#[must_use]
pub fn promises(policy: &Policy) -> Vec<Promise> {
    shown(policy).iter().map(|rule| Promise::of(rule, &policy.store)).collect()
}

impl Promise {
    /// What a rule promises whose counters live in that store.
    #[must_use]
    pub fn of(rule: &Rule, store: &StoreSettings) -> Promise {
        let warned = rule
            .on_limit
            .filter(|on_limit| on_limit.warn_first > 0)
            .map(|on_limit| Warned { first: on_limit.warn_first, within_ns: on_limit.span_ns });
        let blocked = rule.on_limit.and_then(|on_limit| {
            let block = on_limit.block?;
            // Whoever is still warned is not blocked.
            let after = block.after.max(on_limit.warn_first);
            Some(Blocked { after, within_ns: on_limit.span_ns, for_ns: block.duration_ns })
        });
        let on_failure = match store {
            StoreSettings::Redis(redis) if !rule.denies() => Some(rule.on_failure.unwrap_or(redis.on_failure)),
            StoreSettings::Memory(_) | StoreSettings::Redis(_) => None,
        };
        let share = match (store, on_failure) {
            (StoreSettings::Redis(redis), Some(OnFailure::Local)) => Some(redis.fallback_share),
            _ => None,
        };
        let conditions = Conditions { rule, warned, share };
        Promise {
            rule: rule.name.clone(),
            when: words::conditions(&rule.when),
            key: rule.key.clone(),
            unit: unit(rule),
            deny: rule.denies(),
            shadow: rule.shadow,
            grants: grants(rule).into_iter().map(|(whose, grant)| conditions.grant(whose, grant)).collect(),
            says_cost: rule.cost.source != CostSource::Fixed(1),
            warned,
            blocked,
            on_failure,
        }
    }

    /// The longest that a request can be refused, by a limit or a block, if
    /// nobody else spends meanwhile; `None` if it refuses nobody, or nobody knows.
    #[must_use]
    pub fn longest_refusal_ns(&self) -> Option<u64> {
        if self.shadow {
            return None;
        }
        let limits = self.grants.iter().flat_map(|grant| &grant.limits);
        let longest =
            limits.map(LimitPromise::longest_with_debt_ns).collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        Some(longest.max(self.blocked.map_or(0, |blocked| blocked.for_ns)))
    }
}

impl LimitPromise {
    /// How long a request of its `refusal_cost` can be refused, also where all is owed that may be.
    fn longest_with_debt_ns(&self) -> Option<u64> {
        let owing_ns = self.debt.and_then(|debt| debt.longest_refusal_ns);
        self.longest_refusal_ns.map(|longest_ns| longest_ns.max(owing_ns.unwrap_or(0)))
    }
}

impl GrantPromise {
    /// Whether nothing limits it.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }
}

/// What the promises of a rule's quotas depend on besides the quotas.
struct Conditions<'a> {
    rule: &'a Rule,
    warned: Option<Warned>,
    share: Option<(u32, u32)>,
}

impl Conditions<'_> {
    fn grant(&self, whose: Vec<Whose>, grant: &Grant) -> GrantPromise {
        let costs = Costs::of(&self.rule.cost, grant.quotas());
        let mut shares = self.shares(grant.quotas()).into_iter();
        let limits = grant.quotas().iter().map(|quota| self.limit(quota, costs, shares.next())).collect();
        GrantPromise { whose, limits }
    }

    fn limit(&self, quota: &Quota, costs: Costs, share: Option<Share>) -> LimitPromise {
        let Share { quota, bound, longest_refusal_ns, refusal_cost } = self.figures(quota, costs);
        let debt = Debt::of(self.rule, &quota, refusal_cost);
        let never_above = costs.never_above;
        LimitPromise { quota, bound, longest_refusal_ns, refusal_cost, never_above, debt, share }
    }

    /// For each quota what an instance grants on its own, if it does.
    fn shares(&self, quotas: &[Quota]) -> Vec<Share> {
        let Some(share) = self.share else { return Vec::new() };
        let shares: Vec<Quota> = quotas.iter().map(|quota| quota.share(share)).collect();
        let costs = Costs::of(&self.rule.cost, &shares);
        shares.iter().map(|quota| self.figures(quota, costs)).collect()
    }

    /// What a quota lets pass, and how long the largest cost that can be admitted is refused.
    fn figures(&self, quota: &Quota, costs: Costs) -> Share {
        let refusal_cost = costs.largest_admitted.unwrap_or(1);
        let bound = Bound::of(quota, self.warned, refusal_cost);
        let longest_refusal_ns = costs.largest_admitted.and_then(|cost| bound::longest_refusal_ns(quota, cost, false));
        Share { quota: *quota, bound, longest_refusal_ns, refusal_cost }
    }
}

/// The rule's grants, each with all to whom it is made.
fn grants(rule: &Rule) -> Vec<(Vec<Whose>, &Grant)> {
    let mut grants: Vec<(Vec<Whose>, &Grant)> = Vec::new();
    let mut add = |whose: Whose, grant| match grants.iter_mut().find(|(_, known)| *known == grant) {
        Some((all, _)) => all.push(whose),
        None => grants.push((vec![whose], grant)),
    };
    for (tier, grant) in rule.allowance.grants() {
        add(tier.map_or(Whose::Everybody, |tier| Whose::Tier(tier.to_owned())), grant);
    }
    for exception in &rule.overrides {
        let patterns = exception.key.iter().map(|pattern| pattern.0.clone()).collect();
        add(Whose::Keys(patterns), &exception.grant);
    }
    grants
}

fn unit(rule: &Rule) -> Unit {
    match rule.cost.source {
        CostSource::OfTheRequest | CostSource::Fixed(1) => Unit::Requests,
        _ => Unit::Cost,
    }
}
