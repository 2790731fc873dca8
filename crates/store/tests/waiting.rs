//! Waiting in turn: promised places, bounded waiters, cancellation, jitter. Time is moved by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::most_admitted;
use tollgate_store::{
    Acquired, Clock, Limit, ManualClock, MemoryOptions, MemoryStore, NotAcquired, Queue, Quota, Verdict, Wait,
};

const MS: u64 = 1_000_000;
const START: u64 = 1_000_000 * MS;

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Acquired, NotAcquired>> + 'a>>;

struct Shop {
    store: MemoryStore,
    clock: ManualClock,
    limit: Limit,
}

impl Shop {
    fn new(quota: Quota) -> Shop {
        let clock = ManualClock::at(START);
        let store = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
        let limit = store.limit("shop", quota).unwrap();
        Shop { store, clock, limit }
    }

    /// Ten a second, one at a time: four places, so that three wait.
    fn with_queue() -> Shop {
        Shop::new(Quota::leaky_queue("10/s".parse().unwrap(), Queue { size: 4, max_wait: None }).unwrap())
    }

    fn come(&self, cost: u64, wait: Wait) -> Waiting<'_> {
        Box::pin(self.store.acquire(&self.limit, "everybody", cost, wait, self.clock.clone()))
    }

    fn check(&self) -> bool {
        self.store.check(&self.limit, "everybody", 1).is_allowed()
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

fn poll(waiting: &mut Waiting<'_>) -> Option<Result<Acquired, NotAcquired>> {
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
fn a_queue_releases_one_at_a_time_in_order() {
    let shop = Shop::with_queue();
    let mut line: Vec<_> = (0..4).map(|_| shop.come(1, patient())).collect();
    let served: Vec<_> = line.iter_mut().map(is_served).collect();
    assert_eq!(served, [true, false, false, false]);
    for next in 1..4 {
        shop.clock.advance(100 * MS - 1);
        assert!(!is_served(&mut line[next]), "not a nanosecond early");
        shop.clock.advance(1);
        assert!(is_served(&mut line[next]));
        assert!(line.iter_mut().skip(next + 1).all(|waiting| !is_served(waiting)));
    }
}

#[test]
fn a_full_queue_refuses_at_once_and_says_when_there_is_room() {
    let shop = Shop::with_queue();
    let mut line: Vec<_> = (0..4).map(|_| shop.come(1, patient())).collect();
    line.iter_mut().for_each(|waiting| drop(poll(waiting)));
    let Some(Err(NotAcquired::Refused(decision))) = poll(&mut shop.come(1, patient())) else { panic!("not refused") };
    assert_eq!(decision.verdict, Verdict::Refused { retry_after: Some(100 * MS) });
}

#[test]
fn a_wait_that_would_be_too_long_fails_at_once_and_charges_nothing() {
    let shop = Shop::with_queue();
    assert!(shop.check());
    let hasty = Wait::up_to(Duration::from_millis(99));
    assert!(matches!(poll(&mut shop.come(1, hasty)), Some(Err(NotAcquired::Refused(_)))));
    let just_enough = Wait::up_to(Duration::from_millis(100));
    let mut waiting = shop.come(1, just_enough);
    assert!(poll(&mut waiting).is_none());
    shop.clock.advance(100 * MS);
    assert!(is_served(&mut waiting));
}

#[test]
fn a_queue_keeps_to_its_own_longest_wait() {
    let queue = Queue { size: 10, max_wait: Some(Duration::from_millis(150)) };
    let shop = Shop::new(Quota::leaky_queue("10/s".parse().unwrap(), queue).unwrap());
    let mut line: Vec<_> = (0..3).map(|_| shop.come(1, patient())).collect();
    let answers: Vec<_> = line.iter_mut().map(|waiting| poll(waiting).map(|result| result.is_ok())).collect();
    assert_eq!(answers, [Some(true), None, Some(false)], "now, in 100 ms, not in 200 ms");
}

#[test]
fn a_token_bucket_with_reservations_lets_wait_and_keeps_the_turn_against_checks() {
    let quota = Quota::token_bucket("10/s burst 2".parse().unwrap()).unwrap();
    let shop = Shop::new(quota.with_reservations(Duration::from_secs(1)).unwrap());
    assert!(shop.check() && shop.check() && !shop.check());
    let mut two = shop.come(2, patient());
    assert!(poll(&mut two).is_none());
    shop.clock.advance(100 * MS);
    assert!(!shop.check(), "the token that came belongs to who waits");
    assert!(!is_served(&mut two));
    shop.clock.advance(100 * MS);
    assert!(is_served(&mut two));
}

#[test]
fn a_bucket_without_reservations_promises_nothing_ahead() {
    let shop = Shop::new(Quota::token_bucket("10/s burst 1".parse().unwrap()).unwrap());
    assert!(is_served(&mut shop.come(1, patient())));
    let Some(Err(error)) = poll(&mut shop.come(1, patient())) else { panic!("it waits") };
    assert!(error.to_string().contains("reservations"), "{error}");
}

#[test]
fn waiters_are_bounded_and_the_one_too_many_costs_nothing() {
    let shop = Shop::with_queue();
    assert!(shop.check());
    let two = Wait { max_waiters: 2, ..patient() };
    let mut line: Vec<_> = (0..2).map(|_| shop.come(1, two)).collect();
    assert!(line.iter_mut().all(|waiting| poll(waiting).is_none()));
    let mut one_more = shop.come(1, two);
    assert!(matches!(poll(&mut one_more), Some(Err(NotAcquired::TooManyWaiters))));
    // Its place is free: who may wait among three gets it.
    let mut third = shop.come(1, patient());
    assert!(poll(&mut third).is_none());
    shop.clock.advance(300 * MS);
    assert!(is_served(&mut third));
}

#[test]
fn a_cancelled_place_goes_to_those_behind_and_wakes_them() {
    let shop = Shop::with_queue();
    assert!(shop.check());
    let mut first = shop.come(1, patient());
    let mut second = shop.come(1, patient());
    let alarm = Arc::new(Alarm::default());
    assert!(poll(&mut first).is_none());
    assert!(second.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&alarm)))).is_pending());
    shop.clock.advance(40 * MS);
    drop(first);
    assert_eq!(alarm.0.load(Ordering::SeqCst), 1, "whoever moves up is told");
    assert!(!is_served(&mut second));
    shop.clock.advance(60 * MS);
    assert!(is_served(&mut second), "at 100 ms, where the first would have gone");
}

