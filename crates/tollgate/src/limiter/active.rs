//! The active policy, compiled for one store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{AlgorithmKind, Quota};
use tollgate_policy::model::{self, StoreSettings};
use tollgate_policy::{
    Access, AdvertisedQuota, CheckedPolicy, CommonCharge, CommonKey, CompiledPolicy, CompiledRule, Matched,
    MatchedCharge, Problem, Request, RuleQuota,
};
use tollgate_store::{
    Charge, KeyHash, Limit, LimitOptions, MemoryStore, OnFailure, Refusals, SharedOverrides, ShortText, StoredOverride,
};

use super::LimiterError;
use super::backend::Backend;
use super::decision::escalation::Escalation;
use super::keys::overrides::ActiveOverrides;
use super::permit_queue::queue_key;
use crate::fields::{FieldText, PolicyLists};
use crate::holding_time::HoldingTime;

/// Everything that a decision needs: the compiled policy, the limits of its rules in the store, and the texts of
/// response fields. Verdicts share it.
pub(crate) struct ActivePolicy {
    /// Differs for all policies that were ever active in this process, also if only overrides differ.
    generation: u64,
    /// The number of the limiter, which selects its slot in the thread-local verdict pools.
    limiter_number: usize,
    pub(crate) compiled: Arc<CompiledPolicy>,
    pub(crate) rules: Vec<ActiveRule>,
    /// The quotas of the compiled policy, followed by those of overrides.
    pub(crate) quotas: Vec<ActiveQuota>,
    override_quotas: Vec<RuleQuota>,
    limits: Vec<Limit>,
    /// The number of limits of the policy itself, without overrides.
    policy_limits: usize,
    /// Whether every rule is [plain](ActiveRule::is_plain).
    pub(super) is_plain: bool,
    /// Whether every rule is plain and no operator has set an override: only then are requests decided as
    /// [common](super::in_memory).
    pub(super) is_common: bool,
    /// Whether any rule can block.
    pub(super) blocks: bool,
    pub(super) overrides: ActiveOverrides,
    /// The version of the store's overrides in this policy.
    pub(super) overrides_version: u64,
    /// The warnings of the policy.
    pub(super) warnings: Arc<[Problem]>,
    /// Whether charges may be refunded, settled or released: permits, reservations in a queue, estimates.
    #[cfg_attr(not(feature = "tower"), allow(dead_code))]
    pub(crate) needs_receipts: bool,
    pub(crate) policy_lists: PolicyLists,
}

/// The data of a rule that a decision needs.
#[derive(Clone, Debug)]
pub(crate) struct ActiveRule {
    pub(crate) shadow: bool,
    pub(crate) publish: bool,
    pub(crate) variable_cost: bool,
    pub(crate) has_own_cost: bool,
    /// Whether the rule is enforced, limits no concurrency, has no escalation, and counts each of its quotas under one
    /// limit: not also under that of the former version. Its charges are made as matched, and a refusal has no further
    /// effect.
    pub(super) is_plain: bool,
    pub(super) escalation: Option<Escalation>,
    /// The holding times of its permits.
    pub(crate) holding: Arc<HoldingTime>,
    /// Its name, for response fields.
    pub(crate) field_name: FieldText,
}

/// The data of a quota that a decision and its response fields need.
#[derive(Debug)]
pub(crate) struct ActiveQuota {
    /// The index of its limit among those of the policy.
    pub(super) limit_index: u32,
    /// The limit under which the former version of tollgate counts it, if that differs. Both are charged together
    /// during a rolling upgrade.
    pub(super) former_limit: Option<u32>,
    pub(crate) is_concurrency: bool,
    pub(crate) lease_ns: u64,
    /// Its item of `RateLimit-Policy`.
    pub(crate) policy_item: String,
    /// The item of `RateLimit-Policy` for the share of an instance while the store fails.
    pub(crate) share_item: String,
    /// Its item of `RateLimit` up to the remaining amount.
    pub(crate) state_item: FieldText,
    /// The largest amount that can remain.
    pub(crate) max_remaining: u64,
    /// The value of `X-RateLimit-Limit`.
    pub(crate) limit_text: FieldText,
}

