//! What an API's documentation should tell clients about its limits.
//!
//! Only what clients need to behave: rules that are published and enforced,
//! in plain words. Who is on a list, who has a limit of their own, which
//! headers tell clients apart and where counters live is nobody's business,
//! so nothing of it is ever read here.

use tollgate_core::{AlgorithmKind, Quota};

use crate::model::{ClientIp, Cost, CostSource, FieldSet, OnLimit, Policy, Reset, Rule, When};
use crate::promise::words::{either, list, number, requests, span};

/// The limits of a policy, as clients may know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The rules, in the order of the policy.
    pub rules: Vec<PublishedRule>,
    /// The response fields that clients see, with what they mean.
    pub fields: Vec<PublishedField>,
    /// How a client should behave, a sentence each.
    pub advice: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedRule {
    /// Its name, as in response fields and refusals.
    pub name: String,
    /// Whether the requests that it applies to are denied. There are no grants then, and nothing is counted.
    pub denies: bool,
    /// What it counts: `each user`; empty where it denies.
    pub counts: String,
    /// For which requests, in words: `POST requests to /auth/login`.
    pub applies_to: String,
    /// The methods; none for all.
    pub methods: Vec<String>,
    /// The hosts; none for all.
    pub hosts: Vec<String>,
    /// The path patterns; none for all.
    pub paths: Vec<String>,
    /// How much is granted, and to whom.
    pub grants: Vec<PublishedGrant>,
    /// What a request counts, where it is not simply 1.
    pub cost: Option<String>,
    /// What happens beyond the limit, a sentence each.
    pub beyond: Vec<String>,
}

/// How much is granted to some clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedGrant {
    /// The tier; `None` where it is the same for everybody.
    pub tier: Option<String>,
    /// Whether clients have this tier unless they are known to have another.
    pub is_default: bool,
    /// All of these at once. None: unlimited.
    pub limits: Vec<PublishedLimit>,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedLimit {
    /// So many in the window; under concurrency, at once.
    pub limit: u64,
    /// How many can come at once, where that is not the limit.
    pub burst: Option<u64>,
    /// The window; `None` for concurrency.
    pub window_ns: Option<u64>,
    /// The algorithm's name.
    pub algorithm: AlgorithmKind,
    /// The limit in words: `60 requests a minute, 100 at once`.
    pub summary: String,
    /// How it counts, in one plain sentence.
    pub explanation: String,
}

/// A response field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedField {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub meaning: &'static str,
}

impl Published {
    /// What of a policy clients may know.
    #[must_use]
    pub fn of(policy: &Policy) -> Published {
        let limits = |rule: &&Rule| rule.allowance.quotas().next().is_some();
        let is_told = |rule: &&Rule| rule.publish && !rule.shadow && (rule.denies() || limits(rule));
        let told: Vec<&Rule> = policy.rules.iter().filter(is_told).collect();
        let any_warns = told.iter().any(|rule| rule.on_limit.is_some_and(|on_limit| on_limit.warn_first > 0));
        let any_limits = told.iter().any(limits);
        let any_at_once = told.iter().any(|rule| has_limit(rule, AlgorithmKind::Concurrency));
        Published {
            fields: if any_limits { fields(policy, any_warns) } else { Vec::new() },
            advice: if any_limits { advice(policy, any_at_once) } else { Vec::new() },
            rules: told.into_iter().map(|rule| PublishedRule::of(rule, policy)).collect(),
        }
    }
}

impl PublishedRule {
    fn of(rule: &Rule, policy: &Policy) -> PublishedRule {
        let default_tier = policy.tier.as_ref().map(|tier| tier.default.as_str());
        // Overrides are between the operator and the clients that have them.
        let grants = rule.allowance.grants().map(|(tier, grant)| PublishedGrant {
            tier: tier.map(str::to_owned),
            is_default: tier.is_some() && tier == default_tier,
            limits: grant.quotas().iter().map(PublishedLimit::of).collect(),
        });
        PublishedRule {
            name: rule.name.clone(),
            denies: rule.denies(),
            counts: if rule.denies() { String::new() } else { counted(&rule.key, &policy.client_ip) },
            applies_to: applies_to(&rule.when),
            methods: rule.when.methods.clone(),
            hosts: rule.when.hosts.clone(),
            paths: rule.when.paths.clone(),
            grants: grants.collect(),
            cost: cost(&rule.cost),
            beyond: beyond(rule),
        }
    }
}