#[test]
fn a_future_that_is_never_polled_takes_no_place() {
    let shop = Shop::with_queue();
    drop(shop.come(1, patient()));
    assert_eq!(shop.store.peek(&shop.limit, "everybody").reset_after, 0);
}

#[test]
fn a_place_promised_to_somebody_outside_the_line_is_not_given_twice() {
    let shop = Shop::with_queue();
    assert!(shop.check());
    let mut first = shop.come(1, patient());
    assert!(poll(&mut first).is_none());
    let (outside, _receipt) = shop.store.reserve(&shop.limit, "everybody", 1, u64::MAX);
    assert_eq!(outside.delay(), 200 * MS);
    drop(first);
    let (next, _receipt) = shop.store.reserve(&shop.limit, "everybody", 1, u64::MAX);
    assert_eq!(next.delay(), 300 * MS, "behind the one that was promised 200 ms");
}

#[test]
fn what_was_waited_for_can_be_given_back() {
    let shop = Shop::with_queue();
    let Some(Ok(acquired)) = poll(&mut shop.come(1, patient())) else { panic!("not served") };
    shop.store.refund(acquired.receipt);
    assert_eq!(shop.store.peek(&shop.limit, "everybody").reset_after, 0);
}

#[test]
fn a_cost_that_never_fits_is_told_so() {
    let shop = Shop::with_queue();
    let Some(Err(NotAcquired::Refused(decision))) = poll(&mut shop.come(5, patient())) else { panic!("it waits") };
    assert_eq!(decision.verdict, Verdict::Impossible);
}

#[test]
fn jitter_makes_later_and_never_earlier() {
    let shop = Shop::with_queue();
    assert!(shop.check());
    let jittered = Wait { jitter: Duration::from_millis(50), ..patient() };
    let mut waiting = shop.come(1, jittered);
    assert!(poll(&mut waiting).is_none());
    shop.clock.advance(100 * MS - 1);
    assert!(!is_served(&mut waiting));
    shop.clock.advance(1 + 50 * MS);
    assert!(is_served(&mut waiting));
}

#[test]
fn windows_have_nothing_to_wait_for() {
    let shop = Shop::new(Quota::fixed_window("1/min".parse().unwrap()).unwrap());
    assert!(is_served(&mut shop.come(1, patient())));
    assert!(matches!(poll(&mut shop.come(1, patient())), Some(Err(NotAcquired::Refused(_)))));
}

/// What happens in a random shop.
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

/// How far the clock moves between two looks at who is served.
const STEP: u64 = 7 * MS;

struct Customer<'a> {
    arrived: u64,
    cost: u64,
    waiting: Option<Waiting<'a>>,
    departed: Option<u64>,
    cancelled: Option<u64>,
}

