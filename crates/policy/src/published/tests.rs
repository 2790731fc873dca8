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
fn only_rules_that_clients_meet_are_told() {
    let published = published([
        rule("told").per("client_ip").limit("60/min"),
        rule("silent").per("client_ip").limit("61/min").unpublished(),
        rule("shadow").per("client_ip").limit("62/min").shadow(),
        rule("open").per("client_ip").limit("unlimited"),
    ]);
    let names: Vec<&str> = published.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["told"]);
}

#[test]
fn where_nothing_is_limited_nothing_is_told() {
    let published = published([rule("shadow").per("client_ip").limit("62/min").shadow()]);
    assert_eq!((published.rules, published.fields, published.advice), (vec![], vec![], vec![]));
}

#[test]
fn whom_a_rule_counts_is_said_in_words() {
    for (keys, counts) in [
        (&[][..], "all clients together"),
        (&["client_ip"], "each IP address (of IPv6 each /64 network)"),
        (&["api_key"], "each api key"),
        (&["user", "route"], "each user and endpoint"),
    ] {
        let counted = keys.iter().fold(rule("r").limit("60/min"), |rule, key| rule.per(key));
        assert_eq!(only(counted).counts, counts);
    }
}

#[test]
fn for_which_requests_is_said_in_words() {
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
fn limits_are_told_by_tier() {
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
fn limits_read_as_sentences() {
    let base = |rate: &str| rule("r").limit(rate);
    for (builder, summary, explanation) in [
        (
            base("60/min burst 100"),
            "60 requests a minute, up to 100 at once",
            "What was used comes back steadily, until as many can come at once as before.",
        ),
        (
            base("1/h").algorithm(AlgorithmKind::FixedWindow),
            "1 request an hour",
            "Counted by the clock: each hour begins anew.",
        ),
        (
            base("5 per 30s").algorithm(AlgorithmKind::SlidingWindowLog),
            "5 requests in 30 seconds",
            "Counted over the last 30 seconds, exactly.",
        ),
        (
            base("5/s").queue(10, Duration::from_secs(2)),
            "5 requests a second",
            "Requests are let through at an even pace; of those that come at once up to 10 are taken.",
        ),
        (rule("r").concurrency(3), "3 requests at once", "Only requests that are still under way count."),
    ] {
        let limit = only(builder).grants.remove(0).limits.remove(0);
        assert_eq!((limit.summary.as_str(), limit.explanation.as_str()), (summary, explanation));
    }
}

#[test]
fn what_happens_beyond_is_told() {
    let base = || rule("r").per("user").limit("5/s");
    let (ten_min, quarter) = (Duration::from_secs(600), Duration::from_secs(900));
    let refused = "Requests beyond it are refused with status 429.";
    for (builder, beyond) in [
        (base(), vec![refused]),
        (
            base().on_limit(2, ten_min, Some((20, quarter))),
            vec![
                "The first 2 requests beyond it within 10 minutes pass with a warning.",
                "Further requests are refused with status 429.",
                "Whoever goes on after 20 requests beyond it within 10 minutes is blocked for 15 minutes.",
            ],
        ),
        (
            base().queue(10, Duration::from_secs(2)),
            vec![
                "Requests that come too fast wait for their turn; when the queue is full they are refused with status 429.",
            ],
        ),
    ] {
        assert_eq!(only(builder).beyond, beyond);
    }
}

#[test]
fn fields_are_those_that_clients_get() {
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

/// A policy in which everything that is nobody's business says SECRET or 192.0.2.
fn secretive() -> Policy {
    let pattern = |text: &str| TextPattern(text.to_owned());
    let network = || "192.0.2.0/24".parse().unwrap();
    let list = || AccessList {
        client_ip: vec![network()],
        identities: vec![("user".to_owned(), vec![pattern("SECRET-listed")])],
    };
    let builder = PolicyBuilder::default()
        .identity("user", IdentitySource::Header("X-SECRET".to_owned()))
        .trusted_proxies([network()])
        .rule(rule("told").per("user").limit("60/min").when(When {
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
fn nothing_leaks() {
    let policy = secretive();
    assert!(format!("{policy:?}").matches("SECRET").count() > 10);
    let told = format!("{:?}", Published::of(&policy));
    assert!(told.contains("some requests") && told.contains("each user"));
    assert!(!told.contains("SECRET") && !told.contains("192.0.2"), "{told}");
}
