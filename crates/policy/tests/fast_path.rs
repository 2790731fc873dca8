//! The fast path against the indexes: both return the same result for generated policies and hostile requests.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use matching_support::{compile, header, identity, limited, strings};
use proptest::prelude::*;
use tollgate_policy::model::{
    Allowance, ClientIp, CostSource, Grant, IdentitySource, Override, Paths, Policy, Rule, TextPattern, Tier,
    TierSource, TrailingSlash, When,
};
use tollgate_policy::{Access, CommonKey, CompiledPolicy, Descriptor, Matched, MatchedCharge, Request};

const KEYS: [&str; 13] = [
    "client_ip",
    "user",
    "user",
    "client",
    "route",
    "path",
    "method",
    "host",
    "session",
    "app",
    "token",
    "tenant",
    "peer",
];
const METHODS: [&str; 6] = ["GET", "POST", "HEAD", "post", "BREW", ""];
const PATTERNS: [&str; 10] =
    ["/", "/*", "/a", "/a/", "/a/*", "/a/b", "/a/{name}", "/*/b/*", "/auth/login", "/auth/login/*"];
const TARGETS: [&str; 26] = [
    "",
    "/",
    "/a",
    "/A",
    "/a/",
    "/a//b",
    "/a/b",
    "/a/b?app=1",
    "/a/b?app=%31",
    "/a/b?app=&app=2",
    "/a/b/c",
    "/a/./b",
    "/%61/b",
    "/a/x/../b",
    "/a;x/b",
    "/a\\b",
    "/a.",
    "/a /b",
    "http://h/a/b",
    "*",
    "a",
    "/x/b/c#d",
    "/auth/login",
    "/auth/login/",
    "/auth/login/../login/x",
    "/auth//login?next=%2f",
];
const VALUES: [&str; 14] = [
    "alice",
    "",
    " ",
    " bob ",
    "a|b",
    "a\\b",
    "{a}",
    "\u{e9}",
    "x",
    "ab\u{7f}c",
    "~tilde~~",
    "4711-0815-4711-0815",
    "k=1",
    "203.0.113.9",
];
const PEERS: [&str; 7] =
    ["203.0.113.9", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "64:ff9b::c000:201", "2002:a00:1::1", "0.0.0.0"];
const FORWARDED: [&str; 4] = ["192.0.2.1", "192.0.2.77, 10.9.9.9", "garbage", "6.6.6.6, 2002:cb00:7109::1"];
const HEADERS: [&str; 7] = ["X-User", "x-user", "x-key", "Cookie", "Authorization", "X-Tier", "X-Cost"];
const SET: [&str; 8] = ["user", "client", "client_ip", "tier", "given", "peer", "host", "token"];

fn among(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(texts)
}

fn several(texts: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(among(texts), 0..=most).prop_map(|texts| strings(&texts))
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => among(&VALUES).prop_map(str::to_owned),
        1 => "[ -~]{0,20}",
        1 => (250_usize..260).prop_map(|length| "v".repeat(length)),
    ]
}

fn grant() -> impl Strategy<Value = Grant> {
    prop_oneof![1 => Just(Grant::Unlimited), 4 => (10_u64..50).prop_map(limited)]
}

fn allowance() -> impl Strategy<Value = Allowance> {
    prop_oneof![
        6 => grant().prop_map(Allowance::Same),
        2 => (grant(), grant()).prop_map(|(free, pro)| Allowance::Tiers(vec![("free".into(), free), ("pro".into(), pro)])),
        1 => Just(Allowance::Deny),
    ]
}

fn cost() -> impl Strategy<Value = CostSource> {
    prop_oneof![
        Just(CostSource::OfTheRequest),
        Just(CostSource::Fixed(3)),
        Just(CostSource::Header { name: "X-Cost".into(), default: 2 }),
        Just(CostSource::Methods { costs: vec![("post".into(), 5), ("GET".into(), 3)], default: 1 }),
        Just(CostSource::Paths { costs: path_costs(), default: 2 }),
    ]
}

fn path_costs() -> Vec<(String, u64)> {
    [("/a", 4), ("/a/*", 5), ("/a/b", 6), ("/*/b/*", 7), ("/auth/{name}", 8)]
        .map(|(pattern, cost)| (pattern.to_owned(), cost))
        .into()
}

