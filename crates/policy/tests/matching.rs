//! Matching of requests: keys, routes, tiers, overrides, costs, access lists, and explanations.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use matching_support::{
    charged, compile, from, header, identity, limited, paths, patterns, per_minute, rule, rule_for, strings, with_rules,
};
use tollgate_core::Quota;
use tollgate_policy::model::{
    AccessList, Allowance, ClientIp, Condition, CostSource, FailureMode, Grant, IdentitySource, Networks, Override,
    Rule, Tier, TierSource, When,
};
use tollgate_policy::{Access, CompiledPolicy, Descriptor, GrantSource, Policy, Request, RuleOutcome};

const CLIENT: &str = "203.0.113.9";

fn amounts(compiled: &CompiledPolicy, request: &Request<'_>) -> Vec<u64> {
    let quota = |charge: &tollgate_policy::MatchedCharge| compiled.quotas()[charge.quota as usize].quota.amount();
    compiled.match_request(request).charges.iter().map(quota).collect()
}

#[test]
fn compiled_policy_is_send_and_sync() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<CompiledPolicy>();
}

#[test]
fn rule_without_a_key_counts_all_requests_together() {
    let compiled = compile(with_rules(vec![rule("all", &[])]));
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/", &())), ["all "]);
    assert_eq!(charged(&compiled, &Request::from_peer(None)), ["all "]);
    assert!(!compiled.needs_client_ip());
}

#[test]
fn rule_whose_key_is_absent_does_not_apply() {
    let identities = vec![
        identity("user", header("X-User")),
        identity("sid", IdentitySource::Cookie("sid".into())),
        identity("org", IdentitySource::PathSegment(2)),
        identity("api_key", IdentitySource::Query("key".into())),
        identity("token", IdentitySource::Bearer),
        identity("everyone", IdentitySource::Value("all".into())),
        identity("link", IdentitySource::Peer),
    ];
    let names: Vec<String> = identities.iter().map(|identity| identity.name.clone()).collect();
    let rules = names.iter().map(|name| rule(name, &[name])).collect();
    let compiled = compile(Policy { identities, ..with_rules(rules) });
    assert_eq!(charged(&compiled, &Request::from_peer(None)), ["everyone all"]);
    let headers = [("X-User", "u"), ("Cookie", "sid=s"), ("Authorization", "Bearer t")];
    let request = from(CLIENT, "GET", "/orgs/7?key=k", &headers);
    let expected = [
        "user u",
        "sid hmac:427ed3e74418e5a8e94ee6dbbd2106e5",
        "org 7",
        "api_key k",
        "token hmac:42bac0eb39bda3a973cfd15328ac51e5",
        "everyone all",
        "link 203.0.113.9",
    ];
    assert_eq!(charged(&compiled, &request), expected);
    assert!(compiled.needs_client_ip());
}

#[test]
fn route_is_the_pattern_of_the_rule_or_of_any_rule() {
    let compiled = compile(with_rules(vec![
        rule_for("own", &["route"], paths(&["/a/*", "/a/b"])),
        rule_for("wide", &["route"], paths(&["/*"])),
        rule("any", &["route"]),
    ]));
    let charged = |target| charged(&compiled, &from(CLIENT, "GET", target, &()));
    assert_eq!(charged("/a/b"), ["own /a/b", "wide /*", "any /a/b"]);
    assert_eq!(charged("/a/x"), ["own /a/*", "wide /*", "any /a/*"]);
    assert_eq!(charged("/z"), ["wide /*", "any /*"]);
    assert_eq!(charged(""), [""; 0]);
}