impl ActivePolicy {
    /// Compiles a policy for a store. `limiter_number` is the limiter's.
    pub(super) fn prepare(
        policy: &CheckedPolicy,
        backend: &Backend,
        limiter_number: usize,
    ) -> Result<ActivePolicy, LimiterError> {
        if policy.lacks_region() {
            return Err(LimiterError::NoRegion);
        }
        let compiled = CompiledPolicy::new(policy).map_err(LimiterError::Compile)?;
        let mut limits = Vec::new();
        for rule_quota in compiled.quotas() {
            let limit = quota_limit(&compiled, rule_quota, &rule_quota.scope, backend);
            let error = |error| LimiterError::Limit { scope: rule_quota.scope.to_string(), error };
            push(&mut limits, limit.map_err(error)?);
        }
        let mut prepare = |scope: &str, quota: Quota, options: LimitOptions| {
            let limit = backend.store().limit(scope, quota, options);
            let limit = limit.map_err(|error| LimiterError::Limit { scope: scope.to_owned(), error })?;
            Ok(push(&mut limits, limit))
        };
        let mut rules = Vec::with_capacity(compiled.rules().len());
        for rule in compiled.rules() {
            let escalation = rule.on_limit.as_ref();
            let escalation = escalation.map(|on_limit| Escalation::prepare(&rule.name, on_limit, &mut prepare));
            rules.push(ActiveRule::new(rule, escalation.transpose()?));
        }
        let former = former_limits(policy, &compiled, backend, &mut limits);
        let mut has_former = vec![false; rules.len()];
        for (rule_quota, former) in compiled.quotas().iter().zip(&former) {
            has_former[rule_quota.rule as usize] |= former.is_some();
        }
        for (rule, active) in compiled.rules().iter().zip(&mut rules) {
            active.is_plain &= !has_former[rule.counts_as as usize];
        }
        let policy_limits = limits.len();
        let active = ActivePolicy {
            generation: next_generation(),
            limiter_number,
            quotas: (0..)
                .zip(compiled.quotas())
                .zip(former)
                .map(|((limit_index, rule_quota), former)| ActiveQuota::new(&compiled, rule_quota, limit_index, former))
                .collect(),
            is_plain: rules.iter().all(|rule| rule.is_plain),
            is_common: false,
            blocks: rules
                .iter()
                .filter_map(|rule| rule.escalation.as_ref())
                .any(|escalation| escalation.block.is_some()),
            needs_receipts: needs_receipts(&compiled, &[]),
            compiled: Arc::new(compiled),
            rules,
            override_quotas: Vec::new(),
            limits,
            policy_limits,
            overrides: ActiveOverrides::default(),
            overrides_version: 0,
            warnings: policy.warnings().into(),
            policy_lists: PolicyLists::new(),
        };
        Ok(active.with_overrides(backend))
    }

