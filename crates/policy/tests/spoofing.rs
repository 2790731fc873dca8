//! Attacks by clients: obtaining a fresh key, another client's key or tier, or avoiding a rule. None may succeed. Tests
//! that are based on a security advisory name it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use matching_support::{
    charged, compile, from, header, identity, limited, paths, patterns, rule, rule_for, strings, with_rules,
};
use tollgate_policy::model::{
    AccessList, Allowance, ClientIp, CostSource, Grant, IdentitySource, Networks, Override, Rule, Tier, TierSource,
    When,
};
use tollgate_policy::{Access, CompiledPolicy, Policy, Request};

const CLIENT: &str = "203.0.113.9";

/// Returns a policy that counts by address, behind proxies in 10.0.0.0/8, which are on the `allow` list, as in many
/// policies.
fn behind_proxies() -> CompiledPolicy {
    compile(Policy {
        client_ip: ClientIp { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..ClientIp::default() },
        allow: AccessList { client_ip: vec!["10.0.0.0/8".parse().unwrap()], identities: Vec::new() },
        ..with_rules(vec![rule("per-ip", &["client_ip"])])
    })
}

fn by_address(compiled: &CompiledPolicy, peer: &str, headers: &[(&str, &str)]) -> Vec<String> {
    charged(compiled, &from(peer, "GET", "/", &headers))
}

#[test]
fn untrusted_peer_cannot_choose_its_address() {
    let compiled = behind_proxies();
    for headers in [
        &[][..],
        &[("X-Forwarded-For", "198.51.100.7")],
        &[("X-Forwarded-For", "10.0.0.1")],
        &[("X-Forwarded-For", "198.51.100.7"), ("x-forwarded-for", "198.51.100.8")],
        &[("Forwarded", "for=198.51.100.7")],
        &[("X-Real-IP", "198.51.100.7"), ("True-Client-IP", "198.51.100.7")],
        &[("X-Forwarded-For", "\u{0}"), ("Connection", "X-Forwarded-For")],
    ] {
        assert_eq!(by_address(&compiled, CLIENT, headers), ["per-ip 203.0.113.9"], "{headers:?}");
    }
}

/// The proxy appends the address of its peer to the entries that the client sent.
#[test]
fn client_behind_a_proxy_cannot_choose_its_address() {
    let compiled = behind_proxies();
    let long = "10.0.0.1, ".repeat(5_000);
    for written in ["", "198.51.100.7", "10.0.0.1", "10.0.0.1, 10.0.0.1", "garbage", "\"", ",,,", "unknown", &long] {
        let joined = format!("{written}, {CLIENT}");
        for lines in
            [&[("X-Forwarded-For", &*joined)][..], &[("X-Forwarded-For", written), ("X-Forwarded-For", CLIENT)]]
        {
            assert_eq!(by_address(&compiled, "10.0.0.1", lines), ["per-ip 203.0.113.9"], "{written}");
            // CVE-2024-45410: headers that a client lists under `Connection` are not removed.
            let mut stripped = lines.to_vec();
            stripped.push(("Connection", "close, X-Forwarded-For"));
            assert_eq!(by_address(&compiled, "10.0.0.1", &stripped), ["per-ip 203.0.113.9"], "{written}");
        }
    }
}

#[test]
fn last_forwarding_line_is_used_among_many() {
    let compiled = behind_proxies();
    let mut lines = vec![("X-Forwarded-For", "10.0.0.1"); 3_000];
    lines.push(("X-Forwarded-For", CLIENT));
    assert_eq!(by_address(&compiled, "10.0.0.1", &lines), ["per-ip 203.0.113.9"]);
}

/// CVE-2026-45364: rotation within a prefix, and other notations of the same address.
#[test]
fn addresses_of_one_ipv6_prefix_have_one_key() {
    let compiled = behind_proxies();
    let key = ["per-ip 2001:db8:1:2::/64"];
    for peer in ["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2:3:4:5:6"] {
        assert_eq!(by_address(&compiled, peer, &[]), key);
    }
    for text in [
        "2001:0DB8:0001:0002:0:0:0:1",
        "[2001:db8:1:2::1]:443",
        "2001:db8:1:2::1%eth0",
        " 2001:db8:1:2:0::1 ",
        "2001:db8:1:2::192.0.2.1",
    ] {
        assert_eq!(by_address(&compiled, "10.0.0.1", &[("X-Forwarded-For", text)]), key, "{text}");
    }
}