#[test]
fn tiers_share_a_scope_and_unknown_tiers_have_the_default() {
    let tiers =
        vec![("free".to_owned(), limited(5)), ("pro".to_owned(), limited(50)), ("vip".to_owned(), Grant::Unlimited)];
    let compiled = compile(Policy {
        tier: Some(Tier { source: TierSource::Direct(header("X-Tier")), default: "free".into(), trusted: true }),
        ..with_rules(vec![Rule { allowance: Allowance::Tiers(tiers), ..rule("r", &["client_ip"]) }])
    });
    let amounts = |tier: &str| amounts(&compiled, &from(CLIENT, "GET", "/", &[("X-Tier", tier)]));
    for (tier, expected) in
        [("free", &[5][..]), ("pro", &[50]), ("vip", &[]), ("king", &[5]), ("", &[5]), ("PRO", &[5])]
    {
        assert_eq!(amounts(tier), expected, "{tier}");
    }
    assert!(compiled.quotas().iter().all(|quota| quota.scope == "r"));
    let set = [("tier", "pro")];
    assert_eq!(self::amounts(&compiled, &Request { identities: &set, ..from(CLIENT, "GET", "/", &()) }), [50]);
}

#[test]
fn most_specific_override_applies() {
    let overriding = |key: &[&str], count| Override { key: patterns(key), grant: limited(count) };
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        ..with_rules(vec![Rule {
            overrides: vec![
                overriding(&["*", "*"], 1),
                overriding(&["al*", "*"], 2),
                overriding(&["alice", "*"], 3),
                overriding(&["alice", "/a"], 4),
                Override { key: patterns(&["root", "*"]), grant: Grant::Unlimited },
            ],
            ..rule_for("r", &["user", "route"], paths(&["/a", "/b"]))
        }])
    });
    let amounts = |user: &str, target: &str| amounts(&compiled, &from(CLIENT, "GET", target, &[("X-User", user)]));
    assert_eq!(amounts("bob", "/a"), [1]);
    assert_eq!(amounts("albert", "/a"), [2]);
    assert_eq!(amounts("alice", "/b"), [3]);
    assert_eq!(amounts("alice", "/a"), [4]);
    assert_eq!(amounts("root", "/a"), [0; 0]);
}

#[test]
fn override_for_an_address_matches_in_any_notation() {
    let overrides =
        ["2001:DB8:0:0::1", "::ffff:192.0.2.1"].map(|text| Override { key: patterns(&[text]), grant: limited(100) });
    let compiled = compile(with_rules(vec![Rule { overrides: overrides.to_vec(), ..rule("r", &["client_ip"]) }]));
    assert_eq!(amounts(&compiled, &from("2001:db8::2", "GET", "/", &())), [100]);
    assert_eq!(amounts(&compiled, &from("192.0.2.1", "GET", "/", &())), [100]);
    assert_eq!(amounts(&compiled, &from("192.0.2.2", "GET", "/", &())), [5]);
}

#[test]
fn each_quota_of_a_rule_charges_the_same_key() {
    let quotas = vec![
        Quota::token_bucket("5/s".parse().unwrap()).unwrap(),
        Quota::token_bucket("100/h".parse().unwrap()).unwrap(),
    ];
    let compiled = compile(with_rules(vec![Rule {
        allowance: Allowance::Same(Grant::Limited(quotas)),
        ..rule("r", &["client_ip"])
    }]));
    let scopes: Vec<&str> = compiled.quotas().iter().map(|quota| quota.scope.as_str()).collect();
    assert_eq!(scopes, ["r", "r/1h"]);
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/", &())), ["r 203.0.113.9", "r 203.0.113.9"]);
}

#[test]
fn cost_is_that_of_the_rule_or_of_the_caller() {
    let costing = |name: &str, source| {
        let mut rule = rule(name, &[]);
        rule.cost.source = source;
        rule
    };
    let methods = CostSource::Methods { costs: vec![("POST".into(), 4)], default: 2 };
    let compiled = compile(with_rules(vec![
        rule("caller", &[]),
        costing("fixed", CostSource::Fixed(3)),
        costing("methods", methods),
        costing("guess", CostSource::Estimate(5)),
    ]));
    let charged = |method, cost| charged(&compiled, &Request { cost, ..from(CLIENT, method, "/", &()) });
    assert_eq!(charged("POST", 7), ["caller  x7", "fixed  x3", "methods  x4", "guess  x5"]);
    assert_eq!(charged("GET", 1), ["caller ", "fixed  x3", "methods  x2", "guess  x5"]);
    assert_eq!(charged("GET", 0), ["caller  x0", "fixed  x0", "methods  x0", "guess  x0"]);
    let flags: Vec<(bool, bool)> = compiled.rules().iter().map(|rule| (rule.own_cost, rule.variable_cost)).collect();
    assert_eq!(flags, [(false, false), (true, false), (true, false), (true, true)]);
}

