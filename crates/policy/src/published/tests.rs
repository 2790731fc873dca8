use std::time::Duration;

use super::*;
use crate::builder::{PolicyBuilder, RuleBuilder, rule};
use crate::model::{
    AccessList, Condition, Grant, IdentitySource, Networks, Override, RedisSettings, StoreSettings, TextPattern, Tier,
    TierSource, When,
};

fn published(rules: impl IntoIterator<Item = RuleBuilder>) -> Published {
    let builder = rules.into_iter().fold(PolicyBuilder::default(), PolicyBuilder::rule);
    Published::of(&builder.build().unwrap())
}

fn only(rule: RuleBuilder) -> PublishedRule {
    published([rule]).rules.remove(0)
}

#[test]
fn only_published_and_enforced_rules_are_listed() {
    let published = published([
        rule("public").per("client_ip").limit("60/min"),
        rule("unpublished").per("client_ip").limit("61/min").unpublished(),
        rule("shadow").per("client_ip").limit("62/min").shadow(),
        rule("open").per("client_ip").limit("unlimited"),
    ]);
    let names: Vec<&str> = published.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["public"]);
}

#[test]
fn policy_without_enforced_limits_publishes_nothing() {
    let published = published([rule("shadow").per("client_ip").limit("62/min").shadow()]);
    assert_eq!((published.rules, published.fields, published.advice), (vec![], vec![], vec![]));
}

#[test]
fn keys_are_described() {
    for (keys, counts) in [
        (&[][..], "all clients together"),
        (&["client_ip"], "each IP address (for IPv6, each /64 network)"),
        (&["api_key"], "each api key"),
        (&["user", "route"], "each user and endpoint"),
    ] {
        let counted = keys.iter().fold(rule("r").limit("60/min"), |rule, key| rule.per(key));
        assert_eq!(only(counted).counts, counts);
    }
}

#[test]
fn conditions_are_described() {
    let base = || rule("r").limit("60/min");
    let network = When { methods: vec!["GET".to_owned()], network: Some(Networks::Internal), ..When::default() };
    let identity = When {
        paths: vec!["/a".to_owned()],
        identities: vec![("client_ip".to_owned(), Condition::Present)],
        ..When::default()
    };
    let header = When { headers: vec![("x-internal".to_owned(), Condition::Present)], ..When::default() };
    for (builder, applies_to) in [
        (base(), "all requests"),
        (base().method("post"), "POST requests"),
        (base().path("/pay/*").path("/a"), "requests to everything below `/pay/` or `/a`"),
        (base().path("/*"), "requests to any path"),
        (base().method("GET").method("HEAD").path("/a"), "GET or HEAD requests to `/a`"),
        (
            base().when(When { hosts: vec!["*.example.com".to_owned()], ..When::default() }),
            "requests on any host below `example.com`",
        ),
        (base().when(header), "some requests"),
        (base().when(network), "some GET requests"),
        (base().when(identity), "some requests to `/a`"),
    ] {
        assert_eq!(only(builder).applies_to, applies_to);
    }
}

#[test]
fn limits_are_listed_by_tier() {
    let mut builder =
        PolicyBuilder::default().rule(rule("per-user").per("user").tier("free", "60/min").tier("big", "unlimited"));
    builder = builder.with(|policy| {
        let source = TierSource::Direct(IdentitySource::Header("X-Tier".to_owned()));
        policy.tier = Some(Tier { source, default: "free".to_owned(), trusted: true });
    });
    let published = Published::of(&builder.build().unwrap());
    let grants = &published.rules[0].grants;
    assert_eq!((grants[0].tier.as_deref(), grants[0].is_default), (Some("free"), true));
    let limit = &grants[0].limits[0];
    assert_eq!((limit.limit, limit.burst, limit.window_ns), (60, Some(60), Some(60_000_000_000)));
    assert_eq!((grants[1].tier.as_deref(), grants[1].is_default, grants[1].limits.len()), (Some("big"), false, 0));
}

#[test]
fn limits_are_described() {
    let base = |rate: &str| rule("r").limit(rate);
    for (builder, summary, explanation) in [
        (
            base("60/min burst 100"),
            "60 requests a minute, up to 100 at once",
            "The limit refills at a steady rate, up to the number of requests at once.",
        ),
        (
            base("1/h").algorithm(AlgorithmKind::FixedWindow),
            "1 request an hour",
            "Counted in fixed windows of the clock: the count restarts every hour.",
        ),
        (
            base("5 per 30s").algorithm(AlgorithmKind::SlidingWindowLog),
            "5 requests in 30 seconds",
            "Counted exactly over the last 30 seconds.",
        ),
        (
            base("5/s").queue(10, Duration::from_secs(2)),
            "5 requests a second",
            "Requests pass at an even pace; up to 10 that arrive at once are accepted.",
        ),
        (rule("r").concurrency(3), "3 requests at once", "Only requests that are still in flight count."),
    ] {
        let limit = only(builder).grants.remove(0).limits.remove(0);
        assert_eq!((limit.summary.as_str(), limit.explanation.as_str()), (summary, explanation));
    }
}

