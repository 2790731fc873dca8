//! A path has several readings, because servers differ: a limit applies if any reading matches, an exemption only if
//! all of them do.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use matching_support::{
    charged, compile, from, identity, limited, paths, patterns, rule, rule_for, strings, with_rules,
};
use proptest::prelude::*;
use tollgate_policy::model::{
    AccessList, Allowance, Condition, Cost, CostSource, Grant, IdentitySource, Override, Paths, Rule, TrailingSlash,
    When,
};
use tollgate_policy::{Access, CompiledPolicy, Descriptor, Policy, Request, RuleOutcome};

const CLIENT: &str = "203.0.113.9";

fn get<'a>(target: &'a str) -> Request<'a> {
    from(CLIENT, "GET", target, &())
}

/// Returns a policy of one rule for this pattern, without a key.
fn single_rule(pattern: &str) -> CompiledPolicy {
    compile(with_rules(vec![rule_for("r", &[], paths(&[pattern]))]))
}

fn applies(pattern: &str, target: &str) -> bool {
    let times = single_rule(pattern).match_request(&get(target)).charges.len();
    assert!(times <= 1, "{target} is charged {times} times under {pattern}");
    times == 1
}

/// The route by which each server serves a target.
struct Served {
    target: &'static str,
    /// axum compares the path as it was sent, and does not resolve dot segments or merge slashes.
    by_axum: &'static str,
    /// nginx decodes, merges slashes and resolves dots; an escaped slash is a slash.
    by_nginx: &'static str,
}

const SERVED: [Served; 9] = [
    Served { target: "/reports/2026%2f..%2f..%2fx0", by_axum: "/reports/{name}", by_nginx: "/x0" },
    Served { target: "/zz%2f..%2fauth/login", by_axum: "/{name}/login", by_nginx: "/auth/login" },
    Served { target: "/auth/%6cogin", by_axum: "/auth/{name}", by_nginx: "/auth/login" },
    Served { target: "//auth//login", by_axum: "/*", by_nginx: "/auth/login" },
    Served { target: "/reports/./x", by_axum: "/reports/./*", by_nginx: "/reports/x" },
    Served { target: "/reports/../x", by_axum: "/reports/*", by_nginx: "/x" },
    Served { target: "/reports/%2e%2e/x", by_axum: "/reports/*", by_nginx: "/x" },
    Served { target: "/reports/a%252f..%252fb", by_axum: "/reports/{name}", by_nginx: "/reports/a%2f..%2fb" },
    Served { target: "/reports/a%20b?c=/../d", by_axum: "/reports/{name}", by_nginx: "/reports/{name}" },
];

#[test]
fn rule_for_the_route_that_axum_or_nginx_serves_applies() {
    for Served { target, by_axum, by_nginx } in &SERVED {
        for (server, pattern) in [("axum", by_axum), ("nginx", by_nginx)] {
            // Patterns have no dot segments; those that axum keeps are matched by the prefix pattern.
            let pattern = pattern.replace("/./", "/");
            assert!(applies(&pattern.replace("%2f", "%252f"), target), "{server} serves {target} as {pattern}");
        }
    }
}

#[test]
fn readings_of_other_servers_do_not_avoid_a_rule() {
    for (server, target) in [
        ("Tomcat removes parameters", "/auth;v=1/login;jsessionid=7"),
        ("Tomcat removes them before decoding", "/auth/login;a%2fb"),
        ("some remove them after decoding", "/auth/login%3bx"),
        ("Windows and URL parsers of browsers treat a backslash as a slash", "/auth\\login"),
        ("Windows does so once it is decoded", "/auth%5clogin"),
        ("Windows resolves dots behind backslashes", "/x\\..\\auth/login"),
        ("Windows drops dots at the end", "/auth/login."),
        ("Windows drops dots at the end of each name", "/auth./login..."),
        ("Windows drops spaces at the end", "/auth/login%20"),
        ("C programs stop at a zero byte", "/auth/login%00.html"),
        ("Envoy resolves dots around escaped slashes", "/junk%2fa/../auth/login"),
        ("Envoy in front of one that decodes", "/junk%2fa/../auth%2flogin"),
        ("Envoy in front of one that decodes and resolves", "/junk%2fa/../x%2f..%2fauth/login"),
        ("Tomcat with all of it", "/junk;a%2fb/../auth;v/login"),
        ("one server of several kinds", "/junk\\x;y/../auth/login"),
        ("all of it", "/x\\y%2f..%5c..//auth;a=b./%6cogin.;c%00d"),
        ("absolute form, as sent to proxies", "http://example.com/x/../auth/login"),
        ("invalid escape in the query", "/auth/login?%2"),
    ] {
        assert!(applies("/auth/login", target), "{server}: {target}");
    }
}