    /// Returns the same policy with the current overrides of the store.
    pub(super) fn with_overrides(&self, backend: &Backend) -> ActivePolicy {
        let (overrides_version, stored): (u64, Arc<[StoredOverride]>) =
            backend.overrides().map_or_else(|| (0, Arc::default()), SharedOverrides::read);
        let compiled = &self.compiled;
        let mut limits = self.limits.clone();
        limits.truncate(self.policy_limits);
        let (overrides, override_quotas) = ActiveOverrides::read(compiled, &stored, backend.now_ns(), |rule_quota| {
            // A limit that the store does not accept was reported to the operator who set it.
            self.override_limit(rule_quota, backend).map(|limit| push(&mut limits, limit)).is_ok()
        });
        let of_policy = compiled.quotas().iter().zip(&self.quotas).map(|(rule_quota, active)| {
            ActiveQuota::new(compiled, rule_quota, active.limit_index, active.former_limit)
        });
        let first = u32::try_from(self.policy_limits).unwrap_or(u32::MAX);
        let of_overrides = (first..)
            .zip(&override_quotas)
            .map(|(limit_index, rule_quota)| ActiveQuota::new(compiled, rule_quota, limit_index, None));
        ActivePolicy {
            generation: next_generation(),
            limiter_number: self.limiter_number,
            compiled: Arc::clone(compiled),
            rules: self.rules.clone(),
            quotas: of_policy.chain(of_overrides).collect(),
            needs_receipts: needs_receipts(compiled, &override_quotas),
            override_quotas,
            limits,
            policy_limits: self.policy_limits,
            is_plain: self.is_plain,
            is_common: self.is_plain && overrides.is_empty(),
            blocks: self.blocks,
            overrides,
            overrides_version,
            warnings: Arc::clone(&self.warnings),
            policy_lists: PolicyLists::new(),
        }
    }

    /// Prepares the limit of an override.
    pub(super) fn override_limit(
        &self,
        rule_quota: &RuleQuota,
        backend: &Backend,
    ) -> Result<Limit, Box<dyn std::error::Error + Send + Sync>> {
        quota_limit(&self.compiled, rule_quota, &rule_quota.scope, backend)
    }

    /// Returns a charge under a quota in the memory store.
    #[inline(always)]
    pub(super) fn charge<'a>(&'a self, store: &MemoryStore, quota: u32, key: &[u8], cost: u64) -> Charge<'a, KeyHash> {
        store.charge(self.limit(self.quotas[quota as usize].limit_index), key, cost)
    }

    /// Returns a charge of a common request. It has no override, so its quota is one of the policy; these come first in
    /// `limits`, at the same index.
    #[inline(always)]
    pub(super) fn common_charge<'a>(&'a self, store: &MemoryStore, charge: &CommonCharge<'_>) -> Charge<'a, KeyHash> {
        debug_assert_eq!(self.quotas[charge.quota as usize].limit_index, charge.quota);
        let limit = self.limit(charge.quota);
        match charge.key {
            CommonKey::Text(text) => store.charge_unchecked(limit, text, charge.cost),
            CommonKey::Address(text, length) => {
                store.charge_unchecked(limit, &ShortText::from_parts(text, length), charge.cost)
            }
        }
    }

    /// Adds the rules that apply to a request to `matched`, which is empty, each with its key, quota and cost.
    #[inline]
    pub(super) fn match_into<'r>(&self, request: &Request<'r>, now_ns: u64, matched: &mut Matched<'r>) {
        if self.overrides.is_empty() {
            return self.compiled.match_into(request, |_, _| None, matched);
        }
        self.compiled.match_into(
            request,
            |rule, key| self.overrides.find(self.compiled.counts_as(rule), key, now_ns),
            matched,
        );
    }

    /// Returns the rules that apply to a request.
    pub(crate) fn match_request<'r>(&self, request: &Request<'r>, now_ns: u64) -> Matched<'r> {
        let mut matched = Matched::new(Access::Rules);
        self.match_into(request, now_ns, &mut matched);
        matched
    }

    /// Continues the holding times of another policy's rules of the same names.
    pub(super) fn continue_from(&self, other: &ActivePolicy) {
        let rules = other.compiled.rules().iter().zip(&other.rules);
        let before: HashMap<_, &ActiveRule> = rules.map(|(rule, active)| (&*rule.name, active)).collect();
        for (rule, active) in self.compiled.rules().iter().zip(&self.rules) {
            if let Some(before) = before.get(&*rule.name) {
                active.holding.continue_from(&before.holding);
            }
        }
    }

    /// Returns the queue of the tasks that wait for the permit of a charge; `None` if its rule is a shadow or does not
    /// limit concurrency.
    pub(super) fn permit_queue_key(&self, charge: &MatchedCharge, key: &[u8]) -> Option<u64> {
        let quota = &self.quotas[charge.quota as usize];
        let is_enforced = quota.is_concurrency && !self.rules[charge.rule as usize].shadow;
        is_enforced.then(|| queue_key(self.limit(quota.limit_index).scope(), key))
    }

    /// Returns the limit at an index.
    #[inline]
    pub(super) fn limit(&self, at: u32) -> &Limit {
        &self.limits[at as usize]
    }

    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    #[inline]
    pub(super) fn limiter_number(&self) -> usize {
        self.limiter_number
    }

    /// Returns the name of a rule.
    pub(crate) fn rule_name(&self, rule: u32) -> &str {
        &self.compiled.rules()[rule as usize].name
    }

    /// Returns the quota at an index, if there is one.
    pub(super) fn try_quota(&self, at: u32) -> Option<&RuleQuota> {
        let (at, of_policy) = (at as usize, self.compiled.quotas());
        of_policy.get(at).or_else(|| self.override_quotas.get(at - of_policy.len()))
    }

    /// Returns the quota at an index.
    pub(crate) fn quota(&self, at: u32) -> &RuleQuota {
        self.try_quota(at).unwrap_or_else(|| unreachable!("charges have quotas of the active policy"))
    }
}

