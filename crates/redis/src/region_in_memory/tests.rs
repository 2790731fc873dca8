//! The store as its callers see it, with a global server in this process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{AlgorithmKind, Quota};
use tollgate_store::{
    BoxFuture, Charge, ChargeMode, Limit, LimitOptions, OnFailure, Outcome, Refusals, Source, Store, StoreAdmin,
};

use smallvec::smallvec;

use super::RegionalMemoryStore;
use super::limit::DividedLimit;
use crate::call::RefillSchedule;
use crate::regions::{Exchange, ExchangeServer, HashOp, HashReply, HashServer, RegionSettings};
use crate::wire::RedisOptions;

/// A server that all regions share.
#[derive(Default)]
struct GlobalServer(Mutex<HashServer>);

impl Exchange for GlobalServer {
    fn run(&self, server: ExchangeServer, name: String, op: HashOp) -> BoxFuture<'_, Option<(u64, HashReply)>> {
        assert_eq!(server, ExchangeServer::Global);
        Box::pin(async move {
            // The time of the runtime, since 1970.
            let now_us = 1_800_000_000_000_000 + (Instant::now() - *STARTED).as_micros() as u64;
            Some((now_us, self.0.lock().unwrap().run(&name, op, now_us)))
        })
    }
}

/// A global server that does not answer.
struct Unreachable;

impl Exchange for Unreachable {
    fn run(&self, _: ExchangeServer, _: String, _: HashOp) -> BoxFuture<'_, Option<(u64, HashReply)>> {
        Box::pin(std::future::pending())
    }
}

static STARTED: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

const EPOCH: Duration = Duration::from_secs(1);

fn region(name: &str, global: Arc<dyn Exchange>) -> RegionalMemoryStore {
    let settings = RegionSettings {
        region: name.to_owned(),
        weights: [("eu", 50), ("us", 30), ("ap", 20)].map(|(name, weight)| (name.to_owned(), weight)).to_vec(),
        epoch: EPOCH,
        prefix: "g:".to_owned(),
        global: RedisOptions::standalone("127.0.0.1:1"),
    };
    RegionalMemoryStore::for_test(global, settings, 7, None)
}

/// The region `us`, with 30 % of each limit, once it enforces its share.
async fn us() -> RegionalMemoryStore {
    let store = region("us", Arc::new(GlobalServer::default()));
    sleep(3 * EPOCH).await;
    assert_eq!(store.region_status().share, Some(300));
    store
}

fn quota(text: &str) -> Quota {
    Quota::token_bucket(text.parse().unwrap()).unwrap()
}

fn options(on_failure: OnFailure, regional: bool) -> LimitOptions {
    LimitOptions { on_failure, refusals: Refusals::Brief, lease: None, regional }
}

fn divided(store: &RegionalMemoryStore, scope: &str, limit: &str) -> Limit {
    store.limit(scope, quota(limit), options(OnFailure::Closed, true)).unwrap()
}

fn plain(store: &RegionalMemoryStore, scope: &str, limit: &str) -> Limit {
    store.limit(scope, quota(limit), options(OnFailure::Closed, false)).unwrap()
}

/// Checks charges at once: nothing is asked on the way of a request.
fn check(store: &RegionalMemoryStore, charges: &[Charge<'_>]) -> Outcome {
    store.inner.decide(charges)
}

fn charge<'a>(limit: &'a Limit, cost: u64) -> Charge<'a> {
    Charge { receipt: true, ..Charge::new(limit, b"alice", cost) }
}

fn remaining(store: &RegionalMemoryStore, limit: &Limit) -> u64 {
    check(store, &[charge(limit, 0)]).decisions[0].remaining
}

#[tokio::test(start_paused = true)]
async fn region_enforces_its_share_and_names_it_as_the_source() {
    let store = us().await;
    let limit = divided(&store, "rule", "100/s burst 100");
    let outcome = check(&store, &[charge(&limit, 30)]);
    assert!(outcome.passed);
    assert_eq!((outcome.source, outcome.decisions[0].limit), (Source::Regional, 30));
    let refused = check(&store, &[charge(&limit, 1)]);
    assert!(!refused.passed && refused.receipts.is_empty());
    // It knows what others lend only after its first reports, so at least at the reserve of 15 in a thousand.
    let wait = Duration::from_nanos(refused.decisions[0].retry_after().unwrap());
    assert!(wait <= Duration::from_millis(667), "{wait:?}");
    sleep(wait).await;
    assert!(check(&store, &[charge(&limit, 1)]).passed);
}

