//! The public part of a policy, for the documentation of an API.
//!
//! It has only what clients need: the rules that are published and enforced, in plain words. Access lists, overrides,
//! the headers that identify clients and the store are confidential, so this module never reads them.

use tollgate_core::{AlgorithmKind, Quota};

use crate::model::{ClientIp, Cost, CostSource, FieldSet, OnLimit, Policy, ResetFormat, Rule, When};
use crate::promise::words::{either, list, number, requests, span};

/// The limits of a policy that are public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The rules, in the order of the policy.
    pub rules: Vec<PublishedRule>,
    /// The response fields that clients get, with their meaning.
    pub fields: Vec<PublishedField>,
    /// Advice for clients, in sentences.
    pub advice: Vec<String>,
}

/// A published rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedRule {
    /// The name, as in response fields and refusals.
    pub name: String,
    /// Whether the rule denies its requests. It then has no grants and counts nothing.
    pub denies: bool,
    /// What the rule counts by: `each user`; empty if it denies.
    pub counts: String,
    /// The requests that the rule applies to: `POST requests to /auth/login`.
    pub applies_to: String,
    /// The methods; empty for all.
    pub methods: Vec<String>,
    /// The hosts; empty for all.
    pub hosts: Vec<String>,
    /// The path patterns; empty for all.
    pub paths: Vec<String>,
    /// The limits, by tier.
    pub grants: Vec<PublishedGrant>,
    /// The cost of a request, if it is not always 1.
    pub cost: Option<String>,
    /// What happens above the limit, in sentences.
    pub beyond: Vec<String>,
}

/// The limits of some clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedGrant {
    /// The tier; `None` if the limits are the same for all clients.
    pub tier: Option<String>,
    /// Whether this is the tier of clients whose tier is absent or unknown.
    pub is_default: bool,
    /// The limits, all of which apply. Empty for unlimited.
    pub limits: Vec<PublishedLimit>,
}

/// A published limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedLimit {
    /// The number of requests in the window; for concurrency, at once.
    pub limit: u64,
    /// The number of requests that can pass at once, for algorithms with a burst.
    pub burst: Option<u64>,
    /// The window; `None` for concurrency.
    pub window_ns: Option<u64>,
    /// The algorithm.
    pub algorithm: AlgorithmKind,
    /// The limit in words: `60 requests a minute, 100 at once`.
    pub summary: String,
    /// How the limit counts, in one sentence.
    pub explanation: String,
}

/// A response field and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedField {
    /// The name of the field.
    pub name: &'static str,
    /// The meaning of its value.
    pub meaning: &'static str,
}

impl Published {
    /// Returns the public part of a policy.
    #[must_use]
    pub fn of(policy: &Policy) -> Published {
        let limits = |rule: &&Rule| rule.allowance.quotas().next().is_some();
        let is_public = |rule: &&Rule| rule.publish && !rule.shadow && (rule.denies() || limits(rule));
        let public: Vec<&Rule> = policy.rules.iter().filter(is_public).collect();
        let any_warns = public.iter().any(|rule| rule.on_limit.is_some_and(|on_limit| on_limit.warn_first > 0));
        let any_limits = public.iter().any(limits);
        let any_concurrency = public.iter().any(|rule| has_limit(rule, AlgorithmKind::Concurrency));
        Published {
            fields: if any_limits { fields(policy, any_warns) } else { Vec::new() },
            advice: if any_limits { advice(policy, any_concurrency) } else { Vec::new() },
            rules: public.into_iter().map(|rule| PublishedRule::of(rule, policy)).collect(),
        }
    }
}

impl PublishedRule {
    fn of(rule: &Rule, policy: &Policy) -> PublishedRule {
        let default_tier = policy.tier.as_ref().map(|tier| tier.default.as_str());
        // Overrides are confidential.
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
            cost: shared(rule).into_iter().fold(cost(&rule.cost), |cost, shared| {
                Some(cost.map_or_else(|| shared.clone(), |cost| format!("{cost} {shared}")))
            }),
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

/// What happens above the limit, in sentences.
fn beyond(rule: &Rule) -> Vec<String> {
    if rule.denies() {
        return vec!["They are refused with status 403; a retry does not help.".to_owned()];
    }
    let mut beyond = Vec::new();
    let queues = has_limit(rule, AlgorithmKind::LeakyQueue);
    if queues {
        beyond.push(
            "Requests above the rate wait in a queue; when it is full, they are refused with status 429.".to_owned(),
        );
    }
    let Some(OnLimit { warn_first, span_ns, block }) = rule.on_limit else {
        if !queues {
            beyond.push("Requests above the limit are refused with status 429.".to_owned());
        }
        return beyond;
    };
    if warn_first > 0 {
        beyond.push(warned(warn_first, span_ns));
    }
    if !queues {
        let which = if warn_first > 0 { "Further requests" } else { "Requests above the limit" };
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
                field("RateLimit-Policy", "the limits that apply: for each name, the quota `q` and its window `w` in seconds"),
                field(
                    "RateLimit",
                    "the state of these limits: for each name, what remains `r`, and the seconds `t` until there is more",
                ),
            ]),
            FieldSet::XRateLimit => fields.extend([
                field("X-RateLimit-Limit", "the limit that is closest to being reached"),
                field("X-RateLimit-Remaining", "the number of requests that remain under it"),
                field(
                    "X-RateLimit-Reset",
                    match policy.fields.reset {
                        ResetFormat::Epoch => "the time at which it is fully available again, in seconds since 1970",
                        ResetFormat::Delta => "the seconds until it is fully available again",
                    },
                ),
            ]),
        }
    }
    if any_warns {
        fields.push(field("X-RateLimit-Warning", "the limits that this request exceeded although it passed"));
    }
    fields.push(field("Retry-After", "of a refused request: the seconds to wait before a retry"));
    fields
}

