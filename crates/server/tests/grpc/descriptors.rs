//! Descriptors: the rules that they match, and the response to the gateway.

use std::time::Duration;

use crate::messages::{
    HOUR, MINUTE, OK, OVER_LIMIT, RateLimitDescriptor, descriptor, descriptor_with_hits, rate_limit_request,
};
use crate::test_service::{S_NS, TestService};

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
    let service = TestService::with_policy(POLICY);
    let response = service.rate_limit(&rate_limit_request(&[
        descriptor(&[ADDRESS]),
        descriptor(&[("unknown", "x")]),
        descriptor(&[("user", "ann")]),
    ]));
    assert_eq!((response.overall_code, response.codes()), (OK, vec![OK; 3]));
    let [ip, unmatched, user] = response.statuses.as_slice() else { panic!("{response:?}") };
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
    let service = TestService::with_policy(POLICY);
    let reset = |hits| {
        let response = service.rate_limit(&rate_limit_request(&[descriptor_with_hits(hits, &[ADDRESS])]));
        response.statuses[0].duration_until_reset.as_ref().unwrap().seconds
    };
    assert_eq!(reset(1), 20);
    service.clock.advance(Duration::from_nanos(S_NS / 2));
    assert_eq!(reset(0), 20);
    service.clock.advance(Duration::from_nanos(S_NS / 2));
    assert_eq!(reset(0), 19);
}

#[test]
fn refusals_charge_no_descriptor_and_carry_retry_after() {
    let service = TestService::with_policy(POLICY);
    let both = rate_limit_request(&[descriptor(&[ADDRESS]), descriptor(&[("user", "ann")])]);
    for _ in 0..3 {
        assert_eq!(service.rate_limit(&both).overall_code, OK);
    }
    let refused = service.rate_limit(&both);
    assert_eq!((refused.overall_code, refused.codes()), (OVER_LIMIT, vec![OVER_LIMIT, OK]));
    assert_eq!(refused.remaining(), [0, 97], "the other descriptor was not charged");
    assert_eq!(refused.header("retry-after"), Some("20"));
    assert_eq!(refused.header("ratelimit"), Some("\"per-ip\";r=0;t=20, \"per-user\";r=97;t=36"));
    assert_eq!(refused.header("x-ratelimit-limit"), Some("3"));
    service.clock.advance(Duration::from_secs(20));
    let again = service.rate_limit(&both);
    assert_eq!((again.overall_code, again.header("retry-after")), (OK, None));
}

#[test]
fn hits_above_the_limit_are_refused_and_refunds_are_capped_at_the_usage() {
    let rules = "rules: [ { name: all, limit: 1000000000000/h, algorithm: fixed-window } ]";
    let service = TestService::with_policy(&format!("version: 1\nidentity: {{ user: {{ given: true }} }}\n{rules}\n"));
    let ann = [("user", "ann")];
    for hits in [1_000_000_000_001, u64::MAX] {
        assert_eq!(
            service.rate_limit(&rate_limit_request(&[descriptor_with_hits(hits, &ann)])).overall_code,
            OVER_LIMIT,
            "{hits}"
        );
    }
    assert_eq!(
        service.rate_limit(&rate_limit_request(&[descriptor_with_hits(1_000_000_000_000, &ann)])).overall_code,
        OK
    );
    let refund = RateLimitDescriptor { is_negative_hits: true, ..descriptor_with_hits(u64::MAX, &ann) };
    assert_eq!(service.rate_limit(&rate_limit_request(&[refund])).overall_code, OK);
    assert_eq!(
        service.rate_limit(&rate_limit_request(&[descriptor_with_hits(1_000_000_000_000, &ann)])).overall_code,
        OK
    );
    assert_eq!(service.rate_limit(&rate_limit_request(&[descriptor_with_hits(1, &ann)])).overall_code, OVER_LIMIT);
}

#[test]
fn the_same_key_is_charged_once_with_the_largest_addend() {
    let service = TestService::with_policy(POLICY);
    let ann = [("user", "ann")];
    let response = service.rate_limit(&rate_limit_request(&[
        descriptor_with_hits(2, &ann),
        descriptor_with_hits(5, &ann),
        descriptor_with_hits(0, &ann),
    ]));
    assert_eq!(response.remaining(), [95; 3]);
}

#[test]
fn hits_addend_of_the_descriptor_overrides_the_one_of_the_call() {
    let service = TestService::with_policy(POLICY);
    let (ann, eve, bob) = ([("user", "ann")], [("user", "eve")], [("user", "bob")]);
    let mut call =
        rate_limit_request(&[descriptor(&ann), descriptor_with_hits(10, &eve), descriptor_with_hits(0, &bob)]);
    call.hits_addend = 4;
    assert_eq!(service.rate_limit(&call).remaining(), [96, 90, 100]);
    call.hits_addend = 0;
    assert_eq!(service.rate_limit(&call).remaining(), [95, 80, 100]);
}

#[test]
fn negative_hits_refund_at_most_the_usage() {
    let service = TestService::with_policy(POLICY);
    let ann = [("user", "ann")];
    assert_eq!(service.rate_limit(&rate_limit_request(&[descriptor_with_hits(30, &ann)])).remaining(), [70]);
    let negative = |hits| RateLimitDescriptor { is_negative_hits: true, ..descriptor_with_hits(hits, &ann) };
    let response = service.rate_limit(&rate_limit_request(&[negative(10)]));
    assert_eq!((response.overall_code, response.remaining()), (OK, vec![80]));
    assert_eq!(service.rate_limit(&rate_limit_request(&[negative(1_000)])).remaining(), [100]);
    assert_eq!(service.rate_limit(&rate_limit_request(&[descriptor_with_hits(101, &ann)])).overall_code, OVER_LIMIT);
}