#[test]
fn different_paths_do_not_match_in_any_reading() {
    for target in
        ["/auth/loginx", "/auth/log%69nx", "/auth/login/x", "/auth/.login", "/auth/login.x", "/auth%252flogin"]
    {
        assert!(!applies("/auth/login", target), "{target}");
    }
}

/// Returns a policy in which the rule `open` is unlimited, and replaces `all` where it applies.
fn exempting(patterns: &[&str]) -> CompiledPolicy {
    let open = Rule {
        allowance: Allowance::Same(Grant::Unlimited),
        replaces: strings(&["all"]),
        ..rule_for("open", &[], paths(patterns))
    };
    compile(with_rules(vec![rule("all", &["client_ip"]), open]))
}

#[test]
fn rule_replaces_others_only_if_every_reading_matches() {
    let compiled = exempting(&["/health", "/static/*"]);
    for target in
        ["/health", "/health/", "/health?a=%2f..", "/static/a%20b.css", "/static/caf%C3%A9", "http://h/health"]
    {
        assert_eq!(charged(&compiled, &get(target)), [""; 0], "{target}");
        assert!(compiled.match_request(&get(target)).unlimited, "{target}");
    }
    for target in [
        "/reports/2026%2f..%2f..%2fhealth",
        "/static/..%2freports/2026",
        "/static/%2e%2e/reports/2026",
        "/static/../reports",
        "/static/x\\..\\..\\reports",
        "/h%65alth",
        "//health",
        "/health;x",
        "/health.",
        "/health%00x",
        "/reports/..;/health",
    ] {
        assert_eq!(charged(&compiled, &get(target)), ["all 203.0.113.9"], "{target}");
        assert!(!compiled.match_request(&get(target)).unlimited, "{target}");
    }
}

#[test]
fn rule_with_excluded_paths_applies_unless_every_reading_is_excluded() {
    let but = Condition::OneOfBut { these: Vec::new(), but_not: patterns(&["/health"]) };
    let when = When { identities: vec![("path".to_owned(), but)], ..When::default() };
    let compiled = compile(with_rules(vec![rule_for("r", &[], when)]));
    assert_eq!(charged(&compiled, &get("/health")), [""; 0]);
    for target in ["/reports/2026%2f..%2f..%2fhealth", "/health;x", "//health", "/x"] {
        assert_eq!(charged(&compiled, &get(target)), ["r "], "{target}");
    }
}

#[test]
fn access_lists_by_path_allow_by_all_readings_and_deny_by_any() {
    let list = || AccessList { client_ip: Vec::new(), identities: vec![("path".to_owned(), patterns(&["/x/*"]))] };
    let allowing = compile(Policy { allow: list(), ..with_rules(vec![rule("all", &[])]) });
    let denying = compile(Policy { deny: list(), ..with_rules(vec![rule("all", &[])]) });
    for (target, allow, deny) in [
        ("/x/y", Access::Allowed, Access::Denied),
        ("/x/..%2fy", Access::Rules, Access::Denied),
        ("/y%2f..%2fx/z", Access::Rules, Access::Denied),
        ("/y", Access::Rules, Access::Rules),
    ] {
        assert_eq!(allowing.match_request(&get(target)).access, allow, "{target}");
        assert_eq!(denying.match_request(&get(target)).access, deny, "{target}");
        let explained = denying.explain(&get(target));
        assert_eq!((explained.access, explained.decided_by.is_some()), (deny, deny == Access::Denied), "{target}");
    }
    assert_eq!(denying.denied_value(&get("/x/..%2fy")).as_deref(), Some("/x/../y"));
}

