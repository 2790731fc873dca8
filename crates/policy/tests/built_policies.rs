//! Policies that are built in a program: the check reports the same errors as for files, with paths instead of lines.

#![allow(clippy::unwrap_used)]

use tollgate_core::Quota;
use tollgate_policy::model::{
    Allowance, Block, Condition, CostSource, Grant, Identity, IdentitySource, Networks, OnLimit, Override,
    RedisSettings, RedisTopology, Rule, StoreSettings, TextPattern, Tier, TierSource,
};
use tollgate_policy::{Policy, Problem};

fn rate(text: &str) -> Quota {
    Quota::token_bucket(text.parse().unwrap()).unwrap()
}

fn rule(name: &str) -> Rule {
    Rule {
        key: vec!["client_ip".to_owned()],
        allowance: Allowance::Same(Grant::Limited(vec![rate("60/min")])),
        ..Rule::new(name)
    }
}

fn identity(name: &str, source: IdentitySource) -> Identity {
    Identity { trusted: true, ..Identity::new(name, source) }
}

fn policy(rule: Rule) -> Policy {
    Policy { rules: vec![rule], ..Policy::default() }
}

fn errors(policy: Policy) -> Vec<Problem> {
    policy.check().map_or_else(|errors| errors.0, |_| Vec::new())
}

/// Returns the paths and codes of the errors of a policy of one rule.
fn rule_errors(change: impl FnOnce(&mut Rule)) -> Vec<String> {
    let mut own = rule("a");
    change(&mut own);
    paths_and_codes(&errors(policy(own)))
}

fn paths_and_codes(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{} {}", problem.path, problem.code)).collect()
}

#[test]
fn plain_policy_has_no_warnings() {
    let checked = policy(rule("a")).check().unwrap();
    assert!(checked.warnings().is_empty(), "{:?}", checked.warnings());
}

#[test]
fn paths_that_can_never_match_are_errors() {
    for path in ["/users/\\d+", "/(a|b)", "/a-{id}", "/{*rest}"] {
        assert_eq!(
            rule_errors(|rule| rule.when.paths = vec![path.to_owned()]),
            ["rules[0].when.path[0] bad-path"],
            "{path}"
        );
    }
    assert_eq!(rule_errors(|rule| rule.when.paths = vec!["/users/{id}".to_owned(), "/users/:id".to_owned()]), [""; 0]);
}

#[test]
fn error_names_the_path_in_the_policy_and_a_hint() {
    let mut own = rule("a");
    own.key = vec!["usr".to_owned()];
    let mut policy = policy(own);
    policy.identities = vec![identity("user", IdentitySource::Header("x-user".to_owned()))];
    let shown = policy.check().unwrap_err().to_string();
    assert!(shown.starts_with("rules[0].key[0]: unknown identity `usr` (hint: did you mean `user`?"), "{shown}");
}

#[test]
fn invalid_grants_are_errors() {
    assert_eq!(
        rule_errors(|rule| rule.allowance = Allowance::Same(Grant::Limited(vec![]))),
        ["rules[0].limit empty-list"]
    );
    let twice = || Grant::Limited(vec![rate("60/min"), rate("5/min")]);
    assert_eq!(rule_errors(|rule| rule.allowance = Allowance::Same(twice())), ["rules[0].limit[1] equal-periods"]);
    let empty = rule_errors(|rule| rule.allowance = Allowance::Tiers(vec![]));
    assert_eq!(empty, ["rules[0].tiers empty-list", "rules[0].tiers tiers-without-tier"]);
}

#[test]
fn invalid_tiers_are_errors() {
    let mut own = rule("a");
    let grant = || Grant::Limited(vec![rate("60/min")]);
    own.allowance = Allowance::Tiers(vec![("pro".to_owned(), grant()), ("pro".to_owned(), grant())]);
    let mut policy = policy(own);
    let source = TierSource::Direct(IdentitySource::First(vec!["client_ip".to_owned()]));
    policy.tier = Some(Tier { source, default: "free".to_owned(), trusted: true });
    let expected = [
        "identity.tier.first misplaced-member",
        "rules[0].tiers.pro duplicate-name",
        "rules[0].tiers default-tier-missing",
    ];
    assert_eq!(paths_and_codes(&errors(policy)), expected);
}

