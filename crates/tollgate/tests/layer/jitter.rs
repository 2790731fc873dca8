//! Jitter spreads the retries of refused clients, and never makes them too early.

use std::collections::HashSet;
use std::time::Duration;

use tollgate::{Limiter, rule};

use crate::support::{S_NS, check_fields, clock, get, hello, item};

const JITTER_S: u64 = 30;

#[tokio::test]
async fn jitter_is_never_early_bounded_and_varies() {
    let clock = clock();
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("1/h"))
        .with(|policy| policy.fields.jitter_ns = JITTER_S * S_NS);
    let app = hello(&limiter.build_with_clock(clock.clone()).unwrap());
    let first = get(&app, "/").await;
    // The fields of an allowed request have no jitter.
    assert_eq!(item(&first, "ratelimit", "per-ip")[1], ("t".to_owned(), 3_600));
    let mut told = HashSet::new();
    for passed_s in 0..200 {
        let reply = get(&app, "/").await;
        check_fields(&reply);
        let (truth, retry_after) = (3_600 - passed_s, reply.number("retry-after").unwrap());
        let next = u64::try_from(item(&reply, "ratelimit", "per-ip")[1].1).unwrap();
        let in_problem_ms = reply.json()["retry_after_ms"].as_u64().unwrap();
        for seconds in [retry_after, next, in_problem_ms.div_ceil(1_000)] {
            assert!((truth..=truth + JITTER_S).contains(&seconds), "{truth}: {reply:?}");
        }
        assert!(retry_after >= next);
        told.insert(retry_after - truth);
        clock.advance(Duration::from_secs(1));
    }
    assert!(told.len() > 10, "{told:?}");
}

/// Those who are refused together are the herd that is to be spread. On a real clock no two of them come in the same
/// nanosecond.
#[tokio::test]
async fn clients_refused_together_get_different_times() {
    let limiter =
        Limiter::builder().rule(rule("all").limit("1/h")).with(|policy| policy.fields.jitter_ns = JITTER_S * S_NS);
    let app = hello(&limiter.build().unwrap());
    get(&app, "/").await;
    let mut told = HashSet::new();
    for _ in 0..100 {
        told.insert(get(&app, "/").await.number("retry-after").unwrap());
    }
    assert!(told.len() > 10, "{told:?}");
}