#[test]
fn unlimited_override_applies_only_to_its_own_path() {
    let own = Override { key: patterns(&["/cheap"]), grant: Grant::Unlimited };
    let compiled = compile(with_rules(vec![Rule { overrides: vec![own], ..rule("r", &["path"]) }]));
    assert_eq!(charged(&compiled, &get("/cheap")), [""; 0]);
    assert_eq!(charged(&compiled, &get("/dear/a%2f..%2f..%2fcheap")).len(), 1);
}

#[test]
fn spellings_of_one_path_have_one_key() {
    let compiled = compile(with_rules(vec![
        rule("any", &["path"]),
        rule_for("reports", &["path", "route"], paths(&["/reports/*"])),
    ]));
    for target in [
        "/reports/2026",
        "/reports//2026",
        "/reports/./2026",
        "/reports/%32026",
        "/reports%2f2026",
        "/reports/x/../2026",
        "/reports/2026;a=1",
        "/reports/2026;a=2",
        "/reports/2026.",
        "/reports/2026%20",
        "/reports/2026%00a",
        "/reports\\2026",
        "/reports/2026/",
    ] {
        assert_eq!(
            charged(&compiled, &get(target)),
            ["any /reports/2026", "reports /reports/2026|/reports/*"],
            "{target}"
        );
    }
}

#[test]
fn key_contains_the_matched_reading() {
    let compiled = compile(with_rules(vec![
        rule_for("reports", &["path", "route"], paths(&["/reports/{name}"])),
        rule_for("x0", &["path"], paths(&["/x0"])),
    ]));
    let target = "/reports/2026%2f..%2f..%2fx0";
    let key = r"/reports/2026%2f..%2f..%2fx0|/reports/\x7bname\x7d";
    assert_eq!(charged(&compiled, &get(target)), [format!("reports {key}"), "x0 /x0".to_owned()]);
    // An operator can enter the path as it was sent, or as it is displayed.
    for text in [key, "/reports/2026%2f..%2f..%2fx0|/reports/{name}", "/reports/2026%2f..%2f..%2fx0|/reports/7"] {
        assert_eq!(compiled.read_key(0, text).as_deref(), Ok(key), "{text}");
    }
    assert_eq!(compiled.read_key(1, target).as_deref(), Ok("/x0"));
}

/// The counter of every tenant that a server may read from the path is charged.
#[test]
fn path_segment_is_counted_in_every_reading() {
    let compiled = compile(Policy {
        identities: vec![identity("tenant", IdentitySource::PathSegment(2))],
        ..with_rules(vec![rule("per-tenant", &["tenant"]), rule("all", &["client_ip"])])
    });
    assert_eq!(charged(&compiled, &get("/v1/acme/x")), ["per-tenant acme", "all 203.0.113.9"]);
    let both = charged(&compiled, &get("/v1/acme/x%2f..%2f..%2ffresh"));
    assert_eq!(both, ["per-tenant fresh", "per-tenant acme", "all 203.0.113.9"]);
    let explanation = compiled.explain(&get("/v1/acme/x%2f..%2f..%2ffresh"));
    let RuleOutcome::Applies(application) = &explanation.rules[0].outcome else { panic!("{explanation:?}") };
    assert_eq!((&*application.key, &*application.more_keys), ("fresh", &["acme".to_owned()][..]));
}

#[test]
fn explanation_has_all_readings_and_the_matched_one() {
    let compiled = compile(with_rules(vec![
        rule_for("reports", &["client_ip"], paths(&["/reports/*"])),
        rule_for("x0", &["client_ip"], paths(&["/x0"])),
        rule_for("other", &["client_ip"], paths(&["/other"])),
    ]));
    let explanation = compiled.explain(&get("/reports/2026%2f..%2f..%2fx0"));
    assert_eq!(explanation.path.as_deref(), Some("/x0"));
    assert_eq!(explanation.readings, ["/x0", "/reports/2026/../../x0", "/reports/2026%2f..%2f..%2fx0"]);
    let read_as: Vec<Option<String>> = explanation
        .rules
        .iter()
        .map(|rule| match &rule.outcome {
            RuleOutcome::Applies(application) => application.read_as.clone(),
            RuleOutcome::NotApplied { reason } => Some(reason.clone()),
        })
        .collect();
    assert_eq!(
        read_as,
        [Some("/reports/2026/../../x0".to_owned()), Some("/x0".to_owned()), Some("path is /x0, not /other".to_owned())]
    );
    let plain = compiled.explain(&get("/x0"));
    assert_eq!(plain.readings, ["/x0"]);
    let RuleOutcome::Applies(application) = &plain.rules[1].outcome else { panic!("{plain:?}") };
    assert_eq!(application.read_as, None);
}

