//! Warnings and notes that a policy accepts by code.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use tollgate_policy::model::IdentitySource;
use tollgate_policy::{CheckedPolicy, PolicyBuilder, Problem, rule};

fn codes(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.code).collect()
}

/// Returns a policy with the warnings `limits-can-be-avoided`, for the whole policy, and `untrusted-identity`.
fn avoidable() -> PolicyBuilder {
    let user = IdentitySource::Header("x-user".to_owned());
    PolicyBuilder::default().identity("user", user).rule(rule("per-user").per("user").limit("100/min"))
}

fn large_logs(first: &[&str], second: &[&str]) -> PolicyBuilder {
    let log = |name: &str, accepted: &[&str]| {
        let log =
            rule(name).per("client_ip").limit("20000/day").algorithm(tollgate_core::AlgorithmKind::SlidingWindowLog);
        accepted.iter().fold(log, |rule, code| rule.accept(code))
    };
    PolicyBuilder::default().rule(log("first", first)).rule(log("second", second))
}

fn paths_and_codes(policy: &CheckedPolicy) -> Vec<String> {
    policy.warnings().iter().map(|warning| format!("{} {}", warning.path, warning.code)).collect()
}

#[test]
fn accepted_warnings_are_listed_separately() {
    let policy = avoidable().build().unwrap();
    assert_eq!(codes(policy.warnings()), ["limits-can-be-avoided", "untrusted-identity"]);
    assert_eq!(codes(policy.accepted()), [""; 0]);
    let policy = avoidable().accept("untrusted-identity").build().unwrap();
    assert_eq!(codes(policy.warnings()), ["limits-can-be-avoided"]);
    assert_eq!(codes(policy.accepted()), ["untrusted-identity"]);
}

#[test]
fn rule_accepts_only_its_own_warnings() {
    let code = "large-log";
    assert_eq!(
        paths_and_codes(&large_logs(&[], &[]).build().unwrap()),
        ["rules[0].limit large-log", "rules[1].limit large-log"]
    );
    assert_eq!(paths_and_codes(&large_logs(&[code], &[]).build().unwrap()), ["rules[1].limit large-log"]);
    assert_eq!(paths_and_codes(&large_logs(&[code], &[code]).build().unwrap()), [""; 0]);
    let all = large_logs(&[], &[]).accept(code).build().unwrap();
    assert_eq!((paths_and_codes(&all), codes(all.accepted())), (Vec::new(), vec![code, code]));
    // A code that the rule and the policy accept is not unused in either.
    assert_eq!(paths_and_codes(&large_logs(&[code], &[]).accept(code).build().unwrap()), [""; 0]);
}

#[test]
fn accepted_code_that_does_not_occur_is_a_warning() {
    let policy = large_logs(&["large-log", "cost-above-limit"], &["large-log"]).accept("no-rules").build().unwrap();
    assert_eq!(paths_and_codes(&policy), ["accept[0] unused-accept", "rules[0].accept[1] unused-accept"]);
    let message = policy.warnings()[1].to_string();
    let expected = "rules[0].accept[1]: `cost-above-limit` is accepted, but does not occur in this rule \
                    (hint: remove it from `accept`)";
    assert_eq!(message, expected);
}

#[test]
fn environment_dependent_codes_may_be_accepted_unused() {
    let policy = large_logs(&["large-log"], &["large-log"]).accept("missing-password").build().unwrap();
    assert_eq!(paths_and_codes(&policy), [""; 0]);
    let policy = large_logs(&["large-log"], &["large-log"]).accept("missing-secret").build().unwrap();
    assert_eq!(paths_and_codes(&policy), [""; 0]);
}

#[cfg(feature = "yaml")]
#[test]
fn notes_about_missing_secrets_can_be_accepted_and_errors_cannot() {
    use tollgate_policy::MissingSecrets::{Refuse, Skip};
    use tollgate_policy::parse_with;
    let text = |accept: &str| {
        format!(
            "version: 1\naccept: {accept}\nsecrets: {{ key_env: TOLLGATE_NO_SUCH_VARIABLE }}\n\
             store: {{ redis: {{ nodes: [a:1], password_env: TOLLGATE_NO_SUCH_VARIABLE }} }}\n\
             rules: [{{ name: r, key: client_ip, limit: 2/s }}]\n"
        )
    };
    let codes = |list: &[tollgate_policy::Diagnostic]| list.iter().map(|one| one.code).collect::<Vec<_>>();
    let loaded = parse_with(&text("no-rules"), "p.yaml", None, Skip).unwrap();
    assert_eq!(codes(&loaded.notes), tollgate_policy::SECRET_CODES);
    let accepting = text("[missing-secret, missing-password]");
    let loaded = parse_with(&accepting, "p.yaml", None, Skip).unwrap();
    assert_eq!((codes(&loaded.notes), loaded.accepted.len()), (Vec::new(), 2));
    let report = parse_with(&accepting, "p.yaml", None, Refuse).unwrap_err();
    assert_eq!(codes(&report.errors), ["missing-secret"]);
}

#[test]
fn unknown_codes_are_errors_that_suggest_a_known_code() {
    let refused = |code: &str| {
        let errors = avoidable().accept(code).build().unwrap_err();
        assert_eq!(codes(&errors.0), ["unknown-warning"]);
        errors.to_string()
    };
    let expected = "accept[0]: unknown warning code `untrusted_idenity` (hint: did you mean `untrusted-identity`?)";
    assert_eq!(refused("untrusted_idenity"), expected);
    assert!(refused("bad-rate").contains("is an error, and only warnings and notes can be accepted"));
    assert!(refused("unused-accept").contains("cannot be accepted"));
    assert!(refused("").contains("unknown warning code ``"));
    let errors = avoidable().accept("untrusted-identity").accept("untrusted-identity").build().unwrap_err();
    assert_eq!(codes(&errors.0), ["duplicate-name"]);
}

#[test]
fn concurrency_causes_a_note_and_no_warning() {
    let build = |rule| PolicyBuilder::default().rule(rule).build().unwrap();
    let policy = build(rule("at-once").per("client_ip").concurrency(3));
    assert_eq!((codes(policy.warnings()), codes(policy.notes())), (Vec::new(), vec!["concurrency-elsewhere"]));
    let policy = build(rule("at-once").per("client_ip").concurrency(3).accept("concurrency-elsewhere"));
    assert_eq!((codes(policy.notes()), codes(policy.accepted())), (Vec::new(), vec!["concurrency-elsewhere"]));
}

#[cfg(feature = "yaml")]
#[test]
fn file_accepts_a_list_of_codes_or_one_code() {
    let text = |top: &str, of_rule: &str| {
        format!(
            "version: 1\naccept: {top}\nidentity: {{ user: {{ header: X-User }} }}\n\
             rules: [{{ name: r, key: user, limit: 20000/day, algorithm: sliding-window-log, accept: {of_rule} }}]\n"
        )
    };
    let text = text("[untrusted-identity, limits-can-be-avoided]", "large-log");
    let loaded = tollgate_policy::parse(&text, "p.yaml", None).unwrap();
    assert_eq!((loaded.warnings.as_slice(), loaded.notes.as_slice()), (&[][..], &[][..]));
    let accepted: Vec<(&str, usize)> = loaded.accepted.iter().map(|accepted| (accepted.code, accepted.line)).collect();
    assert_eq!(accepted, [("untrusted-identity", 3), ("limits-can-be-avoided", 4), ("large-log", 4)]);
}
