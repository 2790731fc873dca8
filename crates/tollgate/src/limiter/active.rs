use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{AlgorithmKind, Quota, QuotaError, Rate};
use tollgate_policy::model::{self, OnLimit, StoreSettings};
use tollgate_policy::{CheckedPolicy, CompiledPolicy, CompiledRule, Matched, Problem, Request, RuleQuota};
use tollgate_store::{LimitOptions, Notice, OnFailure, Refusals, Store};

use super::LimiterError;
use super::overrides::OverrideTable;
use crate::facts::Facts;

/// The policy in force, made ready for one store.
pub(super) struct Active<L> {
    pub(super) facts: Arc<Facts>,
    /// For each quota of the plan, and behind them those set by hand, its limit.
    pub(super) limits: Vec<L>,
    /// For each of these the limit under which programs of the version before count it, where that is another. It is
    /// charged together with its own, so that both versions may run beside each other. Empty where no other program
    /// can have counted.
    pub(super) former: Vec<Option<L>>,
    /// For each rule of the plan, how it deals with violations.
    pub(super) graduated: Vec<Option<Graduated<L>>>,
    /// Whether any rule can block.
    pub(super) blocks: bool,
    /// The limits that were set by hand.
    pub(super) overrides: OverrideTable,
    /// The version of the store's board that they are from.
    pub(super) board_version: u64,
    /// What is legal in the policy and likely wrong.
    pub(super) warnings: Arc<[Problem]>,
}

/// How a rule deals with those who go on beyond its limit.
#[derive(Clone)]
pub(super) struct Graduated<L> {
    pub(super) warn_first: u64,
    /// Counts violations; what it refuses is too many of them.
    pub(super) violations: Option<L>,
    /// Says which violations are remembered, where it is not all of them.
    pub(super) pace: Option<L>,
    /// A bucket of one token that takes as long to come back as a block lasts: empty, it blocks.
    pub(super) block: Option<L>,
    pub(super) block_ns: u64,
}

impl<L: Clone> Active<L> {
    pub(super) fn prepare<S: Store<Limit = L>>(policy: &CheckedPolicy, store: &S) -> Result<Active<L>, LimiterError> {
        let plan = CompiledPolicy::new(policy).map_err(LimiterError::Compile)?;
        let limit = |scope: &str, quota: Quota, options: LimitOptions| {
            let limit = store.limit(scope, quota, options);
            limit.map_err(|error| LimiterError::Limit { scope: scope.to_owned(), error })
        };
        let limits: Vec<L> = plan
            .quotas()
            .iter()
            .map(|planned| limit(&planned.scope, planned.quota, options(&plan.rules()[planned.rule as usize], planned)))
            .collect::<Result<_, _>>()?;
        let graduated = plan
            .rules()
            .iter()
            .map(|rule| rule.on_limit.map(|on_limit| Graduated::prepare(&rule.name, &on_limit, &limit)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let blocks = graduated.iter().flatten().any(|graduated| graduated.block.is_some());
        let facts = Arc::new(Facts::new(Arc::new(plan), Vec::new()));
        let is_kept = match &policy.store {
            StoreSettings::Memory(memory) => memory.snapshot.is_some(),
            StoreSettings::Redis(_) => true,
        };
        let has_former = is_kept && facts.plan.quotas().iter().any(|planned| planned.former_scope.is_some());
        let former = |planned: &RuleQuota| {
            let rule = &facts.plan.rules()[planned.rule as usize];
            // What a store does not take was never counted there.
            store.limit(planned.former_scope.as_ref()?, planned.quota, options(rule, planned)).ok()
        };
        let former = if has_former { facts.plan.quotas().iter().map(former).collect() } else { Vec::new() };
        let overrides = OverrideTable::default();
        let warnings = policy.warnings().into();
        let active = Active { facts, limits, former, graduated, blocks, overrides, board_version: 0, warnings };
        Ok(active.with_board(store))
    }

    /// The same policy with the limits that stand on the store's board now.
    pub(super) fn with_board<S: Store<Limit = L>>(&self, store: &S) -> Active<L> {
        let (board_version, notices): (u64, Arc<[Notice]>) =
            store.board().map_or_else(|| (0, Arc::default()), tollgate_store::Board::read);
        let plan = &self.facts.plan;
        let mut limits = self.limits[..plan.quotas().len()].to_vec();
        let (overrides, quotas) = OverrideTable::read(plan, &notices, store.now_ns(), |planned| {
            // What the store does not take was told to whoever set it.
            self.prepare_override(planned, store).map(|limit| limits.push(limit)).is_ok()
        });
        let facts = Arc::new(Facts::new(Arc::clone(plan), quotas));
        facts.go_on_from(&self.facts);
        let mut former = self.former.clone();
        former.truncate(plan.quotas().len());
        let (graduated, warnings) = (self.graduated.clone(), Arc::clone(&self.warnings));
        Active { facts, limits, former, graduated, blocks: self.blocks, overrides, board_version, warnings }
    }

    pub(super) fn prepare_override<S: Store<Limit = L>>(
        &self,
        planned: &RuleQuota,
        store: &S,
    ) -> Result<L, Box<dyn std::error::Error + Send + Sync>> {
        let rule = &self.facts.plan.rules()[planned.rule as usize];
        store.limit(&planned.scope, planned.quota, options(rule, planned))
    }

    /// What a request meets.
    pub(super) fn match_request<'r>(&self, request: &Request<'r>, now_ns: u64) -> Matched<'r> {
        if self.overrides.is_empty() {
            return self.facts.plan.match_request(request);
        }
        self.facts.plan.match_request_with(request, |rule, key| self.overrides.find(rule, key, now_ns))
    }
}