#[test]
fn rule_for_get_matches_head_but_not_conversely() {
    let on = |method: &str| When { methods: strings(&[method]), ..When::default() };
    let compiled = compile(with_rules(vec![rule_for("get", &[], on("GET")), rule_for("head", &[], on("HEAD"))]));
    for (method, rules) in
        [("GET", &["get "][..]), ("HEAD", &["get ", "head "]), ("head", &["get ", "head "]), ("POST", &[])]
    {
        assert_eq!(charged(&compiled, &from(CLIENT, method, "/", &())), rules, "{method}");
    }
    let explained = compiled.explain(&from(CLIENT, "HEAD", "/", &()));
    assert!(explained.rules.iter().all(|rule| matches!(rule.outcome, RuleOutcome::Applies(_))));
}

#[test]
fn head_has_the_cost_of_get_unless_it_has_its_own() {
    let cost = |costs: &[(&str, u64)]| Cost {
        source: CostSource::Methods {
            costs: costs.iter().map(|(method, cost)| ((*method).to_owned(), *cost)).collect(),
            default: 1,
        },
        ..Cost::default()
    };
    let with = |costs: &[(&str, u64)]| {
        compile(with_rules(vec![Rule { allowance: Allowance::Same(limited(9)), cost: cost(costs), ..rule("r", &[]) }]))
    };
    assert_eq!(charged(&with(&[("GET", 5)]), &from(CLIENT, "HEAD", "/", &())), ["r  x5"]);
    assert_eq!(charged(&with(&[("GET", 5), ("HEAD", 2)]), &from(CLIENT, "HEAD", "/", &())), ["r  x2"]);
    assert_eq!(charged(&with(&[("POST", 5)]), &from(CLIENT, "HEAD", "/", &())), ["r "]);
}

#[test]
fn descriptor_methods_are_compared_literally() {
    let method = When { methods: strings(&["GET"]), ..When::default() };
    let compiled = compile(with_rules(vec![rule_for("get", &[], method)]));
    let charges = |entries: &[(&str, &str)]| {
        charged(&compiled, &Request::from_descriptor(&Descriptor { domain: "edge", entries }))
    };
    assert_eq!(charges(&[("method", "GET")]), ["get "]);
    assert_eq!(charges(&[("method", "HEAD")]), [""; 0]);
}

#[test]
fn parameter_matches_exactly_one_segment() {
    for (pattern, target, matches) in [
        ("/users/{id}", "/users/7", true),
        ("/users/:id", "/users/7", true),
        ("/users/{id}", "/users/7/", true),
        ("/users/{id}", "/users/a%2fb", true),
        ("/users/{id}", "/users", false),
        ("/users/{id}", "/users/", false),
        ("/users/{id}", "/users/7/orders", false),
        ("/users/{id}/orders/{order}", "/users/7/orders/8", true),
        ("/:tenant/*", "/acme/x/y", true),
        ("/users/%7Bid%7D", "/users/7", false),
        ("/users/%7Bid%7D", "/users/%7bid%7d", true),
    ] {
        assert_eq!(applies(pattern, target), matches, "{pattern} {target}");
    }
}

