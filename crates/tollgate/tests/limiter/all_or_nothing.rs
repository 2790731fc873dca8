//! A refused request charges none of its rules, whatever they are.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::policy::RuleBuilder;
use tollgate::verdict::RuleState;
use tollgate::{AlgorithmKind, Limiter, Receipt, Request, rule};

use crate::support::{Manual, clock, small};

const USERS: [&str; 3] = ["ann", "ben", "cy"];
const TEAMS: [&str; 2] = ["red", "blue"];

/// What a rule is made of.
#[derive(Clone, Debug)]
struct Shape {
    kind: Kind,
    amount: u64,
    period_s: u64,
    key: Key,
    cost: Option<u64>,
    shadow: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Rate(AlgorithmKind),
    Queue,
    Permits,
}

#[derive(Clone, Copy, Debug)]
enum Key {
    Common,
    User,
    UserAndTeam,
}

/// One request.
#[derive(Clone, Debug)]
struct Step {
    advance_ms: u64,
    user: usize,
    team: usize,
    cost: u64,
    /// Whether permits are taken, or only checked.
    takes: bool,
    /// Whether a permit is released first.
    lets_go: bool,
    /// Whether it is taken back at once.
    is_refunded: bool,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Rate(AlgorithmKind::TokenBucket)),
        Just(Kind::Rate(AlgorithmKind::LeakyBucket)),
        Just(Kind::Rate(AlgorithmKind::FixedWindow)),
        Just(Kind::Rate(AlgorithmKind::SlidingWindowLog)),
        Just(Kind::Rate(AlgorithmKind::SlidingWindowCounter)),
        Just(Kind::Queue),
        Just(Kind::Permits),
    ]
}

fn shapes() -> impl Strategy<Value = Shape> {
    let key = prop_oneof![Just(Key::Common), Just(Key::User), Just(Key::UserAndTeam)];
    let cost = prop_oneof![3 => Just(None), 1 => (1..4_u64).prop_map(Some)];
    (kinds(), 1..9_u64, 1..40_u64, key, cost, prop::bool::weighted(0.2))
        .prop_map(|(kind, amount, period_s, key, cost, shadow)| Shape { kind, amount, period_s, key, cost, shadow })
}

fn steps() -> impl Strategy<Value = Step> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (0..4_000_u64, 0..USERS.len(), 0..TEAMS.len(), 1..5_u64, flags).prop_map(
        |(advance_ms, user, team, cost, (takes, lets_go, is_refunded))| Step {
            advance_ms,
            user,
            team,
            cost,
            takes,
            lets_go,
            is_refunded,
        },
    )
}

fn built_rule(name: &str, shape: &Shape) -> RuleBuilder {
    let rate = format!("{} per {}s", shape.amount, shape.period_s);
    let mut rule = match shape.kind {
        Kind::Rate(algorithm) => rule(name).limit(&rate).algorithm(algorithm),
        Kind::Queue => rule(name).limit(&rate).queue(shape.amount, Duration::from_secs(30)),
        Kind::Permits => rule(name).concurrency(shape.amount),
    };
    rule = match shape.key {
        Key::Common => rule,
        Key::User => rule.per("user"),
        Key::UserAndTeam => rule.per("user").per("team"),
    };
    if let Some(cost) = shape.cost {
        // A cost that can never fit is no policy.
        rule = rule.cost(cost.min(shape.amount));
    }
    if shape.shadow { rule.shadow() } else { rule }
}

fn limiter(shapes: &[Shape], clock: &tollgate::ManualClock) -> Manual {
    let rules = shapes.iter().enumerate().map(|(at, shape)| built_rule(&format!("rule-{at}"), shape));
    rules.fold(Limiter::builder().with(small), tollgate::LimiterBuilder::rule).build_with_clock(clock.clone()).unwrap()
}

/// Returns the state of every rule for every key.
fn stand(limiter: &Manual) -> Vec<RuleState> {
    let mut all = Vec::new();
    for user in USERS {
        for team in TEAMS {
            let identities = [("user", user), ("team", team)];
            let request = Request { cost: 0, identities: &identities, ..Request::from_peer(None) };
            all.extend_from_slice(limiter.peek(&request).states());
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_refused_request_charges_nothing(shapes in vec(shapes(), 1..5), steps in vec(steps(), 1..80)) {
        let clock = clock();
        let limiter = limiter(&shapes, &clock);
        let mut held: Vec<Receipt> = Vec::new();
        for step in steps {
            clock.advance(Duration::from_millis(step.advance_ms));
            if step.lets_go && !held.is_empty() {
                limiter.release(held.remove(0));
            }
            let identities = [("user", USERS[step.user]), ("team", TEAMS[step.team])];
            let request = Request { cost: step.cost, identities: &identities, ..Request::from_peer(None) };
            let before = stand(&limiter);
            let foreseen = limiter.peek(&request);
            prop_assert_eq!(&stand(&limiter), &before, "a peek changed something");
            let (verdict, receipt) = match step.takes.then(|| limiter.permit(&request)) {
                Some(Ok(permit)) => (permit.verdict().clone(), Some(permit.into_receipt())),
                Some(Err(refused)) => (refused.into_verdict(), None),
                None => (limiter.check(&request), None),
            };
            prop_assert_eq!(verdict.is_allowed(), foreseen.is_allowed());
            prop_assert_eq!(verdict.retry_after(), foreseen.retry_after());
            let refuses = |state: &RuleState| !state.shadow && !state.decision.is_allowed();
            prop_assert_eq!(verdict.is_allowed(), !verdict.states().iter().any(refuses));
            if !verdict.is_allowed() {
                prop_assert_eq!(&stand(&limiter), &before, "a refused request changed something");
            } else if let Some(receipt) = receipt {
                match step.is_refunded {
                    true => {
                        limiter.refund(receipt);
                        prop_assert_eq!(&stand(&limiter), &before, "a refunded request left something");
                    }
                    false => held.push(receipt),
                }
            }
        }
    }
}

/// Threads that compete for the last of one limit leave nothing behind under another.
#[test]
fn concurrent_refusals_charge_nothing() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 3_000;
    let limiter = Limiter::builder()
        .rule(rule("everybody").limit("1000000/year"))
        .rule(rule("each").per("user").limit("1/year"))
        .rule(rule("log").limit("100000/year").algorithm(AlgorithmKind::SlidingWindowLog))
        .build_with_clock(clock())
        .unwrap();
    let compete = || {
        let mut passed = 0;
        for round in 0..ROUNDS {
            let user = round.to_string();
            let identities = [("user", user.as_str())];
            let request = Request { identities: &identities, ..Request::from_peer(None) };
            passed += u64::from(limiter.check(&request).is_allowed());
        }
        passed
    };
    let passed: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(compete)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // Of each user one request passes; of two concurrent ones possibly none, and never two.
    assert!((ROUNDS / 2..=ROUNDS).contains(&passed), "{passed}");
    let verdict = limiter.peek(&Request { cost: 0, ..Request::from_peer(None) });
    let used = verdict.states().iter().map(|state| state.decision.limit - state.decision.remaining);
    assert_eq!(used.collect::<Vec<u64>>(), [passed, passed]);
}
