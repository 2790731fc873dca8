//! A configuration for each feature.

use std::time::Duration;

use crate::importing::{Imported, policy};

const DAY_NS: u64 = 86_400 * 1_000_000_000;

#[test]
fn exact_value_takes_precedence_over_any_value() {
    let imported = Imported::from(
        "domain: shop
descriptors:
  - key: database
    value: users
    rate_limit: { unit: second, requests_per_unit: 5 }
  - key: database
    rate_limit: { unit: minute, requests_per_unit: 3 }
",
    );
    assert_eq!(imported.passing("shop", &[("database", "users")], 10), 5);
    for other in ["orders", "prices"] {
        assert_eq!(imported.passing("shop", &[("database", other)], 10), 3, "each value has its own counter");
    }
    assert_eq!(imported.passing("elsewhere", &[("database", "orders")], 10), 10);
    imported.clock.advance(Duration::from_secs(1));
    assert_eq!(imported.passing("shop", &[("database", "users")], 10), 5);
    assert_eq!(imported.passing("shop", &[("database", "orders")], 10), 0);
}

#[test]
fn nested_descriptor_applies_at_its_exact_depth() {
    let imported = Imported::from(
        "domain: messages
descriptors:
  - key: kind
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: { unit: day, requests_per_unit: 2 }
  - key: to_number
    rate_limit: { unit: day, requests_per_unit: 4 }
",
    );
    let both = [("kind", "marketing"), ("to_number", "1")];
    assert_eq!(imported.passing("messages", &both, 9), 2);
    assert_eq!(imported.passing("messages", &[("to_number", "1")], 9), 4);
    assert_eq!(imported.passing("messages", &[("kind", "marketing")], 9), 9, "too short");
    assert_eq!(imported.passing("messages", &[both[0], ("to_number", "2"), ("x", "y")], 9), 9, "too long");
    assert_eq!(imported.passing("messages", &[("kind", "alert"), ("to_number", "3")], 9), 9, "another value");
    imported.clock.advance(Duration::from_nanos(DAY_NS));
    assert_eq!(imported.passing("messages", &both, 9), 2);
}