#[test]
fn compiled_rules_have_the_settings_that_verdicts_need() {
    let permits = Grant::Limited(vec![Quota::concurrency(3, None).unwrap()]);
    let compiled = compile(with_rules(vec![
        Rule { allowance: Allowance::Same(permits), shadow: true, publish: false, ..rule("a", &[]) },
        Rule { on_failure: Some(FailureMode::Closed), ..rule("b", &[]) },
    ]));
    let [a, b] = compiled.rules() else { panic!("two rules") };
    assert!(a.concurrency && a.shadow && !a.publish);
    assert_eq!((&*b.name, b.concurrency, b.on_failure), ("b", false, FailureMode::Closed));
}

#[test]
fn deny_list_precedes_allow_list_and_both_precede_the_rules() {
    let list = |networks: &[&str], users: &[&str]| AccessList {
        client_ip: networks.iter().map(|network| network.parse().unwrap()).collect(),
        identities: if users.is_empty() { Vec::new() } else { vec![("user".to_owned(), patterns(users))] },
    };
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        deny: list(&["192.0.2.0/24"], &["mallory", "bot-*"]),
        allow: list(&["192.0.2.1/32", "10.0.0.0/8"], &["admin"]),
        ..with_rules(vec![rule("all", &[])])
    });
    for (peer, user, access, decided) in [
        ("192.0.2.1", "x", Access::Denied, Some("client_ip 192.0.2.0/24")),
        ("192.0.2.1", "admin", Access::Denied, Some("client_ip 192.0.2.0/24")),
        ("10.0.0.1", "x", Access::Allowed, Some("client_ip 10.0.0.0/8")),
        ("10.0.0.1", "mallory", Access::Denied, Some("user mallory")),
        (CLIENT, "bot-7", Access::Denied, Some("user bot-*")),
        (CLIENT, "admin", Access::Allowed, Some("user admin")),
        (CLIENT, "x", Access::Rules, None),
    ] {
        let headers = [("X-User", user)];
        let request = from(peer, "GET", "/", &headers);
        let matched = compiled.match_request(&request);
        assert_eq!(
            (matched.access, matched.charges.len()),
            (access, usize::from(access == Access::Rules)),
            "{peer} {user}"
        );
        let explained = compiled.explain(&request);
        assert_eq!((explained.access, explained.decided_by.as_deref()), (access, decided), "{peer} {user}");
    }
}

fn domain(domain: &str) -> When {
    When { domains: strings(&[domain]), ..When::default() }
}

fn reason(when: When, request: &Request<'_>) -> String {
    let identities = vec![identity("user", header("X-User"))];
    let compiled = compile(Policy { identities, ..with_rules(vec![rule_for("r", &["user"], when)]) });
    match compiled.explain(request).rules.remove(0).outcome {
        RuleOutcome::NotApplied { reason } => reason,
        RuleOutcome::Applies(applied) => panic!("{applied:?}"),
    }
}

