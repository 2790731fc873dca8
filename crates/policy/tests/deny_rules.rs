//! Rules that deny: their members, the requests that they deny, and how they are explained and published.

#![cfg(feature = "yaml")]
#![allow(clippy::unwrap_used)]

use tollgate_policy::model::{Networks, Policy};
use tollgate_policy::promise::promises;
use tollgate_policy::published::Published;
use tollgate_policy::{Access, CompiledPolicy, Request, RuleOutcome, counter_changes, parse};

const POLICY: &str = "version: 1
allow: { client_ip: [198.51.100.7] }
deny: { client_ip: [192.0.2.0/24] }
rules:
  - { name: admin-only-inside, when: { path: /admin/*, network: { not: [10.0.0.0/8] } }, deny: true }
  - { name: no-trace, when: { method: TRACE }, deny: true, shadow: true }
  - { name: per-ip, key: client_ip, limit: 5/min }
";

fn policy(text: &str) -> Policy {
    (*parse(text, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}")).policy).clone()
}

fn compiled(text: &str) -> CompiledPolicy {
    CompiledPolicy::new(&policy(text).check().unwrap()).unwrap()
}

fn request<'a>(ip: Option<&str>, method: &'a str, path: &'a str) -> Request<'a> {
    Request { method, target: path, ..Request::from_peer(ip.map(|ip| ip.parse().unwrap())) }
}

/// Returns the names of the rules that deny, including shadow rules.
fn denials(compiled: &CompiledPolicy, request: &Request<'_>) -> Vec<String> {
    compiled
        .match_request(request)
        .denials
        .iter()
        .map(|rule| compiled.rules()[*rule as usize].name.to_string())
        .collect()
}

/// Returns the codes and hints of the errors of a policy with this rule.
fn rule_errors(rule: &str) -> Vec<(&'static str, String)> {
    let tier = "identity: { tier: { header: X-Tier, default: free, trusted: true } }";
    let text = format!("version: 1\n{tier}\nrules:\n  - {rule}\n");
    let report = parse(&text, "policy.yaml", None).expect_err(rule);
    report.errors.iter().map(|error| (error.code, error.hint.clone().unwrap_or_default())).collect()
}

#[test]
fn network_condition_names_networks_or_all_but_some() {
    let read = |network: &str| {
        let text = format!(
            "version: 1\nrules: [ {{ name: a, when: {{ path: /a, network: {network} }}, deny: true }}, {{ name: b, key: client_ip, limit: 1/s }} ]\n"
        );
        policy(&text).rules[0].when.network.clone().unwrap()
    };
    let private = || vec!["10.0.0.0/8".parse().unwrap()];
    assert_eq!(read("10.0.0.0/8"), Networks::Among(private()));
    assert_eq!(read("{ not: 10.0.0.0/8 }"), Networks::NotAmong(private()));
    assert_eq!(read("{ not: [10.0.0.0/8] }"), Networks::NotAmong(private()));
    assert_eq!(read("internal"), Networks::Internal);
    assert_eq!(read("{ not: internal }"), Networks::NotInternal);
}

#[test]
fn counting_members_are_errors_with_hints_in_a_rule_that_denies() {
    for (member, code) in [
        ("limit: 5/min", "choose-one"),
        ("tiers: { free: 5/min }", "choose-one"),
        ("concurrency: 3", "choose-one"),
        ("unlimited: true", "choose-one"),
        ("key: client_ip", "misplaced-member"),
        ("algorithm: fixed-window", "misplaced-member"),
        ("queue: { size: 3 }", "misplaced-member"),
        ("max_debt: 3", "misplaced-member"),
        ("cost: 2", "misplaced-member"),
        ("on_limit: [ { first: 1, action: warn } ]", "misplaced-member"),
        ("overrides: { a: 5/min }", "misplaced-member"),
        ("on_failure: closed", "misplaced-member"),
    ] {
        let errors = rule_errors(&format!("{{ name: a, when: {{ path: /a }}, deny: true, {member} }}"));
        assert!(
            !errors.is_empty() && errors.iter().all(|(known, hint)| *known == code && !hint.is_empty()),
            "{member}: {errors:?}"
        );
    }
    assert_eq!(rule_errors("{ name: a, when: { path: /a }, deny: false }")[0].0, "wrong-type");
    assert_eq!(rule_errors("{ name: a, when: { network: { not: [] } }, deny: true }")[0].0, "empty-list");
    assert_eq!(rule_errors("{ name: a, when: { network: {} }, deny: true }")[0].0, "missing-member");
    assert_eq!(rule_errors("{ name: a, when: { network: { not: { not: internal } } }, deny: true }").len(), 1);
}

#[test]
fn rule_denies_after_the_lists_and_before_any_limit() {
    let compiled = compiled(POLICY);
    let charged = |ip, path| compiled.match_request(&request(Some(ip), "GET", path));
    assert_eq!(denials(&compiled, &request(Some("203.0.113.9"), "GET", "/admin/x")), ["admin-only-inside"]);
    assert!(charged("10.1.2.3", "/admin/x").denials.is_empty());
    assert!(charged("203.0.113.9", "/").denials.is_empty());
    assert_eq!(
        (charged("198.51.100.7", "/admin/x").access, charged("198.51.100.7", "/admin/x").denials.len()),
        (Access::Allowed, 0)
    );
    assert_eq!(
        (charged("192.0.2.7", "/admin/x").access, charged("192.0.2.7", "/admin/x").denials.len()),
        (Access::Denied, 0)
    );
    assert_eq!(
        denials(&compiled, &request(Some("203.0.113.9"), "TRACE", "/admin/x")),
        ["admin-only-inside", "no-trace"]
    );
}

#[test]
fn client_of_unknown_address_is_outside_every_network() {
    let outside = compiled(POLICY);
    assert_eq!(denials(&outside, &request(None, "GET", "/admin/x")), ["admin-only-inside"]);
    assert!(outside.needs_client_ip());
    let inside = "version: 1
rules: [ { name: a, when: { network: [10.0.0.0/8] }, deny: true }, { name: b, when: { network: internal }, deny: true } ]
";
    assert!(denials(&compiled(inside), &request(None, "GET", "/")).is_empty());
}

#[test]
fn limit_of_all_but_some_networks_holds_for_an_unknown_address() {
    let compiled = compiled("version: 1\nrules: [ { name: a, when: { network: { not: internal } }, limit: 5/min } ]\n");
    assert_eq!(compiled.match_request(&request(None, "GET", "/")).charges.len(), 1);
    assert_eq!(compiled.match_request(&request(Some("10.0.0.1"), "GET", "/")).charges.len(), 0);
    assert_eq!(compiled.match_request(&request(Some("203.0.113.9"), "GET", "/")).charges.len(), 1);
}

#[test]
fn unknown_address_exempts_from_no_other_rule() {
    let compiled = compiled(
        "version: 1
rules:
  - { name: all, limit: 5/min }
  - { name: outside, when: { network: { not: [10.0.0.0/8] } }, unlimited: true, replaces: [all] }
",
    );
    let charged = |ip| compiled.match_request(&request(ip, "GET", "/")).charges.len();
    assert_eq!((charged(None), charged(Some("10.0.0.1")), charged(Some("203.0.113.9"))), (1, 1, 0));
    let explanation = compiled.explain(&request(None, "GET", "/"));
    assert!(matches!(explanation.rules[0].outcome, RuleOutcome::Applies(_)), "{explanation:?}");
}

#[test]
fn indexed_network_conditions_match_like_unindexed_ones() {
    let mut text = "version: 1\nrules:\n".to_owned();
    for at in 0..40 {
        text += &format!("  - {{ name: in-{at}, when: {{ network: 10.{at}.0.0/16 }}, deny: true }}\n");
        text += &format!("  - {{ name: out-{at}, when: {{ network: {{ not: 10.{at}.0.0/16 }} }}, deny: true }}\n");
    }
    let compiled = compiled(&text);
    let found = denials(&compiled, &request(Some("10.7.1.1"), "GET", "/"));
    assert_eq!(found.len(), 40);
    assert!(found.contains(&"in-7".to_owned()) && !found.contains(&"out-7".to_owned()), "{found:?}");
    assert_eq!(denials(&compiled, &request(None, "GET", "/")).len(), 40);
}

#[test]
fn rule_that_replaces_a_denial_removes_it() {
    let compiled = compiled(
        "version: 1
identity: { user: { given: true } }
rules:
  - { name: closed, when: { path: /beta/* }, deny: true }
  - { name: testers, when: { path: /beta/*, identity: { user: tester } }, key: user, limit: 5/min, replaces: [closed] }
",
    );
    let tester = Request { identities: &[("user", "tester")], ..request(None, "GET", "/beta/x") };
    assert_eq!((denials(&compiled, &tester).len(), compiled.match_request(&tester).charges.len()), (0, 1));
    assert_eq!(denials(&compiled, &request(None, "GET", "/beta/x")), ["closed"]);
}

#[test]
fn denial_is_explained_with_its_rule() {
    let compiled = compiled(POLICY);
    let explain = |ip: &str, method, path| {
        let explanation = compiled.explain(&request(Some(ip), method, path));
        (explanation.access, explanation.decided_by.clone(), explanation)
    };
    let (access, by, explanation) = explain("203.0.113.9", "GET", "/admin/x");
    assert_eq!((access, by.as_deref()), (Access::Denied, Some("rule admin-only-inside")));
    assert!(matches!(&explanation.rules[0].outcome, RuleOutcome::Applies(applied) if applied.denies));
    let (access, _, explanation) = explain("10.1.2.3", "GET", "/admin/x");
    assert_eq!(access, Access::Rules);
    let RuleOutcome::NotApplied { reason } = &explanation.rules[0].outcome else { panic!("{explanation:?}") };
    assert_eq!(reason, "client_ip is 10.1.2.3, which is in 10.0.0.0/8");
    assert_eq!(explain("203.0.113.9", "TRACE", "/").0, Access::Rules, "a shadow denies nothing");
}

#[test]
fn denial_is_listed_in_promises_and_published_without_a_limit() {
    let policy = policy(POLICY);
    let texts: Vec<String> = promises(&policy).iter().map(ToString::to_string).collect();
    let expected = "admin-only-inside: denied with 403, nothing is charged\n  \
                    when path /admin/*; client_ip not in 10.0.0.0/8";
    assert_eq!(texts[0], expected);
    assert!(texts[1].ends_with("\n  shadow: counted and reported, never refused"), "{}", texts[1]);
    let published = Published::of(&policy);
    let names: Vec<(&str, bool, &str)> =
        published.rules.iter().map(|rule| (rule.name.as_str(), rule.denies, rule.applies_to.as_str())).collect();
    assert_eq!(
        names,
        [("admin-only-inside", true, "some requests to everything below `/admin/`"), ("per-ip", false, "all requests")]
    );
    assert!(published.rules[0].grants.is_empty());
}

#[test]
fn rule_that_becomes_a_denial_loses_its_counters_and_no_other_does() {
    let limited = POLICY.replace("}, deny: true }", "}, key: client_ip, limit: 5/min }");
    let changes = |before: &str, now: &str| {
        let all = counter_changes(&compiled(before), &compiled(now));
        all.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        changes(&limited, POLICY),
        [
            "rule `admin-only-inside`: the limit counted as `admin-only-inside` was removed, and its counts are no longer used"
        ]
    );
    let without = "version: 1\nrules: [ { name: per-ip, key: client_ip, limit: 5/min } ]\n";
    assert_eq!((changes(without, POLICY).len(), changes(POLICY, without).len()), (0, 0));
}

#[test]
fn override_for_a_rule_that_denies_is_an_error() {
    let compiled = compiled(POLICY);
    assert!(compiled.read_grant(0, "5/min").is_err() && compiled.read_grant(0, "unlimited").is_err());
    assert!(compiled.read_grant(2, "unlimited").is_ok());
}

#[test]
fn rule_that_denies_everything_causes_a_warning() {
    let warned = |text: &str| {
        let loaded = parse(text, "policy.yaml", None).unwrap();
        loaded.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>()
    };
    assert_eq!(warned("version: 1\nrules: [ { name: closed, deny: true } ]\n"), ["denies-everything"]);
    assert_eq!(warned(POLICY), [""; 0]);
}
