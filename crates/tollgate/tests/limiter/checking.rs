//! Checks: which requests pass, what verdicts report, which requests share a counter.

use std::time::Duration;

use tollgate::policy::model::{CostSource, IdentitySource, Tier, TierSource};
use tollgate::policy::{Policy, PolicyBuilder};
use tollgate::store::Source;
use tollgate::{Action, AlgorithmKind, Limiter, Request, Verdict, rule};

use crate::support::{S_NS, any, built, clock, costing, from, one, remaining};

#[test]
fn check_charges_and_peek_does_not() {
    let clock = clock();
    let limiter = one(rule("all").limit("3/min"), &clock);
    for _ in 0..10 {
        assert!(limiter.peek(&any()).is_allowed());
    }
    for left in [2, 1, 0] {
        let verdict = limiter.check(&any());
        assert_eq!((verdict.action(), verdict.rule()), (Action::Allow, Some("all")));
        assert_eq!(verdict.deciding().unwrap().decision.remaining, left);
        assert_eq!((verdict.status(), verdict.source(), verdict.retry_after()), (200, Source::Exact, None));
    }
    for ask in [Limiter::peek, Limiter::check] {
        let refused: Verdict = ask(&limiter, &any());
        assert_eq!((refused.action(), refused.status(), refused.rule()), (Action::Reject, 429, Some("all")));
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(20)));
    }
    clock.advance(Duration::from_nanos(20 * S_NS - 1));
    assert!(!limiter.check(&any()).is_allowed());
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check(&any()).is_allowed());
}

#[test]
fn users_are_counted_separately_and_rules_skip_requests_without_user() {
    let limiter = one(rule("per-user").per("user").limit("1/min"), &clock());
    let (alice, bob) = ([("user", "alice")], [("user", "bob")]);
    assert!(limiter.check(&from(&alice)).is_allowed());
    assert!(!limiter.check(&from(&alice)).is_allowed());
    assert!(limiter.check(&from(&bob)).is_allowed());
    // A rule whose key is absent does not apply.
    let verdict = limiter.check(&any());
    assert!(verdict.is_allowed() && verdict.rule().is_none() && verdict.states().is_empty());
}

#[test]
fn cost_above_the_capacity_can_never_pass() {
    let limiter = one(rule("all").limit("10/min"), &clock());
    assert!(limiter.check(&costing(7)).is_allowed());
    let refused = limiter.check(&costing(4));
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(6)));
    assert!(limiter.check(&costing(3)).is_allowed());
    let never = limiter.check(&costing(11));
    assert_eq!((never.status(), never.retry_after()), (429, None));
}

/// The largest limit and the costs that lie above it.
const LARGEST: &str = "1000000000000/h";
const ABOVE_LARGEST: [u64; 3] = [1_000_000_000_001, (1 << 53) + 1, u64::MAX];

#[test]
fn cost_above_the_largest_limit_never_passes_under_any_algorithm() {
    let rules = [
        rule("token").limit(LARGEST),
        rule("leaky").limit(LARGEST).algorithm(AlgorithmKind::LeakyBucket),
        rule("fixed").limit(LARGEST).algorithm(AlgorithmKind::FixedWindow),
        rule("counter").limit(LARGEST).algorithm(AlgorithmKind::SlidingWindowCounter),
        rule("log").limit("100000/h").algorithm(AlgorithmKind::SlidingWindowLog),
        rule("permits").concurrency(20_000),
    ];
    for rule in rules {
        let limiter = one(rule, &clock());
        let before = remaining(&limiter);
        for cost in ABOVE_LARGEST {
            let never = limiter.check(&costing(cost));
            let told = (never.status(), never.retry_after(), never.is_impossible());
            assert_eq!(told, (429, None, true), "{cost} of {:?}", never.rule());
        }
        assert_eq!(remaining(&limiter), before);
    }
}

#[test]
fn header_cost_above_the_limit_is_refused_unless_the_rule_has_a_maximum() {
    let mut policy = Policy::clone(&PolicyBuilder::default().rule(rule("all").limit(LARGEST)).build().unwrap());
    policy.rules[0].cost.source = CostSource::Header { name: "x-cost".to_owned(), default: 1 };
    let refused = |policy: &Policy, cost: &str| {
        let limiter = Limiter::with_clock(&policy.clone().check().unwrap(), clock()).unwrap();
        limiter.check(&Request { headers: &[("x-cost", cost)], ..any() }).is_impossible()
    };
    assert!(refused(&policy, "1000000000001"));
    assert!(refused(&policy, "99999999999999999999999999"));
    assert!(!refused(&policy, "1000000000000"));
    policy.rules[0].cost.max = 100;
    assert!(!refused(&policy, "1000000000001"));
}

#[test]
fn cost_zero_reports_state_and_charges_nothing() {
    let limiter =
        built(Limiter::builder().rule(rule("all").limit("2/min")).rule(rule("fixed").limit("9/min").cost(3)), &clock());
    for _ in 0..5 {
        assert!(limiter.check(&costing(0)).is_allowed());
    }
    assert_eq!(remaining(&limiter), [2, 9]);
}

