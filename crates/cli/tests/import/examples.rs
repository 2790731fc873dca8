//! One configuration for each kind of thing that can be said in one.

use crate::importing::{Imported, policy};

const DAY_NS: u64 = 86_400 * 1_000_000_000;

#[test]
fn a_value_of_its_own_comes_before_all_others() {
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
    imported.clock.advance(1_000_000_000);
    assert_eq!(imported.passing("shop", &[("database", "users")], 10), 5);
    assert_eq!(imported.passing("shop", &[("database", "orders")], 10), 0);
}

#[test]
fn nested_descriptors_hold_at_their_exact_depth() {
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
    imported.clock.advance(DAY_NS);
    assert_eq!(imported.passing("messages", &both, 9), 2);
}

#[test]
fn a_star_at_the_end_stands_for_anything() {
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
    assert_eq!(passing("/api/health"), 9, "what has no limit is not what the wildcard means");
    assert_eq!((passing("/static/a"), passing("/static/b")), (3, 0), "counted together");
    assert_eq!((passing("/"), passing("//"), passing("/api")), (1, 1, 1), "values are not normalised");
}

/// As the documents of Istio write it, with the names that a gateway sends there.
#[test]
fn keys_in_capitals_are_imported() {
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
fn a_limit_of_zero_refuses_everything_and_nothing_else() {
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
    assert_eq!(imported.passing("rl", &bar("watched"), 9), 9, "a shadow refuses nobody");
    imported.clock.advance(DAY_NS);
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
    assert_eq!(imported.passing("rl", &[("plan", "none"), ("user", "7")], 3), 3, "a shadow refuses nobody");
    assert_eq!(imported.passing("rl", &[("team", "abc")], 3), 0);
    assert_eq!(imported.passing("rl", &[("team", "b")], 3), 3, "no descriptor is meant");
    assert_eq!(imported.passing("rl", &[("org", "x")], 3), 2);
}

#[test]
fn names_and_metadata_of_descriptors_are_left_out() {
    let configuration = "domain: edge
descriptors:
  - key: service
    name: of no effect
    metadata: { service_with_quota: { name: one }, list: [1, 2] }
    rate_limit: { unit: hour, requests_per_unit: 2 }
";
    assert_eq!(Imported::from(configuration).passing("edge", &[("service", "a")], 9), 2);
    let said = String::from_utf8(crate::importing::output(configuration).stderr).unwrap();
    assert!(said.ends_with("names of descriptors), 2 times\n"), "{said}");
}

#[test]
fn units_can_be_multiplied() {
    let imported = Imported::from(
        "domain: edge
descriptors: [ { key: a, rate_limit: { unit: minute, unit_multiplier: 5, requests_per_unit: 3 } } ]
",
    );
    let passing = || imported.passing("edge", &[("a", "1")], 9);
    assert_eq!(passing(), 3);
    imported.clock.advance(4 * 60 * 1_000_000_000);
    assert_eq!(passing(), 0);
    imported.clock.advance(60 * 1_000_000_000);
    assert_eq!(passing(), 3);
}

#[test]
fn values_are_taken_as_they_are() {
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
fn stars_stand_for_anything_wherever_they_are() {
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
fn unlimited_and_shadows_refuse_nobody() {
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
    let watched = imported.call("edge", &[&[("plan", "free")]]);
    assert!(watched.each[0].states().iter().all(|state| state.shadow && !state.decision.is_allowed()));
}

#[test]
fn a_limit_replaces_others_of_the_same_call() {
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
    assert_eq!(imported.passing("banks", &[("account", "7")], 9), 1, "it was not charged meanwhile");
}

#[test]
fn entries_that_mean_something_in_a_policy_are_taken_as_they_are() {
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
fn the_policy_is_what_a_person_would_write() {
    let text = policy(
        "domain: shop
descriptors:
  - { key: path, value: /a }
  - { key: path, value: /*, shadow_mode: true, rate_limit: { unit: Minute, requests_per_unit: 7 } }
",
    );
    let expected = r#"# Written by `tollgate import envoy`.
version: 1

# Each is an entry of the gateway's descriptors.
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
fn what_is_imported_draws_no_warning_for_what_it_was_told() {
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
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "tollgate: left out what decides nothing (metrics, metadata, names of descriptors), once\n");
    let policy = String::from_utf8(output.stdout).unwrap();
    let loaded = tollgate::policy::parse(&policy, "imported", None).unwrap();
    assert!(!loaded.warnings.iter().any(|warning| warning.code == "unlimited-for-all"), "{policy}");
    let plan = tollgate::policy::CompiledPolicy::new(&loaded.policy).unwrap();
    let entries = [("remote_address", "203.0.113.9"), ("plan", "partner")];
    let descriptor = tollgate::Descriptor { domain: "edge", entries: &entries };
    let explained = format!("{:?}", plan.explain(&tollgate::Request::from_descriptor(&descriptor)).rules);
    assert!(explained.contains("its entries are remote_address, plan, not exactly remote_address"), "{explained}");
}
