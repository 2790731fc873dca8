use serde::Serialize;
use tollgate::Quota;
use tollgate::policy::model::OnFailure;
use tollgate::policy::promise::{
    Blocked, Bound, GrantPromise, LimitPromise, Most, Promise, Unit, Warned, Whose, limit_words,
};

const MS_NS: u64 = 1_000_000;

/// What a rule promises as JSON: an item of `GET /api/rules`, and of what `tollgate validate` prints.
#[derive(Debug, Serialize)]
pub struct PromiseBody {
    rule: String,
    when: Vec<String>,
    key: Vec<String>,
    unit: &'static str,
    deny: bool,
    shadow: bool,
    grants: Vec<Grant>,
    warned: Option<WarnedBody>,
    blocked: Option<BlockedBody>,
    on_failure: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Grant {
    whose: Vec<WhoseBody>,
    unlimited: bool,
    limits: Vec<Limit>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum WhoseBody {
    Everybody,
    Tier { name: String },
    Key { patterns: Vec<String> },
}

#[derive(Debug, Serialize)]
struct Limit {
    #[serde(flatten)]
    figures: Figures,
    longest_refusal_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    debt: Option<DebtBody>,
    refusal_cost: u64,
    never_above: Option<u64>,
    while_store_fails: Option<ShareBody>,
}

#[derive(Debug, Serialize)]
struct ShareBody {
    #[serde(flatten)]
    figures: Figures,
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
struct Figures {
    limit: String,
    algorithm: String,
    period_ms: Option<u64>,
    most_in_period: Option<MostBody>,
    most_in_second: Option<MostBody>,
    queue: Option<QueueBody>,
    at_once: Option<AtOnceBody>,
}

#[derive(Debug, Serialize)]
struct MostBody {
    charged: u64,
    warned: u64,
}

#[derive(Debug, Serialize)]
struct QueueBody {
    places: u64,
    longest_wait_ms: u64,
    unheld_in_period: MostBody,
    unheld_in_second: MostBody,
}

#[derive(Debug, Serialize)]
struct AtOnceBody {
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
            unit: match promise.unit {
                Unit::Requests => "requests",
                Unit::Cost => "cost",
            },
            deny: promise.deny,
            shadow: promise.shadow,
            grants: promise.grants.iter().map(Grant::from).collect(),
            warned: promise.warned.map(|Warned { first, within_ns }| WarnedBody { first, within_ms: ms(within_ns) }),
            blocked: promise.blocked.map(|Blocked { after, within_ns, for_ns }| BlockedBody {
                after,
                within_ms: ms(within_ns),
                for_ms: ms(for_ns),
            }),
            on_failure: promise.on_failure.map(on_failure),
        }
    }
}

impl From<&GrantPromise> for Grant {
    fn from(grant: &GrantPromise) -> Grant {
        Grant {
            whose: grant.whose.iter().map(WhoseBody::from).collect(),
            unlimited: grant.is_unlimited(),
            limits: grant.limits.iter().map(Limit::from).collect(),
        }
    }
}

impl From<&Whose> for WhoseBody {
    fn from(whose: &Whose) -> WhoseBody {
        match whose {
            Whose::Everybody => WhoseBody::Everybody,
            Whose::Tier(name) => WhoseBody::Tier { name: name.clone() },
            Whose::Keys(patterns) => WhoseBody::Key { patterns: patterns.clone() },
        }
    }
}

impl From<&LimitPromise> for Limit {
    fn from(promise: &LimitPromise) -> Limit {
        Limit {
            figures: Figures::new(&promise.quota, &promise.bound),
            longest_refusal_ms: promise.longest_refusal_ns.map(ms),
            debt: promise.debt.map(|debt| DebtBody {
                most: debt.most,
                charged_in_period: debt.charged_in_period,
                longest_refusal_ms: debt.longest_refusal_ns.map(ms),
            }),
            refusal_cost: promise.refusal_cost,
            never_above: promise.never_above,
            while_store_fails: promise.share.as_ref().map(|share| ShareBody {
                figures: Figures::new(&share.quota, &share.bound),
                longest_refusal_ms: share.longest_refusal_ns.map(ms),
                refusal_cost: share.refusal_cost,
            }),
        }
    }
}

impl Figures {
    fn new(quota: &Quota, bound: &Bound) -> Figures {
        let mut figures = Figures {
            limit: limit_words(quota),
            algorithm: quota.kind().to_string(),
            period_ms: None,
            most_in_period: None,
            most_in_second: None,
            queue: None,
            at_once: None,
        };
        match *bound {
            Bound::Spans { in_period, in_second } => figures.set_spans(quota, in_period, in_second),
            Bound::Queue { in_period, in_second, unheld_in_period, unheld_in_second, places, longest_wait_ns } => {
                figures.set_spans(quota, in_period, in_second);
                figures.queue = Some(QueueBody {
                    places,
                    longest_wait_ms: ms(longest_wait_ns),
                    unheld_in_period: unheld_in_period.into(),
                    unheld_in_second: unheld_in_second.into(),
                });
            }
            Bound::AtOnce { permits, warned, lease_ns } => {
                let warned = warned.map_or(0, |warned| warned.first);
                figures.at_once = Some(AtOnceBody { permits, warned, lease_ms: lease_ns.map(ms) });
            }
        }
        figures
    }

    fn set_spans(&mut self, quota: &Quota, in_period: Most, in_second: Most) {
        self.period_ms = Some(ms(quota.period_ns()));
        self.most_in_period = Some(in_period.into());
        self.most_in_second = Some(in_second.into());
    }
}

impl From<Most> for MostBody {
    fn from(Most { charged, warned }: Most) -> MostBody {
        MostBody { charged, warned }
    }
}

fn on_failure(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Open => "open",
        OnFailure::Closed => "closed",
        OnFailure::Local => "local",
    }
}

/// Rounded up, as everywhere.
fn ms(ns: u64) -> u64 {
    ns.div_ceil(MS_NS)
}
