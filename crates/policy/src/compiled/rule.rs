//! Compiled rules, their quotas with scopes, and the figures that are published to clients.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Quota;

use crate::check::grants::capacity_of;
use crate::compiled::grants::cost::CompiledCost;
use crate::compiled::grants::rule_grants::Grants;
use crate::compiled::identity::IdentityId;
use crate::compiled::matching::conditions::Conditions;
use crate::model::{FailureMode, OnLimit, When};

/// A compiled rule: its conditions, its action on matching requests, and the settings that verdicts need.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule's name.
    pub name: Arc<str>,
    /// Whether the rule denies matching requests. It then counts nothing.
    pub deny: bool,
    /// Whether the rule only counts and reports, and never refuses.
    pub shadow: bool,
    /// Whether the rule is published to clients.
    pub publish: bool,
    /// The budget that the rule shares with other rules.
    pub budget: Option<Box<str>>,
    /// The position of the rule under which its counters are listed: the first rule of its budget, else its own.
    pub counts_as: u32,
    /// The message to clients that the rule refuses, if it is not the default.
    pub message: Option<Box<str>>,
    /// The escalation beyond the limit, if it is not a plain refusal.
    pub on_limit: Option<OnLimit>,
    /// The mode while the store fails: the rule's own, or that of the store's settings.
    pub on_failure: FailureMode,
    /// The share of a limit that one instance grants on its own while the store fails, if `on_failure` is `Local`. That
    /// of a regional rule is a part of the share of the region, if it is set.
    pub fallback_share: (u32, u32),
    /// The length of a generation of leases; `None` if the store decides every request.
    pub lease: Option<Duration>,
    /// Whether the rule's limits are divided among regions.
    pub regional: bool,
    /// Whether any grant limits the number of requests in flight.
    pub concurrency: bool,
    /// The response header with the true cost.
    pub settled_by: Option<String>,
    /// The upper limit of a cost that the policy does not set itself.
    pub max_cost: u64,
    /// Whether the cost is read from the request or estimated.
    pub variable_cost: bool,
    /// Whether the rule has its own cost, which replaces the caller's.
    pub own_cost: bool,
    pub(super) conditions: Conditions,
    /// The conditions as written in the policy, without credentials.
    pub(super) when: When,
    pub(super) action: RuleAction,
}

/// The action of a rule whose conditions hold.
#[derive(Debug)]
pub(super) struct RuleAction {
    pub(super) key: Vec<IdentityId>,
    /// The same number for all rules with the same parts in their keys; `None` if the matched pattern is a part.
    pub(super) key_shape: Option<u32>,
    /// Whether the key contains the matched pattern.
    pub(super) uses_route: bool,
    /// Whether each reading of a path that yields another key is charged, not only the first: a segment of the path
    /// identifies the client, and the server may use any of the readings.
    pub(super) counts_readings: bool,
    pub(super) grants: Grants,
    pub(super) cost: CompiledCost,
    /// The positions of the rules that this one replaces where it applies.
    pub(super) replaces: Vec<u32>,
}

/// A quota and the scope of its counters. Tiers and overrides of a rule that limit over the same period have the same
/// scope, so that a client that moves between them keeps its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleQuota {
    /// The position of the rule, or of the first rule of a budget.
    pub rule: u32,
    /// The name of the rule or the budget, followed by the period for all but the first quota of a grant.
    pub scope: String,
    /// The quota.
    pub quota: Quota,
    /// The scope of this quota in the former version of tollgate, if it differs: that version named the first quota of
    /// a list by its period, too. Programs of that version may still count there, on a shared store or in a snapshot.
    pub former_scope: Option<String>,
    /// The figures that are published to clients.
    pub advertised: AdvertisedQuota,
    /// The tier that has this quota, if the rule has tiers; `None` for an override.
    pub tier: Option<Box<str>>,
}

/// The largest integer that a structured field can carry: 15 digits.
pub const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;

const S_NS: u128 = 1_000_000_000;

/// A quota in the figures of `RateLimit-Policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedQuota {
    /// The largest amount that can remain: `q`.
    pub limit: u64,
    /// The time in which all of it refills, in whole seconds: `w`.
    pub refill_s: u64,
}

impl AdvertisedQuota {
    /// Returns the figures of a quota.
    #[must_use]
    pub fn of(quota: &Quota) -> AdvertisedQuota {
        let limit = capacity_of(quota);
        // For algorithms other than buckets, `limit` is the amount, and this is the period.
        let refill_ns = u128::from(limit) * u128::from(quota.period_ns()) / u128::from(quota.amount().max(1));
        let refill_s = u64::try_from(refill_ns.div_ceil(S_NS)).unwrap_or(u64::MAX);
        AdvertisedQuota { limit: limit.min(MAX_FIELD_INTEGER), refill_s: refill_s.clamp(1, MAX_FIELD_INTEGER) }
    }
}
