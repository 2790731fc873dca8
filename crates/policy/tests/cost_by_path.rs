//! Costs by path against a simple oracle: the most specific pattern of each reading, and the most expensive reading.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod matching_support;

use matching_support::{charged, compile, from, limited, rule, with_rules};
use proptest::prelude::*;
use tollgate_policy::model::{Allowance, Cost, CostSource, Paths, Rule, TrailingSlash, When};
use tollgate_policy::{CompiledPolicy, Descriptor, Policy, PolicyBuilder, Request, RuleOutcome};

const CLIENT: &str = "203.0.113.9";
const PATTERNS: [&str; 10] =
    ["/", "/*", "/a", "/a/*", "/a/{id}", "/a/b", "/:any/b", "/b/{id}/*", "/a/b/c", "/export/*"];

fn priced(costs: &[(&str, u64)], default: u64) -> Rule {
    let costs = costs.iter().map(|(pattern, cost)| ((*pattern).to_owned(), *cost)).collect();
    let cost = Cost { source: CostSource::Paths { costs, default }, ..Cost::default() };
    Rule { allowance: Allowance::Same(limited(1_000)), cost, ..rule("r", &["client_ip"]) }
}

fn cost_of(compiled: &CompiledPolicy, target: &str) -> u64 {
    let request = from(CLIENT, "GET", target, &());
    let matched = compiled.match_request(&request);
    let by_index = compiled.match_by_index(&request, |_, _| None);
    assert_eq!(matched.charges[0].cost, by_index.charges[0].cost, "{target}");
    let explained = compiled.explain(&request);
    let RuleOutcome::Applies(application) = &explained.rules[0].outcome else { panic!("{explained:?}") };
    assert_eq!(application.cost, matched.charges[0].cost, "{target}");
    matched.charges[0].cost
}

#[test]
fn most_specific_pattern_determines_the_cost() {
    let costs = [("/search", 5), ("/export/*", 50), ("/export/small", 3), ("/users/{id}", 2), ("/users/*", 7)];
    let compiled = compile(with_rules(vec![priced(&costs, 1)]));
    assert!(compiled.has_fast_path());
    for (target, cost) in [
        ("/search", 5),
        ("/search/", 5),
        ("/search?q=/export/x", 5),
        ("/searches", 1),
        ("/export", 1),
        ("/export/", 50),
        ("/export/a/b", 50),
        ("/export/small", 3),
        ("/users/7", 2),
        ("/users/7/orders", 7),
        ("/", 1),
        ("", 1),
    ] {
        assert_eq!(cost_of(&compiled, target), cost, "{target}");
    }
}

#[test]
fn most_expensive_reading_determines_the_cost() {
    let compiled = compile(with_rules(vec![priced(&[("/export/*", 50), ("/export/small", 3)], 1)]));
    for (target, cost) in [
        ("/export%2fall", 50),
        ("/%65xport/all", 50),
        ("//export//all", 50),
        ("/x/../export/all", 50),
        ("/export;v=1/all", 50),
        ("/export\\all", 50),
        // One reading is the cheap path, another is any path below `/export`.
        ("/export/./small", 50),
        ("/export/all/..%2f..%2fsmall", 50),
        ("/other%2fall", 1),
    ] {
        assert_eq!(cost_of(&compiled, target), cost, "{target}");
    }
}

#[test]
fn reading_that_the_rule_does_not_match_contributes_to_the_cost() {
    let when = When { paths: vec!["/files/*".to_owned()], ..When::default() };
    let compiled = compile(with_rules(vec![Rule { when, ..priced(&[("/export/*", 50)], 1) }]));
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/files/a", &())), ["r 203.0.113.9"]);
    let both = from(CLIENT, "GET", "/files/..%2fexport/a", &());
    assert_eq!(charged(&compiled, &both), ["r 203.0.113.9 x50"]);
}

#[test]
fn peek_costs_nothing() {
    let compiled = compile(with_rules(vec![priced(&[("/search", 5)], 1)]));
    let peek = Request { cost: 0, ..from(CLIENT, "GET", "/search", &()) };
    assert_eq!(compiled.match_request(&peek).charges[0].cost, 0);
}

