//! What a verdict needs to know of a rule, and what a store needs to know of a quota.

use std::sync::Arc;

use tollgate_core::Quota;

use crate::model::{OnFailure, OnLimit};

/// A rule as verdicts see it.
#[derive(Clone, Debug, PartialEq)]
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
}