/// Returns another spelling of a path, which servers normalise.
fn respelled(path: &str, choices: &[u8]) -> String {
    let mut spelled = String::new();
    for (byte, choice) in path.bytes().zip(choices.iter().cycle()) {
        match (byte, choice % 9) {
            (b'/', 1) => spelled.push_str("//"),
            (b'/', 2) => spelled.push_str("/./"),
            (b'/', 3) => spelled.push_str("/y/../"),
            (b'/', 4) => spelled.push_str("%2f"),
            (b'/', 5) => spelled.push('\\'),
            (b'/', 6) => spelled.push_str("/y%2F%2e%2e/"),
            (b'/', 7) if spelled.len() > 1 => spelled.push_str(";p=1/"),
            (b'/', 8) if spelled.len() > 1 => spelled.push_str("./"),
            (byte, 1..=3) if byte != b'/' => spelled.push_str(&format!("%{byte:02x}")),
            (byte, _) => spelled.push(char::from(byte)),
        }
    }
    // A target begins with a slash, whatever replaced the first one.
    if spelled.starts_with('/') { spelled } else { format!("/{spelled}") }
}

const PATTERNS: [&str; 8] = ["/a", "/a/*", "/a/{id}", "/:any/b", "/a/*/c", "/*", "/b/{id}/*", "/a/b/c"];

proptest! {
    #[test]
    fn rule_for_a_plain_path_applies_to_all_spellings(
        segments in proptest::collection::vec("[abc]", 1..5),
        pattern in 0..PATTERNS.len(),
        choices in proptest::collection::vec(any::<u8>(), 1..24),
        keep in any::<bool>(),
    ) {
        let path = format!("/{}", segments.join("/"));
        let trailing_slash = if keep { TrailingSlash::Keep } else { TrailingSlash::Ignore };
        let compiled = compile(Policy {
            paths: Paths { trailing_slash, ignore_case: false },
            ..with_rules(vec![rule_for("r", &["path"], paths(&[PATTERNS[pattern]])), rule("all", &["path"])])
        });
        let spelled = respelled(&path, &choices);
        let (plain, other) = (charged(&compiled, &get(&path)), charged(&compiled, &get(&spelled)));
        prop_assert!(plain.iter().all(|charge| other.contains(charge)), "{path} {spelled}: {plain:?} {other:?}");
        prop_assert_eq!(plain.last(), other.last(), "{} creates a key", spelled);
    }

    #[test]
    fn exemption_requires_all_readings_to_match(
        target in "/([abx.;%\\\\]|%2f|%2e|%5c|%00|/|\\.\\./){0,12}",
        pattern in 0..PATTERNS.len(),
    ) {
        let pattern = PATTERNS[pattern];
        let compiled = exempting(&[pattern]);
        let is_exempt = charged(&compiled, &get(&target)).is_empty();
        let readings = compiled.explain(&get(&target)).readings;
        // Each plain reading, which has no other reading, either matches the pattern or not. Readings are displayed
        // without a trailing slash, and `/a/` matches `/a/*`.
        let may_end_in_slash = may_end_in_slash(&target);
        let applies = |reading: &str| {
            applies(pattern, reading) || may_end_in_slash && applies(pattern, &format!("{reading}/"))
        };
        for reading in readings.iter().filter(|reading| is_plain(reading)) {
            prop_assert!(!is_exempt || applies(reading), "{target} read as {reading} is exempt by {pattern}");
        }
        prop_assert_eq!(is_exempt, compiled.match_request(&get(&target)).unlimited);
    }

    #[test]
    fn path_has_at_most_24_readings(target in "/([ab.; %\\\\]|%2f|%2e|%5c|%00|%3b|/){0,40}") {
        let compiled = single_rule("/a");
        let readings = compiled.explain(&get(&target)).readings;
        prop_assert!((1..=24).contains(&readings.len()), "{target}: {readings:?}");
        let mut distinct = readings.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert!(distinct.len() * 2 >= readings.len(), "{target}: {readings:?}");
    }
}

/// Whether a target ends in a slash in some reading: written, escaped, or before a dot segment that is resolved.
fn may_end_in_slash(target: &str) -> bool {
    let decoded = target.replace("%2f", "/").replace("%5c", "/").replace("%2e", ".").replace('\\', "/");
    // For some servers, a path ends at a parameter or a zero byte.
    let ends = |path: &str| path.trim_end_matches('.').ends_with('/');
    ends(&decoded) || decoded.match_indices(';').chain(decoded.match_indices("%00")).any(|(at, _)| ends(&decoded[..at]))
}

fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'/') && !path.contains("//")
}