/// CVE-2026-30827: a mapped address must be converted before it is masked; otherwise all IPv4 clients have one key, and
/// access lists can be avoided.
#[test]
fn ipv4_mapped_address_is_the_ipv4_address() {
    let compiled = behind_proxies();
    assert_eq!(by_address(&compiled, "::ffff:203.0.113.9", &[]), ["per-ip 203.0.113.9"]);
    assert_eq!(by_address(&compiled, "::ffff:203.0.113.10", &[]), ["per-ip 203.0.113.10"]);
    let forwarded = [("X-Forwarded-For", "::ffff:cb00:7109")];
    assert_eq!(by_address(&compiled, "::ffff:10.0.0.1", &forwarded), ["per-ip 203.0.113.9"]);
    let denying = compile(Policy {
        deny: AccessList { client_ip: vec!["203.0.113.0/24".parse().unwrap()], identities: Vec::new() },
        ..with_rules(vec![])
    });
    assert_eq!(denying.match_request(&from("::ffff:203.0.113.9", "GET", "/", &())).access, Access::Denied);
}

/// NAT64 and 6to4: a client has one key, however many addresses it uses.
#[test]
fn embedded_ipv4_address_is_the_key() {
    let compiled = behind_proxies();
    for peer in ["64:ff9b::203.0.113.9", "2002:cb00:7109::1", "2002:cb00:7109:7:8::1", "::ffff:203.0.113.9"] {
        assert_eq!(by_address(&compiled, peer, &[]), ["per-ip 203.0.113.9"], "{peer}");
        let forwarded = [("X-Forwarded-For", peer)];
        assert_eq!(by_address(&compiled, "10.0.0.1", &forwarded), ["per-ip 203.0.113.9"], "{peer}");
    }
    assert_eq!(by_address(&compiled, "64:ff9b::203.0.113.10", &[]), ["per-ip 203.0.113.10"]);
    assert_eq!(by_address(&compiled, "64:ff9b:1::203.0.113.9", &[]), ["per-ip 64:ff9b:1::/64"]);
    assert_eq!(compiled.read_key(0, "64:ff9b::203.0.113.9").unwrap(), "203.0.113.9");
}

/// `2002:a00:1::1` embeds 10.0.0.1, which is a trusted proxy and on the `allow` list.
#[test]
fn embedded_ipv4_address_grants_nothing() {
    let compiled = behind_proxies();
    for peer in ["2002:a00:1::1", "64:ff9b::10.0.0.1"] {
        let request = from(peer, "GET", "/", &[("X-Forwarded-For", "198.51.100.7")]);
        assert_eq!(
            (compiled.match_request(&request).access, charged(&compiled, &request)),
            (Access::Rules, vec!["per-ip 10.0.0.1".into()])
        );
        assert!(!compiled.trusts(peer.parse().unwrap()));
    }
    let by_peer = |pattern: &str| Policy {
        identities: vec![
            identity("proxy", IdentitySource::Peer),
            identity("client", IdentitySource::First(strings(&["key", "client_ip"]))),
            identity("key", header("X-Key")),
        ],
        allow: AccessList { client_ip: Vec::new(), identities: vec![("client".into(), patterns(&[pattern]))] },
        tier: Some(Tier {
            source: TierSource::Listed { by: "proxy".into(), tiers: vec![("10.0.0.1".into(), "pro".into())] },
            default: "free".into(),
            trusted: true,
        }),
        ..with_rules(vec![Rule {
            allowance: Allowance::Tiers(vec![("free".into(), limited(5)), ("pro".into(), Grant::Unlimited)]),
            ..rule("per-proxy", &["proxy"])
        }])
    };
    let embedded = from("2002:a00:1::1", "GET", "/", &());
    let compiled = compile(by_peer("client_ip=10.0.0.1"));
    assert_eq!(
        (compiled.match_request(&embedded).access, charged(&compiled, &embedded)),
        (Access::Rules, vec!["per-proxy 10.0.0.1".into()])
    );
    assert_eq!(compiled.match_request(&from("10.0.0.1", "GET", "/", &())).access, Access::Allowed);
    // The list can name the address as it is sent.
    let compiled = compile(by_peer("client_ip=2002:a00:1::1"));
    assert_eq!(compiled.match_request(&embedded).access, Access::Allowed);
    assert_eq!(compiled.match_request(&from("2002:a00:1::2", "GET", "/", &())).access, Access::Rules);
}

