//! Tests of the store through its interface, over a transport whose replies the tests control.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bad_values;
mod callers;
mod deadlines;
mod health_checks;
mod joining;
mod leased;
mod many_keys;
mod operator;
mod stalls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep};
use tollgate_core::{ChargeVerdict, Decision, Quota};
use tollgate_store::{
    Capacity, Charge, DecidedCharges, Limit, LimitOptions, MemoryOptions, OnFailure, Outcome, Refusals, Source, Store,
    WhenFull,
};

use super::{BreakerState, RedisStore, RedisStoreSettings, StoreEvent};
use crate::call::{Call, ScriptOp};
use crate::sim::shard::Shard;
use crate::transport::{CallError, Cause, Done, Executed, Servers, ShardId, Slot, Transport};

const NOW_US: u64 = 1_700_000_000_000_000;

/// Queues calls until the test replies to them or fails them.
#[derive(Clone, Default)]
struct ManualTransport(Arc<Mutex<ManualTransportState>>);

#[derive(Default)]
struct ManualTransportState {
    calls: Vec<(Slot, Call, Done)>,
    shard: Shard,
    shards: Vec<(ShardId, Slot)>,
}

impl Transport for ManualTransport {
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
        Servers { all: vec!["host:0".to_owned()], unreachable: Vec::new() }
    }
}

impl ManualTransport {
    fn take(&self) -> (Call, Done) {
        let (_, call, done) = self.0.lock().unwrap().calls.remove(0);
        (call, done)
    }

    fn waiting(&self) -> usize {
        self.0.lock().unwrap().calls.len()
    }

    /// Executes the first call, and replies to it.
    async fn reply(&self) -> Call {
        let (call, done) = self.take();
        let reply = self.0.lock().unwrap().shard.execute(&call, NOW_US, &mut Vec::new());
        done.complete(Ok(reply));
        yield_now().await;
        call
    }

    async fn fail(&self, executed: Executed) {
        self.fail_by(Cause::Connection, executed).await;
    }

    async fn fail_by(&self, cause: Cause, executed: Executed) {
        self.take().1.complete(Err(CallError { cause, executed }));
        yield_now().await;
    }
}

struct Fixture {
    transport: ManualTransport,
    store: Arc<RedisStore>,
    events: Arc<Mutex<Vec<StoreEvent>>>,
}

fn fixture() -> Fixture {
    let (transport, events) = (ManualTransport::default(), Arc::new(Mutex::new(Vec::new())));
    let fallback = MemoryOptions { capacity: Capacity::Entries(64), when_full: WhenFull::default() };
    let settings = RedisStoreSettings { fallback, ..RedisStoreSettings::default() };
    let recorded = Arc::clone(&events);
    let on_event = Box::new(move |event| recorded.lock().unwrap().push(event));
    let store = RedisStore::for_test(transport.clone(), settings, on_event, NOW_US * 1_000, None);
    Fixture { transport, store: Arc::new(store), events }
}

