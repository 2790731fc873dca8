//! A layer around a layer: both limit, and the response has the fields of both, once.

use std::time::Duration;

use tollgate::policy::RuleBuilder;
use tollgate::policy::model::{Allowance, FieldSet, Grant};
use tollgate::{Limiter, Quota, rule};

use crate::support::{App, Reply, behind, built, changed, check_fields, clock, get, hello, item, items};

fn one(rule: RuleBuilder) -> App {
    built(Limiter::builder().rule(rule))
}

#[tokio::test]
async fn stacked_layers_merge_lists_and_report_the_tightest() {
    for (outer, inner) in [("100/h", "10/min"), ("10/min", "100/h")] {
        let app = behind(&one(rule("outer").limit(outer)), hello(&one(rule("inner").limit(inner))));
        let reply = get(&app, "/").await;
        check_fields(&reply);
        assert_eq!(items(&reply, "ratelimit").len(), 2);
        assert_eq!(item(&reply, "ratelimit-policy", "outer").len(), 2);
        assert_eq!(item(&reply, "ratelimit-policy", "inner").len(), 2);
        assert_eq!(reply.number("x-ratelimit-limit"), Some(10));
        assert_eq!(reply.number("x-ratelimit-remaining"), Some(9));
        assert_eq!(reply.number("x-ratelimit-reset"), Some(1_800_000_006));
    }
}

#[tokio::test]
async fn refusal_of_the_inner_layer_has_fields_of_both() {
    let app = behind(&one(rule("outer").limit("100/h")), hello(&one(rule("inner").limit("1 per 20s"))));
    get(&app, "/").await;
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!((reply.status, reply.number("retry-after")), (429, Some(20)));
    assert_eq!(items(&reply, "ratelimit").len(), 2);
    assert_eq!(reply.number("x-ratelimit-limit"), Some(1));
    assert_eq!(reply.json()["violated-policies"], serde_json::json!(["inner"]));
}

#[tokio::test]
async fn refusal_of_the_outer_layer_has_its_own_fields() {
    let app = behind(&one(rule("outer").limit("1 per 20s")), hello(&one(rule("inner").limit("100/h"))));
    get(&app, "/").await;
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!((reply.status, reply.number("retry-after")), (429, Some(20)));
    assert_eq!(items(&reply, "ratelimit").len(), 1);
}

#[tokio::test]
async fn field_families_of_either_layer_are_sent() {
    let with = |name: &str, set: FieldSet| {
        built(Limiter::builder().rule(rule(name).limit("5/min")).with(|policy| policy.fields.sets = vec![set]))
    };
    let app = behind(&with("outer", FieldSet::Ietf), hello(&with("inner", FieldSet::XRateLimit)));
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(items(&reply, "ratelimit").len(), 1);
    assert_eq!(reply.number("x-ratelimit-limit"), Some(5));
}

/// Three fields about one limit, never some about one and some about another.
#[tokio::test]
async fn x_ratelimit_fields_describe_one_limit() {
    // The release time of a permit without a lease is unknown, so there is no reset.
    let permits = || {
        changed(rule("tight").concurrency(3), |rule| {
            rule.allowance = Allowance::Same(Grant::Limited(vec![Quota::concurrency(3, None).unwrap()]));
        })
    };
    let wide = || one(rule("wide").limit("60/min"));
    let told = |reply: &Reply| ["limit", "remaining", "reset"].map(|name| reply.number(&format!("x-ratelimit-{name}")));
    for (outer, inner) in [(permits(), wide()), (wide(), permits())] {
        let app = behind(&outer, hello(&inner));
        let reply = get(&app, "/").await;
        check_fields(&reply);
        assert_eq!(told(&reply), [Some(3), Some(2), None], "{reply:?}");
    }
}

#[tokio::test]
async fn later_retry_after_wins() {
    let clock = clock();
    let refusing = |name: &str, rate: &str| {
        Limiter::builder().rule(rule(name).limit(rate)).build_with_clock(clock.clone()).unwrap()
    };
    let (outer, inner) = (refusing("outer", "2 per 90s"), refusing("inner", "1 per 20s"));
    let app = behind(&outer, hello(&inner));
    let mut told = Vec::new();
    for _ in 0..3 {
        let reply = get(&app, "/").await;
        check_fields(&reply);
        told.push((reply.status, reply.number("retry-after")));
    }
    // The third is refused by the outer, which has been charged for the one that the inner refused.
    assert_eq!(told, [(200, None), (429, Some(20)), (429, Some(45))]);
    clock.advance(Duration::from_secs(45));
    assert_eq!(get(&app, "/").await.status, 200);
}

#[tokio::test]
async fn warnings_of_both_layers_are_sent() {
    let warning = |name: &str| rule(name).limit("1/h").on_limit(5, std::time::Duration::from_secs(60), None);
    let app = behind(&one(warning("outer")), hello(&one(warning("inner"))));
    get(&app, "/").await;
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(reply.field("x-ratelimit-warning"), Some("inner, outer"));
}