#[test]
fn denied_address_is_denied_when_embedded() {
    let lists = [
        AccessList { client_ip: vec!["203.0.113.0/24".parse().unwrap()], identities: Vec::new() },
        AccessList { client_ip: vec!["2002::/16".parse().unwrap()], identities: Vec::new() },
        AccessList { client_ip: Vec::new(), identities: vec![("proxy".into(), patterns(&["203.0.113.9"]))] },
        AccessList { client_ip: Vec::new(), identities: vec![("proxy".into(), patterns(&["2002:cb00:7109::1"]))] },
    ];
    for deny in lists {
        let compiled =
            compile(Policy { identities: vec![identity("proxy", IdentitySource::Peer)], deny, ..with_rules(vec![]) });
        assert_eq!(compiled.match_request(&from("2002:cb00:7109::1", "GET", "/", &())).access, Access::Denied);
        assert_eq!(compiled.match_request(&from("2001:db8::1", "GET", "/", &())).access, Access::Rules);
    }
}

/// A rule for a network matches addresses that embed an address of it, but exempts none of them from another rule.
#[test]
fn rules_and_overrides_limit_embedded_addresses_and_grant_them_nothing() {
    let network = When { network: Some(Networks::Among(vec!["10.0.0.0/8".parse().unwrap()])), ..When::default() };
    let overriding = |pattern: &str, grant| Override { key: patterns(&[pattern]), grant };
    let compiled = compile(with_rules(vec![
        Rule {
            overrides: vec![overriding("10.0.0.1", Grant::Unlimited), overriding("10.0.0.2", limited(1))],
            ..rule("per-ip", &["client_ip"])
        },
        Rule { replaces: strings(&["per-ip"]), ..rule_for("inside", &["client_ip"], network) },
    ]));
    let quotas = |peer: &str| {
        let matched = compiled.match_request(&from(peer, "GET", "/", &()));
        let amount = |charge: &tollgate_policy::MatchedCharge| compiled.quotas()[charge.quota as usize].quota.amount();
        matched.charges.iter().map(amount).collect::<Vec<_>>()
    };
    assert_eq!(quotas("10.0.0.1"), [5]);
    assert_eq!(quotas("2002:a00:1::1"), [5, 5]);
    assert_eq!(quotas("2002:a00:2::1"), [1, 5]);
    assert_eq!(quotas("192.0.2.1"), [5]);
}

/// An API key that looks like an address is not matched as an address.
#[test]
fn value_of_one_identity_does_not_match_another() {
    let policy = |pattern: &str| Policy {
        identities: vec![
            identity("key", header("X-Key")),
            identity("client", IdentitySource::First(strings(&["key", "client_ip"]))),
        ],
        allow: AccessList { client_ip: Vec::new(), identities: vec![("client".into(), patterns(&[pattern]))] },
        ..with_rules(vec![rule("per-client", &["client"])])
    };
    let compiled = compile(policy("client_ip=203.0.113.99"));
    let forged = from(CLIENT, "GET", "/", &[("X-Key", "203.0.113.99")]);
    assert_eq!(
        (compiled.match_request(&forged).access, charged(&compiled, &forged)),
        (Access::Rules, vec!["per-client key=203.0.113.99".into()])
    );
    assert_eq!(compiled.match_request(&from("203.0.113.99", "GET", "/", &())).access, Access::Allowed);
    let explained = compiled.explain(&from("203.0.113.99", "GET", "/", &()));
    assert_eq!(explained.decided_by.as_deref(), Some("client client_ip=203.0.113.99"));
    // A value that a caller sets for the list itself is distinct from those of its members.
    let set = Request { identities: &[("client", "203.0.113.99")], ..from(CLIENT, "GET", "/", &()) };
    assert_eq!(compiled.match_request(&set).access, Access::Rules);
    assert_eq!(compile(policy("client=203.0.113.99")).match_request(&set).access, Access::Allowed);
    let errors = policy("203.0.113.99").check().unwrap_err();
    assert_eq!(errors.0.iter().map(|problem| problem.code).collect::<Vec<_>>(), ["value-without-identity"]);
}

/// Access lists contain full addresses: another address of the same prefix is not allowed.
#[test]
fn access_list_matches_full_addresses() {
    let compiled = compile(Policy {
        allow: AccessList { client_ip: vec!["2001:db8:1:2::1/128".parse().unwrap()], identities: Vec::new() },
        ..with_rules(vec![rule("per-ip", &["client_ip"])])
    });
    assert_eq!(compiled.match_request(&from("2001:db8:1:2::1", "GET", "/", &())).access, Access::Allowed);
    assert_eq!(compiled.match_request(&from("2001:db8:1:2::2", "GET", "/", &())).access, Access::Rules);
}

