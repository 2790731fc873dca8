//! Helpers that build policies and requests.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses some of the helpers, and fails if one fails")]

use std::net::IpAddr;

use tollgate_core::Quota;
use tollgate_policy::model::{Allowance, Grant, Identity, IdentitySource, Rule, TextPattern, When};
use tollgate_policy::{CompiledPolicy, Headers, Policy, Request};

/// Returns a quota of this count per minute.
pub(crate) fn per_minute(count: u64) -> Quota {
    Quota::token_bucket(format!("{count}/min").parse().unwrap()).unwrap()
}

pub(crate) fn limited(count: u64) -> Grant {
    Grant::Limited(vec![per_minute(count)])
}

/// Returns a rule for all requests: five per minute by this key.
pub(crate) fn rule(name: &str, key: &[&str]) -> Rule {
    Rule { key: strings(key), allowance: Allowance::Same(limited(5)), ..Rule::new(name) }
}

pub(crate) fn rule_for(name: &str, key: &[&str], when: When) -> Rule {
    Rule { when, ..rule(name, key) }
}

pub(crate) fn paths(paths: &[&str]) -> When {
    When { paths: strings(paths), ..When::default() }
}

pub(crate) fn identity(name: &str, source: IdentitySource) -> Identity {
    Identity::new(name, source)
}

pub(crate) fn header(name: &str) -> IdentitySource {
    IdentitySource::Header(name.to_owned())
}

pub(crate) fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub(crate) fn patterns(texts: &[&str]) -> Vec<TextPattern> {
    texts.iter().map(|text| TextPattern((*text).to_owned())).collect()
}

pub(crate) fn compile(policy: Policy) -> CompiledPolicy {
    CompiledPolicy::new(&policy.check().unwrap()).unwrap()
}

pub(crate) fn with_rules(rules: Vec<Rule>) -> Policy {
    Policy { rules, ..Policy::default() }
}

/// Returns a request from this peer.
pub(crate) fn from<'a>(peer: &str, method: &'a str, target: &'a str, headers: &'a dyn Headers) -> Request<'a> {
    let peer: IpAddr = peer.parse().unwrap();
    Request { method, target, headers, ..Request::from_peer(Some(peer)) }
}

/// Returns the charges of a request, as `rule key` or `rule key xCOST`.
pub(crate) fn charged(compiled: &CompiledPolicy, request: &Request<'_>) -> Vec<String> {
    let matched = compiled.match_request(request);
    let charge = |charge: &tollgate_policy::MatchedCharge| {
        let name = &compiled.rules()[charge.rule as usize].name;
        let key = String::from_utf8_lossy(matched.key(charge));
        let cost = if charge.cost == 1 { String::new() } else { format!(" x{}", charge.cost) };
        format!("{name} {key}{cost}")
    };
    matched.charges.iter().map(charge).collect()
}