fn advice(policy: &Policy, any_concurrency: bool) -> Vec<String> {
    let mut advice = vec![
        "A request above a limit gets status 429 and counts against no limit.".to_owned(),
        "Wait for the time in `Retry-After` before a retry; earlier retries are refused too.".to_owned(),
        "A 429 without `Retry-After` means that the request costs more than the limit ever allows: request less at once."
            .to_owned(),
    ];
    if policy.rules.iter().any(|rule| rule.denies() && rule.publish && !rule.shadow) {
        advice.push("A denied request gets status 403; a retry does not help.".to_owned());
    }
    if any_concurrency {
        advice.push("For limits on requests at once, `Retry-After` is an estimate.".to_owned());
    }
    if !policy.fields.sets.is_empty() {
        advice.push("Slow down while little remains, instead of reaching the limit.".to_owned());
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
        (32, v6) => format!("IP address (for IPv6, each /{v6} network)"),
        (v4, v6) => format!("network (IPv4: /{v4}, IPv6: /{v6})"),
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
            "The limit refills at a steady rate, up to the number of requests at once.".to_owned()
        }
        AlgorithmKind::LeakyQueue => {
            let size = number(quota.queue_size());
            format!("Requests pass at an even pace; up to {size} that arrive at once are accepted.")
        }
        AlgorithmKind::FixedWindow => {
            format!("Counted in fixed windows of the clock: the count restarts every {}.", span(quota.period_ns()))
        }
        AlgorithmKind::SlidingWindowCounter => {
            format!("Counted over the last {}; the older part is an estimate.", span(quota.period_ns()))
        }
        AlgorithmKind::SlidingWindowLog => format!("Counted exactly over the last {}.", span(quota.period_ns())),
        AlgorithmKind::Concurrency => "Only requests that are still in flight count.".to_owned(),
    }
}

/// The sentence about a limit that is shared with other rules.
fn shared(rule: &Rule) -> Option<String> {
    rule.budget.as_ref().map(|budget| format!("The limit is shared by all rules of the budget {budget}."))
}

/// The sentence about the cost of a request, if it is not always 1.
fn cost(cost: &Cost) -> Option<String> {
    match &cost.source {
        CostSource::OfTheRequest | CostSource::Fixed(1) => None,
        CostSource::Fixed(amount) => Some(format!("Each request counts as {}.", number(*amount))),
        CostSource::Methods { costs, default } | CostSource::Paths { costs, default } => {
            let mut each: Vec<String> =
                costs.iter().map(|(what, amount)| format!("{what} counts as {}", number(*amount))).collect();
            each.push(format!("anything else as {}", number(*default)));
            Some(format!("{}.", list(&each)))
        }
        CostSource::Estimate(amount) => {
            Some(format!("A request counts as {} until its actual cost is known.", number(*amount)))
        }
        CostSource::Header { .. } => Some("The cost of a request depends on the request.".to_owned()),
    }
}

fn warned(first: u64, within_ns: u64) -> String {
    let within = length(within_ns);
    match first {
        1 => format!("The first request above the limit within {within} passes with a warning."),
        first => format!("The first {} above the limit within {within} pass with a warning.", requests(first)),
    }
}

fn blocked(after: u64, within_ns: u64, for_ns: u64) -> String {
    let (after, within, length) = (requests(after), length(within_ns), length(for_ns));
    format!("After {after} above the limit within {within}, the next one blocks the client for {length}.")
}

/// `15 minutes`, `1 hour`
fn length(ns: u64) -> String {
    let span = span(ns);
    if span.starts_with(|c: char| c.is_ascii_digit()) { span } else { format!("1 {span}") }
}
