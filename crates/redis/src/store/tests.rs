//! The store through its interface, over a transport that a test answers by hand.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bad_values;
mod callers;
mod deadlines;
mod joining;
mod many_keys;
mod operator;
mod stalls;
mod watching;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep};
use tollgate_core::{Decision, Quota, Verdict};
use tollgate_store::{
    Asked, Capacity, Charge, Limit, LimitOptions, MemoryOptions, OnFailure, Outcome, Refusals, Source, Store, WhenFull,
};

use super::{BreakerState, RedisStore, StoreEvent, StoreSettings};
use crate::call::{Call, Line};
use crate::sim::shard::Shard;
use crate::transport::{Cause, Done, Executed, Servers, ShardId, Slot, Transport, Trouble};

const NOW_US: u64 = 1_700_000_000_000_000;

/// Calls wait here until the test says what becomes of them.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Papers>>);

#[derive(Default)]
struct Papers {
    calls: Vec<(Slot, Call, Done)>,
    shard: Shard,
    shards: Vec<(ShardId, Slot)>,
}

impl Transport for Desk {
    fn send(&self, slot: Slot, call: Call, _: Instant, done: Done) {
        self.0.lock().unwrap().calls.push((slot, call, done));
    }

    fn slot(&self, tag: &[u8]) -> Slot {
        Slot(u16::from(tag[0]))
    }

    fn shard(&self, slot: Slot) -> ShardId {
        ShardId(u32::from(slot.0))
    }

    fn server(&self, shard: ShardId) -> Option<String> {
        Some(format!("host:{}", shard.0))
    }

    fn shards(&self) -> Vec<(ShardId, Slot)> {
        self.0.lock().unwrap().shards.clone()
    }

    fn servers(&self) -> Servers {
        Servers { all: vec!["host:0".to_owned()], unreached: Vec::new() }
    }
}

impl Desk {
    fn take(&self) -> (Call, Done) {
        let (_, call, done) = self.0.lock().unwrap().calls.remove(0);
        (call, done)
    }

    fn waiting(&self) -> usize {
        self.0.lock().unwrap().calls.len()
    }

    /// Carries out the first call, and answers it.
    async fn answer(&self) -> Call {
        let (call, done) = self.take();
        let reply = self.0.lock().unwrap().shard.execute(&call, NOW_US, &mut Vec::new());
        done.hear(Ok(reply));
        yield_now().await;
        call
    }

    async fn fail(&self, executed: Executed) {
        self.fail_by(Cause::Connection, executed).await;
    }

    async fn fail_by(&self, cause: Cause, executed: Executed) {
        self.take().1.hear(Err(Trouble { cause, executed }));
        yield_now().await;
    }
}

struct Fixture {
    desk: Desk,
    store: Arc<RedisStore>,
    events: Arc<Mutex<Vec<StoreEvent>>>,
}

fn fixture() -> Fixture {
    let (desk, events) = (Desk::default(), Arc::new(Mutex::new(Vec::new())));
    let fallback = MemoryOptions { capacity: Capacity::Entries(64), when_full: WhenFull::default() };
    let settings = StoreSettings { fallback, ..StoreSettings::default() };
    let heard = Arc::clone(&events);
    let on_change = Box::new(move |event| heard.lock().unwrap().push(event));
    let store = RedisStore::for_test(desk.clone(), settings, on_change, NOW_US * 1_000, None);
    Fixture { desk, store: Arc::new(store), events }
}

