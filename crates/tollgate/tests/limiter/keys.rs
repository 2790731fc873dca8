//! The admin API for single keys: inspect, reset, override.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::limiter::KeyError;
use tollgate::policy::{PolicyBuilder, RuleBuilder};
use tollgate::{Action, AlgorithmKind, Limiter, rule};

use crate::support::{Manual, S_NS, at_once, built, clock, from, one, small};

const ALICE: &[(&str, &str)] = &[("user", "alice")];
const HOUR: Duration = Duration::from_secs(3600);

fn log(name: &str, limit: &str) -> RuleBuilder {
    rule(name).per("user").limit(limit).algorithm(AlgorithmKind::SlidingWindowLog)
}

fn used(limiter: &Manual, rule: &str, key: &str) -> u64 {
    at_once(limiter.inspect_key(rule, key)).unwrap().counters[0].used()
}

#[test]
fn inspecting_a_key_charges_nothing() {
    let clock = clock();
    let limiter = one(log("per-user", "5/min"), &clock);
    for expected in [4, 3] {
        assert_eq!(limiter.check(&from(ALICE)).states()[0].decision.remaining, expected);
    }
    clock.advance(Duration::from_secs(10));
    for _ in 0..3 {
        let report = at_once(limiter.inspect_key("per-user", "alice")).unwrap();
        let counter = &report.counters[0];
        assert_eq!((counter.name.as_str(), counter.used(), counter.held()), ("per-user", 2, None));
        let standing = counter.standing;
        assert_eq!((standing.limit, standing.remaining, standing.reset_after), (5, 3, 50 * S_NS));
        assert_eq!((report.violations, report.blocked_for_ns, report.key_override), (None, None, None));
    }
    assert_eq!(used(&limiter, "per-user", "bob"), 0);
}

#[test]
fn inspecting_a_key_creates_no_entry() {
    let limiter = built(Limiter::builder().with(small).rule(rule("per-user").per("user").limit("5/min")), &clock());
    assert!(limiter.check(&from(ALICE)).is_allowed());
    for number in 0..100 {
        assert_eq!(used(&limiter, "per-user", &number.to_string()), 0);
    }
    assert_eq!(limiter.store().stats().live_keys, 1);
}

#[test]
fn report_has_permits_violations_and_block() {
    let clock = clock();
    let strict = log("strict", "1/min").on_limit(1, Duration::from_secs(60), Some((2, HOUR)));
    let limiter = built(Limiter::builder().rule(rule("open").per("user").concurrency(3)).rule(strict), &clock);
    let held = limiter.permit(&from(ALICE)).unwrap();
    let report = at_once(limiter.inspect_key("open", "alice")).unwrap();
    assert_eq!(report.counters[0].held(), Some(1));
    assert_eq!(limiter.check(&from(ALICE)).action(), Action::Warn);
    let report = at_once(limiter.inspect_key("strict", "alice")).unwrap();
    assert_eq!((report.violations_counted(), report.blocked_for_ns), (1, None));
    assert_eq!(limiter.check(&from(ALICE)).action(), Action::Reject);
    assert_eq!(limiter.check(&from(ALICE)).action(), Action::Block);
    clock.advance(Duration::from_secs(60));
    let report = at_once(limiter.inspect_key("strict", "alice")).unwrap();
    assert_eq!(report.blocked_for_ns, Some(3540 * S_NS));
    drop(held);
    assert_eq!(used(&limiter, "open", "alice"), 0);
}

#[test]
fn reset_key_is_as_if_never_used() {
    for algorithm in [
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket,
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindowCounter,
        AlgorithmKind::SlidingWindowLog,
    ] {
        let limited = rule("per-user").per("user").limit("2/min").algorithm(algorithm);
        let limiter = one(limited.on_limit(1, Duration::from_secs(60), Some((1, HOUR))), &clock());
        let bob: &[(&str, &str)] = &[("user", "bob")];
        assert!(limiter.check(&from(bob)).is_allowed());
        let until_blocked = || -> Vec<Action> { (0..5).map(|_| limiter.check(&from(ALICE)).action()).collect() };
        let expected = [Action::Allow, Action::Allow, Action::Warn, Action::Block, Action::Block];
        assert_eq!(until_blocked(), expected, "{algorithm}");
        at_once(limiter.reset_key("per-user", "alice")).unwrap();
        let report = at_once(limiter.inspect_key("per-user", "alice")).unwrap();
        assert_eq!((report.counters[0].used(), report.violations_counted(), report.blocked_for_ns), (0, 0, None));
        assert_eq!(until_blocked(), expected, "{algorithm}, once more");
        assert_eq!(used(&limiter, "per-user", "bob"), 1, "{algorithm}: other keys are unchanged");
    }
}

