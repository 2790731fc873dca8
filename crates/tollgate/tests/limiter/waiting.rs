//! Waiting with `acquire`, on a manual clock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::policy::PolicyBuilder;
use tollgate::{Action, Limiter, ManualClock, Permit, Refused, Request, TokioTimer, rule};

use crate::support::{Manual, S_NS, any, at_once, built, clock, one, remaining};

const LONG: Duration = Duration::from_secs(3_600);

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Permit, Refused>> + 'a>>;

fn waiting<'a>(limiter: &'a Manual, max_wait: Duration, clock: &ManualClock) -> Waiting<'a> {
    let timer = clock.clone();
    Box::pin(async move { limiter.acquire(&any(), max_wait, timer).await })
}

#[test]
fn queue_admits_waiters_in_order() {
    let clock = clock();
    let limiter = one(rule("upstream").limit("1/s").queue(4, Duration::from_secs(9)), &clock);
    let mut all: Vec<Waiting<'_>> = (0..4).map(|_| waiting(&limiter, LONG, &clock)).collect();
    let is_through: Vec<bool> = all.iter_mut().map(|turn| poll(turn).is_ready()).collect();
    // One goes at once, three wait, and one more would be too many.
    assert_eq!(is_through, [true, false, false, false]);
    assert!(!limiter.check(&any()).is_allowed());
    for turn in 1..4 {
        clock.advance(Duration::from_nanos(S_NS - 1));
        assert!(all[turn..].iter_mut().all(|future| poll(future).is_pending()));
        clock.advance(Duration::from_nanos(1));
        assert!(matches!(poll(&mut all[turn]), Poll::Ready(Ok(_))));
    }
}

#[test]
fn check_returns_the_delay_of_a_queue() {
    let limiter = one(rule("upstream").limit("1/s").queue(4, Duration::from_secs(9)), &clock());
    let delays: Vec<_> = (0..3).map(|_| limiter.check(&any())).map(|told| (told.action(), told.delay())).collect();
    let seconds = Duration::from_secs;
    assert_eq!(delays, [(Action::Allow, seconds(0)), (Action::Delay, seconds(1)), (Action::Delay, seconds(2))]);
}

#[test]
fn cancelled_waiter_refunds_its_reservation() {
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
fn acquire_retries_after_retry_after() {
    let clock = clock();
    let limiter = one(rule("all").limit("1 per 10s"), &clock);
    assert!(limiter.check(&any()).is_allowed());
    let mut turn = waiting(&limiter, LONG, &clock);
    assert!(poll(&mut turn).is_pending());
    clock.advance(Duration::from_nanos(10 * S_NS - 1));
    assert!(poll(&mut turn).is_pending());
    clock.advance(Duration::from_nanos(1));
    assert!(matches!(poll(&mut turn), Poll::Ready(Ok(_))));
    assert!(!limiter.check(&any()).is_allowed());
}

/// Another request may be faster; the waiter then retries until its deadline.
#[test]
fn overtaken_waiter_retries_until_its_deadline() {
    let clock = clock();
    let limiter = one(rule("all").limit("1 per 10s"), &clock);
    assert!(limiter.check(&any()).is_allowed());
    let mut turn = waiting(&limiter, Duration::from_secs(25), &clock);
    for _ in 0..2 {
        assert!(poll(&mut turn).is_pending());
        clock.advance(Duration::from_secs(10));
        assert!(limiter.check(&any()).is_allowed());
    }
    // The third attempt would be after the deadline: it is refused at once.
    let Poll::Ready(Err(refused)) = poll(&mut turn) else { panic!("it waits") };
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(10)));
}