#[test]
fn invalid_names_and_patterns_are_errors() {
    assert_eq!(rule_errors(|rule| rule.name = "a b".to_owned()), ["rules[0].name bad-name"]);
    assert_eq!(rule_errors(|rule| rule.name = "x".repeat(65)), ["rules[0].name bad-name"]);
    assert!(rule_errors(|rule| rule.name = "x".repeat(64)).is_empty());
    assert_eq!(rule_errors(|rule| rule.when.methods = vec!["A B".to_owned()]), ["rules[0].when.method[0] bad-method"]);
    assert_eq!(rule_errors(|rule| rule.when.hosts = vec!["a:1".to_owned()]), ["rules[0].when.host[0] bad-host"]);
    assert_eq!(rule_errors(|rule| rule.when.paths = vec!["a".to_owned()]), ["rules[0].when.path[0] bad-path"]);
    let header = ("x y".to_owned(), Condition::OneOf(vec![]));
    let both = ["rules[0].when.headers.x y bad-header-name", "rules[0].when.headers.x y empty-list"];
    assert_eq!(rule_errors(|rule| rule.when.headers = vec![header]), both);
    assert_eq!(
        rule_errors(|rule| rule.when.network = Some(Networks::Among(vec![]))),
        ["rules[0].when.network empty-list"]
    );
}

#[test]
fn messages_must_be_printable_and_short() {
    let with = |message: &str| rule_errors(|rule| rule.message = Some(message.to_owned()));
    assert!(with("Too many logins. Süß!").is_empty());
    assert!(with(&"ü".repeat(200)).is_empty());
    for bad in ["", "  ", "a\nb", "a\tb", "a\u{202e}b", &"x".repeat(201)] {
        assert_eq!(with(bad), ["rules[0].message bad-text"], "{bad:?}");
    }
    let unpublished = rule_errors(|rule| (rule.message, rule.publish) = (Some("No.".to_owned()), false));
    assert_eq!(unpublished, ["rules[0].message misplaced-member"]);
}

#[test]
fn invalid_costs_and_escalations_are_errors() {
    assert_eq!(rule_errors(|rule| rule.cost.max = 0), ["rules[0].cost.max out-of-range"]);
    assert_eq!(rule_errors(|rule| rule.cost.source = CostSource::Fixed(0)), ["rules[0].cost out-of-range"]);
    assert_eq!(rule_errors(|rule| rule.cost.source = CostSource::Fixed(61)), ["rules[0].cost cost-never-fits"]);
    assert!(rule_errors(|rule| rule.cost.source = CostSource::Fixed(60)).is_empty());
    let block = Some(Block { after: 1, duration_ns: 0 });
    let steps = OnLimit { warn_first: 2, span_ns: 0, block };
    let expected = ["rules[0].on_limit out-of-range", "rules[0].on_limit out-of-range", "rules[0].on_limit bad-step"];
    assert_eq!(rule_errors(|rule| rule.on_limit = Some(steps)), expected);
}

#[test]
fn invalid_overrides_are_errors() {
    let own = |parts: &[&str]| Override {
        key: parts.iter().map(|part| TextPattern((*part).to_owned())).collect(),
        grant: Grant::Unlimited,
    };
    assert_eq!(rule_errors(|rule| rule.overrides = vec![own(&["a", "b"])]), ["rules[0].overrides[0] override-parts"]);
    let twice = rule_errors(|rule| rule.overrides = vec![own(&["a"]), own(&["a"])]);
    assert_eq!(twice, ["rules[0].overrides[1] duplicate-name"]);
}

#[test]
fn invalid_identities_are_errors() {
    let mut policy = policy(rule("a"));
    policy.client_ip.ipv6_prefix = 129;
    policy.client_ip.ipv4_prefix = 0;
    policy.identities = vec![
        identity("tier", IdentitySource::Peer),
        identity("user", IdentitySource::PathSegment(0)),
        identity("user", IdentitySource::First(vec![])),
        identity("me", IdentitySource::First(vec!["me".to_owned()])),
    ];
    policy.deny.identities = vec![("client_ip".to_owned(), vec![TextPattern("10.*".to_owned())])];
    let expected = [
        "identity.tier reserved-name",
        "identity.user.path_segment out-of-range",
        "identity.user duplicate-name",
        "identity.user.first empty-list",
        "identity.me.first circular-first",
        "identity.client_ip.ipv6_prefix out-of-range",
        "identity.client_ip.ipv4_prefix out-of-range",
        "deny.client_ip misplaced-member",
    ];
    assert_eq!(paths_and_codes(&errors(policy)), expected);
}

#[test]
fn invalid_store_settings_are_errors() {
    let redis = RedisSettings {
        mode: RedisTopology::Cluster,
        deadline_ns: 0,
        fallback_share: (3, 2),
        lease_ns: 1_500_000_500,
        database: 1,
        ..RedisSettings::at(vec!["a".to_owned(), "b:0".to_owned()])
    };
    let policy = Policy { store: StoreSettings::Redis(redis), ..policy(rule("a")) };
    let expected = [
        "store.redis.nodes[0] bad-node",
        "store.redis.nodes[1] bad-node",
        "store.redis.deadline out-of-range",
        "store.redis.fallback_share bad-share",
        "store.redis.lease out-of-range",
        "store.redis.database bad-store",
    ];
    assert_eq!(paths_and_codes(&errors(policy)), expected);
}
