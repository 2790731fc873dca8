//! Matching any request never panics, its charges agree with the explanation, its keys are printable, and no other
//! notation of the same request avoids a charge.
//!
//! The input is lines: the method, the host, the target, then `Name: value`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tollgate_core::Quota;
use tollgate_policy::model::{
    Allowance, ClientIp, Condition, Cost, CostSource, ForwardedBy, Grant, Identity, IdentitySource, Networks, Paths,
    Rule, TextPattern, TrailingSlash, When,
};
use tollgate_policy::{CompiledPolicy, Matched, Policy, Request, RuleOutcome};

static POLICIES: LazyLock<[CompiledPolicy; 2]> = LazyLock::new(|| {
    [
        compile(ForwardedBy::XForwardedFor, Paths::default()),
        compile(ForwardedBy::Forwarded, Paths { trailing_slash: TrailingSlash::Keep, ignore_case: true }),
    ]
});

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut text = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (method, host, target) = (text(), text(), text());
    let headers: Vec<(String, &[u8])> = lines.filter_map(field).collect();
    for (compiled, peer) in POLICIES.iter().flat_map(|compiled| {
        ["10.0.0.1", "203.0.113.9", "::ffff:10.0.0.1", "2002:a00:1::1"].map(|peer| (compiled, peer))
    }) {
        let peer = peer.parse().expect("an address");
        let request = Request {
            method: &method,
            host: Some(&host),
            target: &target,
            headers: &headers,
            ..Request::from_peer(Some(peer))
        };
        let matched = compiled.match_request(&request);
        assert_agrees_with_index(compiled, &request, &matched);
        assert_keys_printable(&matched);
        assert_explained(compiled, &request, &matched);
        assert_respelled(compiled, &request, &matched);
        assert_repeated(compiled, &request, &headers, &matched);
    }
});

fn field(line: &[u8]) -> Option<(String, &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((String::from_utf8_lossy(&line[..colon]).into_owned(), &line[colon + 1..]))
}

