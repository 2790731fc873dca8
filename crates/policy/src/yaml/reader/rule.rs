//! Reads rules and budgets, and their grants.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, MAX_AMOUNT, ParseRateError, Queue, Quota, QuotaError, Rate};

use super::cost::COST;
use super::members::KnownMembers;
use super::on_limit::STEP;
use super::settings::{CONSISTENCIES, ON_FAILURE};
use super::values::set;
use super::when::WHEN;
use super::{ACCEPTABLE, PolicyReader};
use crate::check::codes;
use crate::check::members::{self, ALGORITHMS, GRANTS};
use crate::check::rate_hint::rate_hint;
use crate::check::words::quoted;
use crate::model::{Allowance, Budget, DEFAULT_LEASE, Grant, Override, Rule, TextPattern, quota_of};
use crate::yaml::schema::{MapSchema, MemberSchema, ValueSchema, defaulted, field, names, required, shape};
use crate::yaml::tree::{YamlNode, YamlValue};

/// A cost, a number of requests or of permits: 1 to 10^12.
pub(super) const AMOUNT: ValueSchema = ValueSchema::Number { min: 1, max: MAX_AMOUNT };
const UNLIMITED: ValueSchema = ValueSchema::Words(&["unlimited"]);

/// A grant: `100/s`, a list of rates, or `unlimited`.
const GRANT: ValueSchema =
    ValueSchema::AnyOf(&[UNLIMITED, ValueSchema::Rate, ValueSchema::List(&ValueSchema::Rate, 1)]);
/// A grant, or a number of permits in a rule with `concurrency`.
const GRANT_OR_PERMITS: ValueSchema =
    ValueSchema::AnyOf(&[UNLIMITED, ValueSchema::Rate, ValueSchema::List(&ValueSchema::Rate, 1), AMOUNT]);

pub(super) static RULE: MapSchema = MapSchema {
    one_of: GRANTS,
    mistaken: MISTAKEN,
    ..shape(
        "rule",
        "A limit for the requests that match `when`, counted by `key`; or a denial of these requests.",
        RULE_FIELDS,
    )
};

/// Members of other configuration languages, with what to write instead.
const MISTAKEN: &[(&str, &str)] = &[
    ("burst", "write the burst in the limit: `limit: 60/min burst 10`"),
    ("rate", "write `limit`, as in `limit: 60/min`"),
    ("quota", "write `limit`, as in `limit: 60/min`"),
    ("requests", "write the number and the period in the limit: `limit: 60/min`"),
    ("requests_per_unit", "write the number and the period in the limit: `limit: 60/min`"),
    ("unit", "write the period in the limit: `limit: 60/min`"),
    ("per", "write the period in the limit, as in `limit: 60/min`, and the identity in `key`, as in `key: client_ip`"),
    ("period", "write the period in the limit: `limit: 60/min`"),
    ("window", "write the period in the limit: `limit: 100/60s`"),
    ("interval", "write the period in the limit: `limit: 60/min`"),
    ("by", "write the identity in `key`, as in `key: client_ip`"),
    ("match", "write the conditions in `when`, as in `when: { path: /login }`"),
    ("if", "write the conditions in `when`, as in `when: { path: /login }`"),
    ("path", "write it in `when`: `when: { path: /login }`"),
    ("paths", "write them in `when`: `when: { path: [/login, /api/*] }`"),
    ("route", "write it in `when`: `when: { path: /login }`"),
    ("method", "write it in `when`: `when: { method: POST }`"),
    ("methods", "write them in `when`: `when: { method: [POST, PUT] }`"),
    ("host", "write it in `when`: `when: { host: api.example.com }`"),
    ("headers", "write them in `when`: `when: { headers: { X-Beta: true } }`"),
    ("network", "write it in `when`: `when: { network: 10.0.0.0/8 }`"),
    ("tier", "write limits by tier as `tiers: { free: 60/min, pro: 600/min }`"),
    (
        "action",
        "requests above the limit are refused; for other steps write `on_limit: [ { first: 2, action: warn }, { then: reject } ]`",
    ),
    ("block", "write it as a step: `on_limit: [ { after: 20 in 10min, action: block 15min } ]`"),
    ("lease", "write it under `store: { redis: .. }`; of permits: `concurrency: { permits: 3, lease: 1min }`"),
    ("leased", "write `consistency: leased`"),
    ("enabled", "remove the rule to disable it; `shadow: true` counts without refusing"),
    ("disabled", "remove the rule to disable it; `shadow: true` counts without refusing"),
    ("dry_run", "write `shadow: true`: the rule counts without refusing"),
    ("description", "write it as a comment: `# ..`"),
    ("priority", "rules have no order: every rule that applies is checked; `replaces` turns other rules off"),
];