fn rule() -> impl Strategy<Value = Rule> {
    let methods = prop_oneof![2 => Just(Vec::new()), 1 => several(&["GET", "POST", "PUT"], 2)];
    let overrides = prop::collection::vec((among(&["alice", "203.0.113.9", "10.0.0.1", "x", "/a"]), 60_u64..99), 0..2);
    (methods, several(&PATTERNS, 2), several(&KEYS, 2), allowance(), cost(), overrides).prop_map(
        |(methods, paths, mut key, allowance, source, overrides)| {
            key.sort();
            key.dedup();
            let when = When { methods, paths, ..When::default() };
            if allowance == Allowance::Deny {
                return Rule { when, allowance, ..Rule::new("r") };
            }
            let mut rule = Rule { when, allowance, ..Rule::new("r") };
            if key.len() == 1 && key[0] != "client" {
                rule.overrides = overrides
                    .into_iter()
                    .map(|(text, count)| Override { key: vec![TextPattern(text.to_owned())], grant: limited(count) })
                    .take(1)
                    .collect();
            }
            rule.key = key;
            rule.cost.source = source;
            rule.cost.max = 9;
            rule
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let paths = (any::<bool>(), any::<bool>()).prop_map(|(keep, ignore_case)| Paths {
        trailing_slash: if keep { TrailingSlash::Keep } else { TrailingSlash::Ignore },
        ignore_case,
    });
    let proxies = prop_oneof![Just(Vec::new()), Just(vec!["10.0.0.0/8".parse().unwrap()])];
    (prop::collection::vec(rule(), 1..5), paths, proxies).prop_map(|(mut rules, paths, trusted_proxies)| {
        for (at, rule) in rules.iter_mut().enumerate() {
            rule.name = format!("r{at}");
        }
        Policy {
            identities: vec![
                identity("client", IdentitySource::First(strings(&["key", "user", "client_ip"]))),
                identity("user", header("X-User")),
                identity("key", header("X-Key")),
                identity("session", IdentitySource::Cookie("sid".into())),
                identity("app", IdentitySource::Query("app".into())),
                identity("token", IdentitySource::Bearer),
                identity("tenant", IdentitySource::PathSegment(1)),
                identity("peer", IdentitySource::Peer),
                identity("given", IdentitySource::Given),
            ],
            client_ip: ClientIp { trusted_proxies, ..ClientIp::default() },
            tier: Some(Tier { source: TierSource::Direct(header("X-Tier")), default: "free".into(), trusted: true }),
            paths,
            rules,
            ..Policy::default()
        }
    })
}

#[derive(Clone, Debug)]
struct Sent {
    peer: Option<&'static str>,
    method: &'static str,
    host: Option<&'static str>,
    target: &'static str,
    headers: Vec<(&'static str, String)>,
    identities: Vec<(&'static str, String)>,
    cost: u64,
    is_described: bool,
}

fn header_line() -> impl Strategy<Value = (&'static str, String)> {
    prop_oneof![
        4 => (among(&HEADERS), value()),
        1 => (Just("X-Forwarded-For"), among(&FORWARDED).prop_map(str::to_owned)),
        1 => (Just("Cookie"), value().prop_map(|value| format!("a=b; sid={value}"))),
        1 => (Just("Authorization"), value().prop_map(|value| format!("Bearer {value}"))),
        1 => (Just("x-tier"), among(&["pro", "free", "king"]).prop_map(str::to_owned)),
        1 => (Just("x-cost"), among(&["4", "0", "-1", "77"]).prop_map(str::to_owned)),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    let identities = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec((among(&SET), value()), 1..3),
        1 => Just(vec![("tier", "pro".to_owned())]),
    ];
    let host = prop::option::of(among(&["a.com", "A.com:80", "", "b.com."]));
    (
        prop::option::weighted(0.9, among(&PEERS)),
        among(&METHODS),
        host,
        among(&TARGETS),
        prop::collection::vec(header_line(), 0..5),
        identities,
        0_u64..4,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(peer, method, host, target, headers, identities, cost, is_described)| Sent {
            peer,
            method,
            host,
            target,
            headers,
            identities,
            cost,
            is_described,
        })
}

/// A charge: its rule, quota and cost, and the text of its key.
type Charged = (u32, u32, u64, String);

fn charged(matched: &Matched<'_>, charge: &MatchedCharge) -> Charged {
    (charge.rule, charge.quota, charge.cost, String::from_utf8(matched.key(charge).to_vec()).unwrap())
}

/// Returns the endpoint and the charges of a request that is matched as a common request, if it is.
fn match_common(compiled: &CompiledPolicy, request: &Request<'_>) -> Option<(Option<u32>, Vec<Charged>)> {
    let mut found = compiled.common_charges(request)?;
    let mut charges = Vec::new();
    for charge in found.by_ref() {
        let charge = charge.ok()?;
        let key = match charge.key {
            CommonKey::Text(text) => text.to_vec(),
            CommonKey::Address(text, length) => text.to_le_bytes()[..length].to_vec(),
        };
        charges.push((charge.rule, charge.quota, charge.cost, String::from_utf8(key).unwrap()));
    }
    Some((found.endpoint(), charges))
}

/// Returns all that the fast path and the indexes have to agree on.
fn comparable(matched: &Matched<'_>) -> impl PartialEq + std::fmt::Debug + use<> {
    let charges: Vec<_> = matched.charges.iter().map(|charge| charged(matched, charge)).collect();
    (matched.access, matched.endpoint, matched.unlimited, matched.denials.to_vec(), charges)
}

fn assert_agree(compiled: &CompiledPolicy, sent: &Sent) -> Result<usize, TestCaseError> {
    let identities: Vec<(&str, &str)> = sent.identities.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let descriptor = Descriptor { domain: "edge", entries: &identities };
    let request = Request {
        method: sent.method,
        host: sent.host,
        target: sent.target,
        headers: &sent.headers,
        identities: &identities,
        cost: sent.cost,
        descriptor: sent.is_described.then_some(&descriptor),
        ..Request::from_peer(sent.peer.map(|peer| peer.parse().unwrap()))
    };
    let matched = compiled.match_request(&request);
    let reference = compiled.match_by_index(&request, |_, _| None);
    prop_assert_eq!(comparable(&matched), comparable(&reference));
    if let Some(common) = match_common(compiled, &request) {
        let endpoint = common.0;
        let expected: Vec<_> = reference.charges.iter().map(|charge| charged(&reference, charge)).collect();
        prop_assert_eq!((endpoint, common.1), (reference.endpoint, expected));
        prop_assert_eq!((reference.access, reference.unlimited), (Access::Rules, false));
        prop_assert!(reference.denials.is_empty());
    }
    // Overrides that an operator sets for some keys.
    let overrides = |rule: u32, key: &[u8]| match (rule, key.len() % 3) {
        (1, _) | (_, 0) => None,
        (_, 1) => Some(&[7_u32, 8][..]),
        _ => Some(&[][..]),
    };
    prop_assert_eq!(
        comparable(&compiled.match_request_with(&request, overrides)),
        comparable(&compiled.match_by_index(&request, overrides))
    );
    Ok(matched.charges.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn fast_path_agrees_with_the_indexes(policy in policy(), sent in prop::collection::vec(sent(), 12)) {
        let checked = policy.check();
        prop_assume!(checked.is_ok());
        let compiled = CompiledPolicy::new(&checked.unwrap()).unwrap();
        prop_assert!(compiled.has_fast_path());
        for sent in &sent {
            assert_agree(&compiled, sent)?;
        }
    }
}

/// Generates policies of common rules: each charges one limit by address or by a header, for any method and path.
fn common_policy() -> impl Strategy<Value = Policy> {
    (policy(), prop::collection::vec((any::<bool>(), 10_u64..50), 4)).prop_map(|(mut policy, common)| {
        for (rule, (by_user, count)) in policy.rules.iter_mut().zip(common) {
            let key = if by_user { "user" } else { "client_ip" };
            *rule = Rule { when: rule.when.clone(), ..matching_support::rule(&rule.name, &[key]) };
            rule.allowance = Allowance::Same(limited(count));
        }
        policy
    })
}

/// Generates requests that are common for most rules, unless one of their headers is unusual.
fn common_sent() -> impl Strategy<Value = Sent> {
    (sent(), among(&["203.0.113.9", "198.51.100.77", "192.0.2.1"]), among(&["alice", "bob", "user-0000000000000001"]))
        .prop_map(|(mut sent, peer, user)| {
            sent.headers.insert(0, ("x-user", user.to_owned()));
            Sent { peer: Some(peer), identities: Vec::new(), cost: 1, is_described: false, ..sent }
        })
}

proptest! {
    #[test]
    fn common_charges_agree_with_index(policy in common_policy(), sent in prop::collection::vec(common_sent(), 12)) {
        let checked = policy.check();
        prop_assume!(checked.is_ok());
        let compiled = CompiledPolicy::new(&checked.unwrap()).unwrap();
        for sent in &sent {
            assert_agree(&compiled, sent)?;
        }
    }
}

/// Other policies are matched by the indexes only.
#[test]
fn only_simple_policies_have_a_fast_path() {
    let simple = || matching_support::rule("r", &["client_ip"]);
    let with = |rule: Rule| compile(matching_support::with_rules(vec![simple(), Rule { name: "s".into(), ..rule }]));
    assert!(with(simple()).has_fast_path());
    assert!(with(Rule { when: matching_support::paths(&["/a/*"]), ..simple() }).has_fast_path());
    let hosts = When { hosts: strings(&["a.com"]), ..When::default() };
    assert!(!with(Rule { when: hosts, ..simple() }).has_fast_path());
    assert!(!with(Rule { replaces: strings(&["r"]), ..simple() }).has_fast_path());
    let many = (0..100).map(|at| matching_support::rule(&format!("r{at}"), &["client_ip"])).collect();
    assert!(!compile(matching_support::with_rules(many)).has_fast_path());
}

/// A value that needs no escape is not copied: its key is a slice of the request.
#[test]
fn verbatim_value_is_borrowed_from_the_request() {
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        ..matching_support::with_rules(vec![matching_support::rule("r", &["user"])])
    });
    for (value, is_borrowed) in [("alice", true), ("4711", true), ("a|b", false), (&"v".repeat(257), false)] {
        let headers = [("x-user", value.to_owned())];
        let matched = compiled.match_request(&Request { headers: &headers, ..Request::from_peer(None) });
        let key = matched.key(&matched.charges[0]);
        assert_eq!(std::ptr::eq(key.as_ptr(), headers[0].1.as_ptr()), is_borrowed, "{value}");
    }
}

/// Requests under rules by address and header, with conditions on method and path, are common. A request that sets
/// identities, costs more or has a value to escape is not.
#[test]
fn common_charges_exist_only_for_common_requests() {
    let login = When { methods: strings(&["POST"]), ..matching_support::paths(&["/auth/login"]) };
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        ..matching_support::with_rules(vec![
            matching_support::rule("per-ip", &["client_ip"]),
            matching_support::rule("per-user", &["user"]),
            Rule { when: login, ..matching_support::rule("login", &["client_ip"]) },
        ])
    });
    let (user, odd) = ([("x-user", "alice")], [("x-user", "a|b")]);
    let peer = Some("203.0.113.9".parse().unwrap());
    let request = Request { method: "POST", target: "/auth/login", headers: &user, ..Request::from_peer(peer) };
    let keys = |request: &Request<'_>| {
        match_common(&compiled, request).map(|(_, charges)| charges.into_iter().map(|charge| charge.3).collect())
    };
    assert_eq!(keys(&request), Some(vec!["203.0.113.9".to_owned(), "alice".to_owned(), "203.0.113.9".to_owned()]));
    assert_eq!(keys(&Request { method: "GET", ..request }).map(|keys| keys.len()), Some(2));
    for other in [
        Request { cost: 2, ..request },
        Request { identities: &[("user", "bob")], ..request },
        Request { headers: &odd, ..request },
        Request { peer: None, ..request },
        Request { target: "/auth//login", ..request },
    ] {
        assert_eq!(keys(&other), None);
    }
}

/// A 6to4 client is counted as the IPv4 address that it embeds. An override that grants that address more does not
/// apply to it: any host can choose such an address. The rule before has the same key, and no overrides.
#[test]
fn generous_override_of_an_ipv4_address_does_not_apply_to_addresses_that_embed_it() {
    let policy = "version: 1
rules:
  - { name: first, key: client_ip, limit: 10/min }
  - { name: second, key: client_ip, limit: 10/min, overrides: { 10.0.0.1: 60/min } }
";
    let compiled = CompiledPolicy::new(&tollgate_policy::parse(policy, "policy", None).unwrap().policy).unwrap();
    let bursts = |peer: &str| -> Vec<u64> {
        let matched = compiled.match_request(&Request::from_peer(Some(peer.parse().unwrap())));
        matched.charges.iter().map(|charge| compiled.quotas()[charge.quota as usize].quota.burst()).collect()
    };
    assert_eq!(bursts("10.0.0.1"), [10, 60]);
    assert_eq!(bursts("2002:a00:1::1"), [10, 10]);
}
