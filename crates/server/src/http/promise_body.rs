use serde::Serialize;
use tollgate::Quota;
use tollgate::policy::model::{Consistency, FailureMode};
use tollgate::policy::promise::{
    AdmissionBound, Blocked, FallbackShare, GrantPromise, GrantedTo, LimitPromise, MostAdmitted, Promise, RegionBound,
    Unit, Warned, limit_words,
};

const MS_NS: u64 = 1_000_000;

/// The guarantees of a rule as JSON: an item of `GET /api/rules` and of `tollgate validate`.
#[derive(Debug, Serialize)]
pub struct PromiseBody {
    rule: String,
    when: Vec<String>,
    key: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<String>,
    unit: &'static str,
    deny: bool,
    shadow: bool,
    grants: Vec<PromiseGrantBody>,
    warned: Option<WarnedBody>,
    blocked: Option<BlockedBody>,
    on_failure: Option<&'static str>,
    consistency: Option<&'static str>,
    lease_ms: Option<u64>,
    epoch_ms: Option<u64>,
    in_each_region: bool,
}

#[derive(Debug, Serialize)]
struct PromiseGrantBody {
    whose: Vec<AppliesToBody>,
    unlimited: bool,
    limits: Vec<PromiseLimitBody>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum AppliesToBody {
    Everybody,
    Tier { name: String },
    Key { patterns: Vec<String> },
}

#[derive(Debug, Serialize)]
struct PromiseLimitBody {
    #[serde(flatten)]
    figures: QuotaBoundBody,
    longest_refusal_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    debt: Option<DebtBody>,
    refusal_cost: u64,
    never_above: Option<u64>,
    while_store_fails: Option<FallbackShareBody>,
    leased: Option<LeaseBody>,
    regional: Option<RegionalBody>,
}

#[derive(Debug, Serialize)]
struct RegionalBody {
    global_failover: u64,
    regions: Vec<RegionBody>,
}

#[derive(Debug, Serialize)]
struct RegionBody {
    region: String,
    burst: u64,
    share_thousandths: u32,
    with_loans_thousandths: u32,
    reserve_thousandths: u32,
    server_failover: Option<u64>,
    restart: Option<u64>,
    while_store_fails: Option<FallbackShareBody>,
}

#[derive(Debug, Serialize)]
struct LeaseBody {
    most: u64,
    expires_ms: u64,
}

#[derive(Debug, Serialize)]
struct FallbackShareBody {
    #[serde(flatten)]
    figures: QuotaBoundBody,
    longest_refusal_ms: Option<u64>,
    refusal_cost: u64,
}

#[derive(Debug, Serialize)]
struct DebtBody {
    most: u64,
    charged_in_period: u64,
    longest_refusal_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct QuotaBoundBody {
    limit: String,
    algorithm: String,
    period_ms: Option<u64>,
    most_in_period: Option<BoundBody>,
    most_in_second: Option<BoundBody>,
    queue: Option<QueueBody>,
    at_once: Option<ConcurrencyBody>,
}

#[derive(Debug, Serialize)]
struct BoundBody {
    charged: u64,
    warned: u64,
}

#[derive(Debug, Serialize)]
struct QueueBody {
    places: u64,
    longest_wait_ms: u64,
    unheld_in_period: BoundBody,
    unheld_in_second: BoundBody,
}

#[derive(Debug, Serialize)]
struct ConcurrencyBody {
    permits: u64,
    warned: u64,
    lease_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct WarnedBody {
    first: u64,
    within_ms: u64,
}

#[derive(Debug, Serialize)]
struct BlockedBody {
    after: u64,
    within_ms: u64,
    for_ms: u64,
}

impl From<&Promise> for PromiseBody {
    fn from(promise: &Promise) -> PromiseBody {
        PromiseBody {
            rule: promise.rule.clone(),
            when: promise.when.clone(),
            key: promise.key.clone(),
            budget: promise.budget.clone(),
            unit: match promise.unit {
                Unit::Requests => "requests",
                Unit::Cost => "cost",
            },
            deny: promise.deny,
            shadow: promise.shadow,
            grants: promise.grants.iter().map(PromiseGrantBody::from).collect(),
            warned: promise.warned.map(|Warned { first, within_ns }| WarnedBody { first, within_ms: ms(within_ns) }),
            blocked: promise.blocked.map(|Blocked { after, within_ns, for_ns }| BlockedBody {
                after,
                within_ms: ms(within_ns),
                for_ms: ms(for_ns),
            }),
            on_failure: promise.on_failure.map(on_failure),
            consistency: promise.consistency.map(consistency),
            lease_ms: promise.lease_ns.map(ms),
            epoch_ms: promise.epoch_ns.map(ms),
            in_each_region: promise.is_in_each_region,
        }
    }
}

impl From<&GrantPromise> for PromiseGrantBody {
    fn from(grant: &GrantPromise) -> PromiseGrantBody {
        PromiseGrantBody {
            whose: grant.whose.iter().map(AppliesToBody::from).collect(),
            unlimited: grant.is_unlimited(),
            limits: grant.limits.iter().map(PromiseLimitBody::from).collect(),
        }
    }
}

impl From<&GrantedTo> for AppliesToBody {
    fn from(whose: &GrantedTo) -> AppliesToBody {
        match whose {
            GrantedTo::Everybody => AppliesToBody::Everybody,
            GrantedTo::Tier(name) => AppliesToBody::Tier { name: name.clone() },
            GrantedTo::Keys(patterns) => AppliesToBody::Key { patterns: patterns.clone() },
        }
    }
}

impl From<&LimitPromise> for PromiseLimitBody {
    fn from(promise: &LimitPromise) -> PromiseLimitBody {
        PromiseLimitBody {
            figures: QuotaBoundBody::new(&promise.quota, &promise.bound),
            longest_refusal_ms: promise.longest_refusal_ns.map(ms),
            debt: promise.debt.map(|debt| DebtBody {
                most: debt.most,
                charged_in_period: debt.charged_in_period,
                longest_refusal_ms: debt.longest_refusal_ns.map(ms),
            }),
            refusal_cost: promise.refusal_cost,
            never_above: promise.never_above,
            while_store_fails: promise.share.as_ref().map(FallbackShareBody::from),
            leased: promise
                .lease
                .and_then(Result::ok)
                .map(|lease| LeaseBody { most: lease.most, expires_ms: ms(lease.expires_ns) }),
            regional: promise.regional.as_ref().map(|regional| RegionalBody {
                global_failover: regional.global_failover,
                regions: regional.regions.iter().map(RegionBody::from).collect(),
            }),
        }
    }
}

impl From<&FallbackShare> for FallbackShareBody {
    fn from(share: &FallbackShare) -> FallbackShareBody {
        FallbackShareBody {
            figures: QuotaBoundBody::new(&share.quota, &share.bound),
            longest_refusal_ms: share.longest_refusal_ns.map(ms),
            refusal_cost: share.refusal_cost,
        }
    }
}

impl From<&RegionBound> for RegionBody {
    fn from(region: &RegionBound) -> RegionBody {
        RegionBody {
            region: region.region.clone(),
            burst: region.burst,
            share_thousandths: region.share_thousandths,
            with_loans_thousandths: region.with_loans_thousandths,
            reserve_thousandths: region.reserve_thousandths,
            server_failover: region.server_failover,
            restart: region.restart,
            while_store_fails: region.fallback.as_ref().map(FallbackShareBody::from),
        }
    }
}

impl QuotaBoundBody {
    fn new(quota: &Quota, bound: &AdmissionBound) -> QuotaBoundBody {
        let mut figures = QuotaBoundBody {
            limit: limit_words(quota),
            algorithm: quota.kind().to_string(),
            period_ms: None,
            most_in_period: None,
            most_in_second: None,
            queue: None,
            at_once: None,
        };
        match *bound {
            AdmissionBound::Spans { in_period, in_second } => figures.set_spans(quota, in_period, in_second),
            AdmissionBound::Queue {
                in_period,
                in_second,
                unheld_in_period,
                unheld_in_second,
                places,
                longest_wait_ns,
            } => {
                figures.set_spans(quota, in_period, in_second);
                figures.queue = Some(QueueBody {
                    places,
                    longest_wait_ms: ms(longest_wait_ns),
                    unheld_in_period: unheld_in_period.into(),
                    unheld_in_second: unheld_in_second.into(),
                });
            }
            AdmissionBound::AtOnce { permits, warned, lease_ns } => {
                let warned = warned.map_or(0, |warned| warned.first);
                figures.at_once = Some(ConcurrencyBody { permits, warned, lease_ms: lease_ns.map(ms) });
            }
        }
        figures
    }

    fn set_spans(&mut self, quota: &Quota, in_period: MostAdmitted, in_second: MostAdmitted) {
        self.period_ms = Some(ms(quota.period_ns()));
        self.most_in_period = Some(in_period.into());
        self.most_in_second = Some(in_second.into());
    }
}

impl From<MostAdmitted> for BoundBody {
    fn from(MostAdmitted { charged, warned }: MostAdmitted) -> BoundBody {
        BoundBody { charged, warned }
    }
}

fn on_failure(on_failure: FailureMode) -> &'static str {
    match on_failure {
        FailureMode::Open => "open",
        FailureMode::Closed => "closed",
        FailureMode::Local => "local",
    }
}

fn consistency(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Exact => "exact",
        Consistency::Leased => "leased",
        Consistency::Regional => "regional",
    }
}

/// Rounds up.
fn ms(ns: u64) -> u64 {
    ns.div_ceil(MS_NS)
}
