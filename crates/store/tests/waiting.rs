//! Waiting in order: reservations, bounded waiters, cancellation, jitter. Tests set the time.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::max_admitted;
use tollgate_store::{
    AcquireError, Acquired, ChargeVerdict, Clock, Limit, ManualClock, MemoryOptions, MemoryStore, Queue, Quota, Wait,
};

const MS: u64 = 1_000_000;
const START: u64 = 1_000_000 * MS;

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Acquired, AcquireError>> + 'a>>;

struct WaitFixture {
    store: MemoryStore,
    clock: ManualClock,
    limit: Limit,
}

impl WaitFixture {
    fn new(quota: Quota) -> WaitFixture {
        let clock = ManualClock::at(START);
        let store = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
        let limit = store.limit("fixture", quota).unwrap();
        WaitFixture { store, clock, limit }
    }

    /// Ten a second, one at a time, with four positions: three callers wait.
    fn with_queue() -> WaitFixture {
        WaitFixture::new(Quota::leaky_queue("10/s".parse().unwrap(), Queue { size: 4, max_wait: None }).unwrap())
    }

    fn acquire(&self, cost: u64, wait: Wait) -> Waiting<'_> {
        Box::pin(self.store.acquire(&self.limit, "key", cost, wait, self.clock.clone()))
    }

    fn check(&self) -> bool {
        self.store.check(&self.limit, "key", 1).is_allowed()
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(waiting: &mut Waiting<'_>) -> Option<Result<Acquired, AcquireError>> {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn is_served(waiting: &mut Waiting<'_>) -> bool {
    poll(waiting).is_some_and(|result| result.is_ok())
}

fn patient() -> Wait {
    Wait::up_to(Duration::from_secs(3600))
}

#[test]
fn queue_releases_one_at_a_time_in_order() {
    let fixture = WaitFixture::with_queue();
    let mut line: Vec<_> = (0..4).map(|_| fixture.acquire(1, patient())).collect();
    let served: Vec<_> = line.iter_mut().map(is_served).collect();
    assert_eq!(served, [true, false, false, false]);
    for next in 1..4 {
        fixture.clock.advance(Duration::from_nanos(100 * MS - 1));
        assert!(!is_served(&mut line[next]), "not a nanosecond early");
        fixture.clock.advance(Duration::from_nanos(1));
        assert!(is_served(&mut line[next]));
        assert!(line.iter_mut().skip(next + 1).all(|waiting| !is_served(waiting)));
    }
}

#[test]
fn full_queue_refuses_at_once_with_a_retry_time() {
    let fixture = WaitFixture::with_queue();
    let mut line: Vec<_> = (0..4).map(|_| fixture.acquire(1, patient())).collect();
    line.iter_mut().for_each(|waiting| drop(poll(waiting)));
    let Some(Err(AcquireError::Refused(decision))) = poll(&mut fixture.acquire(1, patient())) else {
        panic!("not refused")
    };
    assert_eq!(decision.verdict, ChargeVerdict::Refused { retry_after: Some(100 * MS) });
}

#[test]
fn wait_beyond_max_wait_fails_at_once_and_charges_nothing() {
    let fixture = WaitFixture::with_queue();
    assert!(fixture.check());
    let hasty = Wait::up_to(Duration::from_millis(99));
    assert!(matches!(poll(&mut fixture.acquire(1, hasty)), Some(Err(AcquireError::Refused(_)))));
    let just_enough = Wait::up_to(Duration::from_millis(100));
    let mut waiting = fixture.acquire(1, just_enough);
    assert!(poll(&mut waiting).is_none());
    fixture.clock.advance(Duration::from_millis(100));
    assert!(is_served(&mut waiting));
}

#[test]
fn queue_enforces_its_own_max_wait() {
    let queue = Queue { size: 10, max_wait: Some(Duration::from_millis(150)) };
    let fixture = WaitFixture::new(Quota::leaky_queue("10/s".parse().unwrap(), queue).unwrap());
    let mut line: Vec<_> = (0..3).map(|_| fixture.acquire(1, patient())).collect();
    let answers: Vec<_> = line.iter_mut().map(|waiting| poll(waiting).map(|result| result.is_ok())).collect();
    assert_eq!(answers, [Some(true), None, Some(false)], "now, in 100 ms, not in 200 ms");
}

#[test]
fn bucket_with_reservations_keeps_waiters_ahead_of_checks() {
    let quota = Quota::token_bucket("10/s burst 2".parse().unwrap()).unwrap();
    let fixture = WaitFixture::new(quota.with_reservations(Duration::from_secs(1)).unwrap());
    assert!(fixture.check() && fixture.check() && !fixture.check());
    let mut two = fixture.acquire(2, patient());
    assert!(poll(&mut two).is_none());
    fixture.clock.advance(Duration::from_millis(100));
    assert!(!fixture.check(), "the token that came belongs to who waits");
    assert!(!is_served(&mut two));
    fixture.clock.advance(Duration::from_millis(100));
    assert!(is_served(&mut two));
}

#[test]
fn bucket_without_reservations_does_not_wait() {
    let fixture = WaitFixture::new(Quota::token_bucket("10/s burst 1".parse().unwrap()).unwrap());
    assert!(is_served(&mut fixture.acquire(1, patient())));
    let Some(Err(error)) = poll(&mut fixture.acquire(1, patient())) else { panic!("it waits") };
    assert!(error.to_string().contains("reservations"), "{error}");
}

#[test]
fn waiters_are_bounded_and_the_excess_one_is_not_charged() {
    let fixture = WaitFixture::with_queue();
    assert!(fixture.check());
    let two = Wait { max_waiters: 2, ..patient() };
    let mut line: Vec<_> = (0..2).map(|_| fixture.acquire(1, two)).collect();
    assert!(line.iter_mut().all(|waiting| poll(waiting).is_none()));
    let mut one_more = fixture.acquire(1, two);
    assert!(matches!(poll(&mut one_more), Some(Err(AcquireError::TooManyWaiters))));
    // Its position is free: a caller among at most three waiters gets it.
    let mut third = fixture.acquire(1, patient());
    assert!(poll(&mut third).is_none());
    fixture.clock.advance(Duration::from_millis(300));
    assert!(is_served(&mut third));
}

#[test]
fn cancelled_reservation_moves_up_and_wakes_those_behind() {
    let fixture = WaitFixture::with_queue();
    assert!(fixture.check());
    let mut first = fixture.acquire(1, patient());
    let mut second = fixture.acquire(1, patient());
    let waker = Arc::new(Alarm::default());
    assert!(poll(&mut first).is_none());
    assert!(second.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&waker)))).is_pending());
    fixture.clock.advance(Duration::from_millis(40));
    drop(first);
    assert_eq!(waker.0.load(Ordering::SeqCst), 1, "a waiter that moves up is woken");
    assert!(!is_served(&mut second));
    fixture.clock.advance(Duration::from_millis(60));
    assert!(is_served(&mut second), "at 100 ms, where the first would have gone");
}

