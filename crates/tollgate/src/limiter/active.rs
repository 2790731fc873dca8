//! The policy in force, compiled for one store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{AlgorithmKind, Quota};
use tollgate_policy::model::{self, StoreSettings};
use tollgate_policy::{
    Access, AdvertisedQuota, CheckedPolicy, CommonCharge, CommonKey, CompiledPolicy, CompiledRule, Matched, Problem,
    Request, RuleQuota,
};
use tollgate_store::{
    Charge, KeyHash, Limit, LimitOptions, MemoryStore, OnFailure, Refusals, SharedOverrides, ShortText, StoredOverride,
};

use super::LimiterError;
use super::backend::Backend;
use super::decision::escalation::Escalation;
use super::keys::overrides::ActiveOverrides;
use crate::fields::{FieldText, PolicyLists};
use crate::holding::HoldingTime;

/// Everything that a decision needs to know: the compiled policy, the limits of its rules in the store, and what clients
/// are told of them. Verdicts share it.
pub(crate) struct ActivePolicy {
    /// Another one for every policy that was ever in force in this process, also where only overrides differ.
    number: u64,
    /// Which of its slots a thread keeps references to it in.
    slot: usize,
    pub(crate) compiled: Arc<CompiledPolicy>,
    pub(crate) rules: Vec<ActiveRule>,
    /// Those of the compiled policy, and behind them those of overrides.
    pub(crate) quotas: Vec<ActiveQuota>,
    override_quotas: Vec<RuleQuota>,
    limits: Vec<Limit>,
    /// How many of the limits are the policy's own.
    own_limits: usize,
    /// Whether every rule is [plain](ActiveRule::is_plain).
    pub(super) is_plain: bool,
    /// Whether, besides, no key has an override.
    pub(super) is_common: bool,
    /// Whether any rule can block.
    pub(super) blocks: bool,
    pub(super) overrides: ActiveOverrides,
    /// The version of the store's overrides that they are from.
    pub(super) overrides_version: u64,
    /// What is legal in the policy and likely wrong.
    pub(super) warnings: Arc<[Problem]>,
    /// Whether charges may have to be given back or settled: permits, places in a queue, estimates.
    #[cfg_attr(not(feature = "tower"), allow(dead_code))]
    pub(crate) needs_receipts: bool,
    pub(crate) policy_lists: PolicyLists,
}

/// What a decision needs of a rule.
#[derive(Clone, Debug)]
pub(crate) struct ActiveRule {
    pub(crate) shadow: bool,
    pub(crate) publish: bool,
    pub(crate) variable_cost: bool,
    pub(crate) own_cost: bool,
    /// It is enforced, holds no permits, escalates nothing and is counted in one place: its charges are made as they
    /// were matched, and a refusal is only a refusal.
    pub(super) is_plain: bool,
    pub(super) escalation: Option<Escalation>,
    /// How long its permits are held.
    pub(crate) holding: Arc<HoldingTime>,
    /// Its name, as a field may say it.
    pub(crate) field_name: FieldText,
}

/// What a decision needs of a quota, and what clients are told of it.
#[derive(Debug)]
pub(crate) struct ActiveQuota {
    /// The position of its limit among those of the policy.
    pub(super) limit_at: u32,
    /// The limit under which programs of the version before count it, where that is another. It is charged together
    /// with its own, so that both versions may run beside each other.
    pub(super) former_limit_at: Option<u32>,
    pub(crate) is_concurrency: bool,
    pub(crate) lease_ns: u64,
    /// Its item of `RateLimit-Policy`.
    pub(crate) policy_item: String,
    /// The same for the share that an instance grants alone while the store fails.
    pub(crate) share_item: String,
    /// Its item of `RateLimit` up to the number that remains.
    pub(crate) state_item: FieldText,
    /// The largest that can remain.
    pub(crate) limit: u64,
    /// The same as `X-RateLimit-Limit` tells it.
    pub(crate) limit_text: FieldText,
}

