//! Warned, then rejected, then blocked.

use std::time::Duration;

use tollgate::{Limiter, LimiterBuilder, rule};

use crate::support::{Reply, S_NS, check_fields, clock, get, hello};

const MINUTE: Duration = Duration::from_secs(60);

fn login(name: &str) -> tollgate::policy::RuleBuilder {
    rule(name).limit("1/h").on_limit(2, 10 * MINUTE, Some((4, 15 * MINUTE)))
}

fn outcome(reply: &Reply) -> (u16, Option<&str>) {
    check_fields(reply);
    (reply.status, reply.field("x-ratelimit-warning"))
}

#[tokio::test]
async fn escalation_steps_come_in_order() {
    let clock = clock();
    let app = hello(&Limiter::builder().rule(login("login")).build_with_clock(clock.clone()).unwrap());
    assert_eq!(outcome(&get(&app, "/").await), (200, None));
    for _ in 0..2 {
        assert_eq!(outcome(&get(&app, "/").await), (200, Some("login")));
    }
    for _ in 0..2 {
        let reply = get(&app, "/").await;
        assert_eq!(outcome(&reply), (429, None));
        assert_eq!(reply.json()["title"], "Too many requests");
    }
    let blocked = get(&app, "/").await;
    assert_eq!(outcome(&blocked), (429, None));
    assert_eq!(blocked.json()["title"], "Blocked for a time");
    // The block ends long before the limit allows a request, and the longer time is reported.
    assert_eq!(blocked.number("retry-after"), Some(3_600));
    clock.advance(Duration::from_nanos(900 * S_NS - 1));
    assert_eq!(get(&app, "/").await.json()["title"], "Blocked for a time");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(outcome(&get(&app, "/").await), (200, Some("login")));
}

/// A warning is for the rule that warns: all others are charged as ever.
#[tokio::test]
async fn warned_request_is_charged_by_the_other_rules() {
    let limiter = Limiter::builder().rule(login("login")).rule(rule("per-ip").per("client_ip").limit("10/h"));
    let app = hello(&limiter.build_with_clock(clock()).unwrap());
    let mut remaining = Vec::new();
    for _ in 0..5 {
        let reply = get(&app, "/").await;
        remaining.push(crate::support::item(&reply, "ratelimit", "per-ip")[0].1);
    }
    // The first passes, two are warned, two are rejected and charged nowhere.
    assert_eq!(remaining, [9, 8, 7, 7, 7]);
}

#[tokio::test]
async fn warnings_name_only_published_rules() {
    let with = |builder: LimiterBuilder| hello(&builder.build_with_clock(clock()).unwrap());
    let both = with(Limiter::builder().rule(login("a")).rule(login("b")));
    get(&both, "/").await;
    assert_eq!(outcome(&get(&both, "/").await), (200, Some("a, b")));

    let hidden = with(Limiter::builder().rule(login("a")).rule(login("b").unpublished()));
    get(&hidden, "/").await;
    assert_eq!(outcome(&get(&hidden, "/").await), (200, Some("a")));

    let all_hidden = with(Limiter::builder().rule(login("b").unpublished()));
    get(&all_hidden, "/").await;
    assert_eq!(outcome(&get(&all_hidden, "/").await), (200, None));
}
