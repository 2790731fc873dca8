//! One rule, and how much it grants.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, MAX_AMOUNT, ParseRateError, Queue, Quota, QuotaError, Rate};

use super::Reader;
use super::cost::COST;
use super::members::Members;
use super::on_limit::STEP;
use super::settings::ON_FAILURE;
use super::when::WHEN;
use crate::check::codes;
use crate::check::members::{self, ALGORITHMS, GRANTS};
use crate::model::{Allowance, DEFAULT_LEASE, Grant, Override, Rule, TextPattern, quota_of};
use crate::yaml::schema::{Field, Kind, Shape, defaulted, field, names, required, shape};
use crate::yaml::tree::{Node, Value};

/// The most that fits anywhere: 10^12.
pub(super) const AMOUNT: Kind = Kind::Number { min: 1, max: MAX_AMOUNT };
const UNLIMITED: Kind = Kind::Words(&["unlimited"]);

/// How much is granted: `100/s`, several at once, or `unlimited`.
const GRANT: Kind = Kind::AnyOf(&[UNLIMITED, Kind::Rate, Kind::List(&Kind::Rate, 1)]);
/// The same for a rule of concurrency.
const GRANT_OR_PERMITS: Kind = Kind::AnyOf(&[UNLIMITED, Kind::Rate, Kind::List(&Kind::Rate, 1), AMOUNT]);

pub(super) static RULE: Shape = Shape {
    one_of: GRANTS,
    ..shape(
        "rule",
        "One limit: for these requests, counted by this key, so much; or requests that are denied.",
        RULE_FIELDS,
    )
};

