//! Limits that gateways send in descriptors.

use std::time::Duration;

use crate::messages::{MINUTE, OK, OVER_LIMIT, RateLimit, RateLimitDescriptor, SECOND, descriptor, rate_limit_request};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
identity: { user: { given: true } }
rules: [ { name: per-user, key: user, limit: 1/h } ]
";

fn with_limit(requests_per_unit: u32, unit: i32, user: &str) -> RateLimitDescriptor {
    let limit = RateLimit { requests_per_unit, unit, name: String::new() };
    RateLimitDescriptor { limit: Some(limit), ..descriptor(&[("user", user)]) }
}

#[test]
fn descriptor_limit_replaces_the_rules_for_its_descriptor() {
    let service = TestService::with_policy(POLICY);
    let both = rate_limit_request(&[with_limit(2, MINUTE, "ann"), descriptor(&[("user", "eve")])]);
    let response = service.rate_limit(&both);
    assert_eq!((response.overall_code, response.remaining()), (OK, vec![1, 0]));
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (2, MINUTE));
    // Now the rule refuses, so the descriptor's limit is not charged.
    let refused = service.rate_limit(&both);
    assert_eq!((refused.codes(), refused.remaining()), (vec![OK, OVER_LIMIT], vec![1, 0]));
    let alone = rate_limit_request(&[with_limit(2, MINUTE, "ann")]);
    assert_eq!(service.rate_limit(&alone).remaining(), [0]);
    let refused = service.rate_limit(&alone);
    assert_eq!((refused.overall_code, refused.header("retry-after")), (OVER_LIMIT, Some("60")));
    assert_eq!(refused.statuses[0].duration_until_reset.as_ref().unwrap().seconds, 60);
    service.clock.advance(Duration::from_secs(60));
    assert_eq!(service.rate_limit(&alone).overall_code, OK);
    assert_eq!(
        service.rate_limit(&rate_limit_request(&[descriptor(&[("user", "ann")])])).remaining(),
        [0],
        "the rule was not charged"
    );
}

#[test]
fn changed_descriptor_limit_keeps_the_usage_and_keys_are_separate() {
    let service = TestService::with_policy(POLICY);
    assert_eq!(service.rate_limit(&rate_limit_request(&[with_limit(2, MINUTE, "ann")])).remaining(), [1]);
    assert_eq!(service.rate_limit(&rate_limit_request(&[with_limit(5, MINUTE, "ann")])).remaining(), [3]);
    assert_eq!(service.rate_limit(&rate_limit_request(&[with_limit(5, MINUTE, "eve")])).remaining(), [4]);
    assert_eq!(service.rate_limit(&rate_limit_request(&[with_limit(5, SECOND, "ann")])).remaining(), [4]);
    let mut elsewhere = rate_limit_request(&[with_limit(5, MINUTE, "ann")]);
    elsewhere.domain = "mesh".to_owned();
    assert_eq!(service.rate_limit(&elsewhere).remaining(), [4]);
}

#[test]
fn limit_of_zero_refuses_and_unknown_units_are_invalid() {
    let service = TestService::with_policy(POLICY);
    let response = service.rate_limit(&rate_limit_request(&[with_limit(0, MINUTE, "ann")]));
    assert_eq!(
        (response.overall_code, response.remaining(), response.header("retry-after")),
        (OVER_LIMIT, vec![0], None)
    );
    for unit in [0, 8, -1] {
        let (code, message) = service.try_rate_limit(&rate_limit_request(&[with_limit(1, unit, "ann")])).unwrap_err();
        assert_eq!(code, tonic::Code::InvalidArgument, "{message}");
    }
}

/// A caller that sends ever new limits takes no memory for them, and does not affect other callers.
#[test]
fn thousands_of_descriptor_limits_are_all_enforced() {
    let service = TestService::with_policy(POLICY);
    let many: Vec<RateLimitDescriptor> =
        (1..=100).map(|count| with_limit(count, MINUTE, &format!("u{count}"))).collect();
    for from in 0..60 {
        let descriptors: Vec<RateLimitDescriptor> = many
            .iter()
            .map(|descriptor| {
                let mut descriptor = descriptor.clone();
                descriptor.limit.as_mut().unwrap().requests_per_unit += from * 100;
                descriptor
            })
            .collect();
        assert_eq!(service.rate_limit(&rate_limit_request(&descriptors)).statuses.len(), 100);
    }
    assert_eq!(service.rate_limit(&rate_limit_request(&[with_limit(10_000, MINUTE, "new")])).remaining(), [9_999]);
}

/// The keys of such limits may live for a year, and their number is not bounded.
#[test]
fn descriptor_limits_evict_no_client_of_a_rule() {
    const YEAR: i32 = 6;
    let service = TestService::with_policy(
        "version: 1
store: { memory: { entries: 500 } }
identity: { user: { given: true } }
rules: [ { name: per-user, key: user, limit: 1/day, algorithm: fixed-window } ]
",
    );
    let victim = rate_limit_request(&[descriptor(&[("user", "victim")])]);
    assert_eq!((service.rate_limit(&victim).overall_code, service.rate_limit(&victim).overall_code), (OK, OVER_LIMIT));
    for first in (0..5_000).step_by(50) {
        let keys: Vec<RateLimitDescriptor> =
            (first..first + 50).map(|key| with_limit(9, YEAR, &format!("k{key}"))).collect();
        assert_eq!(service.rate_limit(&rate_limit_request(&keys)).overall_code, OK);
    }
    assert_eq!(service.rate_limit(&victim).overall_code, OVER_LIMIT);
}