/// Prepares the limit of a quota. A memory store alone exchanges nothing with other regions: there a region has its share of
/// a regional limit, and no loans.
fn quota_limit(
    compiled: &CompiledPolicy,
    rule_quota: &RuleQuota,
    scope: &str,
    backend: &Backend,
) -> Result<Limit, Box<dyn std::error::Error + Send + Sync>> {
    let options = options(compiled, rule_quota);
    let share = compiled.region_share().filter(|_| options.regional && matches!(backend, Backend::Memory(_)));
    let quota = match share {
        Some(share) => share
            .quota_without_loans(&rule_quota.quota)
            .map_err(|_| "the region's share of the limit is too small for the memory store: raise the limit")?,
        None => rule_quota.quota,
    };
    backend.store().limit(scope, quota, options)
}

/// Adds a limit, and returns its index.
fn push(limits: &mut Vec<Limit>, limit: Limit) -> u32 {
    limits.push(limit);
    u32::try_from(limits.len() - 1).unwrap_or(u32::MAX)
}

/// Returns the generation of a new policy. 0 is never used.
fn next_generation() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// Returns for each quota the index of the limit under which the former version counts it, if that differs.
fn former_limits(
    policy: &CheckedPolicy,
    compiled: &CompiledPolicy,
    backend: &Backend,
    limits: &mut Vec<Limit>,
) -> Vec<Option<u32>> {
    let is_kept = match &policy.store {
        StoreSettings::Memory(memory) => memory.snapshot.is_some(),
        StoreSettings::Redis(_) => true,
    };
    let former = |rule_quota: &RuleQuota| {
        let scope = rule_quota.former_scope.as_ref().filter(|_| is_kept)?;
        // A quota that the store does not accept was never counted there.
        let limit = quota_limit(compiled, rule_quota, scope, backend).ok()?;
        Some(push(limits, limit))
    };
    compiled.quotas().iter().map(former).collect()
}

fn needs_receipts(compiled: &CompiledPolicy, override_quotas: &[RuleQuota]) -> bool {
    let held = |rule_quota: &RuleQuota| {
        matches!(rule_quota.quota.kind(), AlgorithmKind::Concurrency | AlgorithmKind::LeakyQueue)
    };
    compiled.quotas().iter().chain(override_quotas).any(held)
        || compiled.rules().iter().any(|rule| rule.variable_cost || rule.settled_by.is_some())
}