impl Fixture {
    /// Waits until a call was sent, for at most a minute of virtual time.
    async fn until_sent(&self) {
        for _ in 0..60_000 {
            if self.transport.waiting() > 0 {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
        panic!("nothing was sent");
    }

    fn limit(&self, scope: &str, rate: &str, on_failure: OnFailure) -> Limit {
        let quota = Quota::fixed_window(rate.parse().unwrap()).unwrap();
        self.store
            .limit(scope, quota, LimitOptions { on_failure, refusals: Refusals::Final, lease: None, regional: false })
            .unwrap()
    }

    /// Starts a check in the background, and lets it run until it waits.
    async fn check(&self, charges: &[(&Limit, &'static str, u64)]) -> JoinHandle<Outcome> {
        let store = Arc::clone(&self.store);
        let charges: Vec<(Limit, &'static str, u64)> =
            charges.iter().map(|(limit, key, cost)| ((*limit).clone(), *key, *cost)).collect();
        let check = tokio::spawn(async move {
            let keyed = |(limit, key, cost): &'_ (Limit, &'static str, u64)| (limit.clone(), *key, *cost);
            let owned: Vec<_> = charges.iter().map(keyed).collect();
            let charges: Vec<Charge<'_>> = owned
                .iter()
                .map(|(limit, key, cost)| Charge { receipt: true, ..Charge::new(limit, key.as_bytes(), *cost) })
                .collect();
            store.check_all(&charges).await
        });
        yield_now().await;
        check
    }
}

fn remaining(outcome: &Outcome) -> Vec<u64> {
    outcome.decisions.iter().map(|decision| decision.remaining).collect()
}

#[tokio::test(start_paused = true)]
async fn charges_of_one_slot_share_one_call() {
    let fixture = fixture();
    let (a, b) = (fixture.limit("a", "5/min", OnFailure::Closed), fixture.limit("b", "9/min", OnFailure::Closed));
    let check = fixture.check(&[(&a, "alice", 1), (&b, "alice|x", 2)]).await;
    assert_eq!(fixture.transport.waiting(), 1);
    fixture.transport.reply().await;
    let outcome = check.await.unwrap();
    assert!(outcome.passed);
    assert_eq!((outcome.source, &outcome.decided), (Source::Exact, &DecidedCharges::All));
    assert_eq!(remaining(&outcome), [4, 7]);
    assert_eq!(outcome.receipts.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
    // 1,700,000,000 s lie 20 s after a full minute.
    assert_eq!(outcome.decisions[0].reset_after, 40_000_000_000);
    assert_eq!(fixture.store.now_ns(), NOW_US * 1_000);
}

#[tokio::test(start_paused = true)]
async fn charges_of_one_slot_are_refunded_if_another_slot_refuses() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Closed);
    let first = fixture.check(&[(&limit, "bob", 1)]).await;
    fixture.transport.reply().await;
    assert!(first.await.unwrap().passed);
    let both = fixture.check(&[(&limit, "alice", 1), (&limit, "bob", 1)]).await;
    assert_eq!(fixture.transport.waiting(), 2);
    fixture.transport.reply().await;
    fixture.transport.reply().await;
    let outcome = both.await.unwrap();
    assert!(!outcome.passed && outcome.receipts.is_empty());
    // The charge to alice was not made after all, so everything remains.
    assert!(outcome.decisions[0].is_allowed());
    assert_eq!(remaining(&outcome), [1, 0]);
    let refund = fixture.transport.reply().await;
    assert!(matches!(&refund.ops[..], [ScriptOp::Refund { amount: 1, .. }]));
    let again = fixture.check(&[(&limit, "alice", 1)]).await;
    fixture.transport.reply().await;
    assert!(again.await.unwrap().passed);
}

#[tokio::test(start_paused = true)]
async fn refusal_is_cached_until_it_expires_or_a_refund() {
    let fixture = fixture();
    let limit = fixture.limit("a", "1/min", OnFailure::Closed);
    let first = fixture.check(&[(&limit, "bob", 1)]).await;
    fixture.transport.reply().await;
    let mut first = first.await.unwrap();
    let second = fixture.check(&[(&limit, "bob", 1)]).await;
    fixture.transport.reply().await;
    assert_eq!(second.await.unwrap().source, Source::Exact);
    sleep(Duration::from_secs(1)).await;
    let known = fixture.check(&[(&limit, "bob", 1)]).await.await.unwrap();
    assert_eq!((known.passed, known.source), (false, Source::Cached));
    assert_eq!((known.decisions[0].retry_after(), known.decided), (Some(39_000_000_000), DecidedCharges::All));
    let never = fixture.check(&[(&limit, "bob", 2)]).await.await.unwrap();
    assert_eq!((never.decisions[0].verdict, never.source), (ChargeVerdict::Impossible, Source::Cached));
    assert_eq!(fixture.transport.waiting(), 0);
    // The state of another key is not known.
    let both = fixture.check(&[(&limit, "carol", 1), (&limit, "bob", 1)]).await;
    assert_eq!(fixture.transport.waiting(), 2);
    fixture.transport.reply().await;
    fixture.transport.reply().await;
    assert_eq!(both.await.unwrap().source, Source::Exact);
    fixture.transport.reply().await;
    fixture.store.refund(first.receipts.remove(0).1);
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    assert_eq!(fixture.transport.waiting(), 2);
    fixture.transport.reply().await;
    fixture.transport.reply().await;
    assert!(check.await.unwrap().passed);
    assert_eq!(fixture.store.stats().cached_refusals, 2);
}

#[tokio::test(start_paused = true)]
async fn equal_checks_share_one_call_and_are_answered_in_order() {
    let fixture = fixture();
    let limit = fixture.limit("a", "3/min", OnFailure::Closed);
    let mut check = Vec::new();
    for _ in 0..5 {
        check.push(fixture.check(&[(&limit, "bob", 1)]).await);
    }
    assert_eq!(fixture.transport.waiting(), 1);
    fixture.transport.reply().await;
    assert_eq!(fixture.transport.waiting(), 1);
    let together = fixture.transport.reply().await;
    assert!(matches!(&together.ops[..], [ScriptOp::Decide { times: 4, .. }]));
    let mut answers = Vec::new();
    for check in check {
        let outcome = check.await.unwrap();
        answers.push((outcome.passed, outcome.decisions[0].remaining));
    }
    assert_eq!(answers, [(true, 2), (true, 1), (true, 0), (false, 0), (false, 0)]);
    assert_eq!(fixture.store.stats().joined, 3);
}

#[tokio::test(start_paused = true)]
async fn dropped_checks_are_not_charged() {
    let fixture = fixture();
    let limit = fixture.limit("a", "3/min", OnFailure::Closed);
    let in_flight = fixture.check(&[(&limit, "bob", 1)]).await;
    let waiting = fixture.check(&[(&limit, "bob", 1)]).await;
    in_flight.abort();
    waiting.abort();
    yield_now().await;
    fixture.transport.reply().await;
    // The check in flight is refunded; the waiting one is never sent.
    assert_eq!(fixture.transport.waiting(), 1);
    assert!(matches!(&fixture.transport.reply().await.ops[..], [ScriptOp::Refund { .. }]));
    assert_eq!(fixture.transport.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_limit_applies_its_failure_mode() {
    let fixture = fixture();
    let open = fixture.limit("open", "5/min", OnFailure::Open);
    let closed = fixture.limit("closed", "5/min", OnFailure::Closed);
    let local = fixture.limit("local", "4/min", OnFailure::Local { share: (1, 2) });
    let began = Instant::now();
    let outcome = fixture.check(&[(&open, "bob", 1), (&local, "bob", 2)]).await.await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(20));
    assert_eq!((outcome.passed, outcome.source), (true, Source::Fallback));
    let uncounted = Decision {
        verdict: ChargeVerdict::Allowed { delay: 0 },
        limit: 5,
        remaining: 0,
        next_after: 0,
        reset_after: 0,
    };
    assert_eq!(outcome.decisions[0], uncounted);
    assert_eq!((outcome.decisions[1].limit, outcome.decisions[1].remaining), (2, 0));
    let refused = fixture.check(&[(&local, "bob", 1)]).await.await.unwrap();
    assert_eq!((refused.passed, refused.source), (false, Source::Fallback));
    let failed = fixture.check(&[(&closed, "bob", 1), (&open, "bob", 1)]).await.await.unwrap();
    assert_eq!((failed.passed, failed.decisions[0].verdict), (false, ChargeVerdict::Unavailable));
    assert_eq!(failed.decided, DecidedCharges::Only(smallvec::smallvec![0]));
}

#[tokio::test(start_paused = true)]
async fn debt_is_charged_once() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Local { share: (1, 2) });
    let check = fixture.check(&[(&limit, "bob", 3)]).await;
    fixture.transport.fail(Executed::No).await;
    assert_eq!(check.await.unwrap().source, Source::Fallback);
    // Certainly not executed, so the debt remains.
    let check = fixture.check(&[(&limit, "bob", 0)]).await;
    fixture.transport.fail(Executed::No).await;
    check.await.unwrap();
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    let call = fixture.transport.reply().await;
    assert!(matches!(&call.ops[..], [ScriptOp::Force { cost: 3, .. }, ScriptOp::Decide { .. }]));
    assert_eq!(remaining(&check.await.unwrap()), [5]);
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    assert_eq!(fixture.transport.reply().await.ops.len(), 1);
    check.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn debt_is_charged_at_its_true_cost() {
    for on_failure in [OnFailure::Open, OnFailure::Local { share: (1, 2) }] {
        let fixture = fixture();
        let limit = fixture.limit("a", "20/min", on_failure);
        let check = fixture.check(&[(&limit, "bob", 3)]).await;
        fixture.transport.fail(Executed::No).await;
        let receipt = check.await.unwrap().receipts.remove(0).1;
        fixture.store.settle(receipt, 7).await;
        let check = fixture.check(&[(&limit, "bob", 1)]).await;
        let call = fixture.transport.reply().await;
        assert!(matches!(&call.ops[..], [ScriptOp::Force { cost: 7, .. }, ScriptOp::Decide { .. }]), "{call:?}");
        assert_eq!(remaining(&check.await.unwrap()), [12]);
    }
}

#[tokio::test(start_paused = true)]
async fn debt_with_an_unknown_outcome_is_not_paid_again() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Open);
    let check = fixture.check(&[(&limit, "bob", 3)]).await;
    fixture.transport.fail(Executed::No).await;
    check.await.unwrap();
    let check = fixture.check(&[(&limit, "bob", 0)]).await;
    fixture.transport.fail(Executed::Unknown).await;
    check.await.unwrap();
    let check = fixture.check(&[(&limit, "bob", 0)]).await;
    assert_eq!(fixture.transport.reply().await.ops.len(), 1);
    check.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn new_cause_is_reported_when_it_repeats() {
    let fixture = fixture();
    let limit = fixture.limit("a", "99/min", OnFailure::Open);
    for _ in 0..5 {
        let check = fixture.check(&[(&limit, "bob", 1)]).await;
        fixture.transport.fail(Executed::No).await;
        check.await.unwrap();
    }
    use Cause::{Authentication, Connection, Timeout};
    for cause in [Connection, Timeout, Connection, Authentication, Authentication, Authentication] {
        fixture.until_sent().await;
        fixture.transport.fail_by(cause, Executed::No).await;
    }
    let events = fixture.events.lock().unwrap().clone();
    let changed = StoreEvent::CauseChanged { server: "host:98".to_owned(), cause: "authentication" };
    assert_eq!(events[1..], [changed], "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn reachable_servers_are_reported_at_the_start() {
    let fixture = fixture();
    let servers = || vec!["host:0".to_owned()];
    fixture.store.inner.report_first_contact();
    sleep(Duration::from_millis(10)).await;
    fixture.transport.reply().await;
    assert_eq!(*fixture.events.lock().unwrap(), [StoreEvent::Reached { servers: servers() }]);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.transport.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn unreachable_servers_are_reported_and_their_recovery() {
    let fixture = fixture();
    fixture.store.inner.report_first_contact();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(10)).await;
        if fixture.transport.waiting() > 0 {
            fixture.transport.fail_by(Cause::Authentication, Executed::No).await;
        }
    }
    let servers = || vec!["host:0".to_owned()];
    let unreachable = StoreEvent::Unreached { servers: servers(), cause: "authentication" };
    assert_eq!(*fixture.events.lock().unwrap(), [unreachable]);
    fixture.until_sent().await;
    fixture.transport.reply().await;
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&StoreEvent::Reached { servers: servers() }));
}