#[test]
fn wait_beyond_the_maximum_is_refused_at_once_and_charges_nothing() {
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

fn acquired(waiting: &mut Waiting<'_>) -> Permit {
    match poll(waiting) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn permits_are_granted_in_order_of_arrival() {
    let clock = clock();
    let limiter = one(rule("slots").concurrency(2), &clock);
    let mut held: Vec<Permit> = (0..2).map(|_| limiter.permit(&any()).unwrap()).collect();
    let mut waiters: Vec<Waiting<'_>> = (0..5).map(|_| waiting(&limiter, LONG, &clock)).collect();
    assert!(waiters.iter_mut().all(|waiter| poll(waiter).is_pending()));
    while !waiters.is_empty() {
        drop(held.remove(0));
        assert!(waiters[1..].iter_mut().all(|waiter| poll(waiter).is_pending()), "only the first attempts");
        held.push(acquired(&mut waiters.remove(0)));
        assert!(limiter.permit(&any()).is_err());
    }
}

#[test]
fn several_releases_reach_as_many_waiters() {
    let clock = clock();
    let limiter = one(rule("slots").concurrency(3), &clock);
    let held: Vec<Permit> = (0..3).map(|_| limiter.permit(&any()).unwrap()).collect();
    let mut waiters: Vec<Waiting<'_>> = (0..4).map(|_| waiting(&limiter, LONG, &clock)).collect();
    waiters.iter_mut().for_each(|waiter| assert!(poll(waiter).is_pending()));
    drop(held);
    let taken: Vec<Poll<_>> = waiters.iter_mut().map(poll).collect();
    assert_eq!(taken.iter().map(Poll::is_ready).collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn newcomer_does_not_overtake_waiters_of_its_key() {
    let clock = clock();
    let limiter = one(rule("slots").per("user").concurrency(1), &clock);
    let (ann, ben) = ([("user", "ann")], [("user", "ben")]);
    let user = |identities| Request { identities, ..any() };
    let acquire = |request: Request<'static>| -> Waiting<'_> {
        let (limiter, clock) = (&limiter, clock.clone());
        Box::pin(async move { limiter.acquire(&request, LONG, clock).await })
    };
    let (ann, ben) = (user(Box::leak(Box::new(ann))), user(Box::leak(Box::new(ben))));
    let held = limiter.permit(&ann).unwrap();
    let mut first = acquire(ann);
    assert!(poll(&mut first).is_pending());
    drop(held);
    let mut newcomer = acquire(ann);
    assert!(poll(&mut newcomer).is_pending(), "the permit is the first waiter's");
    assert!(poll(&mut acquire(ben)).is_ready(), "another key has its own queue");
    drop(acquired(&mut first));
    drop(acquired(&mut newcomer));
}

#[test]
fn waiter_gives_up_at_its_deadline_and_leaves_its_position() {
    let clock = clock();
    let limiter = one(rule("slots").concurrency(1), &clock);
    let held = limiter.permit(&any()).unwrap();
    let mut short = waiting(&limiter, Duration::from_secs(5), &clock);
    let mut long = waiting(&limiter, LONG, &clock);
    assert!(poll(&mut short).is_pending() && poll(&mut long).is_pending());
    clock.advance(Duration::from_secs(5));
    let Poll::Ready(Err(refused)) = poll(&mut short) else { panic!("it waits") };
    assert_eq!((refused.rule(), refused.status(), refused.retry_after()), (Some("slots"), 429, None));
    drop(held);
    drop(acquired(&mut long));
}

#[test]
fn waiter_that_is_dropped_leaves_its_position() {
    let clock = clock();
    let limiter = one(rule("slots").concurrency(1), &clock);
    let held = limiter.permit(&any()).unwrap();
    let mut waiters: Vec<Waiting<'_>> = (0..3).map(|_| waiting(&limiter, LONG, &clock)).collect();
    waiters.iter_mut().for_each(|waiter| assert!(poll(waiter).is_pending()));
    drop(held);
    // Woken, and dropped before it attempts.
    drop(waiters.remove(0));
    drop(acquired(&mut waiters[0]));
}

#[test]
fn refund_settlement_reset_and_larger_limit_wake_waiters() {
    type Free = fn(&Manual, Permit);
    let frees: [Free; 4] = [
        |_, permit| permit.refund(),
        |limiter, permit| assert_eq!(limiter.settle(permit, 1).overrun, 0),
        |limiter, permit| {
            at_once(limiter.reset_key("slots", "")).unwrap();
            std::mem::forget(permit);
        },
        |limiter, permit| {
            let policy = PolicyBuilder::default().rule(rule("slots").concurrency(2)).build().unwrap();
            limiter.set_policy(&policy).unwrap();
            std::mem::forget(permit);
        },
    ];
    for (at, free) in frees.into_iter().enumerate() {
        let clock = clock();
        let limiter = one(rule("slots").concurrency(1), &clock);
        let held = limiter.permit(&any()).unwrap();
        let mut waiter = waiting(&limiter, LONG, &clock);
        let (woken, waker) = counting_waker();
        let mut context = Context::from_waker(&waker);
        assert!(waiter.as_mut().poll(&mut context).is_pending());
        free(&limiter, held);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "{at}");
        assert!(poll(&mut waiter).is_ready(), "{at}");
    }
}

/// A permit whose lease expires is released without a call.
#[test]
fn expired_lease_is_found_by_polling() {
    let clock = clock();
    let limiter = one(rule("slots").concurrency(1), &clock);
    let held = limiter.permit(&any()).unwrap();
    let lease = held.lease().unwrap();
    std::mem::forget(held);
    let mut waiter = waiting(&limiter, 10 * lease, &clock);
    let mut waited = Duration::ZERO;
    while poll(&mut waiter).is_pending() {
        clock.advance(Duration::from_secs(1));
        waited += Duration::from_secs(1);
        assert!(waited <= lease + Duration::from_secs(2), "{waited:?} {lease:?}");
    }
}

/// A rate that refuses too is waited for outside of the queue, so that others are not held up.
#[test]
fn request_under_a_rate_and_a_permit_waits_for_both() {
    let clock = clock();
    let limiter =
        built(Limiter::builder().rule(rule("slots").concurrency(1)).rule(rule("rate").limit("1 per 10s")), &clock);
    let held = limiter.permit(&any()).unwrap();
    let mut waiter = waiting(&limiter, LONG, &clock);
    assert!(poll(&mut waiter).is_pending());
    clock.advance(Duration::from_secs(10));
    assert!(poll(&mut waiter).is_pending(), "the permit is still held");
    drop(held);
    drop(acquired(&mut waiter));
    let mut waiter = waiting(&limiter, Duration::from_secs(9), &clock);
    assert!(matches!(poll(&mut waiter), Poll::Ready(Err(_))), "the rate refuses for longer");
}

#[test]
fn waiters_on_many_threads_all_get_their_permit_and_never_too_many_at_once() {
    const TASKS: usize = 64;
    let limiter = Limiter::builder().rule(rule("slots").concurrency(3)).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    let (held, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (limiter, held, most) = (limiter.clone(), Arc::clone(&held), Arc::clone(&most));
                tokio::spawn(async move {
                    for _ in 0..50 {
                        let permit = limiter.acquire(&any(), LONG, TokioTimer).await.unwrap();
                        most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        held.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(60), task).await.expect("a wake-up was lost").unwrap();
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counting_waker() -> (Arc<WakeCount>, Waker) {
    let count = Arc::new(WakeCount(AtomicUsize::new(0)));
    (Arc::clone(&count), Waker::from(count))
}