#[test]
fn unlimited_rules_report_u32_max_and_exact_entries_allow_no_others() {
    let service = TestService::with_policy(POLICY);
    let response = service
        .rate_limit(&rate_limit_request(&[descriptor(&[("plan", "vip")]), descriptor(&[("plan", "vip"), ("x", "y")])]));
    assert_eq!((response.codes(), response.remaining()), (vec![OK; 2], vec![u32::MAX, 0]));
    assert!(response.statuses.iter().all(|status| status.current_limit.is_none()));
    let mut elsewhere = rate_limit_request(&[descriptor(&[("plan", "vip")]), descriptor(&[("user", "ann")])]);
    elsewhere.domain = "mesh".to_owned();
    assert_eq!(service.rate_limit(&elsewhere).remaining(), [0, 0]);
}

#[test]
fn queues_act_as_meters_and_concurrency_rules_do_not_apply() {
    let service = TestService::with_policy(POLICY);
    let post = rate_limit_request(&[descriptor(&[("method", "POST"), ("path", "/v1/a?b=c")])]);
    let codes: Vec<i32> = (0..3).map(|_| service.rate_limit(&post).overall_code).collect();
    assert_eq!(codes, [OK, OK, OVER_LIMIT]);
    let ann = rate_limit_request(&[descriptor(&[("user", "ann")])]);
    assert!((0..5).all(|_| service.rate_limit(&ann).overall_code == OK));
}

#[test]
fn denied_clients_are_over_limit() {
    let service = TestService::with_policy(POLICY);
    let ann = descriptor(&[("user", "ann")]);
    let response =
        service.rate_limit(&rate_limit_request(&[ann.clone(), descriptor(&[("remote_address", "192.0.2.7")])]));
    assert_eq!((response.overall_code, response.codes()), (OVER_LIMIT, vec![OK, OVER_LIMIT]));
    assert_eq!(service.rate_limit(&rate_limit_request(&[ann])).remaining(), [99], "nothing was charged");
}

#[test]
fn descriptor_that_a_rule_denies_is_over_a_limit_of_0() {
    let policy = "version: 1
identity: { user: { given: true } }
rules:
  - { name: per-user, key: user, limit: 100/h }
  - { name: admin-only-inside, when: { path: /admin/*, network: { not: [10.0.0.0/8] } }, deny: true }
";
    let service = TestService::with_policy(policy);
    let (ann, admin) = (descriptor(&[("user", "ann")]), ("path", "/admin/users"));
    let response = service.rate_limit(&rate_limit_request(&[ann.clone(), descriptor(&[ADDRESS, admin])]));
    assert_eq!((response.overall_code, response.codes()), (OVER_LIMIT, vec![OK, OVER_LIMIT]));
    let limit = response.statuses[1].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, limit.name.as_str()), (0, 0, "admin-only-inside"));
    assert_eq!(service.rate_limit(&rate_limit_request(&[ann])).remaining(), [99], "nothing was charged");
    let inside = descriptor(&[("remote_address", "10.1.2.3"), admin]);
    assert_eq!(service.rate_limit(&rate_limit_request(&[inside])).overall_code, OK);
    assert_eq!(
        service.rate_limit(&rate_limit_request(&[descriptor(&[admin])])).overall_code,
        OVER_LIMIT,
        "the address is unknown"
    );
}

#[test]
fn limits_without_an_envoy_unit_are_reported_with_unit_0() {
    let service = TestService::with_policy(POLICY);
    let response = service.rate_limit(&rate_limit_request(&[descriptor(&[("plan", "odd")])]));
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, response.remaining()), (10, 0, vec![19]));
}

#[test]
fn full_store_returns_unavailable() {
    let policy = "version: 1
store: { memory: { entries: 1, when_full: refuse } }
rules: [ { name: per-ip, key: client_ip, limit: 1/day } ]
";
    let service = TestService::with_policy(policy);
    let call = |last: usize| {
        service.try_rate_limit(&rate_limit_request(&[descriptor(&[(
            "remote_address",
            &format!("10.0.{}.{}", last / 256, last % 256),
        )])]))
    };
    let refused = (0..2_000).map(call).find_map(Result::err);
    assert_eq!(refused, Some((tonic::Code::Unavailable, "the store cannot answer".to_owned())));
}

/// A gateway may send any text as the address. A value that is not an IP address is keyed as text.
#[test]
fn non_ip_addresses_are_keyed_as_text() {
    let service = TestService::with_policy(POLICY);
    let remaining = |address: &str| {
        let response = service.rate_limit(&rate_limit_request(&[descriptor(&[("remote_address", address)])]));
        (response.overall_code, response.statuses[0].limit_remaining)
    };
    let code = |address: &str| remaining(address).0;
    assert_eq!([0; 4].map(|_| code("not-an-ip")), [OK, OK, OK, OVER_LIMIT]);
    assert_eq!(remaining("unix:/run/other.sock"), (OK, 2), "another value has its own counter");
    // An address with a port is an address.
    assert_eq!([remaining("203.0.113.9:4711"), remaining("203.0.113.9")], [(OK, 2), (OK, 1)]);
    let empty = service.rate_limit(&rate_limit_request(&[descriptor(&[("remote_address", "")])]));
    assert_eq!((empty.overall_code, &empty.statuses[0].current_limit), (OK, &None));
}