#[test]
fn unpolled_future_makes_no_reservation() {
    let fixture = WaitFixture::with_queue();
    drop(fixture.acquire(1, patient()));
    assert_eq!(fixture.store.peek(&fixture.limit, "key").reset_after, 0);
}

#[test]
fn reservation_outside_the_queue_is_not_granted_twice() {
    let fixture = WaitFixture::with_queue();
    assert!(fixture.check());
    let mut first = fixture.acquire(1, patient());
    assert!(poll(&mut first).is_none());
    let (outside, _receipt) = fixture.store.reserve(&fixture.limit, "key", 1, u64::MAX);
    assert_eq!(outside.delay(), 200 * MS);
    drop(first);
    let (next, _receipt) = fixture.store.reserve(&fixture.limit, "key", 1, u64::MAX);
    assert_eq!(next.delay(), 300 * MS, "behind the reservation at 200 ms");
}

#[test]
fn acquired_tokens_can_be_refunded() {
    let fixture = WaitFixture::with_queue();
    let Some(Ok(acquired)) = poll(&mut fixture.acquire(1, patient())) else { panic!("not served") };
    fixture.store.refund(acquired.receipt);
    assert_eq!(fixture.store.peek(&fixture.limit, "key").reset_after, 0);
}

#[test]
fn cost_that_never_fits_is_impossible() {
    let fixture = WaitFixture::with_queue();
    let Some(Err(AcquireError::Refused(decision))) = poll(&mut fixture.acquire(5, patient())) else {
        panic!("it waits")
    };
    assert_eq!(decision.verdict, ChargeVerdict::Impossible);
}