#[test]
fn explanation_states_why_a_rule_does_not_apply() {
    let headers = [("X-User", "bob"), ("X-A", "1")];
    let request = Request { host: Some("example.com"), ..from(CLIENT, "GET", "/x/", &headers) };
    let text = |texts: &[&str]| Condition::OneOf(patterns(texts));
    let on = |when: When| reason(when, &request);
    assert_eq!(on(When { methods: strings(&["POST"]), ..When::default() }), "method is GET, not POST");
    assert_eq!(on(paths(&["/a", "/b"])), "path /x is not among /a, /b");
    assert_eq!(on(When { hosts: strings(&["a.com"]), ..When::default() }), "host is example.com, not a.com");
    let headers = |name: &str, condition| When { headers: vec![(name.to_owned(), condition)], ..When::default() };
    assert_eq!(on(headers("X-B", Condition::Present)), "header `X-B` is absent");
    assert_eq!(on(headers("X-A", Condition::Absent)), "header `X-A` is present");
    assert_eq!(on(headers("X-A", text(&["2"]))), "header `X-A` is `1`, not `2`");
    let user = |condition| When { identities: vec![("user".to_owned(), condition)], ..When::default() };
    assert_eq!(on(user(text(&["al*", "eve"]))), "identity `user` is `bob`, not among `al*`, `eve`");
    let network = |networks| When { network: Some(networks), ..When::default() };
    assert_eq!(on(network(Networks::Internal)), "client_ip is 203.0.113.9, not in the internal networks");
    let among = Networks::Among(vec!["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(on(network(among)), "client_ip is 203.0.113.9, not in 10.0.0.0/8");
    assert_eq!(reason(When::default(), &from(CLIENT, "GET", "/", &())), "identity `user` is absent");
    let all_but = |these: &[&str], but_not: &[&str]| {
        user(Condition::OneOfBut { these: patterns(these), but_not: patterns(but_not) })
    };
    assert_eq!(on(all_but(&[], &["b*", "eve"])), "identity `user` is `bob`, not among all without `b*`, `eve`");
    assert_eq!(on(all_but(&["b*"], &["bob"])), "identity `user` is `bob`, not among `b*` without `bob`");
    assert_eq!(on(domain("edge")), "domain is unknown");
    assert_eq!(on(When { exact_entries: true, ..When::default() }), "it is not a descriptor of a gateway");
    let entries = [("X-User", "bob"), ("remote_address", CLIENT)];
    let descriptor = Descriptor { domain: "mesh", entries: &entries };
    let described = Request { descriptor: Some(&descriptor), ..request };
    assert_eq!(reason(domain("edge"), &described), "domain is mesh, not edge");
    let exact = When { exact_entries: true, ..domain("mesh") };
    assert_eq!(reason(exact, &described), "its entries are user, remote_address, not exactly user");
    assert_eq!(reason(paths(&["/a"]), &from(CLIENT, "GET", "", &())), "path is unknown");
}

#[test]
fn descriptor_entries_are_matched_like_a_request() {
    let exact = When { exact_entries: true, ..domain("edge") };
    let only_paths = When { paths: strings(&["/v1/*"]), methods: strings(&["POST"]), ..When::default() };
    let compiled = compile(Policy {
        identities: vec![
            identity("user", IdentitySource::Given),
            identity("plan", header("X-Plan")),
            identity("path_said", header("path")),
        ],
        ..with_rules(vec![
            rule_for("address", &["client_ip"], domain("edge")),
            rule_for("exact", &["client_ip"], exact.clone()),
            rule_for("both", &["user", "plan"], exact),
            rule_for("elsewhere", &["client_ip"], domain("mesh")),
            rule_for("path", &["path"], only_paths),
            rule("said", &["path_said"]),
        ])
    });
    let charges = |entries: &[(&str, &str)]| {
        let descriptor = Descriptor { domain: "edge", entries };
        charged(&compiled, &Request::from_descriptor(&descriptor))
    };
    assert_eq!(charges(&[("remote_address", CLIENT)]), ["address 203.0.113.9", "exact 203.0.113.9"]);
    assert_eq!(charges(&[("remote_address", CLIENT), ("user", "bob")]), ["address 203.0.113.9"]);
    assert_eq!(charges(&[("x-plan", "pro"), ("user", "bob")]), ["both bob|pro"]);
    assert_eq!(charges(&[("plan", "pro"), ("user", "bob")]), ["both bob|pro"]);
    assert_eq!(charges(&[("plan", "pro"), ("user", "bob"), ("user", "eve")]), Vec::<String>::new());
    assert_eq!(charges(&[("path", "/v1//a?b"), ("method", "post")]), ["path /v1/a", "said /v1//a?b"]);
    // A text that is not an address is counted unchanged; it is in no network, and on no list of addresses.
    assert_eq!(charges(&[("remote_address", "nowhere")]), ["address nowhere", "exact nowhere"]);
    assert_eq!(charges(&[("remote_address", "203.0.113.9:4711")]), ["address 203.0.113.9", "exact 203.0.113.9"]);
    assert_eq!(charges(&[("remote_address", " ")]), Vec::<String>::new());
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/", &())), Vec::<String>::new());
}

#[test]
fn replaced_rules_do_not_apply() {
    let login = Rule { replaces: strings(&["all", "users"]), ..rule_for("login", &["user"], paths(&["/login"])) };
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        ..with_rules(vec![rule("all", &[]), login, rule("users", &["user"]), rule("others", &["client_ip"])])
    });
    let bob = [("X-User", "bob")];
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/login", &bob)), ["login bob", "others 203.0.113.9"]);
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/", &bob)), ["all ", "users bob", "others 203.0.113.9"]);
    // Without its key the rule does not apply, and so it replaces nothing.
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/login", &())), ["all ", "others 203.0.113.9"]);
    let explained = compiled.explain(&from(CLIENT, "GET", "/login", &bob)).rules.remove(0);
    assert_eq!(explained.outcome, RuleOutcome::NotApplied { reason: "replaced by `login`".to_owned() });
}