#[test]
fn star_at_the_end_matches_any_suffix() {
    let imported = Imported::from(
        "domain: paths
descriptors:
  - { key: path, value: /api/health }
  - { key: path, value: /api/*, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: path, value: /static/*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: path, rate_limit: { unit: hour, requests_per_unit: 1 } }
",
    );
    let passing = |path: &str| imported.passing("paths", &[("path", path)], 9);
    assert_eq!((passing("/api/a"), passing("/api/b?x=1"), passing("/api/b")), (2, 2, 2));
    assert_eq!(passing("/api/health"), 9, "an exact value without a limit takes precedence over the wildcard");
    assert_eq!((passing("/static/a"), passing("/static/b")), (3, 0), "counted together");
    assert_eq!((passing("/"), passing("//"), passing("/api")), (1, 1, 1), "values are not normalised");
}

/// As in the documentation of Istio.
#[test]
fn upper_case_keys_are_imported() {
    let imported = Imported::from(
        "domain: ratelimit
descriptors:
  - key: PATH
    value: \"/productpage\"
    rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: PATH
    rate_limit: { unit: minute, requests_per_unit: 4 }
  - key: X-Org
    descriptors:
      - { key: userId, rate_limit: { unit: minute, requests_per_unit: 2 } }
",
    );
    assert_eq!(imported.passing("ratelimit", &[("PATH", "/productpage")], 9), 1);
    assert_eq!(imported.passing("ratelimit", &[("PATH", "/other")], 9), 4);
    assert_eq!(imported.passing("ratelimit", &[("X-Org", "a"), ("userId", "7")], 9), 2);
    assert_eq!(imported.passing("ratelimit", &[("X-Org", "a"), ("userId", "8")], 9), 2);
}

#[test]
fn limit_of_zero_refuses_every_request_of_its_descriptor() {
    let configuration = "domain: rl
descriptors:
  - key: foo
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: bar, rate_limit: { unit: minute, requests_per_unit: 3 } }
      - { key: bar, value: banned, rate_limit: { unit: minute, requests_per_unit: 0 } }
      - { key: bar, value: watched, shadow_mode: true, rate_limit: { unit: minute } }
";
    let imported = Imported::from(configuration);
    let bar = |value: &'static str| [("foo", "x"), ("bar", value)];
    assert_eq!(imported.passing("rl", &bar("banned"), 9), 0);
    assert_eq!(imported.call("rl", &[&bar("banned")]).overall.action(), tollgate::Action::Deny);
    assert_eq!(imported.passing("rl", &bar("other"), 9), 3);
    assert_eq!(imported.passing("rl", &bar("watched"), 9), 9, "a shadow rule refuses no request");
    imported.clock.advance(Duration::from_nanos(DAY_NS));
    assert_eq!(imported.passing("rl", &bar("banned"), 9), 0);
}

#[test]
fn limit_of_zero_becomes_a_rule_that_denies() {
    let configuration = "domain: rl
descriptors:
  - { key: ip, rate_limit: { unit: day, requests_per_unit: 0 } }
  - key: plan
    value: none
    descriptors:
      - { key: user, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 0, name: old, replaces: [ { name: new } ] } }
  - { key: team, value: \"a*\", rate_limit: { unit: day, requests_per_unit: 0 } }
  - { key: org, rate_limit: { unit: day, requests_per_unit: 2, name: new } }
";
    let expected = r#"
rules:
  - name: "rl.ip"
    when: { domain: "rl", entries: exact, identity: { ip: true } }
    deny: true # a limit of 0
  - name: "rl.plan_none.user"
    when: { domain: "rl", entries: exact, identity: { plan: "none", user: true } }
    deny: true # a limit of 0
    shadow: true
    replaces: ["rl.org"]
  - name: "rl.team_a-"
    when: { domain: "rl", entries: exact, identity: { team: "a*" } }
    deny: true # a limit of 0
  - name: "rl.org"
"#;
    let policy = crate::importing::policy(configuration);
    assert!(policy.contains(expected), "{policy}");
    let imported = Imported::from(configuration);
    assert_eq!(imported.passing("rl", &[("ip", "10.0.0.1")], 3), 0);
    assert_eq!(imported.passing("rl", &[("plan", "none"), ("user", "7")], 3), 3, "a shadow rule refuses no request");
    assert_eq!(imported.passing("rl", &[("team", "abc")], 3), 0);
    assert_eq!(imported.passing("rl", &[("team", "b")], 3), 3, "no descriptor matches");
    assert_eq!(imported.passing("rl", &[("org", "x")], 3), 2);
}

#[test]
fn names_and_metadata_of_descriptors_are_omitted() {
    let configuration = "domain: edge
descriptors:
  - key: service
    name: of no effect
    metadata: { service_with_quota: { name: one }, list: [1, 2] }
    rate_limit: { unit: hour, requests_per_unit: 2 }
";
    assert_eq!(Imported::from(configuration).passing("edge", &[("service", "a")], 9), 2);
    let stderr = String::from_utf8(crate::importing::output(configuration).stderr).unwrap();
    assert!(stderr.ends_with("names of descriptors), 2 times\n"), "{stderr}");
}

#[test]
fn unit_multiplier_lengthens_the_window() {
    let imported = Imported::from(
        "domain: edge
descriptors: [ { key: a, rate_limit: { unit: minute, unit_multiplier: 5, requests_per_unit: 3 } } ]
",
    );
    let passing = || imported.passing("edge", &[("a", "1")], 9);
    assert_eq!(passing(), 3);
    imported.clock.advance(Duration::from_secs(4 * 60));
    assert_eq!(passing(), 0);
    imported.clock.advance(Duration::from_secs(60));
    assert_eq!(passing(), 3);
}

#[test]
fn values_are_not_trimmed() {
    let imported = Imported::from(
        "domain: edge
descriptors:
  - { key: name, value: \" a \", rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: X-Name, value: \"a \", rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: other, rate_limit: { unit: hour, requests_per_unit: 3 } }
",
    );
    assert_eq!(imported.passing("edge", &[("name", " a ")], 9), 1);
    assert_eq!(imported.passing("edge", &[("name", "a")], 9), 9);
    assert_eq!(imported.passing("edge", &[("X-Name", "a ")], 9), 2);
    assert_eq!(imported.passing("edge", &[("X-Name", "a")], 9), 9);
    assert_eq!(
        (imported.passing("edge", &[("other", "b")], 9), imported.passing("edge", &[("other", " b")], 9)),
        (3, 3)
    );
}

#[test]
fn stars_match_any_text_at_every_position() {
    let imported = Imported::from(
        "domain: edge
descriptors:
  - { key: route, value: /api/internal, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: route, value: /api*v1, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: route, value: svc*ep*rpc, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: route, value: \"*\", rate_limit: { unit: hour, requests_per_unit: 4 } }
",
    );
    let passing = |route: &str| imported.passing("edge", &[("route", route)], 9);
    assert_eq!((passing("/api/a/v1"), passing("/api/b/v1"), passing("/api/v2")), (2, 0, 4));
    assert_eq!((passing("svc1-ep2-rpc"), passing("svc-rpc"), passing("/api/internal")), (1, 4, 5));
}

#[test]
fn unlimited_and_shadow_limits_refuse_no_request() {
    let configuration = "domain: edge
descriptors:
  - key: plan
    value: partner
    rate_limit: { unlimited: true }
  - key: plan
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
";
    let imported = Imported::from(configuration);
    assert_eq!(imported.passing("edge", &[("plan", "partner")], 9), 9);
    assert!(imported.call("edge", &[&[("plan", "partner")]]).each[0].is_unlimited());
    assert_eq!(imported.passing("edge", &[("plan", "free")], 9), 9);
    let shadowed = imported.call("edge", &[&[("plan", "free")]]);
    assert!(shadowed.each[0].states().iter().all(|state| state.shadow && !state.decision.is_allowed()));
}

#[test]
fn limit_replaces_others_of_the_same_call() {
    let imported = Imported::from(
        "domain: banks
descriptors:
  - key: account
    rate_limit: { name: general, unit: hour, requests_per_unit: 1 }
  - key: vip
    rate_limit: { name: vip, unit: hour, requests_per_unit: 3, replaces: [ { name: general }, { name: absent } ] }
",
    );
    let calls = [&[("account", "7")][..], &[("vip", "yes")][..]];
    let passed = (0..9).filter(|_| imported.call("banks", &calls).overall.is_allowed()).count();
    assert_eq!(passed, 3);
    assert_eq!(imported.passing("banks", &[("account", "7")], 9), 1, "the replaced limit was not charged");
}

#[test]
fn entries_named_like_built_in_identities_are_used_unchanged() {
    let imported = Imported::from(
        "domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: hour, requests_per_unit: 2 }
  - key: method
    value: get
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: x-api-key
    descriptors:
      - { key: tier, value: gold, rate_limit: { unit: hour, requests_per_unit: 4 } }
",
    );
    assert_eq!(imported.passing("edge", &[("remote_address", "2001:db8::1")], 9), 2);
    assert_eq!(imported.passing("edge", &[("remote_address", "2001:db8::2")], 9), 2, "not by network");
    assert_eq!(imported.passing("edge", &[("remote_address", "no address")], 9), 2);
    assert_eq!(imported.passing("edge", &[("method", "get")], 9), 1);
    assert_eq!(imported.passing("edge", &[("method", "GET")], 9), 9);
    assert_eq!(imported.passing("edge", &[("x-api-key", "a"), ("tier", "gold")], 9), 4);
}

#[test]
fn imported_policy_has_the_expected_text() {
    let text = policy(
        "domain: shop
descriptors:
  - { key: path, value: /a }
  - { key: path, value: /*, shadow_mode: true, rate_limit: { unit: Minute, requests_per_unit: 7 } }
",
    );
    let expected = r#"# Written by `tollgate import envoy`.
version: 1

# Entries of the gateway's descriptors.
identity:
  entry_path: { header: "path", trusted: true }

rules:
  - name: "shop.path_--"
    when: { domain: "shop", entries: exact, identity: { entry_path: { is: "/*", not: ["/a"] } } }
    key: [entry_path]
    limit: 7/min
    algorithm: fixed-window
    shadow: true
"#;
    assert_eq!(text, expected);
}

#[test]
fn imported_unlimited_rule_draws_no_warning() {
    let configuration = "domain: edge
descriptors:
  - key: plan
    value: partner
    detailed_metric: true
    rate_limit: { unlimited: true }
  - key: remote_address
    rate_limit: { unit: day, requests_per_unit: 5 }
";
    let output = crate::importing::output(configuration);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        "tollgate: omitted settings without effect on decisions (metrics, metadata, names of descriptors), once\n"
    );
    let policy = String::from_utf8(output.stdout).unwrap();
    let loaded = tollgate::policy::parse(&policy, "imported", None).unwrap();
    assert!(!loaded.warnings.iter().any(|warning| warning.code == "unlimited-for-all"), "{policy}");
    let compiled = tollgate::policy::CompiledPolicy::new(&loaded.policy).unwrap();
    let entries = [("remote_address", "203.0.113.9"), ("plan", "partner")];
    let descriptor = tollgate::policy::Descriptor { domain: "edge", entries: &entries };
    let explained = format!("{:?}", compiled.explain(&tollgate::Request::from_descriptor(&descriptor)).rules);
    assert!(explained.contains("its entries are remote_address, plan, not exactly remote_address"), "{explained}");
}