const RULE_FIELDS: &[Field] = &[
    required(
        "name",
        Kind::Pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        "Its name in answers, metrics and logs; no two rules share one.",
    ),
    field("when", Kind::Object(&WHEN), "Which requests it is for; all of them where it is absent."),
    field(
        "key",
        Kind::OneOrMore(&Kind::Text),
        "The identities by which it counts; one counter for everybody where it is absent.",
    ),
    field("limit", GRANT, "How much is granted: a rate, several that hold at once, or `unlimited`."),
    field("tiers", Kind::Map(&GRANT), "How much is granted to each tier."),
    field("concurrency", Kind::AnyOf(&CONCURRENCY), "How many requests may be under way at once; also by tier."),
    field("unlimited", Kind::True, "No limit: the rule only counts, unless it has `overrides`."),
    field("deny", Kind::True, "The requests that it is for are denied (403); nothing is counted, and there is no key."),
    defaulted("algorithm", Kind::Words(&names(&ALGORITHMS)), "How the limit is counted.", r#""token-bucket""#),
    field("queue", Kind::Object(&QUEUE), "Lets requests wait for their turn; only with leaky-bucket."),
    field(
        "max_debt",
        Kind::Number { min: 0, max: MAX_AMOUNT },
        "How much a key may owe when costs are settled above their estimate; as much as its limit holds where it is absent.",
    ),
    field("cost", Kind::AnyOf(&COST), "What a request costs; what the caller says, else 1, where it is absent."),
    field(
        "on_limit",
        Kind::List(&STEP, 1),
        "What happens beyond the limit, step by step; a plain refusal where it is absent.",
    ),
    defaulted("shadow", Kind::Bool, "Counted and reported, never refusing.", "false"),
    defaulted("publish", Kind::Bool, "Whether clients are told of it.", "true"),
    field("overrides", Kind::AnyOf(&OVERRIDES), "Other grants for some keys."),
    field(
        "on_failure",
        Kind::Words(&names(&ON_FAILURE)),
        "What happens when the store fails; what the store says where it is absent.",
    ),
    field("replaces", Kind::OneOrMore(&Kind::Text), "The names of rules that do not apply where this one does."),
];

static CONCURRENCY: [Kind; 3] = [AMOUNT, Kind::Object(&PERMITS), Kind::Map(&Kind::AnyOf(&[AMOUNT, UNLIMITED]))];
static OVERRIDES: [Kind; 2] = [Kind::Map(&GRANT_OR_PERMITS), Kind::List(&ONE_OVERRIDE, 1)];
static ONE_OVERRIDE: Kind = Kind::Object(&OVERRIDE);

pub(super) static QUEUE: Shape = shape(
    "queue",
    "How a leaky bucket lets requests wait.",
    &[
        required(
            "size",
            Kind::Number { min: 1, max: MAX_AMOUNT - 1 },
            "How many requests it holds: those that wait, and the one that departed last.",
        ),
        field("max_wait", Kind::Duration, "The longest that one may wait."),
    ],
);

pub(super) static PERMITS: Shape = shape(
    "permits",
    "How many requests may be under way at once.",
    &[
        required("permits", AMOUNT, "So many."),
        defaulted("lease", Kind::Duration, "Whoever does not let go within this time is taken for dead.", r#""1min""#),
    ],
);

pub(super) static OVERRIDE: Shape = shape(
    "override",
    "Another grant for the keys that are meant.",
    &[
        required(
            "key",
            Kind::OneOrMore(&Kind::Text),
            "One pattern for each part of the rule's key; `*` stands for anything.",
        ),
        required("limit", GRANT_OR_PERMITS, "What they get instead; for a rule of concurrency, how many at once."),
    ],
);

/// How a rule counts, which tells what its figures mean.
#[derive(Clone, Copy)]
enum Counting {
    Rates { algorithm: AlgorithmKind, queue: Option<Queue>, max_debt: Option<u64> },
    Permits { lease: Duration },
}

impl Reader<'_> {
    pub(super) fn rules(&mut self, top: &Members<'_>) -> Vec<Rule> {
        let Some(node) = top.get("rules") else { return Vec::new() };
        let items = self.items(node, "a list of rules, each beginning with `- name: ..`").unwrap_or_default();
        items.iter().enumerate().map(|(at, item)| self.rule(item, at)).collect()
    }

    fn rule(&mut self, node: &Node, at: usize) -> Rule {
        // The place of a rule in the model is its place in the file.
        let Some(members) = self.members(node, &RULE) else { return Rule::new(&unreadable_name(at)) };
        let counting = self.counting(&members);
        let allowance = self.allowance(&members, counting);
        let name = members.get("name").and_then(|node| self.text(node, "the name of a rule"));
        Rule {
            name: name.unwrap_or_else(|| unreadable_name(at)),
            when: self.when(members.get("when")),
            key: members.get("key").map_or_else(Vec::new, |node| self.texts(node, "the name of an identity")),
            cost: members.get("cost").and_then(|node| self.cost(node)).unwrap_or_default(),
            on_limit: self.on_limit(&members, allowance.as_ref()),
            shadow: members.get("shadow").and_then(|node| self.bool(node)).unwrap_or(false),
            publish: members.get("publish").and_then(|node| self.bool(node)).unwrap_or(true),
            overrides: members.get("overrides").map_or_else(Vec::new, |node| self.overrides(node, counting)),
            replaces: members.get("replaces").map_or_else(Vec::new, |node| self.texts(node, "the name of a rule")),
            on_failure: members.get("on_failure").and_then(|node| self.word(node, &ON_FAILURE)),
            allowance: allowance.unwrap_or(Allowance::Same(Grant::Unlimited)),
        }
    }

    fn counting(&mut self, members: &Members<'_>) -> Counting {
        let algorithm = members.get("algorithm").and_then(|node| self.word(node, &ALGORITHMS));
        let queue = members.get("queue").and_then(|node| self.queue(node));
        let has = |name: &str| members.get(name).is_some();
        let max_debt = members.get("max_debt").filter(|_| !has("deny"));
        let max_debt = max_debt.and_then(|node| self.number(node, 0..=MAX_AMOUNT));
        // Where there are both, it was told, and the limit is read as the limit that it is.
        let is_concurrency = has("concurrency") && !has("limit") && !has("tiers");
        let grant = match (has("deny"), is_concurrency) {
            (true, _) => "deny",
            (false, true) => "concurrency",
            (false, false) => "limit",
        };
        // An algorithm that could not be read may have been the right one.
        let known = algorithm.or((!has("algorithm")).then_some(AlgorithmKind::TokenBucket));
        for (name, (message, hint)) in members::misplaced(grant, known, has) {
            self.misplaced(members.name_span(name), &message, &hint);
        }
        let algorithm = algorithm.unwrap_or(AlgorithmKind::TokenBucket);
        match (grant, members.get("concurrency")) {
            ("deny", _) => Counting::Rates { algorithm: AlgorithmKind::TokenBucket, queue: None, max_debt: None },
            ("concurrency", Some(node)) => Counting::Permits { lease: self.lease(node) },
            _ => Counting::Rates { algorithm, queue, max_debt },
        }
    }

    fn queue(&mut self, node: &Node) -> Option<Queue> {
        let members = self.members(node, &QUEUE)?;
        let max_wait = members.get("max_wait").and_then(|node| self.duration(node)).map(Duration::from_nanos);
        let size = members.get("size").and_then(|node| self.number(node, 1..=MAX_AMOUNT - 1));
        Some(Queue { size: size?, max_wait })
    }

    /// The lease of `concurrency: { permits: 3, lease: 1min }`.
    fn lease(&mut self, node: &Node) -> Duration {
        let lease = node.member("permits").and(node.member("lease"));
        lease.and_then(|lease| self.duration(&lease.value)).map_or(DEFAULT_LEASE, Duration::from_nanos)
    }

    fn allowance(&mut self, members: &Members<'_>, counting: Counting) -> Option<Allowance> {
        if let Some(node) = members.get("deny") {
            self.only_true(node);
            return Some(Allowance::Deny);
        }
        if let Some(node) = members.get("limit") {
            return self.grant(node, counting).map(Allowance::Same);
        }
        if let Some(node) = members.get("tiers") {
            return self.tiers(node, counting);
        }
        if let Some(node) = members.get("concurrency") {
            return self.concurrency(node, counting);
        }
        self.only_true(members.get("unlimited")?);
        Some(Allowance::Same(Grant::Unlimited))
    }

    fn tiers(&mut self, node: &Node, counting: Counting) -> Option<Allowance> {
        if !node.is_map() {
            self.wrong_type(node, "a map of tiers and rates, such as { free: 60/min, pro: 600/min }");
            return None;
        }
        // A tier whose rate cannot be read still exists.
        let tiers = self.each_member(node, "", |reader, tier, grant| {
            Some((tier.to_owned(), reader.grant(grant, counting).unwrap_or(Grant::Unlimited)))
        });
        (!tiers.is_empty()).then_some(Allowance::Tiers(tiers))
    }

    /// `3`, `{ permits: 3, lease: 1min }`, or permits by tier.
    fn concurrency(&mut self, node: &Node, counting: Counting) -> Option<Allowance> {
        if !node.is_map() {
            return self.grant(node, counting).map(Allowance::Same);
        }
        if node.member("permits").is_none() && node.member("lease").is_none() {
            return self.tiers(node, counting);
        }
        let members = self.members(node, &PERMITS)?;
        self.grant(members.get("permits")?, counting).map(Allowance::Same)
    }

    fn overrides(&mut self, node: &Node, counting: Counting) -> Vec<Override> {
        self.refuse_empty(node);
        match &node.value {
            Value::Map(map) => {
                let one = |name: &str| vec![TextPattern(name.to_owned())];
                let grants = map.members.iter().map(|member| (one(&member.name), self.grant(&member.value, counting)));
                grants.map(|(key, grant)| Override { key, grant: grant.unwrap_or(Grant::Unlimited) }).collect()
            }
            Value::List(items) => items.iter().filter_map(|item| self.one_override(item, counting)).collect(),
            Value::Scalar(_) => {
                self.wrong_type(node, "a map of keys and rates, or a list of { key, limit }");
                Vec::new()
            }
        }
    }

    fn one_override(&mut self, node: &Node, counting: Counting) -> Option<Override> {
        let members = self.members(node, &OVERRIDE)?;
        let key = members.get("key").map(|node| self.patterns(node));
        let grant = members.get("limit").and_then(|node| self.grant(node, counting));
        Some(Override { key: key?, grant: grant.unwrap_or(Grant::Unlimited) })
    }
}

impl Reader<'_> {
    /// A rate, a list of rates, permits, or `unlimited`.
    fn grant(&mut self, node: &Node, counting: Counting) -> Option<Grant> {
        if node.scalar().is_some_and(|scalar| scalar.text.eq_ignore_ascii_case("unlimited")) {
            return Some(Grant::Unlimited);
        }
        match counting {
            Counting::Permits { lease } => Some(Grant::Limited(vec![self.permits(node, lease)?])),
            Counting::Rates { .. } => self.rates(node, counting),
        }
    }

    fn permits(&mut self, node: &Node, lease: Duration) -> Option<Quota> {
        let permits = self.number(node, 1..=MAX_AMOUNT)?;
        self.built(Quota::concurrency(permits, Some(lease)), node)
    }

    fn rates(&mut self, node: &Node, counting: Counting) -> Option<Grant> {
        if matches!(node.value, Value::Map(_)) {
            self.wrong_type(node, "a rate such as 100/s, a list of rates, or `unlimited`");
            return None;
        }
        self.refuse_empty(node);
        let quotas: Vec<Quota> = node.items().iter().filter_map(|item| self.quota(item, counting)).collect();
        // One that could not be read was told; the others are no grant without it.
        (!quotas.is_empty() && quotas.len() == node.items().len()).then_some(Grant::Limited(quotas))
    }

    fn quota(&mut self, node: &Node, counting: Counting) -> Option<Quota> {
        let Counting::Rates { algorithm, queue, max_debt } = counting else { return None };
        let rate = self.rate(node)?;
        // A queue that does not go with the algorithm was told.
        self.built(quota_of(rate, algorithm, queue, max_debt), node)
    }

    fn rate(&mut self, node: &Node) -> Option<Rate> {
        let text = self.text(node, "a rate such as 100/s or 60/min burst 100")?;
        let wrong = |error: ParseRateError| {
            let message = format!("not a rate: {}", error.expected());
            self.error(codes::BAD_RATE, node.span_from(error.column()), message, "");
        };
        text.parse().map_err(wrong).ok()
    }

    fn built(&mut self, quota: Result<Quota, QuotaError>, node: &Node) -> Option<Quota> {
        let wrong = |error: QuotaError| {
            let about_burst = matches!(error, QuotaError::BurstOnWindow | QuotaError::BurstOnQueue);
            let at = if about_burst { burst_at(node) } else { 0 };
            self.error(codes::BAD_QUOTA, node.span_from(at), error.to_string(), "");
        };
        quota.map_err(wrong).ok()
    }
}

/// The character at which the burst of a rate begins.
fn burst_at(node: &Node) -> usize {
    let text = node.scalar().map_or_else(String::new, |scalar| scalar.text.to_ascii_lowercase());
    text.find("burst").map_or(0, |at| text[..at].chars().count())
}

fn unreadable_name(at: usize) -> String {
    format!("unreadable-rule-{at}")
}