impl ActivePolicy {
    /// Compiles a policy for a store. `slot` is the limiter's.
    pub(super) fn prepare(
        policy: &CheckedPolicy,
        backend: &Backend,
        slot: usize,
    ) -> Result<ActivePolicy, LimiterError> {
        let compiled = CompiledPolicy::new(policy).map_err(LimiterError::Compile)?;
        let mut limits = Vec::new();
        let mut prepare = |scope: &str, quota: Quota, options: LimitOptions| {
            let limit = backend.store().limit(scope, quota, options);
            let limit = limit.map_err(|error| LimiterError::Limit { scope: scope.to_owned(), error })?;
            Ok(push(&mut limits, limit))
        };
        for planned in compiled.quotas() {
            prepare(&planned.scope, planned.quota, options(&compiled, planned))?;
        }
        let mut rules = Vec::with_capacity(compiled.rules().len());
        for rule in compiled.rules() {
            let escalation = rule.on_limit.as_ref();
            let escalation = escalation.map(|on_limit| Escalation::prepare(&rule.name, on_limit, &mut prepare));
            rules.push(ActiveRule::new(rule, escalation.transpose()?));
        }
        let former = former_limits(policy, &compiled, backend, &mut limits);
        for (planned, former) in compiled.quotas().iter().zip(&former) {
            rules[planned.rule as usize].is_plain &= former.is_none();
        }
        let own_limits = limits.len();
        let active = ActivePolicy {
            number: next_number(),
            slot,
            quotas: (0..)
                .zip(compiled.quotas())
                .zip(former)
                .map(|((at, planned), former)| ActiveQuota::new(&compiled, planned, at, former))
                .collect(),
            is_plain: rules.iter().all(|rule| rule.is_plain),
            is_common: false,
            blocks: rules.iter().filter_map(|rule| rule.escalation.as_ref()).any(|step| step.block.is_some()),
            needs_receipts: needs_receipts(&compiled, &[]),
            compiled: Arc::new(compiled),
            rules,
            override_quotas: Vec::new(),
            limits,
            own_limits,
            overrides: ActiveOverrides::default(),
            overrides_version: 0,
            warnings: policy.warnings().into(),
            policy_lists: PolicyLists::new(),
        };
        Ok(active.with_overrides(backend))
    }

    /// The same policy with the overrides that the store knows now.
    pub(super) fn with_overrides(&self, backend: &Backend) -> ActivePolicy {
        let (overrides_version, stored): (u64, Arc<[StoredOverride]>) =
            backend.overrides().map_or_else(|| (0, Arc::default()), SharedOverrides::read);
        let compiled = &self.compiled;
        let mut limits = self.limits.clone();
        limits.truncate(self.own_limits);
        let (overrides, override_quotas) = ActiveOverrides::read(compiled, &stored, backend.now_ns(), |planned| {
            // A limit that the store does not take was reported to the operator who set it.
            self.override_limit(planned, backend).map(|limit| push(&mut limits, limit)).is_ok()
        });
        let own = self.quotas.iter().take(compiled.quotas().len());
        let own = compiled.quotas().iter().zip(own);
        let own = own.map(|(planned, own)| ActiveQuota::new(compiled, planned, own.limit_at, own.former_limit_at));
        let first = u32::try_from(self.own_limits).unwrap_or(u32::MAX);
        let of_overrides = (first..).zip(&override_quotas);
        let of_overrides = of_overrides.map(|(at, planned)| ActiveQuota::new(compiled, planned, at, None));
        ActivePolicy {
            number: next_number(),
            slot: self.slot,
            compiled: Arc::clone(compiled),
            rules: self.rules.clone(),
            quotas: own.chain(of_overrides).collect(),
            needs_receipts: needs_receipts(compiled, &override_quotas),
            override_quotas,
            limits,
            own_limits: self.own_limits,
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
        planned: &RuleQuota,
        backend: &Backend,
    ) -> Result<Limit, Box<dyn std::error::Error + Send + Sync>> {
        backend.store().limit(&planned.scope, planned.quota, options(&self.compiled, planned))
    }

    /// A charge under a quota, in a store in this process.
    #[inline(always)]
    pub(super) fn charge<'a>(&'a self, store: &MemoryStore, quota: u32, key: &[u8], cost: u64) -> Charge<'a, KeyHash> {
        store.charge(self.limit(self.quotas[quota as usize].limit_at), key, cost)
    }

    /// The same for a charge of a common request. Its quota is the policy's own, whose limits come first.
    #[inline(always)]
    pub(super) fn common_charge<'a>(&'a self, store: &MemoryStore, charge: &CommonCharge<'_>) -> Charge<'a, KeyHash> {
        debug_assert_eq!(self.quotas[charge.quota as usize].limit_at, charge.quota);
        let limit = self.limit(charge.quota);
        match charge.key {
            CommonKey::Text(text) => store.charge_own(limit, text, charge.cost),
            CommonKey::Address(text, length) => {
                store.charge_own(limit, &ShortText::from_parts(text, length), charge.cost)
            }
        }
    }

    /// Which rules apply to a request, each with its key, quota and cost: into `matched`, which is new.
    #[inline]
    pub(super) fn match_into<'r>(&self, request: &Request<'r>, now_ns: u64, matched: &mut Matched<'r>) {
        if self.overrides.is_empty() {
            return self.compiled.match_into(request, |_, _| None, matched);
        }
        self.compiled.match_into(request, |rule, key| self.overrides.find(rule, key, now_ns), matched);
    }

    /// The same by value.
    pub(crate) fn match_request<'r>(&self, request: &Request<'r>, now_ns: u64) -> Matched<'r> {
        let mut matched = Matched::new(Access::Rules);
        self.match_into(request, now_ns, &mut matched);
        matched
    }

    /// Goes on measuring holding times from another policy: a rule of the same name is the same rule.
    pub(super) fn continue_from(&self, other: &ActivePolicy) {
        let rules = other.compiled.rules().iter().zip(&other.rules);
        let before: HashMap<_, &ActiveRule> = rules.map(|(rule, active)| (&*rule.name, active)).collect();
        for (rule, active) in self.compiled.rules().iter().zip(&self.rules) {
            if let Some(before) = before.get(&*rule.name) {
                active.holding.continue_from(&before.holding);
            }
        }
    }

    /// The limit at a position.
    #[inline]
    pub(super) fn limit(&self, at: u32) -> &Limit {
        &self.limits[at as usize]
    }

    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    #[inline]
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// The name of a rule.
    pub(crate) fn rule_name(&self, rule: u32) -> &str {
        &self.compiled.rules()[rule as usize].name
    }

    /// The quota at a position, if there is one.
    pub(super) fn try_quota(&self, at: u32) -> Option<&RuleQuota> {
        let (at, own) = (at as usize, self.compiled.quotas());
        own.get(at).or_else(|| self.override_quotas.get(at - own.len()))
    }

    /// The quota of a charge.
    pub(crate) fn quota(&self, at: u32) -> &RuleQuota {
        self.try_quota(at).unwrap_or_else(|| unreachable!("charges are of quotas that are in force"))
    }
}