impl PublishedLimit {
    fn of(quota: &Quota) -> PublishedLimit {
        let is_concurrency = quota.kind() == AlgorithmKind::Concurrency;
        let has_burst = matches!(quota.kind(), AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket);
        PublishedLimit {
            limit: quota.amount(),
            burst: has_burst.then(|| quota.burst()),
            window_ns: (!is_concurrency).then(|| quota.period_ns()),
            algorithm: quota.kind(),
            summary: summary(quota),
            explanation: explanation(quota),
        }
    }
}

/// Whether a limit of the rule is of this kind.
fn has_limit(rule: &Rule, kind: AlgorithmKind) -> bool {
    rule.allowance.quotas().any(|quota| quota.kind() == kind)
}

fn beyond(rule: &Rule) -> Vec<String> {
    if rule.denies() {
        return vec!["They are refused with status 403; to try again does not help.".to_owned()];
    }
    let mut beyond = Vec::new();
    let queues = has_limit(rule, AlgorithmKind::LeakyQueue);
    if queues {
        beyond.push(
            "Requests that come too fast wait for their turn; when the queue is full they are refused with status 429."
                .to_owned(),
        );
    }
    let Some(OnLimit { warn_first, span_ns, block }) = rule.on_limit else {
        if !queues {
            beyond.push("Requests beyond it are refused with status 429.".to_owned());
        }
        return beyond;
    };
    if warn_first > 0 {
        beyond.push(warned(warn_first, span_ns));
    }
    if !queues {
        let which = if warn_first > 0 { "Further requests" } else { "Requests beyond it" };
        beyond.push(format!("{which} are refused with status 429."));
    }
    if let Some(block) = block {
        beyond.push(blocked(block.after.max(warn_first), span_ns, block.duration_ns));
    }
    beyond
}

fn fields(policy: &Policy, any_warns: bool) -> Vec<PublishedField> {
    let field = |name, meaning| PublishedField { name, meaning };
    let mut fields = Vec::new();
    for set in &policy.fields.sets {
        match set {
            FieldSet::Ietf => fields.extend([
                field("RateLimit-Policy", "the limits that apply: by name the quota `q` and its window `w` in seconds"),
                field(
                    "RateLimit",
                    "where you stand: by name what remains `r`, and in how many seconds `t` there will be more",
                ),
            ]),
            FieldSet::XRateLimit => fields.extend([
                field("X-RateLimit-Limit", "the limit that is closest to being reached"),
                field("X-RateLimit-Remaining", "how many requests remain under it"),
                field(
                    "X-RateLimit-Reset",
                    match policy.fields.reset {
                        Reset::Epoch => "when it is whole again, in seconds since 1970",
                        Reset::Delta => "in how many seconds it is whole again",
                    },
                ),
            ]),
        }
    }
    if any_warns {
        fields.push(field("X-RateLimit-Warning", "the limits beyond which this request passed all the same"));
    }
    fields.push(field("Retry-After", "of a refused request: in how many seconds to try again"));
    fields
}

fn advice(policy: &Policy, any_at_once: bool) -> Vec<String> {
    let mut advice = vec![
        "A request beyond a limit has status 429 and counts against no limit.".to_owned(),
        "Wait as long as `Retry-After` says before you try again; earlier attempts are refused as well.".to_owned(),
        "A 429 without `Retry-After` is of a request that costs more than the limit ever lets pass: ask for less at once."
            .to_owned(),
    ];
    if policy.rules.iter().any(|rule| rule.denies() && rule.publish && !rule.shadow) {
        advice.push("A request that is denied has status 403: to try again does not help.".to_owned());
    }
    if any_at_once {
        advice.push("Where a limit is on requests at once, `Retry-After` is an estimate.".to_owned());
    }
    if !policy.fields.sets.is_empty() {
        advice.push("Slow down while little remains, rather than run into the limit.".to_owned());
    }
    advice
}

#[cfg(test)]
mod tests;

/// `each user`, `each IP address and route`, `all clients together`
fn counted(key: &[String], client_ip: &ClientIp) -> String {
    if key.is_empty() {
        return "all clients together".to_owned();
    }
    let parts: Vec<String> = key.iter().map(|identity| identity_words(identity, client_ip)).collect();
    format!("each {}", list(&parts))
}

fn identity_words(identity: &str, client_ip: &ClientIp) -> String {
    match identity {
        "client_ip" => address_words(client_ip),
        "route" => "endpoint".to_owned(),
        name => name.replace('_', " "),
    }
}

fn address_words(client_ip: &ClientIp) -> String {
    match (client_ip.ipv4_prefix, client_ip.ipv6_prefix) {
        (32, 128) => "IP address".to_owned(),
        (32, v6) => format!("IP address (of IPv6 each /{v6} network)"),
        (v4, v6) => format!("network (of IPv4 each /{v4}, of IPv6 each /{v6})"),
    }
}