/// A refusal stores what was refilled until then, and does not create an entry.
#[tokio::test(start_paused = true)]
async fn refused_request_keeps_what_was_refilled() {
    let store = us().await;
    let limit = divided(&store, "rule", "100/s burst 100");
    check(&store, &[charge(&limit, 30)]);
    sleep(EPOCH / 4).await;
    assert!(!check(&store, &[charge(&limit, 30)]).passed);
    let name = DividedLimit::of(&limit).unwrap().key_name(b"alice");
    let empty = RefillSchedule { base: Instant::now(), spans: smallvec![], least: 1 };
    let now_ns = store.inner.time_ns(Instant::now());
    let stored = store.inner.keys.lock(std::iter::once(&name)).read(&name, &empty, super::BASE_NS, now_ns).unwrap();
    // At 1.5 tokens a second or more, of 30 that were used.
    let used_ns = stored.state.tat - now_ns;
    assert!((1..=300_000_000 - 3_700_000).contains(&used_ns), "{used_ns}");
    assert!(!check(&store, &[Charge::new(&limit, b"bob", 31)]).passed);
    assert_eq!(store.inner.keys.counts().0, 1);
}

/// The only busy region gets what the others do not need.
#[tokio::test(start_paused = true)]
async fn regions_in_memory_lend_to_each_other() {
    let global: Arc<dyn Exchange> = Arc::new(GlobalServer::default());
    let stores = ["eu", "us", "ap"].map(|name| region(name, Arc::clone(&global)));
    let limits = stores.each_ref().map(|store| divided(store, "rule", "1000/s burst 100"));
    let (mut admitted, mut measured_since) = (0, Instant::now());
    for tick in 0..2_000 {
        if tick == 1_000 {
            (admitted, measured_since) = (0, Instant::now());
        }
        for _ in 0..20 {
            admitted += u64::from(check(&stores[2], &[charge(&limits[2], 1)]).passed);
        }
        sleep(Duration::from_millis(10)).await;
    }
    let whole = 1_000 * measured_since.elapsed().as_millis() as u64 / 1_000;
    assert!((whole * 85 / 100..=whole + 100).contains(&admitted), "{admitted} of {whole}");
    let lent = stores[0].region_status();
    assert_eq!((lent.lending_keys, stores[2].region_status().borrowing_keys), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn charges_under_divided_and_other_limits_are_made_together_or_not_at_all() {
    let store = us().await;
    let (small, large) = (divided(&store, "small", "10/h"), divided(&store, "large", "1000/h"));
    let (tight, wide) = (plain(&store, "tight", "2/h"), plain(&store, "wide", "1000/h"));
    for _ in 0..2 {
        let outcome = check(&store, &[charge(&large, 1), charge(&tight, 1), charge(&small, 1)]);
        assert!(outcome.passed);
        let places: Vec<usize> = outcome.receipts.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [0, 1, 2]);
    }
    // The limit in the memory store refuses.
    let refused = check(&store, &[charge(&large, 1), charge(&tight, 1), charge(&small, 1)]);
    let allowed: Vec<bool> = refused.decisions.iter().map(tollgate_core::Decision::is_allowed).collect();
    assert_eq!((refused.passed, refused.receipts.len(), &allowed[..]), (false, 0, &[true, false, true][..]));
    assert_eq!((remaining(&store, &large), remaining(&store, &small)), (298, 1));
    // A divided limit refuses.
    let refused = check(&store, &[charge(&wide, 5), charge(&large, 1), charge(&small, 2)]);
    assert!(!refused.passed && refused.receipts.is_empty());
    assert_eq!((remaining(&store, &wide), remaining(&store, &large), remaining(&store, &small)), (1_000, 298, 1));
}

#[tokio::test(start_paused = true)]
async fn guards_shadows_and_peeks_work_as_in_the_memory_store() {
    let store = us().await;
    let (guard, first, second) =
        (divided(&store, "guard", "10/h"), divided(&store, "first", "20/h"), divided(&store, "second", "10/h"));
    let rule = divided(&store, "rule", "1000/h");
    let of = |limit, cost, mode| charge(limit, cost).with_mode(mode);
    let request = |cost| {
        [
            of(&guard, 2, ChargeMode::Guard),
            charge(&rule, 1),
            of(&first, cost, ChargeMode::Shadow),
            of(&second, cost, ChargeMode::ShadowJoined),
            of(&rule, 1_000, ChargeMode::Peek),
        ]
    };
    assert!(check(&store, &request(2)).passed);
    assert_eq!((remaining(&store, &guard), remaining(&store, &rule)), (3, 299));
    assert_eq!((remaining(&store, &first), remaining(&store, &second)), (4, 1));
    // The group does not fit as a whole, which does not refuse the request.
    let outcome = check(&store, &request(2));
    assert!(outcome.passed && !outcome.decisions[3].is_allowed());
    assert_eq!((remaining(&store, &first), remaining(&store, &second)), (4, 1));
    check(&store, &[charge(&guard, 2)]);
    assert!(!check(&store, &request(0)).passed);
    assert_eq!(remaining(&store, &rule), 298);
}

#[tokio::test(start_paused = true)]
async fn two_charges_to_one_key_are_added() {
    let store = us().await;
    let limit = divided(&store, "rule", "10/h");
    assert!(!check(&store, &[charge(&limit, 2), charge(&limit, 2)]).passed);
    assert_eq!(remaining(&store, &limit), 3);
    assert!(check(&store, &[charge(&limit, 2), charge(&limit, 1)]).passed);
    assert_eq!(remaining(&store, &limit), 0);
}

#[tokio::test(start_paused = true)]
async fn receipts_refund_and_settle_charges() {
    let store = us().await;
    let limit = divided(&store, "rule", "100/h");
    let receipt = |cost| check(&store, &[charge(&limit, cost)]).receipts.pop().unwrap().1;
    store.refund(receipt(10));
    assert_eq!(remaining(&store, &limit), 30);
    assert_eq!(store.settle(receipt(10), 4).await.overrun, 0);
    assert_eq!(remaining(&store, &limit), 26);
    assert_eq!(store.settle(receipt(4), 6).await.overrun, 0);
    assert_eq!(remaining(&store, &limit), 20);
    store.credit(&limit, b"alice", 5);
    assert_eq!(remaining(&store, &limit), 25);
    StoreAdmin::reset(&store, &[(&limit, b"alice")]).await.unwrap();
    assert_eq!(remaining(&store, &limit), 30);
}

#[tokio::test(start_paused = true)]
async fn another_limit_of_the_same_scope_reads_what_was_used() {
    let store = us().await;
    let before = divided(&store, "rule", "100/h");
    check(&store, &[charge(&before, 20)]);
    let after = divided(&store, "rule", "200/h burst 100");
    assert_eq!(remaining(&store, &after), 10);
}

#[tokio::test(start_paused = true)]
async fn without_a_share_limits_apply_their_failure_modes() {
    let store = region("us", Arc::new(Unreachable));
    sleep(10 * EPOCH).await;
    assert_eq!(store.region_status().share, None);
    let of = |scope, on_failure| store.limit(scope, quota("100/h"), options(on_failure, true)).unwrap();
    let (open, closed) = (of("open", OnFailure::Open), of("closed", OnFailure::Closed));
    let local = of("local", OnFailure::Local { share: (1, 10) });
    let wide = plain(&store, "wide", "1000/h");
    for _ in 0..50 {
        let outcome = check(&store, &[charge(&open, 1)]);
        assert_eq!((outcome.passed, outcome.source, outcome.receipts.len()), (true, Source::Fallback, 1));
    }
    let admitted = (0..50).filter(|_| check(&store, &[charge(&local, 1)]).passed).count();
    assert_eq!(admitted, 10);
    let refused = check(&store, &[charge(&wide, 1), charge(&closed, 1), charge(&local, 1)]);
    assert_eq!((refused.passed, refused.source, refused.receipts.len()), (false, Source::Fallback, 0));
    assert_eq!(remaining(&store, &wide), 1_000);
    // A limit that fails open does not refuse the others, nor hide that they refuse.
    assert!(!check(&store, &[charge(&open, 1), charge(&local, 1)]).passed);
}

/// What the fallback admits is used of the share that the region gets afterwards, and what is refunded is not.
#[tokio::test(start_paused = true)]
async fn usage_without_a_share_counts_when_there_is_one() {
    let store = region("us", Arc::new(GlobalServer::default()));
    let local = store.limit("rule", quota("100/h"), options(OnFailure::Local { share: (1, 5) }, true)).unwrap();
    assert!(check(&store, &[charge(&local, 12)]).passed);
    let outcome = check(&store, &[charge(&local, 6)]);
    assert_eq!(outcome.source, Source::Fallback);
    store.refund(outcome.receipts.into_iter().next().unwrap().1);
    sleep(3 * EPOCH).await;
    let outcome = check(&store, &[charge(&local, 0)]);
    assert_eq!((outcome.source, outcome.decisions[0].remaining), (Source::Regional, 18));
}

#[tokio::test(start_paused = true)]
async fn only_buckets_are_divided() {
    let store = region("us", Arc::new(Unreachable));
    for quota in [Quota::fixed_window("10/h".parse().unwrap()), Quota::concurrency(10, None)] {
        let error = store.limit("rule", quota.unwrap(), options(OnFailure::Closed, true)).unwrap_err();
        assert!(error.to_string().contains("token buckets"), "{error}");
    }
    let window = Quota::fixed_window("10/h".parse().unwrap()).unwrap();
    assert_eq!(window.kind(), AlgorithmKind::FixedWindow);
    assert!(store.limit("rule", window, options(OnFailure::Closed, false)).is_ok());
}

/// Threads charge the same two keys in opposite orders: none waits for ever, and the sums are exact.
#[tokio::test(flavor = "multi_thread")]
async fn threads_charge_several_keys_exactly() {
    let store = region("us", Arc::new(GlobalServer::default()));
    while store.region_status().share.is_none() {
        sleep(Duration::from_millis(5)).await;
    }
    // A day has 86,400 seconds: nothing is refilled meanwhile.
    let limits = [divided(&store, "a", "4000/day"), divided(&store, "b", "5000/day"), plain(&store, "c", "6000/day")];
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (store, limits) = (&store, &limits);
                scope.spawn(move || {
                    let order = if thread % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
                    let charges = order.map(|index| charge(&limits[index], 1));
                    (0..1_000).filter(|_| check(store, &charges).passed).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 1_200);
    assert_eq!(limits.each_ref().map(|limit| remaining(&store, limit)), [0, 300, 4_800]);
}
