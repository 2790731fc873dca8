//! The builder reports the same errors as the reader of files, with the same messages.

#![cfg(feature = "yaml")]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate_core::AlgorithmKind;
use tollgate_policy::model::{Allowance, Consistency, IdentitySource, Rule, Tier, TierSource, When};
use tollgate_policy::{PolicyBuilder, Problem, RuleBuilder, parse, rule};

const S: Duration = Duration::from_secs(1);

fn problems(built: RuleBuilder) -> Vec<Problem> {
    PolicyBuilder::default().rule(built).build().map_or_else(|errors| errors.0, |_| Vec::new())
}

fn paths_and_codes(built: RuleBuilder) -> Vec<String> {
    problems(built).iter().map(|problem| format!("{} {}", problem.path, problem.code)).collect()
}

fn limited() -> RuleBuilder {
    rule("a").per("client_ip").limit("5/min")
}

#[test]
fn conflicting_calls_are_errors_in_either_order() {
    let choose = |other: &str| vec![format!("rules[0].{other} choose-one")];
    assert_eq!(paths_and_codes(limited().concurrency(3)), choose("concurrency"));
    assert_eq!(paths_and_codes(rule("a").concurrency(3).limit("5/min")), choose("limit"));
    assert_eq!(paths_and_codes(limited().tier("free", "5/min")), choose("tiers"));
    assert_eq!(paths_and_codes(limited().deny())[0], choose("deny")[0]);
    assert_eq!(paths_and_codes(rule("a").per("client_ip")), ["rules[0] choose-one"]);

    let misplaced = |member: &str| vec![format!("rules[0].{member} misplaced-member")];
    assert_eq!(paths_and_codes(limited().queue(5, S).algorithm(AlgorithmKind::TokenBucket)), misplaced("queue"));
    assert_eq!(paths_and_codes(limited().algorithm(AlgorithmKind::TokenBucket).queue(5, S)), misplaced("queue"));
    assert_eq!(paths_and_codes(rule("a").concurrency(3).algorithm(AlgorithmKind::FixedWindow)), misplaced("algorithm"));
    assert_eq!(paths_and_codes(rule("a").concurrency(3).queue(5, S)), misplaced("queue"));
    assert_eq!(paths_and_codes(rule("a").concurrency(3).max_debt(3)), misplaced("max_debt"));
    assert_eq!(paths_and_codes(rule("a").limit("unlimited").on_limit(1, S, None)), misplaced("on_limit"));
    let leased = |rule: RuleBuilder| paths_and_codes(rule.consistency(Consistency::Leased));
    assert_eq!(leased(rule("a").concurrency(3)), misplaced("consistency"));
    assert_eq!(leased(limited().queue(5, S).algorithm(AlgorithmKind::LeakyBucket)), misplaced("consistency"));
    assert_eq!(leased(limited().on_limit(1, S, None)), misplaced("consistency"));
    assert_eq!(paths_and_codes(limited().algorithm(AlgorithmKind::Concurrency)), ["rules[0].algorithm unknown-word"]);
    assert_eq!(paths_and_codes(limited().algorithm(AlgorithmKind::LeakyQueue)), ["rules[0].queue missing-member"]);
}

#[test]
fn repeated_calls_are_errors() {
    let twice = |member: &str| vec![format!("rules[0].{member} duplicate-member")];
    let when = || When { hosts: vec!["a.example".to_owned()], ..When::default() };
    assert_eq!(paths_and_codes(limited().path("/a").when(when())), twice("when"));
    assert_eq!(paths_and_codes(limited().method("GET").when(when())), twice("when"));
    assert_eq!(paths_and_codes(limited().when(when()).when(when())), twice("when"));
    assert_eq!(paths_and_codes(limited().cost(2).estimate(3)), twice("cost"));
    assert_eq!(paths_and_codes(limited().max_debt(2).max_debt(3)), twice("max_debt"));
    assert_eq!(paths_and_codes(limited().on_limit(1, S, None).on_limit(2, S, None)), twice("on_limit"));
    assert_eq!(paths_and_codes(rule("a").concurrency(2).concurrency(3)), twice("concurrency"));
    assert_eq!(paths_and_codes(limited().queue(2, S).queue(3, S)), twice("queue"));
    let exact = limited().consistency(Consistency::Exact);
    assert_eq!(paths_and_codes(exact.consistency(Consistency::Exact)), twice("consistency"));
    let algorithm = |kind| limited().algorithm(kind);
    assert_eq!(
        paths_and_codes(algorithm(AlgorithmKind::FixedWindow).algorithm(AlgorithmKind::SlidingWindowLog)),
        twice("algorithm")
    );
}