#[test]
fn explanation_states_how_a_rule_applies() {
    let tiers = vec![("free".to_owned(), limited(5)), ("vip".to_owned(), Grant::Unlimited)];
    let compiled = compile(Policy {
        identities: vec![identity("user", header("X-User"))],
        client_ip: ClientIp { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..ClientIp::default() },
        tier: Some(Tier { source: TierSource::Direct(header("X-Tier")), default: "free".into(), trusted: true }),
        ..with_rules(vec![Rule {
            allowance: Allowance::Tiers(tiers),
            overrides: vec![Override { key: patterns(&["a*"]), grant: Grant::Limited(vec![per_minute(9)]) }],
            ..rule_for("r", &["user"], paths(&["/x/*"]))
        }])
    });
    let explain = |user: &str, tier: &str| {
        let headers = [("X-User", user), ("X-Tier", tier), ("X-Forwarded-For", "203.0.113.9")];
        compiled.explain(&from("10.0.0.1", "GET", "/x//y?z", &headers))
    };
    let explanation = explain("bob", "vip");
    assert_eq!(explanation.client_ip, Some(CLIENT.parse().unwrap()));
    assert_eq!(explanation.path.as_deref(), Some("/x/y"));
    assert_eq!(explanation.tier.as_deref(), Some("vip"));
    assert!(explanation.identities.contains(&("user".to_owned(), "bob".to_owned())));
    let applied = |user: &str, tier: &str| match explain(user, tier).rules.remove(0).outcome {
        RuleOutcome::Applies(applied) => applied,
        RuleOutcome::NotApplied { reason } => panic!("{reason}"),
    };
    let vip = applied("bob", "vip");
    assert!(vip.is_unlimited());
    assert_eq!(
        (vip.key.as_str(), vip.route.as_deref(), vip.grant),
        ("bob", Some("/x/*"), GrantSource::Tier("vip".into()))
    );
    assert_eq!(applied("bob", "unknown").grant, GrantSource::Tier("free".into()));
    let overridden = applied("alice", "vip");
    assert_eq!(overridden.grant, GrantSource::Override("a*".into()));
    assert_eq!(compiled.quotas()[overridden.quotas[0] as usize].quota.amount(), 9);
}
