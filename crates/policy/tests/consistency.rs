//! Which rules lease tokens from a shared store, and which stay exact.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use tollgate_core::AlgorithmKind;
use tollgate_policy::model::{Consistency, RedisSettings, StoreSettings};
use tollgate_policy::{CheckedPolicy, CompiledPolicy, Policy, PolicyBuilder, RuleBuilder, budget, rule};

const S: Duration = Duration::from_secs(1);

/// A policy on Redis with this consistency of all rules.
fn on_redis(by_default: Consistency) -> PolicyBuilder {
    PolicyBuilder::default().with(|policy| {
        let redis = RedisSettings { consistency: by_default, ..RedisSettings::at(vec!["localhost:6379".to_owned()]) };
        policy.store = StoreSettings::Redis(redis);
    })
}

fn limited() -> RuleBuilder {
    rule("a").per("user").limit("100/s")
}

fn leases(policy: &CheckedPolicy) -> Vec<Option<Duration>> {
    CompiledPolicy::new(policy).unwrap().rules().iter().map(|rule| rule.lease).collect()
}

/// The lease of a rule, and the notes about it.
fn lease_and_notes(policy: PolicyBuilder, built: RuleBuilder) -> (Option<Duration>, Vec<String>) {
    let policy = policy.rule(built.accept("concurrency-elsewhere")).build().unwrap();
    let notes = policy.notes().iter().map(|note| format!("{} {}", note.path, note.code)).collect();
    (leases(&policy)[0], notes)
}

#[test]
fn consistency_of_the_rule_precedes_that_of_the_store() {
    use Consistency::{Exact, Leased};
    for (by_default, own, is_leased) in [
        (Exact, None, false),
        (Exact, Some(Leased), true),
        (Leased, None, true),
        (Leased, Some(Exact), false),
        (Leased, Some(Leased), true),
    ] {
        let rule = own.into_iter().fold(limited(), RuleBuilder::consistency);
        let (lease, notes) = lease_and_notes(on_redis(by_default), rule);
        assert_eq!((lease, notes), (is_leased.then_some(S), vec![]), "{by_default:?} {own:?}");
    }
}

#[test]
fn all_algorithms_of_rates_are_leased() {
    use AlgorithmKind::{FixedWindow, LeakyBucket, SlidingWindowCounter, SlidingWindowLog, TokenBucket};
    for algorithm in [TokenBucket, LeakyBucket, FixedWindow, SlidingWindowLog, SlidingWindowCounter] {
        let leased = lease_and_notes(on_redis(Consistency::Leased), limited().algorithm(algorithm));
        assert_eq!(leased, (Some(S), vec![]), "{algorithm}");
    }
}

#[test]
fn rules_that_cannot_be_leased_stay_exact_with_a_note() {
    for (built, member) in [
        (rule("a").per("user").concurrency(3), "concurrency"),
        (limited().queue(5, S).algorithm(AlgorithmKind::LeakyBucket), "queue"),
        (limited().on_limit(1, S, None), "on_limit"),
        (limited().shadow(), "shadow"),
        (limited().shadow().consistency(Consistency::Leased), "shadow"),
    ] {
        let expected = (None, vec![format!("rules[0].{member} stays-exact")]);
        assert_eq!(lease_and_notes(on_redis(Consistency::Leased), built.clone()), expected);
        assert_eq!(lease_and_notes(on_redis(Consistency::Leased), built.accept("stays-exact")), (None, vec![]));
    }
    for built in [
        rule("a").deny(),
        rule("a").per("user").limit("unlimited").shadow(),
        limited().on_limit(1, S, None).consistency(Consistency::Exact),
    ] {
        assert_eq!(lease_and_notes(on_redis(Consistency::Leased), built).1, [""; 0]);
    }
}

#[test]
fn rules_of_a_budget_have_its_consistency() {
    let policy = |by_default, own: Option<Consistency>| {
        let tokens =
            own.into_iter().fold(budget("tokens").per("user").limit("1000/min"), |budget, own| budget.consistency(own));
        let policy = on_redis(by_default).budget(tokens).rule(rule("chat").path("/chat").budget("tokens").cost(10));
        policy.rule(rule("all").budget("tokens")).rule(limited()).build().unwrap()
    };
    assert_eq!(leases(&policy(Consistency::Exact, Some(Consistency::Leased))), [Some(S), Some(S), None]);
    assert_eq!(leases(&policy(Consistency::Leased, Some(Consistency::Exact))), [None, None, Some(S)]);
    assert_eq!(leases(&policy(Consistency::Leased, None)), [Some(S); 3]);
    // A checked policy can be checked again.
    let again = Policy::clone(&policy(Consistency::Leased, Some(Consistency::Exact))).check().unwrap();
    assert_eq!(leases(&again), [None, None, Some(S)]);
}

#[test]
fn consistency_has_no_effect_in_memory() {
    let policy = PolicyBuilder::default()
        .budget(budget("tokens").per("user").limit("1000/min").consistency(Consistency::Leased))
        .rule(rule("chat").budget("tokens"))
        .rule(limited().consistency(Consistency::Leased))
        .build()
        .unwrap();
    assert_eq!(leases(&policy), [None, None]);
    let notes: Vec<String> = policy.notes().iter().map(|note| format!("{} {}", note.path, note.code)).collect();
    assert_eq!(notes, ["budgets.tokens.consistency leased-in-memory", "rules[1].consistency leased-in-memory"]);
}

#[test]
fn lease_is_that_of_the_store_within_its_range() {
    let with = |lease_ns: u64| {
        let policy = on_redis(Consistency::Leased).rule(limited()).with(|policy| {
            let StoreSettings::Redis(redis) = &mut policy.store else { panic!("on Redis") };
            redis.lease_ns = lease_ns;
        });
        policy.build().map(|policy| leases(&policy)[0]).map_err(|errors| errors.0[0].code)
    };
    for ms in [100, 250, 60_000] {
        assert_eq!(with(ms * 1_000_000), Ok(Some(Duration::from_millis(ms))));
    }
    for lease_ns in [0, 99_000_000, 60_001_000_000, 100_000_001] {
        assert_eq!(with(lease_ns), Err("out-of-range"), "{lease_ns}");
    }
}