#[test]
fn cost_of_the_caller_does_not_replace_that_of_the_path() {
    let compiled = compile(with_rules(vec![priced(&[("/search", 5)], 1)]));
    let cheap = Request { cost: 2, ..from(CLIENT, "GET", "/search", &()) };
    assert_eq!(compiled.match_request(&cheap).charges[0].cost, 5);
}

#[test]
fn path_of_a_descriptor_determines_the_cost() {
    let mut rule = priced(&[("/search", 5)], 1);
    rule.key.clear();
    let compiled = compile(with_rules(vec![rule]));
    let cost = |entries: &[(&str, &str)]| {
        let descriptor = Descriptor { domain: "edge", entries };
        compiled.match_request(&Request::from_descriptor(&descriptor)).charges[0].cost
    };
    assert_eq!(cost(&[("path", "/search")]), 5);
    assert_eq!(cost(&[("path", "/sear%63h")]), 5);
    assert_eq!(cost(&[("user", "7")]), 1);
}

#[test]
fn builder_rejects_invalid_costs_by_path() {
    let build = |rule| PolicyBuilder::default().rule(rule).build();
    let built = build(tollgate_policy::rule("r").limit("100/min").cost_for_path("/a", 5).cost_for_path("/b/*", 7));
    let source = &built.unwrap().rules[0].cost.source;
    let costs = vec![("/a".to_owned(), 5), ("/b/*".to_owned(), 7)];
    assert_eq!(*source, CostSource::Paths { costs, default: 1 });
    let wrong =
        |rule| build(rule).unwrap_err().0.into_iter().map(|problem| format!("{} {}", problem.path, problem.code));
    let rule = || tollgate_policy::rule("r").limit("100/min");
    let wrong = |rule| wrong(rule).collect::<Vec<_>>();
    assert_eq!(wrong(rule().cost_for_path("a", 5)), ["rules[0].cost.path.a bad-path"]);
    assert_eq!(wrong(rule().cost_for_path("/a", 0)), ["rules[0].cost.path./a out-of-range"]);
    assert_eq!(wrong(rule().cost_for_path("/a", 5).cost_for_path("/a/", 6)), ["rules[0].cost.path./a/ duplicate-name"]);
    assert_eq!(wrong(rule().cost(2).cost_for_path("/a", 5)), ["rules[0].cost duplicate-member"]);
}

/// Whether a path without special characters matches a pattern, by its segments and without an index.
fn matches(pattern: &str, path: &str) -> bool {
    let segments = |text: &str| text.split('/').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (wanted, found) = (segments(pattern), segments(path));
    let below = pattern.ends_with("/*");
    let wanted = if below { &wanted[..wanted.len() - 1] } else { &wanted[..] };
    let fits = |(wanted, found): (&String, &String)| match wanted.as_str() {
        text if text.starts_with([':', '{']) => !found.is_empty(),
        text => text == found,
    };
    let is_long_enough = if below { found.len() > wanted.len() } else { found.len() == wanted.len() };
    is_long_enough && wanted.iter().zip(&found).all(fits)
}

/// Returns the sort key by specificity: an exact path first, then longer text, then one segment before everything
/// below.
fn rank(pattern: &str) -> (bool, std::cmp::Reverse<usize>, bool) {
    let is_wild = pattern.contains(['*', ':', '{']);
    let length = |segment: &str| 1 + if segment.starts_with([':', '{']) { 1 } else { segment.len() };
    (is_wild, std::cmp::Reverse(pattern.split('/').skip(1).map(length).sum()), pattern.ends_with("/*"))
}

fn oracle_cost(costs: &[(&str, u64)], default: u64, path: &str) -> u64 {
    let mut found: Vec<&(&str, u64)> = costs.iter().filter(|(pattern, _)| matches(pattern, path)).collect();
    found.sort_by_key(|(pattern, _)| rank(pattern));
    found.first().map_or(default, |(_, cost)| *cost)
}