#[tokio::test(start_paused = true)]
async fn failing_shard_gets_only_probes_until_it_replies() {
    let fixture = fixture();
    let limit = fixture.limit("a", "99/min", OnFailure::Open);
    for _ in 0..5 {
        let check = fixture.check(&[(&limit, "bob", 1)]).await;
        fixture.transport.fail(Executed::No).await;
        assert_eq!(check.await.unwrap().source, Source::Fallback);
    }
    let shard = u32::from(b'b');
    let server = || "host:98".to_owned();
    assert_eq!(*fixture.events.lock().unwrap(), [StoreEvent::BreakerOpened { server: server(), cause: "connection" }]);
    assert_eq!(fixture.store.stats().breakers, [(shard, BreakerState::Open)]);
    fixture.check(&[(&limit, "bob", 1)]).await.await.unwrap();
    assert_eq!(fixture.transport.waiting(), 0);
    sleep(Duration::from_millis(130)).await;
    let (probe, done) = fixture.transport.take();
    assert!(probe.ops.is_empty());
    done.complete(Ok(crate::call::ScriptReply { now: NOW_US, answers: smallvec::SmallVec::new() }));
    yield_now().await;
    for _ in 0..3 {
        let check = fixture.check(&[(&limit, "bob", 1)]).await;
        fixture.transport.reply().await;
        assert_eq!(check.await.unwrap().source, Source::Exact);
    }
    assert_eq!(fixture.events.lock().unwrap().last(), Some(&StoreEvent::BreakerClosed { server: server() }));
    assert_eq!((fixture.store.stats().breakers_opened, fixture.store.stats().breakers_closed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn permit_has_a_default_lease_and_is_lost_with_it() {
    let fixture = fixture();
    let quota = Quota::concurrency(2, None).unwrap();
    let limit = fixture.store.limit("jobs", quota, LimitOptions::default()).unwrap();
    assert_eq!(limit.quota().period_ns(), 60_000_000_000);
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    fixture.transport.reply().await;
    let mut outcome = check.await.unwrap();
    let permit = outcome.receipts.remove(0).1;
    assert!(fixture.store.renew(&permit));
    fixture.transport.reply().await;
    assert!(fixture.store.renew(&permit));
    // The server has lost its data.
    fixture.transport.0.lock().unwrap().shard = Shard::default();
    fixture.transport.reply().await;
    assert!(!fixture.store.renew(&permit));
    assert_eq!(fixture.transport.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn refund_is_resent_only_if_it_was_not_executed() {
    let fixture = fixture();
    let limit = fixture.limit("a", "9/min", OnFailure::Open);
    let check = fixture.check(&[(&limit, "bob", 1)]).await;
    fixture.transport.reply().await;
    fixture.store.refund(check.await.unwrap().receipts.remove(0).1);
    fixture.transport.fail(Executed::No).await;
    assert_eq!(fixture.transport.waiting(), 0);
    sleep(Duration::from_millis(51)).await;
    assert_eq!(fixture.transport.waiting(), 1);
    fixture.transport.fail(Executed::Unknown).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.transport.waiting(), 0);
    assert_eq!((fixture.store.stats().refunds, fixture.store.stats().lost_refunds), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn settling_returns_the_overrun_or_zero_without_a_reply() {
    let fixture = fixture();
    let limit = fixture.limit("a", "3/min", OnFailure::Open);
    let mut receipts = Vec::new();
    for _ in 0..2 {
        let check = fixture.check(&[(&limit, "bob", 1)]).await;
        fixture.transport.reply().await;
        receipts.push(check.await.unwrap().receipts.remove(0).1);
    }
    let (store, receipt) = (Arc::clone(&fixture.store), receipts.remove(0));
    // Of the additional 8, 1 fits and 3 become debt.
    let settling = tokio::spawn(async move { store.settle(receipt, 9).await });
    yield_now().await;
    fixture.transport.reply().await;
    assert_eq!(settling.await.unwrap().overrun, 4);
    let began = Instant::now();
    assert_eq!(fixture.store.settle(receipts.remove(0), 5).await.overrun, 0);
    assert_eq!(began.elapsed(), Duration::from_millis(20));
}