const RULE_FIELDS: &[MemberSchema] = &[
    required(
        "name",
        ValueSchema::Pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        "The name of the rule in responses, metrics and logs. Names of rules are unique.",
    ),
    field("when", ValueSchema::Object(&WHEN), "The requests that the rule applies to; all requests by default."),
    field(
        "key",
        ValueSchema::OneOrMore(&ValueSchema::Text),
        "The identities that the rule counts by. Without a key, all clients share one counter.",
    ),
    field("limit", GRANT, "The limit: a rate, several rates that all apply, or `unlimited`."),
    field("tiers", ValueSchema::Map(&GRANT), "The limit of each tier."),
    field(
        "concurrency",
        ValueSchema::AnyOf(&CONCURRENCY),
        "The number of requests that may be in flight at once, for all clients or by tier.",
    ),
    field("unlimited", ValueSchema::True, "No limit: the rule limits only keys in `overrides`."),
    field(
        "deny",
        ValueSchema::True,
        "The matching requests are denied (403). Nothing is counted, and the rule has no key.",
    ),
    field("budget", ValueSchema::Text, "The shared budget that the rule charges."),
    defaulted("algorithm", ValueSchema::Words(&names(&ALGORITHMS)), "The algorithm of the limit.", r#""token-bucket""#),
    field(
        "queue",
        ValueSchema::Object(&QUEUE),
        "Delays requests above the rate instead of refusing them; only with leaky-bucket.",
    ),
    field(
        "max_debt",
        ValueSchema::Number { min: 0, max: MAX_AMOUNT },
        "The most that a key may owe when costs are settled above their estimate; by default the capacity of its limit.",
    ),
    field(
        "cost",
        ValueSchema::AnyOf(&COST),
        "The cost of a request; by default the cost that the caller states, or 1.",
    ),
    field(
        "on_limit",
        ValueSchema::List(&STEP, 1),
        "The escalation for requests above the limit; by default they are refused.",
    ),
    defaulted("shadow", ValueSchema::Bool, "Whether the rule only counts and reports, and never refuses.", "false"),
    defaulted(
        "publish",
        ValueSchema::Bool,
        "Whether clients see the rule in responses and in the published limits.",
        "true",
    ),
    field("overrides", ValueSchema::AnyOf(&OVERRIDES), "Other limits for some keys."),
    field(
        "on_failure",
        ValueSchema::Words(&names(&ON_FAILURE)),
        "How requests are decided when the store fails; by default as the store's `on_failure`.",
    ),
    field(
        "consistency",
        ValueSchema::Words(&names(&CONSISTENCIES)),
        "Whether a shared store decides every request, instances lease tokens, or regions share the limit; by \
         default as the store's `consistency`.",
    ),
    field(
        "replaces",
        ValueSchema::OneOrMore(&ValueSchema::Text),
        "The names of rules that do not apply where this one does.",
    ),
    field(
        "message",
        ValueSchema::Pattern("^.{1,200}$"),
        "The message in the bodies of refusals by this rule, in place of the default sentence.",
    ),
    field("accept", ValueSchema::OneOrMore(&ACCEPTABLE), "The codes of accepted warnings and notes about this rule."),
];

static CONCURRENCY: [ValueSchema; 3] =
    [AMOUNT, ValueSchema::Object(&PERMITS), ValueSchema::Map(&ValueSchema::AnyOf(&[AMOUNT, UNLIMITED]))];
static OVERRIDES: [ValueSchema; 2] = [ValueSchema::Map(&GRANT_OR_PERMITS), ValueSchema::List(&ONE_OVERRIDE, 1)];
static ONE_OVERRIDE: ValueSchema = ValueSchema::Object(&OVERRIDE);

pub(super) static BUDGET: MapSchema = MapSchema {
    one_of: &["limit", "tiers"],
    ..shape(
        "budget",
        "A limit that several rules share. It has one counter per key.",
        &[
            field(
                "key",
                ValueSchema::OneOrMore(&ValueSchema::Text),
                "The identities that the budget counts by. Without a key, all clients share one counter.",
            ),
            field("limit", GRANT, "The limit: a rate, or several rates that all apply."),
            field("tiers", ValueSchema::Map(&GRANT), "The limit of each tier."),
            defaulted(
                "algorithm",
                ValueSchema::Words(&names(&ALGORITHMS)),
                "The algorithm of the limit.",
                r#""token-bucket""#,
            ),
            field(
                "max_debt",
                ValueSchema::Number { min: 0, max: MAX_AMOUNT },
                "The most that a key may owe when costs are settled above their estimate.",
            ),
            field(
                "consistency",
                ValueSchema::Words(&names(&CONSISTENCIES)),
                "Whether a shared store decides every request, instances lease tokens, or regions share the limit; by \
                 default as the store's `consistency`.",
            ),
        ],
    )
};

pub(super) static QUEUE: MapSchema = shape(
    "queue",
    "The queue of a leaky bucket.",
    &[
        required(
            "size",
            ValueSchema::Number { min: 1, max: MAX_AMOUNT - 1 },
            "The number of requests in the queue: those that wait, and the one that departed last.",
        ),
        field("max_wait", ValueSchema::Duration, "The longest time that a request may wait."),
    ],
);

pub(super) static PERMITS: MapSchema = shape(
    "permits",
    "The number of requests that may be in flight at once.",
    &[
        required("permits", AMOUNT, "The number of permits."),
        defaulted(
            "lease",
            ValueSchema::Duration,
            "The time after which a permit that is not released expires.",
            r#""1min""#,
        ),
    ],
);

pub(super) static OVERRIDE: MapSchema = shape(
    "override",
    "Another limit for the keys that match.",
    &[
        required(
            "key",
            ValueSchema::OneOrMore(&ValueSchema::Text),
            "One pattern for each part of the rule's key; `*` matches any characters.",
        ),
        required("limit", GRANT_OR_PERMITS, "The limit of these keys; with `concurrency`, the number of permits."),
    ],
);

/// How a rule counts: the meaning of the numbers in its grants.
#[derive(Clone, Copy)]
enum QuotaForm {
    Rates { algorithm: AlgorithmKind, queue: Option<Queue>, max_debt: Option<u64> },
    Permits { lease: Duration },
}

impl PolicyReader<'_> {
    pub(super) fn rules(&mut self, top: &KnownMembers<'_>) -> Vec<Rule> {
        let Some(node) = top.get("rules") else { return Vec::new() };
        let items = self.items(node, "a list of rules, each of which begins with `- name: ..`").unwrap_or_default();
        items.iter().enumerate().map(|(at, item)| self.rule(item, at)).collect()
    }

    /// Reads the budgets.
    pub(super) fn budgets(&mut self, node: Option<&YamlNode>) -> Vec<Budget> {
        let Some(node) = node else { return Vec::new() };
        let expected = "a map of budgets, such as { tokens: { key: user, limit: 1000/min } }";
        self.each_member(node, expected, |reader, name, node| {
            // A budget that cannot be read still exists, so that rules that name it cause no further errors.
            let mut budget = Budget {
                name: name.to_owned(),
                key: Vec::new(),
                allowance: Allowance::Same(Grant::Unlimited),
                consistency: None,
            };
            let Some(members) = reader.members(node, &BUDGET) else { return Some(budget) };
            let algorithm = members.get("algorithm").and_then(|node| reader.word(node, &ALGORITHMS));
            let max_debt = members.get("max_debt").and_then(|node| reader.number(node, 0..=MAX_AMOUNT));
            let algorithm = algorithm.unwrap_or(AlgorithmKind::TokenBucket);
            let counting = QuotaForm::Rates { algorithm, queue: None, max_debt };
            let allowance = match (members.get("limit"), members.get("tiers")) {
                (Some(node), _) => reader.grant(node, counting).map(Allowance::Same),
                (None, Some(node)) => reader.tiers(node, counting),
                (None, None) => None,
            };
            set(&mut budget.allowance, allowance);
            set(&mut budget.key, members.get("key").map(|node| reader.key_parts(node)));
            budget.consistency = members.get("consistency").and_then(|node| reader.consistency(node));
            Some(budget)
        })
    }

    fn rule(&mut self, node: &YamlNode, at: usize) -> Rule {
        // A rule has the same index in the model and in the file.
        let Some(members) = self.members(node, &RULE) else { return Rule::new(&unreadable_name(at)) };
        let counting = self.counting(&members);
        let allowance = self.allowance(&members, counting);
        let name = members.get("name").and_then(|node| self.text(node, "the name of a rule"));
        Rule {
            name: name.unwrap_or_else(|| unreadable_name(at)),
            when: self.when(members.get("when")),
            // A rule of a budget counts by the budget's key; a `key` or `consistency` beside `budget` has been reported.
            key: members
                .get("key")
                .filter(|_| members.get("budget").is_none())
                .map_or_else(Vec::new, |node| self.key_parts(node)),
            cost: members.get("cost").and_then(|node| self.cost(node)).unwrap_or_default(),
            on_limit: self.on_limit(&members, allowance.as_ref()),
            shadow: members.get("shadow").and_then(|node| self.bool(node)).unwrap_or(false),
            publish: members.get("publish").and_then(|node| self.bool(node)).unwrap_or(true),
            overrides: members.get("overrides").map_or_else(Vec::new, |node| self.overrides(node, counting)),
            replaces: members.get("replaces").map_or_else(Vec::new, |node| self.texts(node, "the name of a rule")),
            on_failure: members.get("on_failure").and_then(|node| self.word(node, &ON_FAILURE)),
            consistency: members
                .get("consistency")
                .filter(|_| members.get("budget").is_none())
                .and_then(|node| self.consistency(node)),
            accept: self.accepted(&members),
            budget: members.get("budget").and_then(|node| self.text(node, "the name of a budget")),
            message: members.get("message").and_then(|node| self.text(node, "a message for refused clients")),
            allowance: allowance.unwrap_or(Allowance::Same(Grant::Unlimited)),
        }
    }

    /// Reads the identities of a key. A source in place of a name gets a hint to declare it.
    fn key_parts(&mut self, node: &YamlNode) -> Vec<String> {
        self.refuse_empty(node);
        let mut parts = Vec::new();
        for item in node.items() {
            match item.members().first() {
                Some(source) => {
                    let value = source.value.scalar().map_or("X-User-ID", |scalar| &*scalar.text);
                    let declared = format!("identity: {{ user: {{ {}: {value} }} }}", source.name);
                    let hint =
                        format!("declare the identity at the top level, `{declared}`, and write its name: `key: user`");
                    self.error(codes::WRONG_TYPE, item.span, "expected the name of an identity, found a map", hint);
                }
                None => parts.extend(self.text(item, "the name of an identity")),
            }
        }
        parts
    }

    fn counting(&mut self, members: &KnownMembers<'_>) -> QuotaForm {
        let algorithm = members.get("algorithm").and_then(|node| self.word(node, &ALGORITHMS));
        let queue = members.get("queue").and_then(|node| self.queue(node));
        let has = |name: &str| members.get(name).is_some();
        let max_debt = members.get("max_debt").filter(|_| !has("deny"));
        let max_debt = max_debt.and_then(|node| self.number(node, 0..=MAX_AMOUNT));
        // The combination was reported; the limit is then read as a rate.
        let is_concurrency = has("concurrency") && !has("limit") && !has("tiers");
        let grant = match (has("deny"), is_concurrency) {
            (true, _) => "deny",
            (false, true) => "concurrency",
            (false, false) if has("budget") && !has("limit") && !has("tiers") => "budget",
            (false, false) => "limit",
        };
        // An algorithm that could not be read may have been the right one.
        let known = algorithm.or((!has("algorithm")).then_some(AlgorithmKind::TokenBucket));
        for (name, (message, hint)) in members::misplaced(grant, known, has) {
            self.misplaced(members.name_span(name), &message, &hint);
        }
        let algorithm = algorithm.unwrap_or(AlgorithmKind::TokenBucket);
        match (grant, members.get("concurrency")) {
            ("deny", _) => QuotaForm::Rates { algorithm: AlgorithmKind::TokenBucket, queue: None, max_debt: None },
            ("concurrency", Some(node)) => QuotaForm::Permits { lease: self.lease(node) },
            _ => QuotaForm::Rates { algorithm, queue, max_debt },
        }
    }

    fn queue(&mut self, node: &YamlNode) -> Option<Queue> {
        let members = self.members(node, &QUEUE)?;
        let max_wait = members.get("max_wait").and_then(|node| self.duration(node)).map(Duration::from_nanos);
        let size = members.get("size").and_then(|node| self.number(node, 1..=MAX_AMOUNT - 1));
        Some(Queue { size: size?, max_wait })
    }

    /// Reads the lease of `concurrency: { permits: 3, lease: 1min }`.
    fn lease(&mut self, node: &YamlNode) -> Duration {
        let lease = node.member("permits").and(node.member("lease"));
        lease.and_then(|lease| self.duration(&lease.value)).map_or(DEFAULT_LEASE, Duration::from_nanos)
    }

    fn allowance(&mut self, members: &KnownMembers<'_>, counting: QuotaForm) -> Option<Allowance> {
        if members.get("budget").is_some() {
            // `resolve_budgets` fills in the grant; a grant beside `budget` has been reported.
            return Some(Allowance::Same(Grant::Unlimited));
        }
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

    fn tiers(&mut self, node: &YamlNode, counting: QuotaForm) -> Option<Allowance> {
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

    /// Reads `3`, `{ permits: 3, lease: 1min }`, or permits by tier.
    fn concurrency(&mut self, node: &YamlNode, counting: QuotaForm) -> Option<Allowance> {
        if !node.is_map() {
            return self.grant(node, counting).map(Allowance::Same);
        }
        if let Some(max) = node.member("max").or_else(|| node.member("limit")).filter(|_| node.members().len() == 1) {
            let message = format!("unknown member {} in `concurrency`", quoted(&max.name));
            let hint = "write `concurrency: 3`, `concurrency: { permits: 3, lease: 1min }`, or permits by tier";
            self.error(codes::UNKNOWN_MEMBER, max.name_span, message, hint);
            return None;
        }
        if node.member("permits").is_none() && node.member("lease").is_none() {
            return self.tiers(node, counting);
        }
        let members = self.members(node, &PERMITS)?;
        self.grant(members.get("permits")?, counting).map(Allowance::Same)
    }

    fn overrides(&mut self, node: &YamlNode, counting: QuotaForm) -> Vec<Override> {
        self.refuse_empty(node);
        match &node.value {
            YamlValue::Map(map) => {
                let one = |name: &str| vec![TextPattern(name.to_owned())];
                let grants = map.members.iter().map(|member| (one(&member.name), self.grant(&member.value, counting)));
                grants.map(|(key, grant)| Override { key, grant: grant.unwrap_or(Grant::Unlimited) }).collect()
            }
            YamlValue::List(items) => items.iter().filter_map(|item| self.one_override(item, counting)).collect(),
            YamlValue::Scalar(_) => {
                self.wrong_type(node, "a map of keys and rates, or a list of { key, limit }");
                Vec::new()
            }
        }
    }

    fn one_override(&mut self, node: &YamlNode, counting: QuotaForm) -> Option<Override> {
        let members = self.members(node, &OVERRIDE)?;
        let key = members.get("key").map(|node| self.patterns(node));
        let grant = members.get("limit").and_then(|node| self.grant(node, counting));
        Some(Override { key: key?, grant: grant.unwrap_or(Grant::Unlimited) })
    }
}

impl PolicyReader<'_> {
    /// Reads a rate, a list of rates, permits, or `unlimited`.
    fn grant(&mut self, node: &YamlNode, counting: QuotaForm) -> Option<Grant> {
        if node.scalar().is_some_and(|scalar| scalar.text.eq_ignore_ascii_case("unlimited")) {
            return Some(Grant::Unlimited);
        }
        match counting {
            QuotaForm::Permits { lease } => Some(Grant::Limited(vec![self.permits(node, lease)?])),
            QuotaForm::Rates { .. } => self.rates(node, counting),
        }
    }

    fn permits(&mut self, node: &YamlNode, lease: Duration) -> Option<Quota> {
        let permits = self.number(node, 1..=MAX_AMOUNT)?;
        self.built(Quota::concurrency(permits, Some(lease)), node)
    }

    fn rates(&mut self, node: &YamlNode, counting: QuotaForm) -> Option<Grant> {
        if matches!(node.value, YamlValue::Map(_)) {
            let is_by_tier =
                node.members().iter().all(|member| member.value.scalar().is_some_and(|value| value.text.contains('/')));
            let hint = if is_by_tier {
                "write limits by tier as `tiers: { .. }` instead of `limit`"
            } else {
                "write the number and the period as one text: `limit: 100/min burst 20`"
            };
            let message = "expected a rate such as 100/s, a list of rates, or `unlimited`, found a map";
            self.error(codes::WRONG_TYPE, node.span, message, hint);
            return None;
        }
        self.refuse_empty(node);
        let quotas: Vec<Quota> = node.items().iter().filter_map(|item| self.quota(item, counting)).collect();
        // A rate that could not be read was reported; the others are not a grant without it.
        (!quotas.is_empty() && quotas.len() == node.items().len()).then_some(Grant::Limited(quotas))
    }

    fn quota(&mut self, node: &YamlNode, counting: QuotaForm) -> Option<Quota> {
        let QuotaForm::Rates { algorithm, queue, max_debt } = counting else { return None };
        let rate = self.rate(node)?;
        // A queue that cannot be combined with the algorithm was reported.
        self.built(quota_of(rate, algorithm, queue, max_debt), node)
    }

    fn rate(&mut self, node: &YamlNode) -> Option<Rate> {
        let text = self.text(node, "a rate such as 100/s or 60/min burst 100")?;
        let wrong = |error: ParseRateError| {
            let message = format!("not a rate: {}", error.expected());
            self.error(codes::BAD_RATE, node.span_from(error.column()), message, rate_hint(&text));
        };
        text.parse().map_err(wrong).ok()
    }

    fn built(&mut self, quota: Result<Quota, QuotaError>, node: &YamlNode) -> Option<Quota> {
        let wrong = |error: QuotaError| {
            let about_burst = matches!(error, QuotaError::BurstOnWindow | QuotaError::BurstOnQueue);
            let at = if about_burst { burst_at(node) } else { 0 };
            self.error(codes::BAD_QUOTA, node.span_from(at), error.to_string(), "");
        };
        quota.map_err(wrong).ok()
    }
}

/// The index of the character at which the burst of a rate begins.
fn burst_at(node: &YamlNode) -> usize {
    let text = node.scalar().map_or_else(String::new, |scalar| scalar.text.to_ascii_lowercase());
    text.find("burst").map_or(0, |at| text[..at].chars().count())
}

fn unreadable_name(at: usize) -> String {
    format!("unreadable-rule-{at}")
}