/// Returns the options of a rule's limit in the store.
fn options(compiled: &CompiledPolicy, rule_quota: &RuleQuota) -> LimitOptions {
    let rule = &compiled.rules()[rule_quota.rule as usize];
    let refusals = match rule.on_limit {
        _ if rule_quota.quota.kind() == AlgorithmKind::Concurrency => Refusals::Counted,
        // A shadow rule has no guard.
        Some(on_limit) if on_limit.block.is_some() && !rule.shadow => Refusals::Guarded,
        Some(_) => Refusals::Counted,
        None => Refusals::Brief,
    };
    LimitOptions {
        on_failure: match rule.on_failure {
            model::FailureMode::Open => OnFailure::Open,
            model::FailureMode::Closed => OnFailure::Closed,
            model::FailureMode::Local => OnFailure::Local { share: rule.fallback_share },
        },
        refusals,
        lease: rule.lease,
        regional: rule.regional,
    }
}

impl ActiveRule {
    fn new(rule: &CompiledRule, escalation: Option<Escalation>) -> ActiveRule {
        ActiveRule {
            shadow: rule.shadow,
            publish: rule.publish && !rule.shadow,
            variable_cost: rule.variable_cost,
            has_own_cost: rule.own_cost,
            is_plain: !rule.shadow && !rule.concurrency && escalation.is_none(),
            escalation,
            holding: Arc::default(),
            field_name: FieldText::new(rule.name.to_string()),
        }
    }
}

impl ActiveQuota {
    fn new(
        compiled: &CompiledPolicy,
        rule_quota: &RuleQuota,
        limit_index: u32,
        former_limit: Option<u32>,
    ) -> ActiveQuota {
        let (name, quota) = (&rule_quota.scope, &rule_quota.quota);
        let share = compiled.rules()[rule_quota.rule as usize].fallback_share;
        let max_remaining = AdvertisedQuota::of(quota).limit;
        ActiveQuota {
            limit_index,
            former_limit,
            is_concurrency: quota.kind() == AlgorithmKind::Concurrency,
            lease_ns: quota.period_ns(),
            policy_item: policy_item(name, quota),
            share_item: policy_item(name, &quota.share(share)),
            state_item: FieldText::new(format!("\"{name}\";r=")),
            max_remaining,
            limit_text: FieldText::new(max_remaining.to_string()),
        }
    }
}

/// Names of rules are printable and have neither quotes nor backslashes.
fn policy_item(name: &str, quota: &Quota) -> String {
    let AdvertisedQuota { limit, refill_s } = AdvertisedQuota::of(quota);
    if quota.kind() == AlgorithmKind::Concurrency {
        format!("\"{name}\";q={limit};qu=\"concurrent-requests\"")
    } else {
        format!("\"{name}\";q={limit};w={refill_s}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_policy::model::{Consistency, RedisSettings};
    use tollgate_policy::{PolicyBuilder, rule};

    use super::*;

    #[test]
    fn limits_of_a_rule_and_of_its_overrides_have_its_lease() {
        let redis = RedisSettings {
            consistency: Consistency::Leased,
            lease_ns: 500_000_000,
            ..RedisSettings::at(vec!["localhost:6379".to_owned()])
        };
        let policy = PolicyBuilder::default()
            .rule(rule("leased").per("user").limit("100/s"))
            .rule(rule("exact").per("user").limit("100/s").consistency(Consistency::Exact))
            .with(|policy| policy.store = StoreSettings::Redis(redis))
            .build()
            .unwrap();
        let compiled = CompiledPolicy::new(&policy).unwrap();
        for (rule, lease) in [(0, Some(Duration::from_millis(500))), (1, None)] {
            let grant = compiled.read_grant(rule, "50/s, 1000/min").unwrap();
            let overrides = compiled.override_quotas(rule, &grant);
            assert_eq!(overrides.len(), 2);
            let own = compiled.quotas().iter().filter(|planned| planned.rule == rule);
            for planned in own.chain(&overrides) {
                assert_eq!(options(&compiled, planned).lease, lease, "{}", planned.scope);
            }
        }
    }
}
