//! The answer of `validate` as JSON.

use serde::Serialize;
use tollgate::Quota;
use tollgate::policy::model::OnFailure;
use tollgate::policy::promise::{
    Blocked, Bound, GrantPromise, LimitPromise, Most, Promise, Unit, Warned, Whose, limit_words, promises,
};
use tollgate::policy::{Diagnostic, Loaded, Report};

const MS_NS: u64 = 1_000_000;

#[derive(Serialize)]
pub(super) struct Body {
    file: String,
    valid: bool,
    errors: Vec<Message>,
    /// How many more errors there are than are told.
    omitted: usize,
    warnings: Vec<Message>,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Message {
    code: &'static str,
    file: String,
    line: usize,
    column: usize,
    width: usize,
    message: String,
    hint: Option<String>,
    source_line: String,
}

#[derive(Serialize)]
struct Rule {
    rule: String,
    key: Vec<String>,
    unit: &'static str,
    shadow: bool,
    grants: Vec<Grant>,
    warned: Option<WarnedBody>,
    blocked: Option<BlockedBody>,
    on_failure: Option<&'static str>,
}

#[derive(Serialize)]
struct Grant {
    whose: Vec<WhoseBody>,
    unlimited: bool,
    limits: Vec<Limit>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum WhoseBody {
    Everybody,
    Tier { name: String },
    Key { patterns: Vec<String> },
}

#[derive(Serialize)]
struct Limit {
    #[serde(flatten)]
    figures: Figures,
    longest_refusal_ms: Option<u64>,
    while_store_fails: Option<Figures>,
}

#[derive(Serialize)]
struct Figures {
    limit: String,
    algorithm: String,
    period_ms: Option<u64>,
    most_in_period: Option<MostBody>,
    most_in_second: Option<MostBody>,
    queue: Option<QueueBody>,
    at_once: Option<AtOnceBody>,
}

#[derive(Serialize)]
struct MostBody {
    charged: u64,
    warned: u64,
}

#[derive(Serialize)]
struct QueueBody {
    places: u64,
    longest_wait_ms: u64,
}

#[derive(Serialize)]
struct AtOnceBody {
    permits: u64,
    lease_ms: Option<u64>,
}

#[derive(Serialize)]
struct WarnedBody {
    first: u64,
    within_ms: u64,
}

#[derive(Serialize)]
struct BlockedBody {
    after: u64,
    within_ms: u64,
    for_ms: u64,
}

pub(super) fn valid(file: String, loaded: &Loaded) -> Body {
    Body {
        file,
        valid: true,
        errors: Vec::new(),
        omitted: 0,
        warnings: loaded.warnings.iter().map(Message::from).collect(),
        rules: promises(&loaded.policy).iter().map(Rule::from).collect(),
    }
}

pub(super) fn invalid(file: String, report: &Report) -> Body {
    Body {
        file,
        valid: false,
        errors: report.errors.iter().map(Message::from).collect(),
        omitted: report.omitted,
        warnings: report.warnings.iter().map(Message::from).collect(),
        rules: Vec::new(),
    }
}

impl From<&Diagnostic> for Message {
    fn from(diagnostic: &Diagnostic) -> Message {
        Message {
            code: diagnostic.code,
            file: diagnostic.file.clone(),
            line: diagnostic.line,
            column: diagnostic.column,
            width: diagnostic.width,
            message: diagnostic.message.clone(),
            hint: diagnostic.hint.clone(),
            source_line: diagnostic.source_line.clone(),
        }
    }
}

impl From<&Promise> for Rule {
    fn from(promise: &Promise) -> Rule {
        Rule {
            rule: promise.rule.clone(),
            key: promise.key.clone(),
            unit: match promise.unit {
                Unit::Requests => "requests",
                Unit::Cost => "cost",
            },
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
            while_store_fails: promise.share.as_ref().map(|share| Figures::new(&share.quota, &share.bound)),
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
            Bound::Queue { in_period, in_second, places, longest_wait_ns } => {
                figures.set_spans(quota, in_period, in_second);
                figures.queue = Some(QueueBody { places, longest_wait_ms: ms(longest_wait_ns) });
            }
            Bound::AtOnce { permits, lease_ns } => {
                figures.at_once = Some(AtOnceBody { permits, lease_ms: lease_ns.map(ms) });
            }
        }
        figures
    }

    fn set_spans(&mut self, quota: &Quota, in_period: Most, in_second: Most) {
        let most = |most: Most| Some(MostBody { charged: most.charged, warned: most.warned });
        self.period_ms = Some(ms(quota.period_ns()));
        self.most_in_period = most(in_period);
        self.most_in_second = most(in_second);
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