/// Adds a limit, and returns its position.
fn push(limits: &mut Vec<Limit>, limit: Limit) -> u32 {
    limits.push(limit);
    u32::try_from(limits.len() - 1).unwrap_or(u32::MAX)
}

/// 0 is no policy's.
fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// For each quota the position of the limit under which the version before counts it, if that is another.
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
    let former = |planned: &RuleQuota| {
        let scope = planned.former_scope.as_ref().filter(|_| is_kept)?;
        // A quota that the store does not take was never counted there.
        let limit = backend.store().limit(scope, planned.quota, options(compiled, planned)).ok()?;
        Some(push(limits, limit))
    };
    compiled.quotas().iter().map(former).collect()
}

fn needs_receipts(compiled: &CompiledPolicy, override_quotas: &[RuleQuota]) -> bool {
    let held =
        |planned: &RuleQuota| matches!(planned.quota.kind(), AlgorithmKind::Concurrency | AlgorithmKind::LeakyQueue);
    compiled.quotas().iter().chain(override_quotas).any(held)
        || compiled.rules().iter().any(|rule| rule.variable_cost || rule.settled_by.is_some())
}

/// What the store may do with a limit of a rule.
fn options(compiled: &CompiledPolicy, planned: &RuleQuota) -> LimitOptions {
    let rule = &compiled.rules()[planned.rule as usize];
    let refusals = match rule.on_limit {
        _ if planned.quota.kind() == AlgorithmKind::Concurrency => Refusals::Counted,
        // A shadow rule has no guard.
        Some(on_limit) if on_limit.block.is_some() && !rule.shadow => Refusals::Guarded,
        Some(_) => Refusals::Counted,
        None => Refusals::Brief,
    };
    LimitOptions {
        on_failure: match rule.on_failure {
            model::OnFailure::Open => OnFailure::Open,
            model::OnFailure::Closed => OnFailure::Closed,
            model::OnFailure::Local => OnFailure::Local { share: rule.fallback_share },
        },
        refusals,
    }
}

impl ActiveRule {
    fn new(rule: &CompiledRule, escalation: Option<Escalation>) -> ActiveRule {
        ActiveRule {
            shadow: rule.shadow,
            publish: rule.publish && !rule.shadow,
            variable_cost: rule.variable_cost,
            own_cost: rule.own_cost,
            is_plain: !rule.shadow && !rule.concurrency && escalation.is_none(),
            escalation,
            holding: Arc::default(),
            field_name: FieldText::new(rule.name.to_string()),
        }
    }
}

impl ActiveQuota {
    fn new(compiled: &CompiledPolicy, planned: &RuleQuota, limit_at: u32, former_limit_at: Option<u32>) -> ActiveQuota {
        let (name, quota) = (&planned.scope, &planned.quota);
        let share = compiled.rules()[planned.rule as usize].fallback_share;
        let limit = AdvertisedQuota::of(quota).limit;
        ActiveQuota {
            limit_at,
            former_limit_at,
            is_concurrency: quota.kind() == AlgorithmKind::Concurrency,
            lease_ns: quota.period_ns(),
            policy_item: policy_item(name, quota),
            share_item: policy_item(name, &quota.share(share)),
            state_item: FieldText::new(format!("\"{name}\";r=")),
            limit,
            limit_text: FieldText::new(limit.to_string()),
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