impl Fixture {
    /// Waits until something was sent, and no longer than for a minute that is not real.
    async fn until_asked(&self) {
        for _ in 0..60_000 {
            if self.desk.waiting() > 0 {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
        panic!("nothing was sent");
    }

    fn limit(&self, scope: &str, rate: &str, on_failure: OnFailure) -> Limit {
        let quota = Quota::fixed_window(rate.parse().unwrap()).unwrap();
        self.store.limit(scope, quota, LimitOptions { on_failure, refusals: Refusals::Final }).unwrap()
    }

    /// Asks in the background, and lets it come as far as it can.
    async fn ask(&self, charges: &[(&Limit, &'static str, u64)]) -> JoinHandle<Outcome> {
        let store = Arc::clone(&self.store);
        let charges: Vec<(Limit, &'static str, u64)> =
            charges.iter().map(|(limit, key, cost)| ((*limit).clone(), *key, *cost)).collect();
        let asking = tokio::spawn(async move {
            let keyed = |(limit, key, cost): &'_ (Limit, &'static str, u64)| (limit.clone(), *key, *cost);
            let owned: Vec<_> = charges.iter().map(keyed).collect();
            let charges: Vec<Charge<'_>> = owned
                .iter()
                .map(|(limit, key, cost)| Charge { receipt: true, ..Charge::new(limit, key.as_bytes(), *cost) })
                .collect();
            store.decide(&charges).await
        });
        yield_now().await;
        asking
    }
}

fn remaining(outcome: &Outcome) -> Vec<u64> {
    outcome.decisions.iter().map(|decision| decision.remaining).collect()
}

#[tokio::test(start_paused = true)]
async fn one_slot_is_one_call() {
    let fixture = fixture();
    let (a, b) = (fixture.limit("a", "5/min", OnFailure::Closed), fixture.limit("b", "9/min", OnFailure::Closed));
    let asking = fixture.ask(&[(&a, "alice", 1), (&b, "alice|x", 2)]).await;
    assert_eq!(fixture.desk.waiting(), 1);
    fixture.desk.answer().await;
    let outcome = asking.await.unwrap();
    assert!(outcome.passed);
    assert_eq!((outcome.source, &outcome.asked), (Source::Exact, &Asked::All));
    assert_eq!(remaining(&outcome), [4, 7]);
    assert_eq!(outcome.receipts.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
    // 1,700,000,000 s lie 20 s after a full minute.
    assert_eq!(outcome.decisions[0].reset_after, 40_000_000_000);
    assert_eq!(fixture.store.now_ns(), NOW_US * 1_000);
}

#[tokio::test(start_paused = true)]
async fn what_one_slot_charged_is_given_back_where_another_refuses() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Closed);
    let first = fixture.ask(&[(&limit, "bob", 1)]).await;
    fixture.desk.answer().await;
    assert!(first.await.unwrap().passed);
    let both = fixture.ask(&[(&limit, "alice", 1), (&limit, "bob", 1)]).await;
    assert_eq!(fixture.desk.waiting(), 2);
    fixture.desk.answer().await;
    fixture.desk.answer().await;
    let outcome = both.await.unwrap();
    assert!(!outcome.passed && outcome.receipts.is_empty());
    // Alice's was not made after all: all remains.
    assert!(outcome.decisions[0].is_allowed());
    assert_eq!(remaining(&outcome), [1, 0]);
    let refund = fixture.desk.answer().await;
    assert!(matches!(&refund.lines[..], [Line::GiveBack { amount: 1, .. }]));
    let again = fixture.ask(&[(&limit, "alice", 1)]).await;
    fixture.desk.answer().await;
    assert!(again.await.unwrap().passed);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_known_until_it_ends_or_something_is_given_back() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Closed);
    let first = fixture.ask(&[(&limit, "bob", 1)]).await;
    fixture.desk.answer().await;
    let mut first = first.await.unwrap();
    let second = fixture.ask(&[(&limit, "bob", 1)]).await;
    fixture.desk.answer().await;
    assert_eq!(second.await.unwrap().source, Source::Exact);
    sleep(Duration::from_secs(1)).await;
    let known = fixture.ask(&[(&limit, "bob", 1)]).await.await.unwrap();
    assert_eq!((known.passed, known.source), (false, Source::Cached));
    assert_eq!((known.decisions[0].retry_after(), known.asked), (Some(39_000_000_000), Asked::All));
    let never = fixture.ask(&[(&limit, "bob", 2)]).await.await.unwrap();
    assert_eq!((never.decisions[0].verdict, never.source), (Verdict::Impossible, Source::Cached));
    assert_eq!(fixture.desk.waiting(), 0);
    // How much others have left of theirs is not known.
    let both = fixture.ask(&[(&limit, "carol", 1), (&limit, "bob", 1)]).await;
    assert_eq!(fixture.desk.waiting(), 2);
    fixture.desk.answer().await;
    fixture.desk.answer().await;
    assert_eq!(both.await.unwrap().source, Source::Exact);
    fixture.desk.answer().await;
    fixture.store.give_back(first.receipts.remove(0).1);
    let asked = fixture.ask(&[(&limit, "bob", 1)]).await;
    assert_eq!(fixture.desk.waiting(), 2);
    fixture.desk.answer().await;
    fixture.desk.answer().await;
    assert!(asked.await.unwrap().passed);
    assert_eq!(fixture.store.stats().cached_refusals, 2);
}

#[tokio::test(start_paused = true)]
async fn questions_alike_travel_together_and_are_answered_in_order() {
    let fixture = fixture();
    let limit = fixture.limit("a", "3/min", OnFailure::Closed);
    let mut asking = Vec::new();
    for _ in 0..5 {
        asking.push(fixture.ask(&[(&limit, "bob", 1)]).await);
    }
    assert_eq!(fixture.desk.waiting(), 1);
    fixture.desk.answer().await;
    assert_eq!(fixture.desk.waiting(), 1);
    let together = fixture.desk.answer().await;
    assert!(matches!(&together.lines[..], [Line::Decide { times: 4, .. }]));
    let mut answers = Vec::new();
    for asking in asking {
        let outcome = asking.await.unwrap();
        answers.push((outcome.passed, outcome.decisions[0].remaining));
    }
    assert_eq!(answers, [(true, 2), (true, 1), (true, 0), (false, 0), (false, 0)]);
    assert_eq!(fixture.store.stats().joined, 3);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_is_not_charged() {
    let fixture = fixture();
    let limit = fixture.limit("a", "3/min", OnFailure::Closed);
    let under_way = fixture.ask(&[(&limit, "bob", 1)]).await;
    let waiting = fixture.ask(&[(&limit, "bob", 1)]).await;
    under_way.abort();
    waiting.abort();
    yield_now().await;
    fixture.desk.answer().await;
    // The one that was under way is given back; the one that waited never goes.
    assert_eq!(fixture.desk.waiting(), 1);
    assert!(matches!(&fixture.desk.answer().await.lines[..], [Line::GiveBack { .. }]));
    assert_eq!(fixture.desk.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_limit_does_its_own_when_the_store_fails() {
    let fixture = fixture();
    let open = fixture.limit("open", "5/min", OnFailure::Open);
    let closed = fixture.limit("closed", "5/min", OnFailure::Closed);
    let local = fixture.limit("local", "4/min", OnFailure::Local { share: (1, 2) });
    let began = Instant::now();
    let outcome = fixture.ask(&[(&open, "bob", 1), (&local, "bob", 2)]).await.await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(20));
    assert_eq!((outcome.passed, outcome.source), (true, Source::Fallback));
    let uncounted =
        Decision { verdict: Verdict::Allowed { delay: 0 }, limit: 5, remaining: 0, next_after: 0, reset_after: 0 };
    assert_eq!(outcome.decisions[0], uncounted);
    assert_eq!((outcome.decisions[1].limit, outcome.decisions[1].remaining), (2, 0));
    let refused = fixture.ask(&[(&local, "bob", 1)]).await.await.unwrap();
    assert_eq!((refused.passed, refused.source), (false, Source::Fallback));
    let trouble = fixture.ask(&[(&closed, "bob", 1), (&open, "bob", 1)]).await.await.unwrap();
    assert_eq!((trouble.passed, trouble.decisions[0].verdict), (false, Verdict::NoRoom));
    assert_eq!(trouble.asked, Asked::Only(smallvec::smallvec![0]));
}

#[tokio::test(start_paused = true)]
async fn what_passed_uncounted_is_charged_once() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Local { share: (1, 2) });
    let asking = fixture.ask(&[(&limit, "bob", 3)]).await;
    fixture.desk.fail(Executed::No).await;
    assert_eq!(asking.await.unwrap().source, Source::Fallback);
    // Certainly not carried out: it is still owed.
    let asking = fixture.ask(&[(&limit, "bob", 0)]).await;
    fixture.desk.fail(Executed::No).await;
    asking.await.unwrap();
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    let call = fixture.desk.answer().await;
    assert!(matches!(&call.lines[..], [Line::Force { cost: 3, .. }, Line::Decide { .. }]));
    assert_eq!(remaining(&asking.await.unwrap()), [5]);
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    assert_eq!(fixture.desk.answer().await.lines.len(), 1);
    asking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_passed_uncounted_is_charged_at_its_true_cost() {
    for on_failure in [OnFailure::Open, OnFailure::Local { share: (1, 2) }] {
        let fixture = fixture();
        let limit = fixture.limit("a", "20/min", on_failure);
        let asking = fixture.ask(&[(&limit, "bob", 3)]).await;
        fixture.desk.fail(Executed::No).await;
        let receipt = asking.await.unwrap().receipts.remove(0).1;
        fixture.store.settle(receipt, 7).await;
        let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
        let call = fixture.desk.answer().await;
        assert!(matches!(&call.lines[..], [Line::Force { cost: 7, .. }, Line::Decide { .. }]), "{call:?}");
        assert_eq!(remaining(&asking.await.unwrap()), [12]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_debt_in_doubt_is_not_paid_again() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Open);
    let asking = fixture.ask(&[(&limit, "bob", 3)]).await;
    fixture.desk.fail(Executed::No).await;
    asking.await.unwrap();
    let asking = fixture.ask(&[(&limit, "bob", 0)]).await;
    fixture.desk.fail(Executed::Unknown).await;
    asking.await.unwrap();
    let asking = fixture.ask(&[(&limit, "bob", 0)]).await;
    assert_eq!(fixture.desk.answer().await.lines.len(), 1);
    asking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_cause_is_told_once_it_lasts() {
    let fixture = fixture();
    let limit = fixture.limit("a", "99/min", OnFailure::Open);
    for _ in 0..5 {
        let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
        fixture.desk.fail(Executed::No).await;
        asking.await.unwrap();
    }
    use Cause::{Authentication, Connection, Timeout};
    for cause in [Connection, Timeout, Connection, Authentication, Authentication, Authentication] {
        fixture.until_asked().await;
        fixture.desk.fail_by(cause, Executed::No).await;
    }
    let events = fixture.events.lock().unwrap().clone();
    let changed = StoreEvent::CauseChanged { server: "host:98".to_owned(), cause: "authentication" };
    assert_eq!(events[1..], [changed], "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn it_tells_what_it_found_at_the_start() {
    let fixture = fixture();
    let servers = || vec!["host:0".to_owned()];
    fixture.store.inner.tell_beginning();
    sleep(Duration::from_millis(10)).await;
    fixture.desk.answer().await;
    assert_eq!(*fixture.events.lock().unwrap(), [StoreEvent::Reached { servers: servers() }]);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.desk.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn it_tells_that_nobody_answers_and_when_somebody_does() {
    let fixture = fixture();
    fixture.store.inner.tell_beginning();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(10)).await;
        if fixture.desk.waiting() > 0 {
            fixture.desk.fail_by(Cause::Authentication, Executed::No).await;
        }
    }
    let servers = || vec!["host:0".to_owned()];
    let unreached = StoreEvent::Unreached { servers: servers(), cause: "authentication" };
    assert_eq!(*fixture.events.lock().unwrap(), [unreached]);
    fixture.until_asked().await;
    fixture.desk.answer().await;
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&StoreEvent::Reached { servers: servers() }));
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_fails_is_left_alone_and_probed_until_it_answers() {
    let fixture = fixture();
    let limit = fixture.limit("a", "99/min", OnFailure::Open);
    for _ in 0..5 {
        let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
        fixture.desk.fail(Executed::No).await;
        assert_eq!(asking.await.unwrap().source, Source::Fallback);
    }
    let shard = u32::from(b'b');
    let server = || "host:98".to_owned();
    assert_eq!(*fixture.events.lock().unwrap(), [StoreEvent::BreakerOpened { server: server(), cause: "connection" }]);
    assert_eq!(fixture.store.stats().breakers, [(shard, BreakerState::Open)]);
    fixture.ask(&[(&limit, "bob", 1)]).await.await.unwrap();
    assert_eq!(fixture.desk.waiting(), 0);
    sleep(Duration::from_millis(130)).await;
    let (probe, done) = fixture.desk.take();
    assert!(probe.lines.is_empty());
    done.hear(Ok(crate::call::Reply { now: NOW_US, answers: smallvec::SmallVec::new() }));
    yield_now().await;
    for _ in 0..3 {
        let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
        fixture.desk.answer().await;
        assert_eq!(asking.await.unwrap().source, Source::Exact);
    }
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&StoreEvent::BreakerClosed { server: server() }));
    assert_eq!((fixture.store.stats().breakers_opened, fixture.store.stats().breakers_closed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_permit_has_a_lease_and_is_lost_with_it() {
    let fixture = fixture();
    let quota = Quota::concurrency(2, None).unwrap();
    let limit = fixture.store.limit("jobs", quota, LimitOptions::default()).unwrap();
    assert_eq!(limit.quota().period_ns(), 60_000_000_000);
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    fixture.desk.answer().await;
    let mut outcome = asking.await.unwrap();
    let permit = outcome.receipts.remove(0).1;
    assert!(fixture.store.renew(&permit));
    fixture.desk.answer().await;
    assert!(fixture.store.renew(&permit));
    // The server has forgotten everything.
    fixture.desk.0.lock().unwrap().shard = Shard::default();
    fixture.desk.answer().await;
    assert!(!fixture.store.renew(&permit));
    assert_eq!(fixture.desk.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_is_sent_again_only_where_it_did_not_arrive() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Open);
    let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
    fixture.desk.answer().await;
    fixture.store.give_back(asking.await.unwrap().receipts.remove(0).1);
    fixture.desk.fail(Executed::No).await;
    assert_eq!(fixture.desk.waiting(), 0);
    sleep(Duration::from_millis(51)).await;
    assert_eq!(fixture.desk.waiting(), 1);
    fixture.desk.fail(Executed::Unknown).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.desk.waiting(), 0);
    assert_eq!((fixture.store.stats().refunds, fixture.store.stats().lost_refunds), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn settling_says_what_did_not_fit_or_nothing_in_doubt() {
    let fixture = fixture();
    let limit = fixture.limit("a", "3/min", OnFailure::Open);
    let mut receipts = Vec::new();
    for _ in 0..2 {
        let asking = fixture.ask(&[(&limit, "bob", 1)]).await;
        fixture.desk.answer().await;
        receipts.push(asking.await.unwrap().receipts.remove(0).1);
    }
    let (store, receipt) = (Arc::clone(&fixture.store), receipts.remove(0));
    // Of the 8 more, 1 fits and 3 may be owed.
    let settling = tokio::spawn(async move { store.settle(receipt, 9).await });
    yield_now().await;
    fixture.desk.answer().await;
    assert_eq!(settling.await.unwrap().overrun, 4);
    let began = Instant::now();
    assert_eq!(fixture.store.settle(receipts.remove(0), 5).await.overrun, 0);
    assert_eq!(began.elapsed(), Duration::from_millis(20));
}
