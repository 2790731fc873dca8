//! What descriptors meet, and what a gateway is told.

use crate::messages::{Described, HOUR, MINUTE, OK, OVER_LIMIT, ask, descriptor, taking};
use crate::running::{Running, S_NS};

const POLICY: &str = "version: 1
identity:
  user: { given: true }
  plan: { given: true }
deny: { client_ip: 192.0.2.0/24 }
rules:
  - { name: per-ip, key: client_ip, limit: 3/min }
  - { name: per-user, when: { domain: edge }, key: user, limit: 100/h }
  - { name: slots, key: user, concurrency: 1 }
  - { name: vip, when: { domain: edge, entries: exact, identity: { plan: vip } }, key: plan, unlimited: true }
  - { name: posts, when: { method: POST, path: /v1/* }, limit: 1/s, algorithm: leaky-bucket, queue: { size: 2 } }
  - { name: odd, when: { identity: { plan: odd } }, key: plan, limit: 10 per 30s burst 20 }
";

const ADDRESS: (&str, &str) = ("remote_address", "203.0.113.9");

#[test]
fn one_status_for_each_descriptor_in_order() {
    let service = Running::under(POLICY);
    let answer = service.answer(&ask(&[
        descriptor(&[ADDRESS]),
        descriptor(&[("unknown", "x")]),
        descriptor(&[("user", "ann")]),
    ]));
    assert_eq!((answer.overall_code, answer.codes()), (OK, vec![OK; 3]));
    let [ip, unmatched, user] = answer.statuses.as_slice() else { panic!("{answer:?}") };
    let limit = ip.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, limit.name.as_str()), (3, MINUTE, "per-ip"));
    assert_eq!((ip.limit_remaining, ip.duration_until_reset.as_ref().unwrap().seconds), (2, 20));
    assert_eq!((&unmatched.current_limit, unmatched.limit_remaining), (&None, 0));
    let limit = user.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, limit.name.as_str()), (100, HOUR, "per-user"));
    assert_eq!((user.limit_remaining, user.duration_until_reset.as_ref().unwrap().seconds), (99, 36));
}

#[test]
fn seconds_until_the_reset_are_rounded_up() {
    let service = Running::under(POLICY);
    let reset = |hits| {
        let answer = service.answer(&ask(&[taking(hits, &[ADDRESS])]));
        answer.statuses[0].duration_until_reset.as_ref().unwrap().seconds
    };
    assert_eq!(reset(1), 20);
    service.clock.advance(S_NS / 2);
    assert_eq!(reset(0), 20);
    service.clock.advance(S_NS / 2);
    assert_eq!(reset(0), 19);
}

#[test]
fn a_refusal_charges_nobody_and_says_when_to_come_back() {
    let service = Running::under(POLICY);
    let both = ask(&[descriptor(&[ADDRESS]), descriptor(&[("user", "ann")])]);
    for _ in 0..3 {
        assert_eq!(service.answer(&both).overall_code, OK);
    }
    let refused = service.answer(&both);
    assert_eq!((refused.overall_code, refused.codes()), (OVER_LIMIT, vec![OVER_LIMIT, OK]));
    assert_eq!(refused.remaining(), [0, 97], "the other was not charged");
    assert_eq!(refused.header("retry-after"), Some("20"));
    assert_eq!(refused.header("ratelimit"), Some("\"per-ip\";r=0;t=20, \"per-user\";r=97;t=36"));
    assert_eq!(refused.header("x-ratelimit-limit"), Some("3"));
    service.clock.advance(20 * S_NS);
    let again = service.answer(&both);
    assert_eq!((again.overall_code, again.header("retry-after")), (OK, None));
}

#[test]
fn more_hits_than_the_largest_limit_are_refused_and_give_back_no_more_than_was_used() {
    let rules = "rules: [ { name: all, limit: 1000000000000/h, algorithm: fixed-window } ]";
    let service = Running::under(&format!("version: 1\nidentity: {{ user: {{ given: true }} }}\n{rules}\n"));
    let ann = [("user", "ann")];
    for hits in [1_000_000_000_001, u64::MAX] {
        assert_eq!(service.answer(&ask(&[taking(hits, &ann)])).overall_code, OVER_LIMIT, "{hits}");
    }
    assert_eq!(service.answer(&ask(&[taking(1_000_000_000_000, &ann)])).overall_code, OK);
    let back = Described { is_negative_hits: true, ..taking(u64::MAX, &ann) };
    assert_eq!(service.answer(&ask(&[back])).overall_code, OK);
    assert_eq!(service.answer(&ask(&[taking(1_000_000_000_000, &ann)])).overall_code, OK);
    assert_eq!(service.answer(&ask(&[taking(1, &ann)])).overall_code, OVER_LIMIT);
}

#[test]
fn the_same_key_is_charged_once_with_the_largest_addend() {
    let service = Running::under(POLICY);
    let ann = [("user", "ann")];
    let answer = service.answer(&ask(&[taking(2, &ann), taking(5, &ann), taking(0, &ann)]));
    assert_eq!(answer.remaining(), [95; 3]);
}

#[test]
fn addends_are_of_the_call_or_of_the_descriptor() {
    let service = Running::under(POLICY);
    let (ann, eve, bob) = ([("user", "ann")], [("user", "eve")], [("user", "bob")]);
    let mut call = ask(&[descriptor(&ann), taking(10, &eve), taking(0, &bob)]);
    call.hits_addend = 4;
    assert_eq!(service.answer(&call).remaining(), [96, 90, 100]);
    call.hits_addend = 0;
    assert_eq!(service.answer(&call).remaining(), [95, 80, 100]);
}

#[test]
fn negative_hits_give_back_and_mint_nothing() {
    let service = Running::under(POLICY);
    let ann = [("user", "ann")];
    assert_eq!(service.answer(&ask(&[taking(30, &ann)])).remaining(), [70]);
    let negative = |hits| Described { is_negative_hits: true, ..taking(hits, &ann) };
    let answer = service.answer(&ask(&[negative(10)]));
    assert_eq!((answer.overall_code, answer.remaining()), (OK, vec![80]));
    assert_eq!(service.answer(&ask(&[negative(1_000)])).remaining(), [100]);
    assert_eq!(service.answer(&ask(&[taking(101, &ann)])).overall_code, OVER_LIMIT);
}

#[test]
fn unlimited_is_told_and_exact_means_exact() {
    let service = Running::under(POLICY);
    let answer = service.answer(&ask(&[descriptor(&[("plan", "vip")]), descriptor(&[("plan", "vip"), ("x", "y")])]));
    assert_eq!((answer.codes(), answer.remaining()), (vec![OK; 2], vec![u32::MAX, 0]));
    assert!(answer.statuses.iter().all(|status| status.current_limit.is_none()));
    let mut elsewhere = ask(&[descriptor(&[("plan", "vip")]), descriptor(&[("user", "ann")])]);
    elsewhere.domain = "mesh".to_owned();
    assert_eq!(service.answer(&elsewhere).remaining(), [0, 0]);
}

#[test]
fn a_queue_is_a_meter_and_permits_do_not_apply() {
    let service = Running::under(POLICY);
    let post = ask(&[descriptor(&[("method", "POST"), ("path", "/v1/a?b=c")])]);
    let codes: Vec<i32> = (0..3).map(|_| service.answer(&post).overall_code).collect();
    assert_eq!(codes, [OK, OK, OVER_LIMIT]);
    let ann = ask(&[descriptor(&[("user", "ann")])]);
    assert!((0..5).all(|_| service.answer(&ann).overall_code == OK));
}

#[test]
fn who_is_denied_is_over_the_limit() {
    let service = Running::under(POLICY);
    let ann = descriptor(&[("user", "ann")]);
    let answer = service.answer(&ask(&[ann.clone(), descriptor(&[("remote_address", "192.0.2.7")])]));
    assert_eq!((answer.overall_code, answer.codes()), (OVER_LIMIT, vec![OK, OVER_LIMIT]));
    assert_eq!(service.answer(&ask(&[ann])).remaining(), [99], "nothing was charged");
}

#[test]
fn descriptor_that_a_rule_denies_is_over_a_limit_of_0() {
    let policy = "version: 1
identity: { user: { given: true } }
rules:
  - { name: per-user, key: user, limit: 100/h }
  - { name: admin-only-inside, when: { path: /admin/*, network: { not: [10.0.0.0/8] } }, deny: true }
";
    let service = Running::under(policy);
    let (ann, admin) = (descriptor(&[("user", "ann")]), ("path", "/admin/users"));
    let answer = service.answer(&ask(&[ann.clone(), descriptor(&[ADDRESS, admin])]));
    assert_eq!((answer.overall_code, answer.codes()), (OVER_LIMIT, vec![OK, OVER_LIMIT]));
    let limit = answer.statuses[1].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, limit.name.as_str()), (0, 0, "admin-only-inside"));
    assert_eq!(service.answer(&ask(&[ann])).remaining(), [99], "nothing was charged");
    let inside = descriptor(&[("remote_address", "10.1.2.3"), admin]);
    assert_eq!(service.answer(&ask(&[inside])).overall_code, OK);
    assert_eq!(service.answer(&ask(&[descriptor(&[admin])])).overall_code, OVER_LIMIT, "an unknown address");
}

#[test]
fn a_limit_without_a_unit_of_its_own_is_told_all_the_same() {
    let service = Running::under(POLICY);
    let answer = service.answer(&ask(&[descriptor(&[("plan", "odd")])]));
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, answer.remaining()), (10, 0, vec![19]));
}

#[test]
fn a_full_store_is_an_error_that_the_gateway_decides() {
    let policy = "version: 1
store: { memory: { entries: 1, when_full: refuse } }
rules: [ { name: per-ip, key: client_ip, limit: 1/day } ]
";
    let service = Running::under(policy);
    let asked = |last: usize| {
        service.try_answer(&ask(&[descriptor(&[("remote_address", &format!("10.0.{}.{}", last / 256, last % 256))])]))
    };
    let refused = (0..2_000).map(asked).find_map(Result::err);
    assert_eq!(refused, Some((tonic::Code::Unavailable, "the store cannot answer".to_owned())));
}

/// A gateway may send anything: who has no address is counted by what is sent in its place.
#[test]
fn an_address_that_is_none_is_counted_as_it_is_written() {
    let service = Running::under(POLICY);
    let remaining = |address: &str| {
        let answer = service.answer(&ask(&[descriptor(&[("remote_address", address)])]));
        (answer.overall_code, answer.statuses[0].limit_remaining)
    };
    let code = |address: &str| remaining(address).0;
    assert_eq!([0; 4].map(|_| code("not-an-ip")), [OK, OK, OK, OVER_LIMIT]);
    assert_eq!(remaining("unix:/run/other.sock"), (OK, 2), "another is another");
    // One with a port is an address.
    assert_eq!([remaining("203.0.113.9:4711"), remaining("203.0.113.9")], [(OK, 2), (OK, 1)]);
    let nobody = service.answer(&ask(&[descriptor(&[("remote_address", "")])]));
    assert_eq!((nobody.overall_code, &nobody.statuses[0].current_limit), (OK, &None));
}
