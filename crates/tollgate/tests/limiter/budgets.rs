//! Rules that share one budget at different costs.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::policy::parse;
use tollgate::{AlgorithmKind, Limiter, LimiterBuilder, Request, budget, rule};

use crate::support::{Manual, at_once, built, clock, small};

const ALICE: [(&str, &str); 1] = [("user", "alice")];
const HOUR: Duration = Duration::from_secs(3600);

/// 20 for each user; every request costs 1, `/search` 2 and paths below `/chat` 5.
fn tokens() -> LimiterBuilder {
    let window = AlgorithmKind::FixedWindow;
    Limiter::builder()
        .with(small)
        .budget(budget("tokens").per("user").limit("20/h").algorithm(window))
        .rule(rule("other").budget("tokens"))
        .rule(rule("search").path("/search").budget("tokens").cost(2))
        .rule(rule("chat").path("/chat/*").budget("tokens").cost(5).message("Out of tokens."))
}

fn to<'a>(target: &'a str, identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { target, identities, ..Request::from_peer(None) }
}

fn used(limiter: &Manual, rule: &str) -> u64 {
    at_once(limiter.inspect_key(rule, "alice")).unwrap().counters[0].used()
}

#[test]
fn all_rules_of_a_budget_count_in_one_counter() {
    let limiter = built(tokens(), &clock());
    for (target, decided_by, remaining) in
        [("/", "other", 19), ("/search", "search", 17), ("/chat/a", "chat", 12), ("/chat/b", "chat", 7)]
    {
        let verdict = limiter.check(&to(target, &ALICE));
        assert_eq!((verdict.rule(), verdict.states().len()), (Some(decided_by), 1), "{target}");
        assert_eq!(verdict.states()[0].decision.remaining, remaining, "{target}");
        assert_eq!(verdict.limit_name(&verdict.states()[0]), "tokens");
    }
    assert!(limiter.check(&to("/chat/c", &ALICE)).is_allowed());
    let refused = limiter.check(&to("/chat/d", &ALICE));
    assert_eq!((refused.is_allowed(), refused.message()), (false, Some("Out of tokens.")));
    assert!(limiter.check(&to("/search", &ALICE)).is_allowed(), "what costs less still fits");
    assert!(limiter.check(&to("/chat/a", &[("user", "bob")])).is_allowed());
}

#[test]
fn refunds_and_settlements_go_to_the_budget() {
    let limiter = built(tokens().rule(rule("guess").path("/guess").budget("tokens").estimate(4)), &clock());
    let permit = limiter.permit(&to("/chat/a", &ALICE)).unwrap();
    assert_eq!(used(&limiter, "search"), 5);
    permit.refund();
    assert_eq!(used(&limiter, "search"), 0);
    let permit = limiter.permit(&to("/guess", &ALICE)).unwrap();
    assert_eq!(used(&limiter, "other"), 4);
    limiter.settle(permit, 9);
    assert_eq!(used(&limiter, "chat"), 9);
}

#[test]
fn budget_counter_is_reachable_by_rule_and_by_name() {
    let limiter = built(tokens(), &clock());
    assert!(limiter.check(&to("/chat/a", &ALICE)).is_allowed());
    for name in ["other", "search", "chat", "tokens"] {
        assert_eq!(used(&limiter, name), 5, "{name}");
        at_once(limiter.reset_key(name, "alice")).unwrap();
        assert_eq!(used(&limiter, name), 0, "{name}");
        assert!(limiter.check(&to("/chat/a", &ALICE)).is_allowed());
    }
    let set = at_once(limiter.override_key("search", "alice", "100/h", HOUR)).unwrap();
    assert_eq!(set.rule, "tokens");
    for (target, remaining) in [("/", 94), ("/search", 92), ("/chat/a", 87)] {
        let verdict = limiter.check(&to(target, &ALICE));
        assert_eq!((verdict.states().len(), verdict.states()[0].decision.remaining), (1, remaining), "{target}");
    }
    assert!(at_once(limiter.inspect_key("chat", "alice")).unwrap().key_override.is_some());
    assert!(at_once(limiter.end_override("chat", "alice")).unwrap());
    assert!(at_once(limiter.inspect_key("tokens", "alice")).unwrap().key_override.is_none());
    // Usage is kept.
    assert_eq!(used(&limiter, "other"), 13);
}

#[test]
fn rule_that_becomes_a_budget_keeps_its_counts() {
    let policy = |rest: &str| {
        let identity = "version: 1\nidentity: { user: { given: true } }\n";
        parse(&format!("{identity}{rest}"), "policy.yaml", None).unwrap_or_else(|report| panic!("{report}")).policy
    };
    let own = policy("rules: [{ name: tokens, key: user, limit: 20/h, algorithm: fixed-window }]");
    let limiter = Limiter::with_clock(&own, clock()).unwrap();
    assert!(limiter.check(&to("/", &ALICE)).is_allowed());
    let shared = policy(
        "budgets: { tokens: { key: user, limit: 20/h, algorithm: fixed-window } }\n\
         rules: [{ name: chat, when: { path: /chat }, budget: tokens, cost: 5 }, { name: other, budget: tokens }]",
    );
    limiter.set_policy(&shared).unwrap();
    assert_eq!(limiter.check(&to("/chat", &ALICE)).states()[0].decision.remaining, 14);
    limiter.set_policy(&own).unwrap();
    assert_eq!(limiter.check(&to("/", &ALICE)).states()[0].decision.remaining, 13);
}

/// What a request costs: the largest of the rules that it matches.
fn plain_cost(target: &str) -> u64 {
    match target {
        "/search" => 2,
        target if target.starts_with("/chat/") => 5,
        _ => 1,
    }
}

proptest! {
    /// A counter for each user and one for each path, both or neither.
    #[test]
    fn budget_is_one_counter_charged_once_per_request(
        requests in vec((0..3_usize, 0..4_usize, any::<bool>()), 1..60),
    ) {
        const USERS: [[(&str, &str); 1]; 3] = [[("user", "a")], [("user", "b")], [("user", "c")]];
        const TARGETS: [&str; 4] = ["/", "/search", "/chat/a", "/chat/b"];
        let apart = rule("apart").per("path").limit("12/h").algorithm(AlgorithmKind::FixedWindow);
        let limiter = built(tokens().rule(apart), &clock());
        let (mut by_user, mut by_path) = (HashMap::new(), HashMap::new());
        for (user, target, is_refunded) in requests {
            let request = to(TARGETS[target], &USERS[user]);
            let cost = plain_cost(TARGETS[target]);
            let (spent, seen) = (by_user.entry(user).or_insert(0), by_path.entry(target).or_insert(0));
            let expected = *spent + cost <= 20 && *seen < 12;
            let permitted = limiter.permit(&request);
            prop_assert_eq!(permitted.is_ok(), expected);
            let states = permitted.as_ref().map_or_else(|refused| refused.states(), |permit| permit.verdict().states());
            prop_assert_eq!(states.len(), 2);
            match permitted {
                Ok(permit) if is_refunded => permit.refund(),
                Ok(_) => {
                    *spent += cost;
                    *seen += 1;
                }
                Err(_) => {}
            }
            let key = USERS[user][0].1;
            prop_assert_eq!(at_once(limiter.inspect_key("chat", key)).unwrap().counters[0].used(), *spent);
        }
    }
}
