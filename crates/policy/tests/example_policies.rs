//! Complete policy files and the settings that are read from them.

#![cfg(all(feature = "yaml", feature = "jwt"))]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use tollgate_core::AlgorithmKind;
use tollgate_policy::model::{
    Allowance, Block, Condition, Consistency, CostSource, FailureMode, FieldSet, ForwardedBy, GlobalServer, Grant,
    IdentitySource, KeyMaterial, Networks, OnLimit, RedisTopology, Regions, ResetFormat, Rule, Secret, StoreSettings,
    TierSource, TrailingSlash, WhenFullSetting,
};
use tollgate_policy::{CheckedPolicy, LoadError, Loaded, load, parse};

fn good(name: &str) -> Loaded {
    load(&Path::new("tests/fixtures/good").join(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn rule<'p>(policy: &'p CheckedPolicy, name: &str) -> &'p Rule {
    policy.rules.iter().find(|rule| rule.name == name).unwrap()
}

fn quotas(allowance: &Allowance) -> &[tollgate_core::Quota] {
    match allowance {
        Allowance::Same(Grant::Limited(quotas)) => quotas,
        other => panic!("{other:?}"),
    }
}

#[test]
fn good_files_load() {
    for entry in fs::read_dir("tests/fixtures/good").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            load(&path).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn design_example_loads_with_the_expected_warnings() {
    let loaded = good("design.yaml");
    let codes: Vec<&str> = loaded.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["untrusted-identity", "untrusted-tier", "allow-covers-proxies"]);
    assert_eq!(loaded.notes.iter().map(|note| note.code).collect::<Vec<_>>(), ["concurrency-elsewhere"]);
    let policy = &loaded.policy;
    assert_eq!(policy.rules.len(), 5);
    assert_eq!(quotas(&rule(policy, "per-ip").allowance)[0].kind(), AlgorithmKind::SlidingWindowCounter);
    let login = rule(policy, "login");
    let block = Some(Block { after: 20, duration_ns: 900_000_000_000 });
    assert_eq!(login.on_limit, Some(OnLimit { warn_first: 2, span_ns: 600_000_000_000, block }));
    assert_eq!(login.when.paths, ["/auth/login", "/auth/register", "/auth/reset-password"]);
    let queue = quotas(&rule(policy, "checkout-upstream").allowance)[0];
    assert_eq!((queue.kind(), queue.queue_size(), queue.ahead_ns()), (AlgorithmKind::LeakyQueue, 10, 2_000_000_000));
    let reports = rule(policy, "reports");
    assert_eq!(reports.key, ["user", "route"]);
    assert_eq!(quotas(&reports.allowance)[0].period_ns(), 60_000_000_000, "a lease of a minute");
    let StoreSettings::Redis(redis) = &policy.store else { panic!("{:?}", policy.store) };
    assert_eq!((redis.mode, redis.deadline_ns, redis.fallback_share), (RedisTopology::Cluster, 20_000_000, (1, 4)));
    assert_eq!(redis.prefix, "tollgate:");
}

#[test]
fn absent_members_have_their_defaults() {
    let loaded = good("minimal.yaml");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let policy = &loaded.policy;
    assert_eq!(policy.client_ip.ipv6_prefix, 64);
    assert_eq!(policy.fields.sets, [FieldSet::Ietf, FieldSet::XRateLimit]);
    assert_eq!(policy.store, StoreSettings::default());
    let rule = rule(policy, "per-ip");
    assert!(rule.publish && !rule.shadow && rule.on_limit.is_none());
    assert_eq!(quotas(&rule.allowance)[0].kind(), AlgorithmKind::TokenBucket);
    assert_eq!(rule.cost.source, CostSource::OfTheRequest);
}

#[test]
fn identities_and_settings_are_read() {
    let policy = good("everything.yaml").policy;
    assert_eq!(policy.client_ip.forwarded_by, ForwardedBy::Forwarded);
    assert_eq!(policy.client_ip.trusted_proxies.len(), 2);
    let source = |name: &str| &policy.identities.iter().find(|identity| identity.name == name).unwrap().source;
    assert_eq!(*source("api_key"), IdentitySource::Header("x-api-key".to_owned()));
    assert_eq!(*source("session"), IdentitySource::Cookie("sid".to_owned()));
    assert_eq!(*source("tenant"), IdentitySource::PathSegment(2));
    assert_eq!(*source("number"), IdentitySource::Value("42".to_owned()));
    assert_eq!(*source("connection"), IdentitySource::Peer);
    let tier = policy.tier.as_ref().unwrap();
    let TierSource::Listed { by, tiers } = &tier.source else { panic!("{tier:?}") };
    assert_eq!(by, "api_key");
    let expected = [("k-1", "pro"), ("k-2", "enterprise")].map(|(key, tier)| (key.to_owned(), tier.to_owned()));
    assert_eq!(*tiers, expected);
    let jwt = policy.jwt.as_ref().unwrap();
    let written = KeyMaterial::Written(b"not a secret, only for tests".to_vec());
    assert_eq!(jwt.keys[0].key, written, "without the line end");
    assert!(!format!("{jwt:?}").contains("secret"));
    assert_eq!(policy.paths.trailing_slash, TrailingSlash::Keep);
    assert!(policy.paths.ignore_case);
    assert_eq!(policy.fields.sets, [FieldSet::XRateLimit]);
    assert_eq!((policy.fields.reset, policy.fields.jitter_ns), (ResetFormat::Delta, 2_000_000_000));
    let StoreSettings::Redis(redis) = &policy.store else { panic!("{:?}", policy.store) };
    assert_eq!(redis.password, Some(Secret::Environment("REDIS_PASSWORD".to_owned())));
    assert_eq!((redis.database, redis.tls, redis.on_failure), (3, true, FailureMode::Open));
    assert_eq!((redis.consistency, redis.lease_ns), (Consistency::Leased, 500_000_000));
}

#[test]
fn regions_are_read() {
    let policy = good("everything.yaml").policy;
    let weights = [("eu", 50), ("us", 30), ("ap", 20)].map(|(name, weight)| (name.to_owned(), weight));
    let text = |text: &str| text.to_owned();
    let global = GlobalServer {
        mode: RedisTopology::Sentinel,
        prefix: text("regions:"),
        database: 4,
        username: Some(text("tollgate")),
        password: Some(Secret::Environment(text("GLOBAL_PASSWORD"))),
        tls: true,
        tls_ca: None,
        sentinel_primary: Some(text("global")),
        ..GlobalServer::at(vec![text("global-1:26379"), text("global-2:26379")])
    };
    let expected = Regions { own: Some(text("eu")), sync_ns: 20_000_000_000, ..Regions::new(weights.to_vec(), global) };
    assert_eq!(policy.regions, Some(expected));
    assert_eq!(rule(&policy, "queries").consistency, Some(Consistency::Regional));
}

#[test]
fn rules_are_read() {
    let policy = good("everything.yaml").policy;
    let when = &rule(&policy, "per-key").when;
    assert_eq!(when.methods, ["GET", "POST"]);
    assert_eq!(when.headers[0], ("x-debug".to_owned(), Condition::Absent));
    assert_eq!(when.headers[1].1, Condition::Present);
    assert!(matches!(&when.headers[2].1, Condition::OneOf(patterns) if patterns.len() == 2));
    assert_eq!(rule(&policy, "internal").when.network, Some(Networks::Internal));
    assert_eq!(rule(&policy, "internal").overrides[1].key[0].0, "42");
    assert_eq!(quotas(&rule(&policy, "per-client").allowance).len(), 3);
    assert_eq!(quotas(&rule(&policy, "uploads").allowance)[0].period_ns(), 300_000_000_000);
    assert_eq!(rule(&policy, "per-client").consistency, Some(Consistency::Exact));
    let Allowance::Tiers(tiers) = &rule(&policy, "reports").allowance else { panic!("by tier") };
    assert_eq!(tiers[2], ("enterprise".to_owned(), Grant::Unlimited));
    assert_eq!(rule(&policy, "pay").cost.settled_by.as_deref(), Some("x-true-cost"));
    assert_eq!(rule(&policy, "queries").cost.max, 100);
    let costs = vec![("POST".to_owned(), 5), ("DELETE".to_owned(), 10)];
    assert_eq!(rule(&policy, "writes").cost.source, CostSource::Methods { costs, default: 1 });
    let patience = rule(&policy, "patience").on_limit.unwrap();
    assert_eq!(patience.span_ns, 3_600_000_000_000, "the rule's own period");
    assert_eq!(patience.warn_first, 0);
}

#[test]
fn alias_repeats_a_value() {
    let policy = good("aliases.yaml").policy;
    assert_eq!(rule(&policy, "reads").when.paths, rule(&policy, "writes").when.paths);
    assert_eq!(rule(&policy, "reads").allowance, rule(&policy, "writes").allowance);
    let StoreSettings::Memory(memory) = &policy.store else { panic!("in memory") };
    assert_eq!((memory.entries, memory.when_full), (50_000, WhenFullSetting::Refuse));
    assert_eq!(memory.snapshot, None);
}

#[test]
fn escalation_counts_over_the_longest_period_by_default() {
    let text = "version: 1\nrules:\n- {name: a, limit: [5/min, 50/h], on_limit: [{first: 2, action: warn}]}\n";
    let policy = parse(text, "a", None).unwrap().policy;
    assert_eq!(policy.rules[0].on_limit, Some(OnLimit { warn_first: 2, span_ns: 3_600_000_000_000, block: None }));
}

#[test]
fn all_errors_are_reported_at_once_and_none_twice() {
    let text = "version: 1\nidentity:\n  tier: { header: X-Tier }\nrules:\n  - name: a\n    key: unknown\n    limit: 5/x\n    when: { path: login }\n  - name: b\n    tiers: { free: 1/s, pro: 5/y/z }\n    shadow: maybe\n  - 7\n";
    let report = parse(text, "a", None).unwrap_err();
    let codes: Vec<&str> = report.errors.iter().map(|error| error.code).collect();
    let expected = [
        "missing-member", // the tier's default; rules without that tier are not reported
        "unknown-identity",
        "bad-rate",
        "bad-path",
        "bad-rate",
        "wrong-type",
        "wrong-type",
    ];
    assert_eq!(codes, expected, "{report}");
}

#[test]
fn unreadable_value_causes_no_further_errors() {
    for (text, expected) in [
        ("identity: [user]\nrules: [{name: a, key: user, limit: 1/s}]", "wrong-type"),
        ("identity: {tier: 7}\nrules: [{name: a, key: tier, tiers: {x: 1/s}}]", "wrong-type"),
        (
            "jwt: {algorithm: HS1, key_env: PATH}\nidentity: {user: {jwt: sub}}\nrules: [{name: a, limit: 1/s}]",
            "unknown-word",
        ),
        ("identity: {user: 7}\nrules: [{name: a, key: user, limit: 1/s}]", "wrong-type"),
        ("rules: [{name: a, limit: x, cost: 5, on_limit: [{first: 1, action: warn}]}]", "bad-rate"),
    ] {
        let report = parse(&format!("version: 1\n{text}\n"), "a", None).unwrap_err();
        let codes: Vec<&str> = report.errors.iter().map(|error| error.code).collect();
        assert_eq!(codes, [expected], "{report}");
    }
}

#[test]
fn boolean_is_not_accepted_as_text() {
    let text = "version: 1\nidentity: {user: {header: true}, other: {header: 'true'}, third: {value: 42}}\n";
    let report = parse(text, "a", None).unwrap_err();
    assert_eq!(report.errors.len(), 1, "{report}");
    assert!(report.to_string().contains("put it in quotes"), "{report}");
}

#[test]
fn error_in_an_aliased_value_is_reported_once() {
    let text = "version: 1\nrules:\n- {name: a, limit: &l 5/x}\n- {name: b, limit: *l}\n- {name: c, limit: *l}\n";
    assert_eq!(parse(text, "a", None).unwrap_err().errors.len(), 1);
}

#[test]
fn errors_beyond_the_maximum_are_counted() {
    let text = format!("version: 1\nrules: [{}]\n", "7, ".repeat(5_000));
    let report = parse(&text, "a", None).unwrap_err();
    assert_eq!((report.errors.len(), report.omitted), (100, 4_900));
    assert!(report.to_string().ends_with("and 4900 more errors"));
}

#[test]
fn errors_contain_no_secrets() {
    for text in [
        "version: 1\njwt: { algorithm: HS256, key: hunter2, kez: 1 }\n",
        "version: 1\nstore: { redis: { nodes: [a:1], password: 'hunter2', passwort: x } }\n",
        "version: 1\njwt:\n  algorithm: HS256\n  key: |\n    hunter2\n    hunter2\n",
        "version: 1\njwt: { algorithm: HS256, key: x, key: hunter2 }\n",
        "version: 1\njwt: { algorithm: HS256, key: [hunter2, {a: hunter2}], x: 1 }\n",
    ] {
        let report = parse(text, "a", None).unwrap_err();
        assert!(!report.to_string().contains("hunter2"), "{report}");
        assert!(!format!("{report:?}").contains("hunter2"), "{report:?}");
    }
}

#[test]
fn file_member_without_a_base_folder_is_an_error() {
    let text = "version: 1\nidentity: { tier: { by: client_ip, file: /etc/passwd, default: a } }\n";
    let report = parse(text, "a", None).unwrap_err();
    assert_eq!(report.errors[0].code, "unreadable-file");
}

#[test]
fn unreadable_policy_files_are_reported_by_cause() {
    let shown = |path: &str| load(Path::new(path)).unwrap_err().to_string();
    assert!(shown("tests/fixtures").contains("this is a directory"));
    assert!(shown("tests/no-such-file.yaml").contains("cannot be read: No such file"));
    let dir = std::env::temp_dir().join(format!("tollgate-policy-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let large = write("large.yaml", &vec![b'#'; 10_000_000]);
    let started = std::time::Instant::now();
    assert!(matches!(load(&large), Err(LoadError::TooLarge { .. })));
    assert!(started.elapsed().as_millis() < 100, "refused unread");
    let binary = write("binary.yaml", b"version: 1\n\xff\xfe");
    assert!(matches!(load(&binary), Err(LoadError::NotText { line: 2, .. })));
    fs::remove_dir_all(&dir).unwrap();
}

/// Completes an example of the documentation to a whole policy.
fn complete(block: &str) -> String {
    const RULE_MEMBERS: [&str; 7] = ["key:", "limit:", "tiers:", "concurrency:", "when:", "on_limit:", "- name:"];
    let identities = "identity:\n  user: { header: X-User, trusted: true }\n  api_key: { header: X-Key, trusted: true }\n  tier: { header: X-Tier, default: free, trusted: true }\n";
    let indented = |by: &str| block.lines().map(|line| format!("{by}{line}\n")).collect::<String>();
    if block.starts_with("version:") {
        return block.to_owned();
    }
    if block.starts_with("- name:") {
        return format!("version: 1\n{identities}rules:\n{}", indented("  "));
    }
    if RULE_MEMBERS.iter().any(|member| block.starts_with(member)) {
        let has_limit = ["limit:", "tiers:", "concurrency:"].iter().any(|member| block.starts_with(member))
            || block.contains("\nlimit:");
        let limit = if has_limit { "" } else { "    limit: 5/min\n" };
        return format!("version: 1\n{identities}rules:\n  - name: a\n{limit}{}", indented("    "));
    }
    let identities = if block.contains("identity:") { "" } else { identities };
    format!("version: 1\n{identities}{block}")
}

#[test]
fn examples_of_the_reference_load() {
    let page = fs::read_to_string("../../docs/policy.md").unwrap();
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 20, "{} examples", blocks.len());
    // The files that the examples name are in the folder of the good fixtures.
    for block in blocks {
        let text = complete(block);
        if let Err(report) = parse(&text, "docs/policy.md", Some(Path::new("tests/fixtures/good"))) {
            panic!("{report}\n{text}");
        }
    }
}

#[test]
fn members_are_documented_in_the_reference() {
    let page = fs::read_to_string("../../docs/policy.md").unwrap();
    let schema: serde_json::Value = serde_json::from_str(&tollgate_policy::json_schema()).unwrap();
    for (shape, definition) in schema["$defs"].as_object().unwrap() {
        for name in definition["properties"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{name}`")) || page.contains(&format!("{name}: ")), "{shape}.{name}");
        }
    }
}

#[test]
fn snapshot_defaults_to_the_policy_folder_and_30_seconds() {
    let snapshot = |settings: &str| {
        let text = format!("version: 1\nrules: []\nstore: {{ memory: {{ {settings} }} }}\n");
        let policy = parse(&text, "policy", Some(Path::new("/etc/tollgate"))).unwrap().policy;
        let StoreSettings::Memory(memory) = &policy.store else { panic!("in memory") };
        let snapshot = memory.snapshot.clone().unwrap();
        (snapshot.file, snapshot.every_ns)
    };
    assert_eq!(snapshot("snapshot: a.snapshot"), ("/etc/tollgate/a.snapshot".to_owned(), 30_000_000_000));
    assert_eq!(snapshot("snapshot: /var/a, every: 2s"), ("/var/a".to_owned(), 2_000_000_000));
}