/// `POST requests to /auth/login or /auth/register`, `all requests`
fn applies_to(when: &When) -> String {
    let is_partial = !when.headers.is_empty()
        || !when.identities.is_empty()
        || when.network.is_some()
        || !when.domains.is_empty()
        || when.exact_entries;
    let methods = either(&when.methods);
    let mut text = match (methods.is_empty(), is_partial) {
        // The exact condition may be confidential.
        (true, true) => "some requests".to_owned(),
        (true, false) if when.hosts.is_empty() && when.paths.is_empty() => "all requests".to_owned(),
        (true, false) => "requests".to_owned(),
        (false, true) => format!("some {methods} requests"),
        (false, false) => format!("{methods} requests"),
    };
    if !when.paths.is_empty() {
        let paths: Vec<String> = when.paths.iter().map(|path| path_words(path)).collect();
        text.push_str(&format!(" to {}", either(&paths)));
    }
    if !when.hosts.is_empty() {
        let hosts: Vec<String> = when.hosts.iter().map(|host| host_words(host)).collect();
        text.push_str(&format!(" on {}", either(&hosts)));
    }
    text
}

fn path_words(path: &str) -> String {
    match path.strip_suffix("/*") {
        Some("") => "any path".to_owned(),
        Some(above) => format!("everything below `{above}/`"),
        None => format!("`{path}`"),
    }
}

fn host_words(host: &str) -> String {
    match host.strip_prefix("*.") {
        Some(domain) => format!("any host below `{domain}`"),
        None => format!("`{host}`"),
    }
}

/// `60 requests a minute, up to 100 at once`
fn summary(quota: &Quota) -> String {
    let amount = requests(quota.amount());
    match quota.kind() {
        AlgorithmKind::Concurrency => format!("{amount} at once"),
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
            format!("{amount} {}, up to {} at once", per(quota.period_ns()), number(quota.burst()))
        }
        _ => format!("{amount} {}", per(quota.period_ns())),
    }
}

/// `a minute`, `in 30 seconds`
fn per(period_ns: u64) -> String {
    let period = span(period_ns);
    if period.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("in {period}");
    }
    format!("{} {period}", if period == "hour" { "an" } else { "a" })
}

fn explanation(quota: &Quota) -> String {
    match quota.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
            "What was used comes back steadily, until as many can come at once as before.".to_owned()
        }
        AlgorithmKind::LeakyQueue => {
            let places = number(quota.queue_size());
            format!("Requests are let through at an even pace; of those that come at once up to {places} are taken.")
        }
        AlgorithmKind::FixedWindow => {
            format!("Counted by the clock: each {} begins anew.", span(quota.period_ns()))
        }
        AlgorithmKind::SlidingWindowCounter => {
            format!("Counted over the last {}, the older part of it by estimate.", span(quota.period_ns()))
        }
        AlgorithmKind::SlidingWindowLog => format!("Counted over the last {}, exactly.", span(quota.period_ns())),
        AlgorithmKind::Concurrency => "Only requests that are still under way count.".to_owned(),
    }
}

/// What a request counts, where it is not simply 1.
fn cost(cost: &Cost) -> Option<String> {
    match &cost.source {
        CostSource::OfTheRequest | CostSource::Fixed(1) => None,
        CostSource::Fixed(amount) => Some(format!("Each request counts as {}.", number(*amount))),
        CostSource::Methods { costs, default } => {
            let mut each: Vec<String> =
                costs.iter().map(|(method, amount)| format!("{method} counts as {}", number(*amount))).collect();
            each.push(format!("anything else as {}", number(*default)));
            Some(format!("{}.", list(&each)))
        }
        CostSource::Estimate(amount) => {
            Some(format!("A request counts as {} until its true cost is known.", number(*amount)))
        }
        CostSource::Header { .. } => Some("What a request counts depends on the request.".to_owned()),
    }
}

fn warned(first: u64, within_ns: u64) -> String {
    let within = length(within_ns);
    match first {
        1 => format!("The first request beyond it within {within} passes with a warning."),
        first => format!("The first {} beyond it within {within} pass with a warning.", requests(first)),
    }
}

fn blocked(after: u64, within_ns: u64, for_ns: u64) -> String {
    let (after, within, length) = (requests(after), length(within_ns), length(for_ns));
    format!("Whoever goes on after {after} beyond it within {within} is blocked for {length}.")
}

/// `15 minutes`, `1 hour`
fn length(ns: u64) -> String {
    let span = span(ns);
    if span.starts_with(|c: char| c.is_ascii_digit()) { span } else { format!("1 {span}") }
}