#[test]
fn delimiters_in_values_do_not_collide() {
    let compiled = compile(Policy {
        identities: vec![identity("a", header("X-A")), identity("b", header("X-B"))],
        ..with_rules(vec![rule("pair", &["a", "b"])])
    });
    let key = |a: &str, b: &str| charged(&compiled, &from(CLIENT, "GET", "/", &[("X-A", a), ("X-B", b)]));
    let keys =
        [key("x|y", "z"), key("x", "y|z"), key(r"x\x7cy", "z"), key("x", r"y\x7cz"), key("{x}", "z"), key("x", "z")];
    for (at, one) in keys.iter().enumerate() {
        assert!(keys[at + 1..].iter().all(|other| other != one), "{one:?}");
    }
    // Redis Cluster reads braces as a hash tag.
    assert!(!key("{x}", "{y}")[0].contains(['{', '}']));
}

#[test]
fn identities_of_a_list_have_distinct_keys() {
    let compiled = compile(Policy {
        identities: vec![
            identity("api_key", header("X-API-Key")),
            identity("user", header("X-User")),
            identity("client", IdentitySource::First(strings(&["api_key", "user", "client_ip"]))),
        ],
        ..with_rules(vec![Rule {
            overrides: vec![Override { key: patterns(&["api_key=partner"]), grant: limited(1_000) }],
            ..rule("per-client", &["client"])
        }])
    });
    let key = |headers: &[(&str, &str)]| charged(&compiled, &from(CLIENT, "GET", "/", &headers));
    assert_eq!(key(&[("X-API-Key", "partner")]), ["per-client api_key=partner"]);
    assert_eq!(key(&[("X-User", "partner")]), ["per-client user=partner"]);
    assert_eq!(key(&[("X-User", "api_key=partner")]), ["per-client user=api_key=partner"]);
    assert_eq!(key(&[]), ["per-client client_ip=203.0.113.9"]);
    // Nor does the value have the grant of the other identity.
    let amount = |headers: &[(&str, &str)]| {
        let matched = compiled.match_request(&from(CLIENT, "GET", "/", &headers));
        compiled.quotas()[matched.charges[0].quota as usize].quota.amount()
    };
    assert_eq!(amount(&[("X-API-Key", "partner")]), 1_000);
    assert_eq!(amount(&[("X-User", "partner")]), 5);
    assert_eq!(amount(&[("X-User", "api_key=partner")]), 5);
}

#[test]
fn second_header_line_does_not_replace_the_first() {
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        ..with_rules(vec![rule("per-user", &["user"])])
    });
    let key = |headers: &[(&str, &str)]| charged(&compiled, &from(CLIENT, "GET", "/", &headers));
    assert_eq!(key(&[("X-User", "mallory"), ("X-User", "alice")]), ["per-user mallory"]);
    assert_eq!(key(&[("X-User", "mallory"), ("X-User", "")]), ["per-user mallory"]);
    // A backend may or may not use the line after an empty one, so the request is counted under its address.
    assert_eq!(key(&[("X-User", ""), ("x-user", "mallory"), ("X-USER", " ")]), [r"per-user \unusable:203.0.113.9"]);
    assert_eq!(key(&[("X-User", ""), ("x-user", " ")]), [""; 0]);
}

#[test]
fn long_values_are_counted_under_short_distinct_keys() {
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        ..with_rules(vec![rule("per-user", &["user"])])
    });
    let key = |value: &str| charged(&compiled, &from(CLIENT, "GET", "/", &[("X-User", value)]));
    let (one, other) = ("x".repeat(100_000), format!("{}y", "x".repeat(99_999)));
    assert_eq!(key(&one).len(), 1);
    assert_ne!(key(&one), key(&other));
    assert!(key(&one)[0].len() < 300);
}