#[test]
fn jitter_delays_and_never_advances() {
    let fixture = WaitFixture::with_queue();
    assert!(fixture.check());
    let jittered = Wait { jitter: Duration::from_millis(50), ..patient() };
    let mut waiting = fixture.acquire(1, jittered);
    assert!(poll(&mut waiting).is_none());
    fixture.clock.advance(Duration::from_nanos(100 * MS - 1));
    assert!(!is_served(&mut waiting));
    fixture.clock.advance(Duration::from_nanos(1 + 50 * MS));
    assert!(is_served(&mut waiting));
}

#[test]
fn windows_refuse_without_waiting() {
    let fixture = WaitFixture::new(Quota::fixed_window("1/min".parse().unwrap()).unwrap());
    assert!(is_served(&mut fixture.acquire(1, patient())));
    assert!(matches!(poll(&mut fixture.acquire(1, patient())), Some(Err(AcquireError::Refused(_)))));
}

/// A random event.
#[derive(Clone, Debug)]
enum Event {
    Arrive { cost: u64 },
    Cancel { which: usize },
    Pass { ns: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1_u64..=3).prop_map(|cost| Event::Arrive { cost }),
        2 => (0_usize..8).prop_map(|which| Event::Cancel { which }),
        3 => prop_oneof![1_u64..20, 0_u64..200 * MS].prop_map(|ns| Event::Pass { ns }),
    ];
    prop::collection::vec(event, 1..60)
}

/// The clock step between two polls of all callers.
const STEP: u64 = 7 * MS;

struct WaitingCaller<'a> {
    arrived: u64,
    cost: u64,
    waiting: Option<Waiting<'a>>,
    departed: Option<u64>,
    cancelled: Option<u64>,
}

/// Runs the events, and continues until all callers have departed.
fn run<'a>(fixture: &'a WaitFixture, events: &[Event]) -> Vec<WaitingCaller<'a>> {
    let mut callers: Vec<WaitingCaller<'a>> = Vec::new();
    for event in events.iter().chain([&Event::Pass { ns: 100_000 * MS }]) {
        let now = fixture.clock.now_ns();
        match *event {
            Event::Arrive { cost } => {
                let mut waiting = fixture.acquire(cost, patient());
                let (waiting, departed) = match poll(&mut waiting) {
                    None => (Some(waiting), None),
                    Some(Ok(_)) => (None, Some(now)),
                    Some(Err(_)) => continue,
                };
                callers.push(WaitingCaller { arrived: now, cost, waiting, departed, cancelled: None });
            }
            Event::Cancel { which } => {
                let mut line = callers.iter_mut().filter(|caller| caller.waiting.is_some());
                if let Some(caller) = line.nth(which) {
                    caller.waiting = None;
                    caller.cancelled = Some(now);
                }
            }
            Event::Pass { ns } => {
                while fixture.clock.now_ns() + STEP < now + ns && callers.iter().any(|c| c.waiting.is_some()) {
                    fixture.clock.advance(Duration::from_nanos(STEP));
                    serve(fixture, &mut callers);
                }
                fixture.clock.set(now + ns);
            }
        }
        serve(fixture, &mut callers);
    }
    callers
}

