//! Holders of leases that are killed, or stopped for longer than their leases live.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_redis::RedisStore;
use tollgate_store::Store;
use tollgate_testbed::RedisServer;

use crate::admissions::{Admissions, micros, now_us};
use crate::offered::{Load, Offered, Report};
use crate::support::{connect, long_deadline, standalone_options};
use crate::{BURST, GENERATION, LEAST_PERCENT, MAX_LEASED, RATE, options, quota};

const SCOPE: &str = "held";

/// The child asks for all that the limit admits, so that it holds leases at any time.
const OF_CHILD: u64 = RATE;

/// Each survivor asks for twice the limit.
const OF_SURVIVOR: u64 = 2 * RATE;

/// The survivors may admit the limit again this long after the last lease of a killed holder has ended.
const GRACE: Duration = Duration::from_millis(200);

/// The time for which the survivors' admissions are counted. They come in lots: a tenth of a second's at a time.
const MEASURED: Duration = Duration::from_secs(10);

/// A stop is much longer than leases live.
const STOPPED: Duration = Duration::from_secs(10);

/// The number of threads of a child that decide requests.
const THREADS: u64 = 2;

fn offered(server: &RedisServer, span: Duration, sends_at_once: bool) -> Offered {
    Offered {
        nodes: server.address().to_string(),
        is_cluster: false,
        scope: SCOPE.to_owned(),
        is_leased: true,
        per_second: OF_CHILD,
        span,
        slow_keys: 0,
        sends_at_once,
    }
}

/// Starts the load of two instances in this process.
async fn start_survivors(server: &RedisServer) -> Vec<(Arc<RedisStore>, Load)> {
    let mut survivors = Vec::new();
    for _ in 0..2 {
        let store = connect(&standalone_options(server.address()), long_deadline()).await;
        let limit = store.limit(SCOPE, quota(), options(true)).unwrap();
        let load = Load::start(&store, &limit, OF_SURVIVOR, false);
        survivors.push((store, load));
    }
    survivors
}

async fn end_survivors(survivors: Vec<(Arc<RedisStore>, Load)>) -> Admissions {
    let mut log = Admissions::default();
    for (_, load) in survivors {
        log.merge(load.end().await.1);
    }
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_killed_holder_count_as_spent_and_end_within_two_generations() {
    let server = RedisServer::start(&[]).unwrap();
    // It is killed long before it ends.
    let mut child = offered(&server, Duration::from_secs(50), true).start();
    child.begin();
    sleep(Duration::from_secs(2)).await;
    let survivors = start_survivors(&server).await;
    sleep(Duration::from_millis(300)).await;
    child.kill();
    let killed_us = now_us();
    sleep(2 * GENERATION + GRACE + MEASURED + GRACE).await;
    let of_survivors = end_survivors(survivors).await;
    let mut messages = Vec::new();
    while let Some(message) = child.receive() {
        messages.push(message);
    }
    let of_child = Report::of(&messages).log;
    let ended_us = killed_us + micros(2 * GENERATION);
    let meanwhile = of_survivors.between(killed_us, ended_us);
    let from_us = ended_us + micros(GRACE);
    let afterwards = of_survivors.between(from_us, from_us + micros(MEASURED));
    let mut log = of_child.clone();
    log.merge(of_survivors);
    let least_burst = log.least_burst(RATE);
    println!(
        "killed: the holder had admitted {} of which {} from leases; the survivors admitted {meanwhile} in the \
         {:?} after it was killed, and {afterwards} of {} in {MEASURED:?} after that; \
         all within a burst of {least_burst} of {BURST}",
        of_child.count(),
        of_child.leased(),
        2 * GENERATION,
        RATE * MEASURED.as_secs(),
    );
    assert!(of_child.leased() > 0, "it held no leases");
    // At most what may be leased is withheld.
    let at_least = RATE * (2 * GENERATION).as_secs() - MAX_LEASED;
    assert!(meanwhile * 100 >= at_least * LEAST_PERCENT, "{meanwhile}");
    assert!(afterwards * 100 >= RATE * MEASURED.as_secs() * LEAST_PERCENT, "{afterwards}");
    assert!(least_burst <= BURST, "{least_burst} over the rate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_stopped_for_ten_seconds_spends_no_lease_that_has_ended() {
    let server = RedisServer::start(&[]).unwrap();
    let before = Duration::from_secs(2);
    let mut child = offered(&server, before + STOPPED + Duration::from_secs(2), false).start();
    child.begin();
    sleep(before).await;
    // Its leases are its own until now: the survivors come when it is stopped.
    child.signal("STOP");
    let stopped_us = now_us();
    let survivors = start_survivors(&server).await;
    sleep(STOPPED).await;
    let resumed_us = now_us();
    child.signal("CONT");
    sleep(Duration::from_secs(2)).await;
    let of_child = Report::of(&child.receive_all()).log;
    let of_survivors = end_survivors(survivors).await;
    // What the child decided from leases with a clock read before the stop, and answered after it.
    let late = of_child
        .0
        .iter()
        .filter(|admission| admission.is_leased && admission.from_us < stopped_us && admission.until_us >= resumed_us);
    let late: u64 = late.map(|admission| admission.count).sum();
    let resumed = of_child.between(resumed_us, u64::MAX);
    let mut log = of_child.clone();
    log.merge(of_survivors);
    let least_burst = log.least_burst(RATE);
    println!(
        "stopped: {} from leases before, {resumed} admitted after it was resumed, {late} decided across the stop; \
         all within a burst of {least_burst} of {BURST}",
        of_child.leased(),
    );
    assert!(of_child.leased() > 0, "it held no leases");
    assert!(late <= THREADS, "{late} decisions across the stop");
    assert!(least_burst <= BURST, "{least_burst} over the rate");
}