#[test]
fn no_spelling_of_a_path_avoids_its_rule() {
    let when = When { methods: strings(&["POST"]), ..paths(&["/auth/login"]) };
    let compiled = compile(with_rules(vec![
        rule_for("login", &["client_ip"], when),
        rule_for("by-path", &["path"], paths(&["/auth/*"])),
    ]));
    for target in [
        "/auth/login",
        "//auth/login",
        "/auth//login",
        "/auth/%6cogin",
        "/auth/%6Cogin",
        "/%61uth/login",
        "/auth/./login",
        "/auth/x/../login",
        "/auth/x/%2e%2e/login",
        "/../auth/login",
        "/auth/login/",
        "/auth/login//",
        "/auth%2flogin",
        "/auth%2Flogin",
        "/auth/login?x=/",
        "/auth/login#x",
        "/auth/login/.",
        "/auth/login/x/..",
        "auth/login",
        "http://example.com/auth/login",
        "https://a@b:1//auth/./login?x",
    ] {
        for method in ["POST", "post"] {
            let found = charged(&compiled, &from(CLIENT, method, target, &()));
            assert_eq!(found, ["login 203.0.113.9", "by-path /auth/login"], "{method} {target}");
        }
    }
}

#[test]
fn cost_from_a_header_is_at_least_one_and_at_most_the_maximum() {
    let mut counted = rule("tokens", &["client_ip"]);
    counted.cost.source = CostSource::Header { name: "X-Cost".into(), default: 3 };
    counted.cost.max = 10;
    let compiled = compile(with_rules(vec![counted]));
    let cost = |headers: &[(&str, &str)]| compiled.match_request(&from(CLIENT, "GET", "/", &headers)).charges[0].cost;
    for (said, counts) in [
        ("1", 1),
        ("7", 7),
        ("0", 1),
        ("00", 1),
        ("10", 10),
        ("11", 10),
        ("99999999999999999999999999", 10),
        ("-1", 3),
        ("-0", 3),
        ("+5", 3),
        ("0x0", 3),
        ("1e-9", 3),
        ("0.1", 3),
        ("", 3),
        ("garbage", 3),
        ("\u{661}", 3),
    ] {
        assert_eq!(cost(&[("X-Cost", said)]), counts, "{said}");
    }
    assert_eq!(cost(&[]), 3);
    assert_eq!(cost(&[("X-Cost", "5"), ("X-Cost", "1")]), 5);
    assert_eq!(cost(&[("X-Cost", ""), ("X-Cost", "1")]), 3);
}

/// A client cannot choose a tier by a header, nor by a key that is the name of a tier.
#[test]
fn unlisted_client_has_the_default_tier() {
    let tiers = vec![("free".to_owned(), limited(5)), ("enterprise".to_owned(), Grant::Unlimited)];
    let by_tier = Rule { allowance: Allowance::Tiers(tiers), ..rule("per-key", &["api_key"]) };
    let compiled = compile(Policy {
        identities: vec![identity("api_key", header("X-API-Key"))],
        tier: Some(Tier {
            source: TierSource::Listed { by: "api_key".into(), tiers: vec![("paid".into(), "enterprise".into())] },
            default: "free".into(),
            trusted: false,
        }),
        ..with_rules(vec![by_tier, rule("by-tier", &["tier"])])
    });
    let key = |headers: &[(&str, &str)]| charged(&compiled, &from(CLIENT, "GET", "/", &headers));
    assert_eq!(key(&[("X-API-Key", "paid")]), ["by-tier enterprise"]);
    for headers in
        [&[("X-API-Key", "other")][..], &[("X-API-Key", "other"), ("X-Tier", "enterprise"), ("Tier", "enterprise")]]
    {
        assert_eq!(key(headers), ["per-key other", "by-tier free"], "{headers:?}");
    }
    assert_eq!(key(&[("X-API-Key", "enterprise")]), ["per-key enterprise", "by-tier free"]);
}

/// Values that the caller sets have precedence over headers, and properties of the request cannot be set.
#[test]
fn callers_set_identities_but_not_request_properties() {
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        ..with_rules(vec![rule("all", &["client_ip", "user", "method", "path"])])
    });
    let headers = [("X-User", "mallory")];
    let set = [
        ("user", "alice"),
        ("client_ip", "::ffff:198.51.100.7"),
        ("method", "FREE"),
        ("path", "/free"),
        ("route", "/free"),
    ];
    let request = Request { identities: &set, ..from(CLIENT, "GET", "/a", &headers) };
    assert_eq!(charged(&compiled, &request), ["all 198.51.100.7|alice|GET|/a"]);
    let garbage = [("client_ip", "unparsable"), ("user", "alice")];
    let request = Request { identities: &garbage, ..from(CLIENT, "GET", "/a", &headers) };
    assert_eq!(charged(&compiled, &request), ["all 203.0.113.9|alice|GET|/a"]);
}
