//! Waiting for one's turn, on a clock that the tests move.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{Action, Limiter, ManualClock, Verdict, rule};

use crate::support::{Manual, S_NS, any, built, clock, one, remaining};

const LONG: Duration = Duration::from_secs(3_600);

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<(), Verdict>> + 'a>>;

fn waiting<'a>(limiter: &'a Manual, max_wait: Duration, clock: &ManualClock) -> Waiting<'a> {
    let timer = clock.clone();
    Box::pin(async move { limiter.acquire(&any(), max_wait, timer).await.map(drop) })
}

#[test]
fn a_queue_is_waited_for_in_order() {
    let clock = clock();
    let limiter = one(rule("upstream").limit("1/s").queue(4, Duration::from_secs(9)), &clock);
    let mut all: Vec<Waiting<'_>> = (0..4).map(|_| waiting(&limiter, LONG, &clock)).collect();
    let is_through: Vec<bool> = all.iter_mut().map(|turn| poll(turn).is_ready()).collect();
    // One goes at once, three wait, and one more would be too many.
    assert_eq!(is_through, [true, false, false, false]);
    assert!(!limiter.check(&any()).is_allowed());
    for turn in 1..4 {
        clock.advance(S_NS - 1);
        assert!(all[turn..].iter_mut().all(|future| poll(future).is_pending()));
        clock.advance(1);
        assert!(matches!(poll(&mut all[turn]), Poll::Ready(Ok(()))));
    }
}

#[test]
fn a_delay_is_told_to_those_who_wait_by_themselves() {
    let limiter = one(rule("upstream").limit("1/s").queue(4, Duration::from_secs(9)), &clock());
    let delays: Vec<_> = (0..3).map(|_| limiter.check(&any())).map(|told| (told.action(), told.delay())).collect();
    let seconds = Duration::from_secs;
    assert_eq!(delays, [(Action::Allow, seconds(0)), (Action::Delay, seconds(1)), (Action::Delay, seconds(2))]);
}

#[test]
fn whoever_stops_waiting_gives_the_place_back() {
    let clock = clock();
    let limiter = one(rule("upstream").limit("1/s").queue(3, Duration::from_secs(9)), &clock);
    assert!(limiter.check(&any()).is_allowed());
    for _ in 0..1_000 {
        let mut turn = waiting(&limiter, LONG, &clock);
        assert!(poll(&mut turn).is_pending());
        assert_eq!(remaining(&limiter), [1]);
        drop(turn);
        assert_eq!(remaining(&limiter), [2]);
    }
}

#[test]
fn other_rules_are_tried_again_when_they_say_so() {
    let clock = clock();
    let limiter = one(rule("all").limit("1 per 10s"), &clock);
    assert!(limiter.check(&any()).is_allowed());
    let mut turn = waiting(&limiter, LONG, &clock);
    assert!(poll(&mut turn).is_pending());
    clock.advance(10 * S_NS - 1);
    assert!(poll(&mut turn).is_pending());
    clock.advance(1);
    assert!(matches!(poll(&mut turn), Poll::Ready(Ok(_))));
    assert!(!limiter.check(&any()).is_allowed());
}

/// Somebody else may come first; then it goes on waiting, as long as there is time.
#[test]
fn somebody_who_is_overtaken_tries_again() {
    let clock = clock();
    let limiter = one(rule("all").limit("1 per 10s"), &clock);
    assert!(limiter.check(&any()).is_allowed());
    let mut turn = waiting(&limiter, Duration::from_secs(25), &clock);
    for _ in 0..2 {
        assert!(poll(&mut turn).is_pending());
        clock.advance(10 * S_NS);
        assert!(limiter.check(&any()).is_allowed());
    }
    // The third turn would be after its patience has ended: it is told at once.
    let Poll::Ready(Err(refused)) = poll(&mut turn) else { panic!("it waits") };
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(10)));
}

#[test]
fn a_wait_that_would_take_too_long_is_refused_at_once_and_costs_nothing() {
    let clock = clock();
    let limiter = built(
        Limiter::builder()
            .rule(rule("upstream").limit("1/min").queue(6, Duration::from_secs(600)))
            .rule(rule("requests").limit("10/day")),
        &clock,
    );
    assert!(limiter.check(&any()).is_allowed());
    for _ in 0..20 {
        let mut turn = waiting(&limiter, Duration::from_secs(59), &clock);
        assert!(matches!(poll(&mut turn), Poll::Ready(Err(_))));
    }
    assert_eq!(remaining(&limiter), [5, 9]);
}

/// Nobody can say when a permit comes back, so nobody waits for one.
#[test]
fn a_permit_is_not_waited_for() {
    let clock = clock();
    let limiter = one(rule("slots").concurrency(1), &clock);
    let _held = limiter.permit(&any()).unwrap();
    let mut turn = waiting(&limiter, LONG, &clock);
    assert!(matches!(poll(&mut turn), Poll::Ready(Err(_))));
}