proptest! {
    /// Trailing slashes are kept in this test, so that the oracle receives each reading as it is compared.
    #[test]
    fn cost_is_the_largest_of_all_readings(
        target in "/([abc.;%\\\\]|%2f|%2e|%61|export|/|\\.\\./){0,10}",
        costs in prop::sample::subsequence(PATTERNS.to_vec(), 0..=PATTERNS.len()),
        prices in prop::collection::vec(1_u64..60, PATTERNS.len()),
        default in 1_u64..10,
    ) {
        let costs: Vec<(&str, u64)> = costs.into_iter().zip(prices).collect();
        let compiled = compile(Policy {
            paths: Paths { trailing_slash: TrailingSlash::Keep, ignore_case: false },
            ..with_rules(vec![priced(&costs, default)])
        });
        let readings = compiled.explain(&from(CLIENT, "GET", &target, &())).readings;
        let expected = readings.iter().map(|path| oracle_cost(&costs, default, path)).max().unwrap();
        prop_assert_eq!(cost_of(&compiled, &target), expected, "{:?} {:?}", readings, costs);
    }

    #[test]
    fn no_spelling_of_a_path_is_cheaper(
        segments in prop::collection::vec("[abc]|export", 1..5),
        escaped in prop::collection::vec(any::<bool>(), 1..20),
        costs in prop::sample::subsequence(PATTERNS.to_vec(), 0..=PATTERNS.len()),
        prices in prop::collection::vec(1_u64..60, PATTERNS.len()),
    ) {
        let costs: Vec<(&str, u64)> = costs.into_iter().zip(prices).collect();
        let compiled = compile(with_rules(vec![priced(&costs, 1)]));
        let path = format!("/{}", segments.join("/"));
        let mut spelled = "/".to_owned();
        for (byte, escaped) in path.bytes().skip(1).zip(escaped.iter().cycle()) {
            if *escaped { spelled.push_str(&format!("%{byte:02x}")) } else { spelled.push(char::from(byte)) }
        }
        prop_assert!(cost_of(&compiled, &spelled) >= cost_of(&compiled, &path), "{spelled} {path} {costs:?}");
    }
}

#[cfg(feature = "yaml")]
mod files {
    use super::*;
    use tollgate_policy::parse;

    fn with_cost(cost: &str) -> String {
        format!("version: 1\nrules: [{{ name: r, key: client_ip, limit: 1000/min, cost: {cost} }}]\n")
    }

    #[test]
    fn costs_by_path_are_read_from_a_file() {
        let loaded = parse(&with_cost("{ path: { /search: 5, /export/*: 50 }, default: 2 }"), "p.yaml", None).unwrap();
        let costs = vec![("/search".to_owned(), 5), ("/export/*".to_owned(), 50)];
        assert_eq!(loaded.policy.rules[0].cost.source, CostSource::Paths { costs, default: 2 });
        let loaded = parse(&with_cost("{ path: { /search: 5 } }"), "p.yaml", None).unwrap();
        let costs = vec![("/search".to_owned(), 5)];
        assert_eq!(loaded.policy.rules[0].cost.source, CostSource::Paths { costs, default: 1 });
        assert_eq!(loaded.warnings, []);
    }

    #[test]
    fn invalid_costs_by_path_are_errors() {
        for (cost, code) in [
            ("{ path: {} }", "empty-list"),
            ("{ path: { search: 5 } }", "bad-path"),
            ("{ path: { /search: 0 } }", "out-of-range"),
            ("{ path: { /s: 1, /s/: 2 } }", "duplicate-name"),
            ("{ path: { /s: 1 }, max: 2 }", "unknown-member"),
            ("{ path: /s }", "wrong-type"),
        ] {
            let report = parse(&with_cost(cost), "p.yaml", None).unwrap_err();
            let found: Vec<_> = report.errors.iter().map(|error| (error.code, error.line)).collect();
            assert_eq!(found, [(code, 2)], "{cost}");
        }
    }
}
