//! The response fields.

use std::time::Duration;

use tollgate::policy::model::{FieldSet, ResetFormat};
use tollgate::{AlgorithmKind, Limiter, rule};

use crate::support::{Reply, behind, built, check_fields, clock, get, hello, item, items};

const NOW_S: u64 = 1_800_000_000;

fn numbers(list: &[(&str, i64)]) -> Vec<(String, i64)> {
    list.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
}

fn x_ratelimit(reply: &Reply) -> [Option<u64>; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| reply.number(name))
}

#[tokio::test]
async fn bucket_fields_have_burst_and_refill_time() {
    let app = hello(&built(Limiter::builder().rule(rule("per-ip").per("client_ip").limit("60/min burst 100"))));
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(reply.status, 200);
    assert_eq!(item(&reply, "ratelimit-policy", "per-ip"), numbers(&[("q", 100), ("w", 100)]));
    assert_eq!(item(&reply, "ratelimit", "per-ip"), numbers(&[("r", 99), ("t", 1)]));
    assert_eq!(x_ratelimit(&reply), [Some(100), Some(99), Some(NOW_S + 1)]);
}

#[tokio::test]
async fn window_fields_have_their_length() {
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindowLog, AlgorithmKind::SlidingWindowCounter]
    {
        let app = hello(&built(Limiter::builder().rule(rule("w").limit("5 per 90s").algorithm(algorithm))));
        let reply = get(&app, "/").await;
        check_fields(&reply);
        assert_eq!(item(&reply, "ratelimit-policy", "w"), numbers(&[("q", 5), ("w", 90)]), "{algorithm:?}");
        assert_eq!(item(&reply, "ratelimit", "w")[0], ("r".to_owned(), 4), "{algorithm:?}");
    }
}

#[tokio::test]
async fn concurrency_fields_have_their_unit() {
    let app = hello(&built(Limiter::builder().rule(rule("reports").concurrency(3))));
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(reply.field("ratelimit-policy"), Some("\"reports\";q=3;qu=\"concurrent-requests\""));
    assert_eq!(reply.field("ratelimit"), Some("\"reports\";r=2"));
}

#[tokio::test]
async fn allowed_response_has_the_tightest_rule() {
    let limiter = Limiter::builder().rule(rule("wide").limit("1000/h")).rule(rule("narrow").limit("4/min"));
    let reply = get(&hello(&built(limiter)), "/").await;
    check_fields(&reply);
    assert_eq!(items(&reply, "ratelimit").len(), 2);
    assert_eq!(x_ratelimit(&reply), [Some(4), Some(3), Some(NOW_S + 15)]);
}

#[tokio::test]
async fn several_limits_of_a_rule_have_distinct_names() {
    let reply = get(&hello(&built(Limiter::builder().rule(rule("api").limit("10/s").limit("1000/h")))), "/").await;
    check_fields(&reply);
    assert_eq!(item(&reply, "ratelimit-policy", "api"), numbers(&[("q", 20), ("w", 2)]));
    assert_eq!(item(&reply, "ratelimit-policy", "api/1h"), numbers(&[("q", 1000), ("w", 3600)]));
}

#[tokio::test]
async fn refused_response_has_the_refusing_rule() {
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("2 per 30s"))
        .rule(rule("everybody").limit("100/h"));
    let app = hello(&built(limiter));
    get(&app, "/").await;
    get(&app, "/").await;
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(reply.status, 429);
    assert_eq!(item(&reply, "ratelimit", "per-ip"), numbers(&[("r", 0), ("t", 15)]));
    // The other rule was not charged: its state is that after the second request.
    assert_eq!(item(&reply, "ratelimit", "everybody")[0], ("r".to_owned(), 98));
    assert_eq!(x_ratelimit(&reply), [Some(2), Some(0), Some(NOW_S + 30)]);
    assert_eq!(reply.number("retry-after"), Some(15));
}

#[tokio::test]
async fn fields_match_the_decisions() {
    let clock = clock();
    let policy = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("7/min"));
    let limiter = policy.build_with_clock(clock.clone()).unwrap();
    let app = hello(&limiter);
    for _ in 0..40 {
        let reply = get(&app, "/").await;
        check_fields(&reply);
        let state = item(&reply, "ratelimit", "per-ip");
        // Exactly as many requests pass as the response says remain.
        for _ in 0..state[0].1 {
            assert_eq!(get(&app, "/").await.status, 200);
        }
        assert_eq!(get(&app, "/").await.status, 429);
        clock.advance(Duration::from_secs(13));
    }
}

#[tokio::test]
async fn reset_can_be_delta_seconds() {
    let limiter =
        Limiter::builder().rule(rule("a").limit("2/min")).with(|policy| policy.fields.reset = ResetFormat::Delta);
    let reply = get(&hello(&built(limiter)), "/").await;
    assert_eq!(reply.number("x-ratelimit-reset"), Some(30));
}

#[tokio::test]
async fn only_configured_field_families_are_sent() {
    let with = |sets: Vec<FieldSet>| {
        let limiter = Limiter::builder().rule(rule("a").limit("1/min")).with(|policy| policy.fields.sets = sets);
        hello(&built(limiter))
    };
    let told =
        |reply: &Reply| ["ratelimit", "ratelimit-policy", "x-ratelimit-limit"].map(|name| reply.field(name).is_some());
    assert_eq!(told(&get(&with(vec![FieldSet::Ietf]), "/").await), [true, true, false]);
    assert_eq!(told(&get(&with(vec![FieldSet::XRateLimit]), "/").await), [false, false, true]);

    let app = with(Vec::new());
    assert_eq!(told(&get(&app, "/").await), [false; 3]);
    let refused = get(&app, "/").await;
    assert_eq!(told(&refused), [false; 3]);
    assert_eq!((refused.status, refused.number("retry-after")), (429, Some(60)));
}

#[tokio::test]
async fn request_without_rules_has_no_fields() {
    let app = hello(&built(Limiter::builder().rule(rule("login").path("/auth/login").limit("1/min"))));
    let reply = get(&app, "/elsewhere").await;
    assert_eq!(reply.status, 200);
    assert!(!reply.everything().contains("ratelimit"), "{reply:?}");
}

#[tokio::test]
async fn fields_of_the_application_are_replaced() {
    let own = || async {
        // As a proxy would that forwards the fields of another server.
        let fields = [
            ("ratelimit", "\"mine\";r=1"),
            ("ratelimit", "\"yours\";r=2"),
            ("x-ratelimit-limit", "77"),
            ("x-ratelimit-remaining", "76"),
        ];
        (axum::response::AppendHeaders(fields), "hello")
    };
    let service = axum::Router::new().route("/", axum::routing::get(own));
    let app = behind(&built(Limiter::builder().rule(rule("a").limit("5/min"))), service);
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(items(&reply, "ratelimit").len(), 1);
    assert_eq!(item(&reply, "ratelimit", "a")[0], ("r".to_owned(), 4));
    assert_eq!(x_ratelimit(&reply), [Some(5), Some(4), Some(NOW_S + 12)]);
}

/// Where the rule closest to its limit is not to be known, another one is that is.
#[tokio::test]
async fn unpublished_rule_does_not_hide_others() {
    let limiter =
        Limiter::builder().rule(rule("public").limit("100/h")).rule(rule("secret").limit("2/h").unpublished());
    let reply = get(&hello(&built(limiter)), "/").await;
    assert_eq!(x_ratelimit(&reply), [Some(100), Some(99), Some(NOW_S + 36)]);
}