#[test]
fn tightest_rule_or_longest_refusal_decides() {
    let limiter = built(
        Limiter::builder()
            .rule(rule("wide").limit("100/min"))
            .rule(rule("narrow").limit("2/min"))
            .rule(rule("long").limit("2/h"))
            .rule(rule("shadow").limit("1/day").shadow()),
        &clock(),
    );
    assert_eq!(limiter.check(&any()).rule(), Some("narrow"));
    let second = limiter.check(&any());
    assert!(second.is_allowed());
    assert!(second.states()[3].shadow && !second.states()[3].decision.is_allowed());
    let refused = limiter.check(&any());
    assert_eq!((refused.rule(), refused.retry_after()), (Some("long"), Some(Duration::from_secs(1_800))));
    let told: Vec<(&str, bool)> =
        refused.states().iter().map(|state| (refused.rule_name(state), state.decision.is_allowed())).collect();
    assert_eq!(told, [("wide", true), ("narrow", false), ("long", false), ("shadow", false)]);
}

#[test]
fn clones_share_their_counters() {
    let limiter = one(rule("all").limit("3/min"), &clock());
    let clones = [limiter.clone(), limiter.clone(), limiter.clone()];
    assert!(clones.iter().all(|clone| clone.check(&any()).is_allowed()));
    assert!(!limiter.check(&any()).is_allowed());
}

#[test]
fn shadow_rule_counts_and_never_refuses() {
    let limiter = one(rule("tried").limit("2/min").shadow(), &clock());
    let would: Vec<bool> = (0..4).map(|_| limiter.check(&any()).states()[0].decision.is_allowed()).collect();
    assert_eq!(would, [true, true, false, false]);
    assert!(limiter.check(&any()).is_allowed());
}

/// A shadow is there to say what enforcing would do: it counts what would have passed.
#[test]
fn shadow_rule_with_several_limits_counts_and_refuses_as_if_it_were_enforced() {
    for algorithm in [
        AlgorithmKind::TokenBucket,
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindowLog,
        AlgorithmKind::SlidingWindowCounter,
    ] {
        let limits = || rule("tried").limit("2/min").limit("7/h").limit("9/day").algorithm(algorithm);
        let clock = clock();
        let (enforced, shadow) = (one(limits(), &clock), one(limits().shadow(), &clock));
        for at in 0..200 {
            let would = shadow.check(&costing(1 + at % 2));
            assert!(would.is_allowed());
            let refused = enforced.check(&costing(1 + at % 2));
            let decisions = |verdict: &Verdict| verdict.states().iter().map(|s| s.decision).collect::<Vec<_>>();
            assert_eq!(decisions(&would), decisions(&refused), "{algorithm:?}, request {at}");
            clock.advance(Duration::from_secs(7));
        }
    }
}

#[test]
fn shadow_rules_with_several_limits_are_counted_separately() {
    let limiter = built(
        Limiter::builder()
            .rule(rule("one").limit("1/min").limit("9/h").shadow())
            .rule(rule("other").limit("5/min").limit("8/h").shadow()),
        &clock(),
    );
    for _ in 0..3 {
        assert!(limiter.check(&any()).is_allowed());
    }
    assert_eq!(remaining(&limiter), [0, 8, 2, 5]);
}

#[test]
fn each_tier_has_its_own_limit() {
    let builder = PolicyBuilder::default()
        .rule(rule("per-user").per("user").tier("free", "1/min").tier("pro", "3/min").tier("staff", "unlimited"))
        .with(|policy| {
            policy.tier = Some(Tier {
                source: TierSource::Direct(IdentitySource::Header("x-tier".to_owned())),
                default: "free".to_owned(),
                trusted: true,
            });
        });
    let limiter = Limiter::with_clock(&builder.build().unwrap(), clock()).unwrap();
    let passes = |tier: &str| {
        let (headers, identities) = ([("x-tier", tier)], [("user", tier)]);
        let request = Request { headers: &headers, ..from(&identities) };
        (0..5).filter(|_| limiter.check(&request).is_allowed()).count()
    };
    assert_eq!(["free", "pro", "staff"].map(passes), [1, 3, 5]);
}

#[test]
fn cost_is_read_from_the_request() {
    let mut policy = Policy::clone(&PolicyBuilder::default().rule(rule("all").limit("10/min")).build().unwrap());
    policy.rules[0].cost.source = CostSource::Header { name: "x-cost".to_owned(), default: 2 };
    policy.rules[0].cost.max = 5;
    let limiter = Limiter::with_clock(&policy.check().unwrap(), clock()).unwrap();
    for (headers, left) in [(vec![("X-Cost", "3")], 7), (vec![], 5), (vec![("x-cost", "999")], 0)] {
        assert!(limiter.check(&Request { headers: &headers, ..any() }).is_allowed());
        assert_eq!(remaining(&limiter), [left]);
    }
}

#[test]
fn every_algorithm_admits_exactly_its_limit() {
    for algorithm in [
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket,
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindowLog,
        AlgorithmKind::SlidingWindowCounter,
    ] {
        let limiter = one(rule("all").limit("7/min").algorithm(algorithm), &clock());
        assert_eq!((0..50).filter(|_| limiter.check(&any()).is_allowed()).count(), 7, "{algorithm:?}");
    }
}