#[test]
fn permits_deleted_by_a_reset_are_not_released_twice() {
    let limiter = one(rule("open").per("user").concurrency(1), &clock());
    let forgotten = limiter.permit(&from(ALICE)).unwrap();
    at_once(limiter.reset_key("open", "alice")).unwrap();
    assert!(!forgotten.renew(), "it was forgotten");
    let held = limiter.permit(&from(ALICE)).unwrap();
    drop(forgotten);
    assert_eq!(used(&limiter, "open", "alice"), 1, "a deleted permit does not release another");
    drop(held);
    assert_eq!(used(&limiter, "open", "alice"), 0);
}

#[test]
fn override_applies_to_one_key_and_ends() {
    let clock = clock();
    let limiter = one(log("per-user", "2/h"), &clock);
    let bob: &[(&str, &str)] = &[("user", "bob")];
    let passes =
        |who: &[(&str, &str)], times: usize| (0..times).filter(|_| limiter.check(&from(who)).is_allowed()).count();
    assert_eq!((passes(ALICE, 3), passes(bob, 3)), (2, 2));
    let set = at_once(limiter.override_key("per-user", "alice", "5/h", Duration::from_secs(60))).unwrap();
    assert_eq!(limiter.key_overrides(), std::slice::from_ref(&set));
    assert_eq!((passes(ALICE, 9), passes(bob, 9)), (3, 0), "what was used stays used");
    let report = at_once(limiter.inspect_key("per-user", "alice")).unwrap();
    assert_eq!((report.counters[0].standing.limit, report.counters[0].source.is_none()), (5, true));
    assert_eq!(report.key_override, Some(set));
    let verdict = limiter.peek(&from(ALICE));
    assert_eq!(verdict.quota(&verdict.states()[0]).amount(), 5);
    let mut fields = Vec::new();
    verdict.fields(|field, text| fields.push((field.name(), text.to_owned())));
    assert_eq!(fields[0], ("ratelimit-policy", "\"per-user\";q=5;w=3600".to_owned()));
    clock.advance(Duration::from_secs(60));
    assert!(limiter.key_overrides().is_empty());
    assert_eq!(limiter.peek(&from(ALICE)).states()[0].decision.limit, 2);
    assert_eq!(at_once(limiter.inspect_key("per-user", "alice")).unwrap().key_override, None);
}

#[test]
fn override_may_be_lower_higher_or_unlimited_and_survives_reload() {
    let (clock, policy) =
        (clock(), |limit: &str| PolicyBuilder::default().rule(log("per-user", limit)).build().unwrap());
    let limiter = Limiter::with_clock(&policy("2/h"), clock).unwrap();
    let limit = || limiter.peek(&from(ALICE)).states().first().map(|state| state.decision.limit);
    for (text, expected) in [("1/h", Some(1)), ("7/h", Some(7)), ("unlimited", None)] {
        at_once(limiter.override_key("per-user", "alice", text, HOUR)).unwrap();
        assert_eq!((limit(), limiter.key_overrides().len()), (expected, 1), "{text}");
    }
    assert!(limiter.peek(&from(ALICE)).is_unlimited());
    limiter.set_policy(&policy("3/h")).unwrap();
    assert_eq!(limit(), None, "a change of the policy does not end it");
    assert_eq!(at_once(limiter.end_override("per-user", "alice")), Ok(true));
    assert_eq!(at_once(limiter.end_override("per-user", "alice")), Ok(false));
    assert_eq!(limit(), Some(3));
    assert!(limiter.key_overrides().is_empty());
}

#[test]
fn override_limits_an_unlimited_key() {
    let limiter = one(rule("per-user").per("user").limit("unlimited"), &clock());
    assert!(limiter.check(&from(ALICE)).is_unlimited());
    at_once(limiter.override_key("per-user", "alice", "1/h", HOUR)).unwrap();
    assert!(limiter.check(&from(ALICE)).is_allowed());
    assert!(!limiter.check(&from(ALICE)).is_allowed());
}