#[test]
fn behaviour_above_the_limit_is_described() {
    let base = || rule("r").per("user").limit("5/s");
    let (ten_min, quarter) = (Duration::from_secs(600), Duration::from_secs(900));
    let refused = "Requests above the limit are refused with status 429.";
    for (builder, beyond) in [
        (base(), vec![refused]),
        (
            base().on_limit(2, ten_min, Some((20, quarter))),
            vec![
                "The first 2 requests above the limit within 10 minutes pass with a warning.",
                "Further requests are refused with status 429.",
                "After 20 requests above the limit within 10 minutes, the next one blocks the client for 15 minutes.",
            ],
        ),
        (
            base().queue(10, Duration::from_secs(2)),
            vec!["Requests above the rate wait in a queue; when it is full, they are refused with status 429."],
        ),
    ] {
        assert_eq!(only(builder).beyond, beyond);
    }
}

#[test]
fn published_fields_are_those_of_responses() {
    let names = |published: Published| published.fields.iter().map(|field| field.name).collect::<Vec<_>>();
    let all = names(published([rule("r").limit("5/s").on_limit(1, Duration::from_secs(60), None)]));
    assert_eq!(
        all,
        [
            "RateLimit-Policy",
            "RateLimit",
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
            "X-RateLimit-Warning",
            "Retry-After",
        ]
    );
    let bare = PolicyBuilder::default().rule(rule("r").limit("5/s")).with(|policy| policy.fields.sets.clear());
    assert_eq!(names(Published::of(&bare.build().unwrap())), ["Retry-After"]);
}

/// A policy in which every confidential value contains SECRET or 192.0.2.
fn confidential_policy() -> Policy {
    let pattern = |text: &str| TextPattern(text.to_owned());
    let network = || "192.0.2.0/24".parse().unwrap();
    let list = || AccessList {
        client_ip: vec![network()],
        identities: vec![("user".to_owned(), vec![pattern("SECRET-listed")])],
    };
    let builder = PolicyBuilder::default()
        .identity("user", IdentitySource::Header("X-SECRET".to_owned()))
        .trusted_proxies([network()])
        .rule(rule("public").per("user").limit("60/min").when(When {
            headers: vec![("X-SECRET".to_owned(), Condition::OneOf(vec![pattern("SECRET")]))],
            identities: vec![("user".to_owned(), Condition::OneOf(vec![pattern("SECRET")]))],
            network: Some(Networks::Among(vec![network()])),
            ..When::default()
        }))
        .rule(rule("SECRET-rule").per("user").limit("60/min").unpublished())
        .with(|policy| {
            policy.deny = list();
            policy.allow = list();
            let tiers = vec![("SECRET".to_owned(), "free".to_owned())];
            let source = TierSource::Listed { by: "user".to_owned(), tiers };
            policy.tier = Some(Tier { source, default: "free".to_owned(), trusted: true });
            policy.store = StoreSettings::Redis(RedisSettings {
                prefix: "SECRET".to_owned(),
                username: Some("SECRET".to_owned()),
                tls_ca: Some("SECRET".to_owned()),
                tls: true,
                ..RedisSettings::at(vec!["SECRET:6379".to_owned()])
            });
        });
    let mut policy = Policy::clone(&builder.build().unwrap());
    for rule in &mut policy.rules {
        rule.overrides = vec![Override { key: vec![pattern("SECRET")], grant: Grant::Unlimited }];
        rule.cost.source = crate::model::CostSource::Header { name: "X-SECRET".to_owned(), default: 1 };
        rule.cost.settled_by = Some("X-SECRET".to_owned());
    }
    policy
}

#[test]
fn confidential_values_are_not_published() {
    let policy = confidential_policy();
    assert!(format!("{policy:?}").matches("SECRET").count() > 10);
    let published = format!("{:?}", Published::of(&policy));
    assert!(published.contains("some requests") && published.contains("each user"));
    assert!(!published.contains("SECRET") && !published.contains("192.0.2"), "{published}");
}
