//! Rules that deny: the verdict, and that nothing is charged.

use std::net::IpAddr;

use tollgate::limiter::{JointCharge, JointRequest, KeyError};
use tollgate::policy::parse;
use tollgate::store::{Charge, LimitOptions};
use tollgate::{Action, Limiter, Quota, Request};

use crate::support::{Manual, at_once, clock};

const POLICY: &str = "version: 1
identity: { user: { given: true } }
allow: { client_ip: [198.51.100.7] }
rules:
  - { name: per-user, key: user, limit: 5/min }
  - { name: watched, when: { path: /admin/* }, deny: true, shadow: true }
  - { name: admin-only-inside, when: { path: /admin/*, network: { not: [10.0.0.0/8] } }, deny: true }
  - { name: secret, when: { path: /secret }, deny: true, publish: false }
";

const ANN: &[(&str, &str)] = &[("user", "ann")];

fn limiter() -> Manual {
    Limiter::with_clock(&parse(POLICY, "policy.yaml", None).unwrap().policy, clock()).unwrap()
}

fn from(ip: &str, path: &'static str) -> Request<'static> {
    let peer: IpAddr = ip.parse().unwrap();
    Request { method: "GET", target: path, identities: ANN, ..Request::from_peer(Some(peer)) }
}

fn remaining(limiter: &Manual) -> u64 {
    limiter.peek(&Request { cost: 0, ..from("10.0.0.1", "/") }).states()[0].decision.remaining
}

#[test]
fn denied_request_names_the_rule_and_charges_nothing() {
    let limiter = limiter();
    let denied = limiter.check(&from("203.0.113.9", "/admin/users"));
    assert_eq!((denied.action(), denied.status(), denied.rule()), (Action::Deny, 403, Some("admin-only-inside")));
    assert!(!denied.is_allowed() && denied.deciding().is_none() && denied.states().is_empty());
    assert_eq!((denied.retry_after(), denied.denied_by()), (None, Some(2)));
    assert_eq!(denied.denials().collect::<Vec<_>>(), [(1, true), (2, false)]);
    assert_eq!(remaining(&limiter), 5);
    assert_eq!(limiter.peek(&from("203.0.113.9", "/admin/users")).action(), Action::Deny, "a look is denied as well");
}

#[test]
fn shadow_denial_is_reported_and_not_enforced() {
    let limiter = limiter();
    let passed = limiter.check(&from("10.1.2.3", "/admin/users"));
    assert_eq!((passed.action(), passed.rule(), passed.denied_by()), (Action::Allow, Some("per-user"), None));
    assert_eq!(passed.denials().collect::<Vec<_>>(), [(1, true)]);
    assert_eq!(remaining(&limiter), 4);
}

#[test]
fn client_on_the_allow_list_passes_rules_that_deny() {
    assert!(limiter().check(&from("198.51.100.7", "/admin/users")).is_allowed());
}

#[test]
fn problem_names_the_rule_only_where_it_is_published() {
    let limiter = limiter();
    let problem = |path| limiter.check(&from("203.0.113.9", path)).problem_json();
    let told = problem("/admin/users");
    assert!(told.contains(r#""status":403"#) && told.contains(r#""rule":"admin-only-inside""#), "{told}");
    assert!(!told.contains("limit") && !told.contains("retry"), "{told}");
    let secret = problem("/secret");
    assert!(secret.contains(r#""status":403"#) && !secret.contains("secret"), "{secret}");
}

#[test]
fn permit_and_receipt_are_refused_with_the_denial() {
    let limiter = limiter();
    let refused = limiter.permit(&from("203.0.113.9", "/admin/users")).unwrap_err();
    assert_eq!(refused.rule(), Some("admin-only-inside"));
    assert_eq!((refused.action(), refused.status()), (Action::Deny, 403));
}

#[test]
fn one_denied_among_several_stops_all_and_charges_none() {
    let limiter = limiter();
    let charge = |request| JointRequest { request, charge: JointCharge::Rules };
    let asked = [charge(from("203.0.113.9", "/")), charge(from("203.0.113.9", "/admin/users"))];
    let together = at_once(limiter.check_all(&asked));
    assert_eq!((together.overall.action(), together.overall.rule()), (Action::Deny, Some("admin-only-inside")));
    assert_eq!((together.each[0].action(), together.each[1].action()), (Action::Allow, Action::Deny));
    assert_eq!((together.each[0].rule(), together.each[1].rule()), (Some("per-user"), Some("admin-only-inside")));
    assert_eq!(remaining(&limiter), 5);
    let passing = [charge(from("10.1.2.3", "/")), charge(from("10.1.2.3", "/admin/users"))];
    let together = at_once(limiter.check_all(&passing));
    assert!(together.overall.is_allowed());
    assert_eq!(together.overall.denials().collect::<Vec<_>>(), [(1, true)], "the shadow rule is reported");
}

#[test]
fn custom_charge_and_refund_do_not_lift_a_denial() {
    let limiter = limiter();
    let quota = Quota::fixed_window("2/min".parse().unwrap()).unwrap().with_max_debt(0).unwrap();
    let limit = limiter.caller_limit("instead", quota, LimitOptions::default()).unwrap();
    let keyed = Charge::new(&limit, b"ann", 1);
    let request = from("203.0.113.9", "/admin/users");
    for charge in [JointCharge::Custom(keyed), JointCharge::Refund] {
        let together = at_once(limiter.check_all(&[JointRequest { request, charge }]));
        assert_eq!((together.overall.action(), together.each[0].action()), (Action::Deny, Action::Deny));
    }
}

#[test]
fn rule_that_denies_has_no_key_to_override() {
    let limiter = limiter();
    let set = at_once(limiter.override_key("admin-only-inside", "", "5/min", std::time::Duration::from_secs(60)));
    assert!(matches!(set, Err(KeyError::InvalidLimit(_))), "{set:?}");
    assert!(at_once(limiter.inspect_key("admin-only-inside", "")).unwrap().counters.is_empty());
}