impl<L> Graduated<L> {
    fn prepare(
        rule: &str,
        on_limit: &OnLimit,
        limit: &impl Fn(&str, Quota, LimitOptions) -> Result<L, LimiterError>,
    ) -> Result<Graduated<L>, LimiterError> {
        let prepare = |what: &str, quota: Result<Quota, QuotaError>, options: LimitOptions| {
            let scope = format!("{rule}/{what}");
            let quota = quota.map_err(|error| LimiterError::Limit { scope: scope.clone(), error: error.into() })?;
            limit(&scope, quota, options)
        };
        let (Remembered { most, pace }, first) = (Remembered::under(on_limit), on_limit.warn_first);
        let violations = (most > 0).then(|| prepare("violations", violations(most, on_limit.span_ns), VIOLATIONS));
        let pace = pace.map(|pace| prepare("violation-pace", paced(pace, first, on_limit.span_ns), VIOLATIONS));
        let block = on_limit.block.map(|block| prepare("block", one_in(block.duration_ns), BLOCK));
        Ok(Graduated {
            warn_first: on_limit.warn_first,
            violations: violations.transpose()?,
            pace: pace.transpose()?,
            block: block.transpose()?,
            block_ns: on_limit.block.map_or(0, |block| block.duration_ns),
        })
    }
}

/// A key that goes on is not warned again, so violations that are refused count too. Where none of them blocks, there is
/// no end to them, and one in this many parts of the time they count for is as good as all: see [`Remembered`].
const PARTS: u64 = 50;

/// Which violations of a key are remembered.
struct Remembered {
    /// So many within the span.
    most: u64,
    /// Where more than these may come: at most `first` at once, and so many in a span.
    pace: Option<u64>,
}

impl Remembered {
    /// Those that lead to a block, as many as that takes. Else a bucket says which: it holds `first`, so that one which
    /// is left out has `first` before it, all within a fiftieth of the span. What is warned by the rest is what would be
    /// warned by all, had they counted for up to a fiftieth less.
    fn under(on_limit: &OnLimit) -> Remembered {
        let first = on_limit.warn_first;
        match on_limit.block {
            Some(block) => Remembered { most: block.after.max(first), pace: None },
            None if first == 0 => Remembered { most: 0, pace: None },
            None => {
                // A log has an end, and so has a rate: one in a nanosecond.
                let pace = first.saturating_mul(PARTS).min(Quota::MAX_LOG.saturating_sub(first)).min(on_limit.span_ns);
                let most = first.saturating_add(pace).min(Quota::MAX_LOG).max(first);
                Remembered { most, pace: Some(pace.max(1)) }
            }
        }
    }
}

/// What could not be counted is nobody's violation.
const VIOLATIONS: LimitOptions = LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Counted };

/// A block that is not known of stands in nobody's way. One that is holds until its end.
const BLOCK: LimitOptions = LimitOptions { on_failure: OnFailure::Open, refusals: Refusals::Final };

fn options(rule: &CompiledRule, planned: &RuleQuota) -> LimitOptions {
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

/// Exact, because people are told after how many violations what happens.
fn violations(most: u64, span_ns: u64) -> Result<Quota, QuotaError> {
    Quota::sliding_window_log(Rate::new(most, Duration::from_nanos(span_ns))?)?.with_max_debt(0)
}

fn paced(count: u64, at_once: u64, span_ns: u64) -> Result<Quota, QuotaError> {
    Quota::token_bucket(Rate::new(count, Duration::from_nanos(span_ns))?.with_burst(at_once)?)
}

fn one_in(duration_ns: u64) -> Result<Quota, QuotaError> {
    // Nothing of it is ever settled, and a clock that goes back must not lengthen a block.
    Quota::token_bucket(Rate::new(1, Duration::from_nanos(duration_ns))?.with_burst(1)?)?.with_max_debt(0)
}
