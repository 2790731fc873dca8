//! Warnings of a policy reach the program that uses it.

use tollgate::policy::model::IdentitySource;
use tollgate::policy::parse;
use tollgate::{AsyncLimiter, Limiter, LimiterError, MemoryStore, rule};

use crate::support::{clock, one};

const AVOIDABLE: &str = "version: 1
identity: { user: { header: X-User } }
rules:
  - { name: per-user, key: user, limit: 100/min }
";

fn codes(limiter: &AsyncLimiter) -> Vec<&'static str> {
    limiter.warnings().iter().map(|warning| warning.code).collect()
}

#[test]
fn limiter_from_text_file_or_builder_has_the_warnings_of_its_policy() {
    let expected = ["limits-can-be-avoided", "untrusted-identity"];
    let text = Limiter::from_yaml(AVOIDABLE).unwrap();
    assert_eq!(codes(&text), expected);
    let warning = &text.warnings()[1];
    assert_eq!(warning.path.to_string(), "identity.user.header");
    assert!(warning.to_string().contains("clients can choose `user` freely"), "{warning}");

    let file = std::env::temp_dir().join(format!("tollgate-warnings-{}.yaml", std::process::id()));
    std::fs::write(&file, AVOIDABLE).unwrap();
    let from_file = Limiter::from_file(&file);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(codes(&from_file.unwrap()), expected);

    let built = Limiter::builder()
        .identity("user", IdentitySource::Header("x-user".to_owned()))
        .rule(rule("per-user").per("user").limit("100/min"));
    assert_eq!(codes(&built.build().unwrap()), expected);
    let store = Limiter::with_memory(&parse(AVOIDABLE, "policy.yaml", None).unwrap().policy, MemoryStore::new());
    assert_eq!(codes(&store.unwrap()), expected);
}

#[test]
fn warnings_follow_a_policy_change() {
    let limiter = one(rule("all").limit("5/min"), &clock());
    assert!(limiter.warnings().is_empty());
    limiter.set_policy(&parse(AVOIDABLE, "policy.yaml", None).unwrap().policy).unwrap();
    assert_eq!(codes(&limiter.clone()), ["limits-can-be-avoided", "untrusted-identity"]);
}

#[test]
fn builder_with_errors_returns_them() {
    let built = Limiter::builder().rule(rule("per-ip").per("client_pi").limit("5/min")).build();
    let Err(LimiterError::Policy(errors)) = built else { panic!("it is refused") };
    assert_eq!(errors.0[0].code, "unknown-identity");
}
