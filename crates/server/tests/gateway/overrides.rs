//! Limits that gateways bring along.

use crate::messages::{Described, MINUTE, OK, OVER_LIMIT, PerUnit, SECOND, ask, descriptor};
use crate::running::{Running, S_NS};

const POLICY: &str = "version: 1
identity: { user: { given: true } }
rules: [ { name: per-user, key: user, limit: 1/h } ]
";

fn limited(requests_per_unit: u32, unit: i32, user: &str) -> Described {
    let limit = PerUnit { requests_per_unit, unit, name: String::new() };
    Described { limit: Some(limit), ..descriptor(&[("user", user)]) }
}

#[test]
fn it_replaces_the_rules_for_its_descriptor() {
    let service = Running::under(POLICY);
    let both = ask(&[limited(2, MINUTE, "ann"), descriptor(&[("user", "eve")])]);
    let answer = service.answer(&both);
    assert_eq!((answer.overall_code, answer.remaining()), (OK, vec![1, 0]));
    let limit = answer.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (2, MINUTE));
    // Now the rule refuses, and so the limit that was brought along is not charged.
    let refused = service.answer(&both);
    assert_eq!((refused.codes(), refused.remaining()), (vec![OK, OVER_LIMIT], vec![1, 0]));
    let alone = ask(&[limited(2, MINUTE, "ann")]);
    assert_eq!(service.answer(&alone).remaining(), [0]);
    let refused = service.answer(&alone);
    assert_eq!((refused.overall_code, refused.header("retry-after")), (OVER_LIMIT, Some("60")));
    assert_eq!(refused.statuses[0].duration_until_reset.as_ref().unwrap().seconds, 60);
    service.clock.advance(60 * S_NS);
    assert_eq!(service.answer(&alone).overall_code, OK);
    assert_eq!(service.answer(&ask(&[descriptor(&[("user", "ann")])])).remaining(), [0], "the rule was not charged");
}

#[test]
fn a_change_of_the_limit_is_no_refill_and_keys_are_apart() {
    let service = Running::under(POLICY);
    assert_eq!(service.answer(&ask(&[limited(2, MINUTE, "ann")])).remaining(), [1]);
    assert_eq!(service.answer(&ask(&[limited(5, MINUTE, "ann")])).remaining(), [3]);
    assert_eq!(service.answer(&ask(&[limited(5, MINUTE, "eve")])).remaining(), [4]);
    assert_eq!(service.answer(&ask(&[limited(5, SECOND, "ann")])).remaining(), [4]);
    let mut elsewhere = ask(&[limited(5, MINUTE, "ann")]);
    elsewhere.domain = "mesh".to_owned();
    assert_eq!(service.answer(&elsewhere).remaining(), [4]);
}

#[test]
fn nothing_passes_a_limit_of_zero_and_a_limit_needs_a_unit() {
    let service = Running::under(POLICY);
    let answer = service.answer(&ask(&[limited(0, MINUTE, "ann")]));
    assert_eq!((answer.overall_code, answer.remaining(), answer.header("retry-after")), (OVER_LIMIT, vec![0], None));
    for unit in [0, 8, -1] {
        let (code, message) = service.try_answer(&ask(&[limited(1, unit, "ann")])).unwrap_err();
        assert_eq!(code, tonic::Code::InvalidArgument, "{message}");
    }
}

/// A caller who makes up limits takes no memory for them, and hinders nobody.
#[test]
fn limits_without_end_are_all_held() {
    let service = Running::under(POLICY);
    let many: Vec<Described> = (1..=100).map(|count| limited(count, MINUTE, &format!("u{count}"))).collect();
    for from in 0..60 {
        let asked: Vec<Described> = many
            .iter()
            .map(|described| {
                let mut described = described.clone();
                described.limit.as_mut().unwrap().requests_per_unit += from * 100;
                described
            })
            .collect();
        assert_eq!(service.answer(&ask(&asked)).statuses.len(), 100);
    }
    assert_eq!(service.answer(&ask(&[limited(10_000, MINUTE, "new")])).remaining(), [9_999]);
}

/// The keys of such limits may last for a year, and there may be any number of them.
#[test]
fn limits_that_gateways_bring_along_free_no_client_of_a_rule() {
    const YEAR: i32 = 6;
    let service = Running::under(
        "version: 1
store: { memory: { entries: 500 } }
identity: { user: { given: true } }
rules: [ { name: per-user, key: user, limit: 1/day, algorithm: fixed-window } ]
",
    );
    let victim = ask(&[descriptor(&[("user", "victim")])]);
    assert_eq!((service.answer(&victim).overall_code, service.answer(&victim).overall_code), (OK, OVER_LIMIT));
    for first in (0..5_000).step_by(50) {
        let keys: Vec<Described> = (first..first + 50).map(|key| limited(9, YEAR, &format!("k{key}"))).collect();
        assert_eq!(service.answer(&ask(&keys)).overall_code, OK);
    }
    assert_eq!(service.answer(&victim).overall_code, OVER_LIMIT);
}
