//! A rule with all that is known of it, a quota under the scope in which it counts, and what clients are told of it.

use std::sync::Arc;

use tollgate_core::Quota;

use crate::check::grants::capacity_of;
use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::Grants;
use crate::compiled::identity::IdentityId;
use crate::compiled::matching::conditions::Conditions;
use crate::model::{OnFailure, OnLimit, When};

/// A rule: what it asks for, what it does to requests that match it, and what verdicts need of it.
#[derive(Debug)]
pub struct CompiledRule {
    /// Its name.
    pub name: Arc<str>,
    /// It denies the requests that it is for, and counts nothing.
    pub deny: bool,
    /// Counted and reported, never refusing.
    pub shadow: bool,
    /// Whether clients are told of it.
    pub publish: bool,
    /// What happens beyond the limit, if it is not a plain refusal.
    pub on_limit: Option<OnLimit>,
    /// What happens when the store fails: what the rule says, else what the store's settings say.
    pub on_failure: OnFailure,
    /// Which share of a limit one instance grants on its own where the store fails and `on_failure` is `Local`.
    pub fallback_share: (u32, u32),
    /// Whether anybody's grant limits how many are under way at once.
    pub concurrency: bool,
    /// The response header that tells the true cost afterwards.
    pub settled_by: Option<String>,
    /// The most that a cost which is not the policy's own counts.
    pub max_cost: u64,
    /// Whether the cost is read from the request or guessed.
    pub variable_cost: bool,
    /// Whether the rule has a cost of its own, whatever the caller says.
    pub own_cost: bool,
    pub(super) conditions: Conditions,
    /// The conditions as they were written, without credentials.
    pub(super) when: When,
    pub(super) action: RuleAction,
}

/// What happens once the conditions of a rule hold.
#[derive(Debug)]
pub(super) struct RuleAction {
    pub(super) key: Vec<IdentityId>,
    /// Rules with the same parts in their keys have the same number, unless the pattern that matched is one of them.
    pub(super) shape: Option<u32>,
    /// Whether the key depends on the pattern that matched.
    pub(super) uses_route: bool,
    /// Whether each reading of a path that gives another key is charged, and not the first alone: a segment of the
    /// path says whose request it is, and any of the readings may be the one that is served.
    pub(super) counts_readings: bool,
    pub(super) grants: Grants,
    pub(super) cost: CompiledCost,
    /// The rules that do not apply where this one does.
    pub(super) replaces: Vec<u32>,
}

/// A quota under the scope in which it counts. Tiers and overrides of a rule
/// that limit over the same period have the same scope, so that a client which
/// moves between them keeps its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleQuota {
    /// The rule's position.
    pub rule: u32,
    /// The rule's name; with the period behind it for all but the first quota of a grant.
    pub scope: String,
    /// How much.
    pub quota: Quota,
    /// The scope of this quota in the version before, where it was another: that named the first quota of a list by
    /// its period, too. Its programs may still count there, on a shared store or in a snapshot.
    pub former_scope: Option<String>,
    /// What clients are told of it.
    pub advertised: AdvertisedQuota,
}

/// The largest integer that a structured field can carry: 15 digits.
pub const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;

const S_NS: u128 = 1_000_000_000;

/// A quota in the figures of `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedQuota {
    /// The largest that can remain: `q`.
    pub limit: u64,
    /// The whole seconds in which it comes back: `w`.
    pub refill_s: u64,
}

impl AdvertisedQuota {
    /// The figures of a quota.
    #[must_use]
    pub fn of(quota: &Quota) -> AdvertisedQuota {
        let limit = capacity_of(quota);
        // Whole at once where it is no bucket, which holds the amount.
        let refill_ns = u128::from(limit) * u128::from(quota.period_ns()) / u128::from(quota.amount().max(1));
        let refill_s = u64::try_from(refill_ns.div_ceil(S_NS)).unwrap_or(u64::MAX);
        AdvertisedQuota { limit: limit.min(MAX_FIELD_INTEGER), refill_s: refill_s.clamp(1, MAX_FIELD_INTEGER) }
    }
}