#[test]
fn invalid_rates_have_the_codes_of_the_reader() {
    assert_eq!(paths_and_codes(rule("a").limit("5")), ["rules[0].limit bad-rate"]);
    assert_eq!(paths_and_codes(rule("a").limit("unlimited").limit("5/min")), ["rules[0].limit bad-rate"]);
    let windowed = rule("a").limit("5/min burst 9").algorithm(AlgorithmKind::FixedWindow);
    assert_eq!(paths_and_codes(windowed), ["rules[0].limit bad-quota"]);
    assert_eq!(paths_and_codes(rule("a").concurrency(0)), ["rules[0].concurrency bad-quota"]);
    let stepped = rule("a").limit("5").on_limit(1, S, None);
    assert_eq!(paths_and_codes(stepped), ["rules[0].limit bad-rate"], "the escalation causes no further error");
}

#[test]
fn misspelt_identity_is_an_error_and_other_names_are_set_by_callers() {
    let misspelt = problems(rule("a").per("client_pi").limit("5/min"));
    assert_eq!((misspelt.len(), misspelt[0].code), (1, "unknown-identity"));
    assert_eq!(misspelt[0].path.to_string(), "rules[0].key[0]");
    let hint = misspelt[0].hint.as_deref().unwrap();
    assert!(hint.starts_with("did you mean `client_ip`?") && hint.contains(".identity("), "{hint}");
    assert_eq!(paths_and_codes(rule("a").per("rout").limit("5/min")), ["rules[0].key[0] unknown-identity"]);

    assert!(paths_and_codes(rule("a").per("user").per("org").limit("5/min")).is_empty());
    let near_declared = |key: &str| {
        let user = IdentitySource::Header("x-user".to_owned());
        let policy = PolicyBuilder::default().identity("user", user).rule(rule("a").per(key).limit("5/min"));
        policy.build().is_ok()
    };
    assert!(near_declared("user") && !near_declared("usr") && near_declared("team"));
    let declared = PolicyBuilder::default().identity("client_pi", IdentitySource::Given);
    assert!(declared.rule(rule("a").per("client_pi").limit("5/min")).build().is_ok());
}

/// The tier would depend on itself.
#[test]
fn tier_by_a_list_that_contains_the_tier_is_an_error() {
    let chosen_by = |lists: &[(&str, &[&str])]| {
        let mut policy = PolicyBuilder::default().rule(limited());
        for (name, listed) in lists {
            policy = policy.identity(name, IdentitySource::First(listed.iter().map(|name| (*name).into()).collect()));
        }
        let source = TierSource::Listed { by: "account".to_owned(), tiers: Vec::new() };
        let tier = Tier { source, default: "free".to_owned(), trusted: true };
        let built = policy.with(|policy| policy.tier = Some(tier)).build();
        built.map_or_else(|errors| errors.0, |_| Vec::new())
    };
    let direct = chosen_by(&[("account", &["client_ip", "tier"])]);
    assert_eq!((direct.len(), direct[0].code, direct[0].path.to_string().as_str()), {
        (1, "circular-tier", "identity.tier.by")
    });
    let through_another = chosen_by(&[("account", &["client_ip", "plan"]), ("plan", &["tier"])]);
    assert_eq!((through_another.len(), through_another[0].code), (1, "circular-tier"));
    assert_eq!(chosen_by(&[("account", &["client_ip"]), ("plan", &["tier"])]), []);
}