/// Walks through the events, and on until everybody is served.
fn run<'a>(shop: &'a Shop, events: &[Event]) -> Vec<Customer<'a>> {
    let mut customers: Vec<Customer<'a>> = Vec::new();
    for event in events.iter().chain([&Event::Pass { ns: 100_000 * MS }]) {
        let now = shop.clock.now_ns();
        match *event {
            Event::Arrive { cost } => {
                let mut waiting = shop.come(cost, patient());
                let (waiting, departed) = match poll(&mut waiting) {
                    None => (Some(waiting), None),
                    Some(Ok(_)) => (None, Some(now)),
                    Some(Err(_)) => continue,
                };
                customers.push(Customer { arrived: now, cost, waiting, departed, cancelled: None });
            }
            Event::Cancel { which } => {
                let mut line = customers.iter_mut().filter(|customer| customer.waiting.is_some());
                if let Some(customer) = line.nth(which) {
                    customer.waiting = None;
                    customer.cancelled = Some(now);
                }
            }
            Event::Pass { ns } => {
                while shop.clock.now_ns() + STEP < now + ns && customers.iter().any(|c| c.waiting.is_some()) {
                    shop.clock.advance(STEP);
                    serve(shop, &mut customers);
                }
                shop.clock.set(now + ns);
            }
        }
        serve(shop, &mut customers);
    }
    customers
}

fn serve(shop: &Shop, customers: &mut [Customer<'_>]) {
    for customer in customers {
        if customer.waiting.as_mut().is_some_and(is_served) {
            customer.waiting = None;
            customer.departed = Some(shop.clock.now_ns());
        }
    }
}

/// When would they have departed had the cancelled never come? A bucket of
/// `burst`, or a queue, in exact fractions of `1/rate` ns.
fn departures_without_the_cancelled(customers: &[Customer<'_>], burst: Option<u64>, rate: u64) -> Vec<Option<u64>> {
    const SECOND: u128 = 1_000_000_000;
    let mut full_at: u128 = 0;
    let mut latest_cancel_ahead = 0;
    let mut departures = Vec::new();
    for customer in customers {
        if let Some(cancelled) = customer.cancelled {
            latest_cancel_ahead = latest_cancel_ahead.max(cancelled);
            departures.push(None);
            continue;
        }
        let arrived = u128::from(customer.arrived) * u128::from(rate);
        let before = full_at.max(arrived);
        full_at = before + u128::from(customer.cost) * SECOND;
        let departure = match burst {
            Some(burst) => full_at.saturating_sub(u128::from(burst) * SECOND).max(arrived),
            None => before,
        };
        let departure = departure.div_ceil(u128::from(rate)) as u64;
        // Nobody moves up before the one ahead has cancelled.
        let gone = customer.departed.unwrap_or(0);
        departures.push(Some(departure.max(latest_cancel_ahead.min(gone))));
    }
    departures
}

fn assert_fair(customers: &[Customer<'_>], quota: &Quota, burst: Option<u64>, rate: u64) {
    let due = departures_without_the_cancelled(customers, burst, rate);
    let mut last = 0;
    for (customer, due) in customers.iter().zip(due) {
        let Some(due) = due else { continue };
        let departed = customer.departed.expect("everybody who stays is served");
        assert!(departed >= due, "departed {departed}, not before {due}");
        assert!(departed <= due + STEP, "departed {departed}, due at {due}");
        assert!(departed >= last, "first come, first served");
        last = departed;
    }
    let gone: Vec<_> = customers.iter().filter_map(|c| c.departed.map(|at| (at, c.cost))).collect();
    for (from, &(start, _)) in gone.iter().enumerate() {
        let mut sum = 0;
        for &(end, cost) in &gone[from..] {
            sum += cost;
            // Seen up to a step late, and a larger cost departs whole.
            let most = most_admitted(quota, end - start + 1 + STEP).unwrap();
            assert!(sum <= most + 2, "{sum} departed in {} ns, at most {most}", end - start);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn in_a_queue_everybody_who_stays_departs_as_if_the_cancelled_never_came(
        events in events(),
        rate in 3_u64..40,
    ) {
        let queue = Queue { size: 12, max_wait: None };
        let quota = Quota::leaky_queue(format!("{rate}/s").parse().unwrap(), queue).unwrap();
        let shop = Shop::new(quota);
        assert_fair(&run(&shop, &events), &quota, None, rate);
    }

    #[test]
    fn at_a_bucket_everybody_who_stays_departs_as_if_the_cancelled_never_came(
        events in events(),
        rate in 3_u64..40,
        burst in 3_u64..6,
    ) {
        let quota = Quota::token_bucket(format!("{rate}/s burst {burst}").parse().unwrap())
            .and_then(|quota| quota.with_reservations(Duration::from_secs(60)))
            .unwrap();
        let shop = Shop::new(quota);
        assert_fair(&run(&shop, &events), &quota, Some(burst), rate);
    }
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn on_tokio_tasks_wait_in_turn() {
    // Tokio's paused time moves by itself; the store's clock follows it.
    struct Paused(tokio::time::Instant);
    impl Clock for Paused {
        fn now_ns(&self) -> u64 {
            START + self.0.elapsed().as_nanos() as u64
        }
    }
    let store = MemoryStore::with(MemoryOptions::default(), Paused(tokio::time::Instant::now())).unwrap();
    let quota = Quota::leaky_queue("10/s".parse().unwrap(), Queue { size: 4, max_wait: None }).unwrap();
    let limit = store.limit("shop", quota).unwrap();
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
