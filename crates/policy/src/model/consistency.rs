use tollgate_core::AlgorithmKind;

use super::{Grant, Rule, StoreSettings};

/// Whether instances that share a store ask it about every request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// The store decides every request.
    #[default]
    Exact,
    /// An instance leases tokens ahead of requests and spends them without a call. No limit is exceeded.
    Leased,
    /// Each region enforces its share of the limit, and lends the part of the rate that it does not need to other
    /// regions. All regions together do not exceed the limit.
    Regional,
}

const MS_NS: u64 = 1_000_000;

/// The default length of a generation of leases.
pub(crate) const DEFAULT_LEASE_GENERATION_NS: u64 = 1_000 * MS_NS;
/// The shortest generation. Tokens of a shorter lease would end before they are spent.
pub(crate) const MIN_LEASE_GENERATION_NS: u64 = 100 * MS_NS;
/// The longest generation. The tokens of an instance that fails are withheld for up to twice as long.
pub(crate) const MAX_LEASE_GENERATION_NS: u64 = 60_000 * MS_NS;

/// The reason why a rule stays exact although `consistency: leased` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StaysExact {
    Concurrency,
    Queue,
    OnLimit,
    Shadow,
}

impl StaysExact {
    /// Returns the member of the rule that is the reason.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            StaysExact::Concurrency => "concurrency",
            StaysExact::Queue => "queue",
            StaysExact::OnLimit => "on_limit",
            StaysExact::Shadow => "shadow",
        }
    }

    /// Returns the reason in words.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            StaysExact::Concurrency => "a permit cannot be revoked from an instance that stalls",
            StaysExact::Queue => "the store keeps the order of the requests",
            StaysExact::OnLimit => "the store counts the violations",
            StaysExact::Shadow => "it is a shadow rule",
        }
    }

    /// Returns the reason that is not in the settings of the store; `None` if tokens of the rule can be leased, or if it
    /// has no limit.
    pub(crate) fn of(rule: &Rule) -> Option<StaysExact> {
        let has = |kind| rule.grants().flat_map(Grant::quotas).any(|quota| quota.kind() == kind);
        match () {
            () if has(AlgorithmKind::Concurrency) => Some(StaysExact::Concurrency),
            () if has(AlgorithmKind::LeakyQueue) => Some(StaysExact::Queue),
            () if rule.on_limit.is_some() => Some(StaysExact::OnLimit),
            () if rule.shadow && rule.has_limit() => Some(StaysExact::Shadow),
            () => None,
        }
    }
}

/// The reason why the limits of a rule cannot be divided among regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indivisible {
    Algorithm,
    Concurrency,
    Queue,
    OnLimit,
    Shadow,
}

impl Indivisible {
    /// Returns the member of the rule that is the reason.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Indivisible::Algorithm => "algorithm",
            Indivisible::Concurrency => "concurrency",
            Indivisible::Queue => "queue",
            Indivisible::OnLimit => "on_limit",
            Indivisible::Shadow => "shadow",
        }
    }

    /// Returns the reason in words.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Indivisible::Algorithm => "only buckets have a rate that regions can lend",
            Indivisible::Concurrency => "permits have no rate that regions can lend",
            Indivisible::Queue => "no region knows the requests that wait in the others",
            Indivisible::OnLimit => "no region knows the violations in the others",
            Indivisible::Shadow => "a shadow rule only counts, and its rate is not lent",
        }
    }

    /// Returns the reason; `None` if the limits can be divided, or if the rule has none.
    pub(crate) fn of(rule: &Rule) -> Option<Indivisible> {
        use AlgorithmKind::{Concurrency, LeakyQueue};
        let mut kinds = rule.grants().flat_map(Grant::quotas).map(|quota| quota.kind());
        let has_limit = rule.has_limit();
        match kinds.find(|kind| !is_divisible(*kind)) {
            Some(Concurrency) => Some(Indivisible::Concurrency),
            Some(LeakyQueue) => Some(Indivisible::Queue),
            Some(_) => Some(Indivisible::Algorithm),
            None if rule.on_limit.is_some() => Some(Indivisible::OnLimit),
            None if rule.shadow && has_limit => Some(Indivisible::Shadow),
            None => None,
        }
    }
}

/// Whether regions can lend the rate of this algorithm.
pub(crate) fn is_divisible(algorithm: AlgorithmKind) -> bool {
    matches!(algorithm, AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket)
}

impl Rule {
    /// Whether any of the grants has a limit.
    pub(crate) fn has_limit(&self) -> bool {
        self.grants().any(|grant| !grant.quotas().is_empty())
    }

    /// Returns whether the rule's limits are divided among regions.
    #[must_use]
    pub fn is_regional(&self, store: &StoreSettings) -> bool {
        let default = match store {
            StoreSettings::Redis(redis) => redis.consistency,
            StoreSettings::Memory(_) => Consistency::Exact,
        };
        self.consistency.unwrap_or(default) == Consistency::Regional && self.has_limit()
    }

    /// Returns the length of a generation of leases; `None` if the store decides every request, or if the counters are
    /// in this process.
    #[must_use]
    pub fn lease_ns(&self, store: &StoreSettings) -> Option<u64> {
        let StoreSettings::Redis(redis) = store else { return None };
        let is_leased = self.consistency.unwrap_or(redis.consistency) == Consistency::Leased;
        (is_leased && !self.denies() && StaysExact::of(self).is_none()).then_some(redis.lease_ns)
    }
}