#[test]
fn valid_calls_build() {
    for built in [
        limited(),
        limited().limit("100/h"),
        limited().queue(5, S),
        limited().queue(5, S).algorithm(AlgorithmKind::LeakyBucket),
        limited().algorithm(AlgorithmKind::LeakyQueue).queue(5, S),
        limited().path("/a").path("/b").method("get"),
        limited().when(When { hosts: vec!["a.example".to_owned()], ..When::default() }).path("/a"),
        rule("a").limit("unlimited"),
        rule("a").concurrency(3),
        rule("a").path("/admin/*").deny(),
        rule("a").path("/admin/*").deny().shadow().unpublished(),
    ] {
        let shown = format!("{built:?}");
        assert_eq!(paths_and_codes(built), [""; 0], "{shown}");
    }
    let policy = PolicyBuilder::default().rule(rule("a").path("/admin/*").deny()).build().unwrap();
    assert_eq!(policy.rules[0].allowance, Allowance::Deny);
}

#[test]
fn counting_calls_on_a_rule_that_denies_are_errors() {
    let misplaced = |built: RuleBuilder| paths_and_codes(built.path("/a").deny());
    assert_eq!(misplaced(rule("a").per("client_ip")), ["rules[0].key misplaced-member"]);
    assert_eq!(misplaced(rule("a").cost(2)), ["rules[0].cost misplaced-member"]);
    assert_eq!(misplaced(rule("a").max_debt(2)), ["rules[0].max_debt misplaced-member"]);
    assert_eq!(misplaced(rule("a").algorithm(AlgorithmKind::FixedWindow)), ["rules[0].algorithm misplaced-member"]);
    let pushed = Rule { allowance: Allowance::Deny, key: vec!["client_ip".to_owned()], ..Rule::new("a") };
    let policy = PolicyBuilder::default().with(|policy| policy.rules.push(pushed)).build();
    assert_eq!(policy.unwrap_err().0[0].code, "misplaced-member");
}

/// The same mistake in a file and in a program has the same code, message and hint.
#[test]
fn builder_and_reader_report_the_same_errors() {
    for (file, built) in [
        ("key: client_ip, limit: 5/min, concurrency: 3", limited().concurrency(3)),
        ("concurrency: 3, max_debt: 3", rule("a").concurrency(3).max_debt(3)),
        ("limit: 5/min, algorithm: fixed-window, queue: { size: 5 }", {
            rule("a").limit("5/min").algorithm(AlgorithmKind::FixedWindow).queue(5, S)
        }),
        ("key: client_ip", rule("a").per("client_ip")),
        ("limit: 5", rule("a").limit("5")),
        ("limit: 5/min burst 9, algorithm: fixed-window", {
            rule("a").limit("5/min burst 9").algorithm(AlgorithmKind::FixedWindow)
        }),
        ("limit: unlimited, on_limit: [ { first: 1, action: warn } ]", {
            rule("a").limit("unlimited").on_limit(1, S, None)
        }),
        ("deny: true, key: client_ip", rule("a").deny().per("client_ip")),
        ("deny: true, limit: 5/min", rule("a").deny().limit("5/min")),
        ("deny: true, algorithm: fixed-window", rule("a").deny().algorithm(AlgorithmKind::FixedWindow)),
        ("limit: 5/min, cost: 2, cost: 3", rule("a").limit("5/min").cost(2).cost(3)),
    ] {
        let text = format!("version: 1\nrules:\n  - {{ name: a, {file} }}\n");
        let report = parse(&text, "policy.yaml", None).expect_err(file);
        let of_file: Vec<_> =
            report.errors.iter().map(|error| (error.code, error.message.clone(), error.hint.clone())).collect();
        let of_builder: Vec<_> =
            problems(built).into_iter().map(|problem| (problem.code, problem.message, problem.hint)).collect();
        assert_eq!(of_builder, of_file, "{file}");
    }
}
