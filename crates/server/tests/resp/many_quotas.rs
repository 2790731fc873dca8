//! More quotas than the store tells apart.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tollgate::policy::STARTER;
use tollgate::{Decision, ManualClock, Quota, Rate};
use tollgate_server::Engine;

use crate::running::engine;

const S_NS: u64 = 1_000_000_000;

fn quota(count: u64, period_s: u64, burst: u64) -> Quota {
    let rate = Rate::new(count, Duration::from_secs(period_s)).unwrap();
    Quota::token_bucket(rate.with_burst(burst).unwrap()).unwrap()
}

/// The store is in memory, so the answer is there at once.
fn check(engine: &Engine, key: &str, quota: &Quota, cost: u64) -> Decision {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(engine.throttle(key.as_bytes(), quota, cost)).poll(&mut context) {
        Poll::Ready(decision) => decision,
        Poll::Pending => panic!("it waits for something"),
    }
}

/// An engine that has seen more quotas than are prepared, and a clock to move.
fn overflowing() -> (Engine, ManualClock) {
    let clock = ManualClock::at(1_700_000_000 * S_NS);
    let engine = engine(STARTER, Arc::new(clock.clone()));
    for burst in 1..=4500 {
        assert_eq!(check(&engine, &format!("fill-{burst}"), &quota(1, 60, burst), 1).remaining, burst - 1);
    }
    (engine, clock)
}

#[test]
fn every_quota_is_exact_however_many_there_are() {
    let (engine, clock) = overflowing();
    for burst in (1..=4500_u64).step_by(100) {
        let (key, quota) = (format!("fill-{burst}"), quota(1, 60, burst));
        if burst > 1 {
            assert!(check(&engine, &key, &quota, burst - 1).is_allowed(), "{burst}");
        }
        assert_eq!(check(&engine, &key, &quota, 1).retry_after(), Some(60 * S_NS), "{burst}");
    }
    clock.advance(60 * S_NS - 1);
    assert_eq!(check(&engine, "fill-4401", &quota(1, 60, 4401), 1).retry_after(), Some(1));
    clock.advance(1);
    assert_eq!(check(&engine, "fill-4401", &quota(1, 60, 4401), 1).remaining, 0);
    assert_eq!(check(&engine, "fill-4401", &quota(1, 60, 4401), 0).reset_after, 4401 * 60 * S_NS);
}

/// A key goes on where it was, whether its next quota is one of the first or a later one.
#[test]
fn what_a_key_has_used_goes_with_it() {
    let (engine, clock) = overflowing();
    let (early, late, later) = (quota(1, 60, 10), quota(2, 60, 20), quota(7, 77, 30));
    assert_eq!(check(&engine, "k", &early, 4).remaining, 6);
    assert_eq!(check(&engine, "k", &late, 0).remaining, 16);
    assert_eq!(check(&engine, "k", &early, 0).remaining, 6);
    assert_eq!(check(&engine, "k", &late, 1).remaining, 15);
    assert_eq!(check(&engine, "k", &early, 1).remaining, 4);
    assert_eq!(check(&engine, "k", &later, 4).remaining, 20);
    assert_eq!(check(&engine, "k", &early, 1).retry_after(), Some(60 * S_NS));
    // A refusal and a look under another quota change nothing.
    for _ in 0..3 {
        assert!(!check(&engine, "k", &early, 1).is_allowed());
        assert_eq!(check(&engine, "k", &later, 0).reset_after, 110 * S_NS);
    }
    // Full again, it may live in the store as before.
    clock.advance(110 * S_NS);
    assert_eq!(check(&engine, "k", &early, 10).remaining, 0);
    assert_eq!(check(&engine, "k", &early, 1).retry_after(), Some(60 * S_NS));
    assert_eq!(check(&engine, "k", &later, 0).remaining, 20);
}

#[test]
fn a_look_writes_nothing() {
    let (engine, _) = overflowing();
    let late = quota(2, 60, 20);
    check(&engine, "k", &quota(1, 60, 10), 4);
    for _ in 0..3 {
        assert_eq!(check(&engine, "k", &late, 0).remaining, 16);
        assert_eq!(check(&engine, "new", &late, 0).remaining, 20);
    }
    assert!(check(&engine, "new", &late, 21).retry_after().is_none());
    assert_eq!(check(&engine, "new", &late, 20).remaining, 0);
}

#[test]
fn keys_beyond_the_room_make_room_and_are_counted() {
    let (engine, clock) = overflowing();
    let late = quota(1, 3600, 3);
    let evictions = |engine: &Engine| {
        let text = engine.metrics_text();
        let line = text.lines().find_map(|line| line.strip_prefix("tollgate_evictions_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let touch = |from: u64, to: u64| {
        for key in from..to {
            assert!(check(&engine, &key.to_string(), &late, 1).is_allowed());
        }
    };
    touch(0, 100_000);
    let after_flood = evictions(&engine);
    assert!((100_000 - 65_536..100_000).contains(&after_flood), "{after_flood}");
    // Those that are full again make room for nothing.
    clock.advance(3600 * S_NS);
    touch(200_000, 210_000);
    assert_eq!(evictions(&engine), after_flood);
}

/// From the first quota to beyond the last that is prepared, threads share one
/// key each moment: no more passes than its limit, whatever moves meanwhile.
#[test]
fn threads_that_bring_ever_new_quotas_never_pass_a_limit() {
    const THREADS: u64 = 4;
    const LIMIT: u64 = 1000;
    let engine = engine(STARTER, Arc::new(ManualClock::at(S_NS)));
    let shared = quota(1, 3600, LIMIT);
    let passed: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (engine, shared) = (&engine, &shared);
                scope.spawn(move || {
                    let mut passed = 0;
                    for step in 0..1000 {
                        let other = quota(1, 3600, LIMIT + 1 + thread * 1000 + step);
                        for quota in [shared, &other] {
                            passed += usize::from(check(engine, "k", quota, 1).is_allowed());
                        }
                    }
                    passed
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // The largest of all quotas lets that many pass, and no refill comes.
    assert!(passed as u64 <= LIMIT + THREADS * 1000, "{passed}");
    assert!(!check(&engine, "k", &shared, 1).is_allowed());
}
