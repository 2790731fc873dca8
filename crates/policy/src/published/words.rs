//! Rules in the words of an API's documentation.

use tollgate_core::{AlgorithmKind, Quota};

use crate::model::{ClientIp, Cost, CostSource, When};
use crate::promise::words::{either, list, number, requests, span};

/// `each user`, `each IP address and route`, `all clients together`
pub(super) fn counted(key: &[String], client_ip: &ClientIp) -> String {
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
pub(super) fn applies_to(when: &When) -> String {
    let is_partial = !when.headers.is_empty()
        || !when.identities.is_empty()
        || when.network.is_some()
        || !when.domains.is_empty()
        || when.exact_entries;
    let methods = either(&when.methods);
    let mut text = match (methods.is_empty(), is_partial) {
        // What exactly is asked of them may be what nobody should know.
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
pub(super) fn summary(quota: &Quota) -> String {
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

pub(super) fn explanation(quota: &Quota) -> String {
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
pub(super) fn cost(cost: &Cost) -> Option<String> {
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

pub(super) fn warned(first: u64, within_ns: u64) -> String {
    let within = length(within_ns);
    match first {
        1 => format!("The first request beyond it within {within} passes with a warning."),
        first => format!("The first {} beyond it within {within} pass with a warning.", requests(first)),
    }
}

pub(super) fn blocked(after: u64, within_ns: u64, for_ns: u64) -> String {
    let (after, within, length) = (requests(after), length(within_ns), length(for_ns));
    format!("Whoever goes on after {after} beyond it within {within} is blocked for {length}.")
}

/// `15 minutes`, `1 hour`
fn length(ns: u64) -> String {
    let span = span(ns);
    if span.starts_with(|c: char| c.is_ascii_digit()) { span } else { format!("1 {span}") }
}