fn serve(fixture: &WaitFixture, callers: &mut [WaitingCaller<'_>]) {
    for caller in callers {
        if caller.waiting.as_mut().is_some_and(is_served) {
            caller.waiting = None;
            caller.departed = Some(fixture.clock.now_ns());
        }
    }
}

/// When would the callers have departed without the cancelled ones? A bucket of `burst`, or a queue, in exact fractions
/// of `1/rate` ns.
fn departures_without_cancelled_callers(
    callers: &[WaitingCaller<'_>],
    burst: Option<u64>,
    rate: u64,
) -> Vec<Option<u64>> {
    const SECOND: u128 = 1_000_000_000;
    let mut full_at: u128 = 0;
    let mut latest_cancel_ahead = 0;
    let mut departures = Vec::new();
    for caller in callers {
        if let Some(cancelled) = caller.cancelled {
            latest_cancel_ahead = latest_cancel_ahead.max(cancelled);
            departures.push(None);
            continue;
        }
        let arrived = u128::from(caller.arrived) * u128::from(rate);
        let before = full_at.max(arrived);
        full_at = before + u128::from(caller.cost) * SECOND;
        let departure = match burst {
            Some(burst) => full_at.saturating_sub(u128::from(burst) * SECOND).max(arrived),
            None => before,
        };
        let departure = departure.div_ceil(u128::from(rate)) as u64;
        // No caller moves up before the one ahead of it has cancelled.
        let gone = caller.departed.unwrap_or(0);
        departures.push(Some(departure.max(latest_cancel_ahead.min(gone))));
    }
    departures
}

fn assert_fair(callers: &[WaitingCaller<'_>], quota: &Quota, burst: Option<u64>, rate: u64) {
    let due = departures_without_cancelled_callers(callers, burst, rate);
    let mut last = 0;
    for (caller, due) in callers.iter().zip(due) {
        let Some(due) = due else { continue };
        let departed = caller.departed.expect("every caller that stays departs");
        assert!(departed >= due, "departed {departed}, not before {due}");
        assert!(departed <= due + STEP, "departed {departed}, due at {due}");
        assert!(departed >= last, "first come, first served");
        last = departed;
    }
    let gone: Vec<_> = callers.iter().filter_map(|c| c.departed.map(|at| (at, c.cost))).collect();
    for (from, &(start, _)) in gone.iter().enumerate() {
        let mut sum = 0;
        for &(end, cost) in &gone[from..] {
            sum += cost;
            // Seen up to a step late, and a larger cost departs whole.
            let most = max_admitted(quota, end - start + 1 + STEP).unwrap();
            assert!(sum <= most + 2, "{sum} departed in {} ns, at most {most}", end - start);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn queue_waiters_depart_as_if_cancelled_ones_never_arrived(
        events in events(),
        rate in 3_u64..40,
    ) {
        let queue = Queue { size: 12, max_wait: None };
        let quota = Quota::leaky_queue(format!("{rate}/s").parse().unwrap(), queue).unwrap();
        let fixture = WaitFixture::new(quota);
        assert_fair(&run(&fixture, &events), &quota, None, rate);
    }

    #[test]
    fn bucket_waiters_depart_as_if_cancelled_ones_never_arrived(
        events in events(),
        rate in 3_u64..40,
        burst in 3_u64..6,
    ) {
        let quota = Quota::token_bucket(format!("{rate}/s burst {burst}").parse().unwrap())
            .and_then(|quota| quota.with_reservations(Duration::from_secs(60)))
            .unwrap();
        let fixture = WaitFixture::new(quota);
        assert_fair(&run(&fixture, &events), &quota, Some(burst), rate);
    }
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn tokio_tasks_wait_in_order() {
    // Tokio's paused time advances automatically; the store's clock follows it.
    struct Paused(tokio::time::Instant);
    impl Clock for Paused {
        fn now_ns(&self) -> u64 {
            START + self.0.elapsed().as_nanos() as u64
        }
    }
    let store = MemoryStore::with(MemoryOptions::default(), Paused(tokio::time::Instant::now())).unwrap();
    let quota = Quota::leaky_queue("10/s".parse().unwrap(), Queue { size: 4, max_wait: None }).unwrap();
    let limit = store.limit("fixture", quota).unwrap();
    let store = Arc::new(store);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (store, limit) = (Arc::clone(&store), limit.clone());
            tokio::spawn(async move {
                let before = tokio::time::Instant::now();
                store.acquire(&limit, "x", 1, patient(), tollgate_store::TokioTimer).await.unwrap();
                before.elapsed().as_millis()
            })
        })
        .collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.push(task.await.unwrap());
    }
    waits.sort_unstable();
    assert!(waits.iter().zip([0, 100, 200, 300]).all(|(wait, due)| (due..due + 3).contains(wait)), "{waits:?}");
}