/// Asserts that the fast path agrees with the indexes.
fn assert_agrees_with_index(compiled: &CompiledPolicy, request: &Request<'_>, matched: &Matched<'_>) {
    let reference = compiled.match_by_index(request, |_, _| None);
    let charges = |matched: &Matched<'_>| {
        let charges = matched.charges.iter();
        charges.map(|charge| (charge.rule, charge.quota, charge.cost, matched.key(charge).to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(charges(matched), charges(&reference));
    assert_eq!(
        (matched.access, matched.endpoint, matched.unlimited, &matched.denials),
        (reference.access, reference.endpoint, reference.unlimited, &reference.denials)
    );
}

/// Asserts that keys are short and printable, and contain no hash tags of Redis Cluster.
fn assert_keys_printable(matched: &Matched<'_>) {
    for charge in &matched.charges {
        let key = matched.key(charge);
        assert!(key.iter().all(|byte| matches!(byte, b' '..=b'~') && !b"{}".contains(byte)));
        // Two parts of at most 256 bytes, each of which may become four when escaped.
        assert!(key.len() <= 2 * (4 * 256 + 16));
        assert!((1..=100).contains(&charge.cost));
    }
}

fn assert_explained(compiled: &CompiledPolicy, request: &Request<'_>, matched: &Matched<'_>) {
    let mut charges = matched.charges.iter();
    let mut denials = matched.denials.iter();
    for rule in compiled.explain(request).rules {
        let RuleOutcome::Applies(applied) = rule.outcome else { continue };
        if applied.denies {
            assert_eq!(denials.next(), Some(&rule.rule));
            continue;
        }
        for key in std::iter::once(&applied.key).chain(&applied.more_keys) {
            let charge = charges.next().expect("a charge for each key of a rule that applies");
            assert_eq!(charge.rule, rule.rule);
            assert_eq!(charge.cost, applied.cost);
            assert_eq!(matched.key(charge), key.as_bytes());
        }
    }
    assert!(charges.next().is_none() && denials.next().is_none());
}

/// Asserts that other spellings of a plain path have at least the same charges: with an additional slash, a dot segment
/// or escapes.
fn assert_respelled(compiled: &CompiledPolicy, request: &Request<'_>, matched: &Matched<'_>) {
    let readings = compiled.explain(request).readings;
    assert!(readings.len() <= 24, "{readings:?}");
    if !request.target.starts_with('/') || readings.len() != 1 || request.target.contains('%') {
        return;
    }
    let (path, query) = request.target.split_at(request.target.find(['?', '#']).unwrap_or(request.target.len()));
    let escaped: String =
        path.bytes().map(|byte| if byte == b'/' { "/".into() } else { format!("%{byte:02X}") }).collect();
    let spelled =
        ["/", "/.", "/x/..", "/%2e", "/x%2fy/../..", "\\", "http://h"].map(|prefix| format!("{prefix}{path}"));
    for target in spelled.into_iter().chain([escaped]).map(|path| path + query) {
        let other = compiled.match_request(&Request { target: &target, ..*request });
        let has =
            |rule: u32, key: &[u8]| other.charges.iter().any(|charge| charge.rule == rule && other.key(charge) == key);
        assert!(matched.charges.iter().all(|charge| has(charge.rule, matched.key(charge))), "{target}");
    }
}

/// Asserts that further lines of a header or further cookies change no key and avoid no rule. The only exception is an
/// empty first line, because a backend may use the line after it.
fn assert_repeated(
    compiled: &CompiledPolicy,
    request: &Request<'_>,
    headers: &[(String, &[u8])],
    matched: &Matched<'_>,
) {
    const ADDED: [(&str, &[u8]); 4] =
        [("x-user", b"fresh"), ("authorization", b"bearer\tfresh"), ("Cookie", b"sid=fresh"), ("X-User", b"")];
    let keys = |matched: &Matched<'_>| {
        matched.charges.iter().map(|charge| (charge.rule, matched.key(charge).to_vec())).collect::<Vec<_>>()
    };
    for (name, value) in ADDED {
        let has_value = |token: &[u8]| has_value_after(headers, name, token);
        let is_present = match name {
            "authorization" => has_value(b"bearer "),
            "Cookie" => has_value(b"sid="),
            _ => has_value(b""),
        };
        if !is_present {
            continue;
        }
        let mut more = headers.to_vec();
        more.push((name.to_owned(), value));
        let other = compiled.match_request(&Request { headers: &more, ..*request });
        assert_eq!(keys(&other), keys(matched), "{name}");
    }
}

/// Whether the first line of a header begins with `start` and continues with a value.
fn has_value_after(headers: &[(String, &[u8])], name: &str, start: &[u8]) -> bool {
    let first = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    first.is_some_and(|(_, line)| {
        let line = line.trim_ascii();
        let follows = line.get(start.len()..).and_then(|rest| rest.first());
        line.len() >= start.len()
            && line[..start.len()].eq_ignore_ascii_case(start)
            && follows.is_some_and(|byte| byte.is_ascii_alphanumeric())
            && (start != b"sid=" || line.starts_with(start))
    })
}

fn compile(forwarded_by: ForwardedBy, paths: Paths) -> CompiledPolicy {
    let sources = [
        ("user", IdentitySource::Header("X-User".into())),
        ("sid", IdentitySource::Cookie("sid".into())),
        ("org", IdentitySource::PathSegment(2)),
        ("api_key", IdentitySource::Query("key".into())),
        ("token", IdentitySource::Bearer),
        ("any_client", IdentitySource::First(["user", "sid", "api_key"].map(str::to_owned).to_vec())),
    ];
    let mut rules: Vec<Rule> = sources.iter().map(|(name, _)| rule(name, &[name], When::default())).collect();
    rules.push(rule("address", &["client_ip", "path"], When::default()));
    rules.push(rule("host", &["host", "method"], When::default()));
    let patterns = ["/a", "/a/*", "/a/*/c", "/*/b", "/a/b/c", "/a/{id}", "/:any/c"].map(str::to_owned).to_vec();
    rules.push(rule("route", &["route"], When { paths: patterns, ..When::default() }));
    rules.push(rule("inside", &["client_ip"], When { network: Some(Networks::Internal), ..When::default() }));
    let outside = When {
        paths: vec!["/a/*".to_owned()],
        network: Some(Networks::NotAmong(vec!["10.0.0.0/8".parse().expect("a network")])),
        ..When::default()
    };
    rules.push(Rule { when: outside, allowance: Allowance::Deny, ..Rule::new("denied") });
    let hosts = vec!["*.example.com".to_owned(), "a".to_owned()];
    rules.push(rule("hosts", &["host"], When { hosts, ..When::default() }));
    let condition = Condition::OneOf(vec![TextPattern("a*b*".into())]);
    rules.push(rule("header", &["user"], When { headers: vec![("X-A".into(), condition)], ..When::default() }));
    let identity = |(name, source): (&str, IdentitySource)| Identity { trusted: true, ..Identity::new(name, source) };
    let trusted_proxies = vec!["10.0.0.0/8".parse().expect("a network")];
    let policy = Policy {
        identities: sources.into_iter().map(identity).collect(),
        client_ip: ClientIp { trusted_proxies, forwarded_by, ..ClientIp::default() },
        rules,
        paths,
        ..Policy::default()
    };
    CompiledPolicy::new(&policy.check().expect("a policy")).expect("a compiled policy")
}

fn rule(name: &str, key: &[&str], when: When) -> Rule {
    let quota = Quota::token_bucket("100/min".parse().expect("a rate")).expect("a quota");
    Rule {
        when,
        key: key.iter().map(|name| (*name).to_owned()).collect(),
        allowance: Allowance::Same(Grant::Limited(vec![quota])),
        cost: Cost { source: CostSource::Header { name: "X-Cost".into(), default: 1 }, max: 100, settled_by: None },
        ..Rule::new(name)
    }
}
