//! Several requests, charged together or not at all.

use std::time::Duration;

use tollgate::limiter::{JointCharge, JointRequest, JointVerdict};
use tollgate::policy::model::{Allowance, Grant, IdentitySource, Rule, When};
use tollgate::store::{Charge, LimitOptions};
use tollgate::{Action, Limiter, Quota, Request, rule};

use crate::support::{Manual, any, built, clock, costing, from, one};

fn together(limiter: &Manual, asked: &[JointRequest<'_>]) -> JointVerdict {
    let answer = std::pin::pin!(limiter.check_all(asked));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match answer.poll(&mut context) {
        std::task::Poll::Ready(together) => together,
        std::task::Poll::Pending => panic!("memory answers at once"),
    }
}

fn charge(request: Request<'_>) -> JointRequest<'_> {
    JointRequest { request, charge: JointCharge::Rules }
}

fn two_rules() -> Manual {
    let identities = Limiter::builder()
        .identity("user", IdentitySource::Given)
        .identity("org", IdentitySource::Given)
        .rule(rule("users").per("user").limit("5/min"))
        .rule(rule("orgs").per("org").limit("2/min"));
    built(identities, &clock())
}

fn remaining(together: &JointVerdict, at: usize) -> Vec<u64> {
    together.each[at].states().iter().map(|state| state.decision.remaining).collect()
}

#[test]
fn joint_requests_are_charged_all_or_none() {
    let limiter = two_rules();
    let (ann, acme) = ([("user", "ann")], [("org", "acme")]);
    let both = [charge(from(&ann)), charge(from(&acme))];
    for left in [1, 0] {
        let passed = together(&limiter, &both);
        assert!(passed.overall.is_allowed());
        assert_eq!((remaining(&passed, 0), remaining(&passed, 1)), (vec![left + 3], vec![left]));
    }
    let refused = together(&limiter, &both);
    assert_eq!(refused.overall.action(), Action::Reject);
    assert_eq!(refused.overall.rule(), Some("orgs"));
    assert_eq!(refused.each[0].action(), Action::Allow);
    assert_eq!(refused.each[1].action(), Action::Reject);
    assert_eq!(remaining(&refused, 0), [3], "nothing was charged");
    assert!(refused.overall.is_over_limit() && !refused.each[0].is_over_limit());
    assert_eq!(refused.each[1].retry_after(), Some(Duration::from_secs(30)));
}

#[test]
fn same_key_is_charged_once_with_the_largest_cost() {
    let limiter = two_rules();
    let ann = [("user", "ann")];
    let eve = [("user", "eve")];
    let costs = |cost| charge(Request { cost, ..from(&ann) });
    let passed = together(&limiter, &[costs(1), costs(3), charge(from(&eve)), costs(0)]);
    let left: Vec<Vec<u64>> = (0..4).map(|at| remaining(&passed, at)).collect();
    assert_eq!(left, [[2], [2], [4], [2]]);
}

#[test]
fn one_denied_request_refuses_all_and_charges_none() {
    let builder = Limiter::builder()
        .identity("user", IdentitySource::Given)
        .rule(rule("users").per("user").limit("5/min"))
        .with(|policy| policy.deny.client_ip = vec!["192.0.2.0/24".parse().unwrap()]);
    let limiter = built(builder, &clock());
    let ann = [("user", "ann")];
    let denied = Request::from_peer(Some("192.0.2.1".parse().unwrap()));
    let refused = together(&limiter, &[charge(from(&ann)), charge(denied)]);
    assert_eq!(refused.overall.action(), Action::Deny);
    assert_eq!((refused.each[0].action(), refused.each[1].action()), (Action::Allow, Action::Deny));
    assert_eq!(limiter.peek(&Request { cost: 0, ..from(&ann) }).states()[0].decision.remaining, 5);
}

#[test]
fn concurrency_does_not_apply_and_unlimited_is_reported() {
    let allowance = Allowance::Same(Grant::Unlimited);
    let free = Rule { key: vec!["user".to_owned()], allowance, ..Rule::new("free") };
    let builder = Limiter::builder()
        .identity("user", IdentitySource::Given)
        .rule(rule("slots").concurrency(1))
        .with(|policy| policy.rules.push(free));
    let limiter = built(builder, &clock());
    let ann = [("user", "ann")];
    let passed = together(&limiter, &[charge(from(&ann)), charge(any())]);
    assert!(passed.each[0].is_unlimited() && passed.each[0].states().is_empty());
    assert!(!passed.each[1].is_unlimited() && passed.each[1].states().is_empty());
}

#[test]
fn custom_charge_is_made_only_with_the_others() {
    let limiter = two_rules();
    let quota = Quota::fixed_window("2/min".parse().unwrap()).unwrap().with_max_debt(0).unwrap();
    let limit = limiter.caller_limit("instead", quota, LimitOptions::default()).unwrap();
    let keyed = Charge::new(&limit, b"ann", 1);
    let ann = [("user", "ann")];
    let asked = [
        JointRequest { request: from(&ann), charge: JointCharge::Custom(keyed) },
        charge(Request { identities: &[("user", "eve")], ..any() }),
    ];
    for left in [1, 0] {
        let passed = together(&limiter, &asked);
        assert_eq!(passed.each[0].caller_decision().map(|decision| decision.remaining), Some(left));
        assert!(passed.each[0].states().is_empty() && passed.overall.is_allowed());
    }
    let refused = together(&limiter, &asked);
    assert!(refused.overall.is_over_limit() && refused.each[0].is_over_limit() && refused.each[1].is_allowed());
    assert!(refused.overall.retry_after() > Some(Duration::ZERO));
    assert_eq!(remaining(&refused, 1), [3], "nothing was charged");
    assert!(refused.each[1].caller_decision().is_none());
    let ann = limiter.peek(&Request { cost: 0, ..from(&ann) });
    assert_eq!(ann.states()[0].decision.remaining, 5, "its rules were not charged");
}

#[test]
fn refund_is_made_only_if_the_others_pass() {
    let limiter = two_rules();
    let (ann, acme) = ([("user", "ann")], [("org", "acme")]);
    let give_back = |cost| JointRequest { request: Request { cost, ..from(&ann) }, charge: JointCharge::Refund };
    let _ = together(&limiter, &[charge(Request { cost: 4, ..from(&ann) }), charge(from(&acme))]);
    let passed = together(&limiter, &[give_back(2), charge(from(&acme))]);
    assert_eq!((remaining(&passed, 0), remaining(&passed, 1)), (vec![3], vec![0]));
    let refused = together(&limiter, &[give_back(2), charge(from(&acme))]);
    assert_eq!((remaining(&refused, 0), refused.overall.is_allowed()), (vec![3], false));
    let alone = together(&limiter, &[give_back(100)]);
    assert_eq!((remaining(&alone, 0), alone.overall.is_allowed()), (vec![5], true));
}

#[test]
fn warned_key_is_not_charged_and_the_others_are() {
    let warning = rule("users").per("user").limit("1/min").on_limit(1, Duration::from_secs(60), None);
    let limiter = built(Limiter::builder().identity("user", IdentitySource::Given).rule(warning), &clock());
    let (ann, eve) = ([("user", "ann")], [("user", "eve")]);
    assert!(limiter.check(&from(&ann)).is_allowed());
    let warned = together(&limiter, &[charge(from(&ann)), charge(from(&eve))]);
    assert_eq!(warned.overall.action(), Action::Warn);
    assert_eq!(warned.overall.warned_by().collect::<Vec<_>>(), ["users"]);
    assert_eq!(remaining(&warned, 1), [0], "the other key is charged");
    assert!(!together(&limiter, &[charge(from(&ann)), charge(from(&eve))]).overall.is_allowed());
}

#[test]
fn each_key_of_a_rule_has_its_own_block() {
    let block = Some((1, Duration::from_secs(600)));
    let blocking = rule("users").per("user").limit("1/min").on_limit(0, Duration::from_secs(60), block);
    let clock = clock();
    let limiter = built(Limiter::builder().identity("user", IdentitySource::Given).rule(blocking), &clock);
    let (ann, eve) = ([("user", "ann")], [("user", "eve")]);
    for _ in 0..3 {
        let _ = limiter.check(&from(&eve));
    }
    clock.advance(Duration::from_secs(120));
    let blocked = together(&limiter, &[charge(from(&ann)), charge(from(&eve))]);
    assert_eq!((blocked.overall.action(), blocked.each[1].action()), (Action::Block, Action::Block));
    assert_eq!(blocked.each[0].action(), Action::Allow);
    assert!(together(&limiter, &[charge(from(&ann))]).overall.is_allowed());
}

#[test]
fn domain_separates_descriptors() {
    let edge = rule("edge").when(When { domains: vec!["edge".to_owned()], ..When::default() }).limit("1/min");
    let limiter = one(edge, &clock());
    assert!(together(&limiter, &[charge(costing(1))]).overall.rule().is_none());
    let descriptor = tollgate::policy::Descriptor { domain: "edge", entries: &[] };
    let request = Request::from_descriptor(&descriptor);
    assert!(together(&limiter, &[charge(request)]).overall.is_allowed());
    assert!(!together(&limiter, &[charge(request)]).overall.is_allowed());
}

#[test]
fn replaced_rule_does_not_apply_to_other_requests() {
    let mut special = Rule::new("special");
    special.when.identities = vec![("org".to_owned(), tollgate::policy::model::Condition::Present)];
    special.replaces = vec!["users".to_owned()];
    let builder = Limiter::builder()
        .identity("user", IdentitySource::Given)
        .identity("org", IdentitySource::Given)
        .rule(rule("users").per("user").limit("1/min"))
        .with(|policy| policy.rules.push(special));
    let limiter = built(builder, &clock());
    let (ann, acme) = ([("user", "ann")], [("org", "acme")]);
    for _ in 0..3 {
        let passed = together(&limiter, &[charge(from(&ann)), charge(from(&acme))]);
        assert!(passed.overall.is_allowed() && passed.each[0].states().is_empty());
    }
    assert!(together(&limiter, &[charge(from(&ann))]).overall.is_allowed());
    assert!(!together(&limiter, &[charge(from(&ann))]).overall.is_allowed());
}