#[test]
fn invalid_admin_calls_return_errors() {
    let limiter = one(log("per-user", "2/h"), &clock());
    let is_no_key =
        |key: &str| matches!(at_once(limiter.inspect_key("per-user", key)), Err(KeyError::InvalidKey { .. }));
    assert!(is_no_key("alice|bob") && is_no_key("a\nb") && is_no_key(r"\q") && is_no_key(""));
    assert_eq!(at_once(limiter.inspect_key("per-user", "é")).unwrap().key, r"\xc3\xa9");
    assert_eq!(at_once(limiter.reset_key("none", "alice")), Err(KeyError::NoSuchRule("none".to_owned())));
    let set = |limit: &str, lasts| at_once(limiter.override_key("per-user", "alice", limit, lasts));
    assert!(matches!(set("much", HOUR), Err(KeyError::InvalidLimit(_))));
    assert_eq!(set("5/h", Duration::ZERO), Err(KeyError::Duration));
    assert!(limiter.key_overrides().is_empty());
}

/// One step of a trace: a request, or time passes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Check { user: usize, cost: u64 },
    Wait { ms: u64 },
}

const USERS: [&str; 3] = ["ann", "ben", "cid"];
const RULES: [(&str, AlgorithmKind); 5] = [
    ("bucket", AlgorithmKind::TokenBucket),
    ("leaky", AlgorithmKind::LeakyBucket),
    ("window", AlgorithmKind::FixedWindow),
    ("counter", AlgorithmKind::SlidingWindowCounter),
    ("log", AlgorithmKind::SlidingWindowLog),
];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..USERS.len(), 0..4_u64).prop_map(|(user, cost)| Step::Check { user, cost }),
        1 => (1..30_000_u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Two limiters get the same trace; at one of them every key is inspected before every step.
    #[test]
    fn looking_at_keys_never_changes_a_decision(steps in vec(step(), 1..60)) {
        let clock = clock();
        let limiter = || {
            let rules = RULES.iter().map(|(name, algorithm)| rule(name).per("user").limit("6/min").algorithm(*algorithm));
            let strict = log("strict", "3/min").on_limit(1, Duration::from_secs(60), Some((2, Duration::from_secs(20))));
            built(rules.chain([strict]).fold(Limiter::builder().with(small), |limiter, rule| limiter.rule(rule)), &clock)
        };
        let (watched, unwatched) = (limiter(), limiter());
        for step in steps {
            for (name, _) in RULES.iter().chain(&[("strict", AlgorithmKind::SlidingWindowLog)]) {
                for user in USERS {
                    prop_assert!(at_once(watched.inspect_key(name, user)).is_ok());
                }
            }
            match step {
                Step::Wait { ms } => clock.advance(Duration::from_millis(ms)),
                Step::Check { user, cost } => {
                    let identities = [("user", USERS[user])];
                    let request = tollgate::Request { cost, ..from(&identities) };
                    let (one, other) = (watched.check(&request), unwatched.check(&request));
                    prop_assert_eq!(one.action(), other.action());
                    prop_assert_eq!(one.states(), other.states());
                }
            }
        }
        prop_assert_eq!(watched.store().stats().live_keys, unwatched.store().stats().live_keys);
    }
}

/// A client that retries continuously is admitted at the time of its first refusal under the override.
#[test]
fn overridden_key_is_admitted_at_its_retry_time() {
    let algorithms = [
        AlgorithmKind::TokenBucket,
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindowCounter,
        AlgorithmKind::SlidingWindowLog,
    ];
    for (algorithm, limit) in algorithms.into_iter().flat_map(|kind| [(kind, "120/min"), (kind, "60/min, 700/day")]) {
        let clock = clock();
        let limiter = one(rule("per-user").per("user").limit("1000/h").algorithm(algorithm), &clock);
        (0..900).for_each(|_| assert!(limiter.check(&from(ALICE)).is_allowed()));
        at_once(limiter.override_key("per-user", "alice", limit, HOUR)).unwrap();
        let refused = limiter.check(&from(ALICE));
        let told = refused.retry_after().unwrap_or_else(|| panic!("{algorithm} {limit}: {refused:?}"));
        assert!(told <= Duration::from_secs(120), "{algorithm} {limit}: {told:?}");
        let told_ns = u64::try_from(told.as_nanos()).unwrap();
        for _ in 0..4 {
            clock.advance(Duration::from_nanos(told_ns / 5));
            assert!(!limiter.check(&from(ALICE)).is_allowed(), "{algorithm} {limit}");
        }
        clock.advance(Duration::from_nanos(told_ns - told_ns / 5 * 4));
        assert!(limiter.check(&from(ALICE)).is_allowed(), "{algorithm} {limit}: refused after {told:?}");
    }
}
