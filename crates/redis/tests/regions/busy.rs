//! One region has all the traffic.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_redis::RegionStatus;

use crate::admitted::{micros, now_us};
use crate::instance::Instance;
use crate::limits::{Rule, hot};
use crate::load::Load;
use crate::servers::Servers;
use crate::support::until;
use crate::{AP, EPOCH, EU, US};

const KEYS: u32 = 6;
/// Six times the rate, for each key.
const PER_SECOND: u64 = 100;
const MEASURED: Duration = Duration::from_secs(4);
/// Most measurements, because a busy machine may be late for an epoch.
const ATTEMPTS: usize = 6;
const LEAST_PERCENT: u64 = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_region_alone_gets_most_of_the_whole_rate() {
    let servers = Servers::start();
    let mut instances = Vec::new();
    for (seed, region) in [EU, EU, US, US, AP, AP].into_iter().enumerate() {
        instances.push(Instance::start(&servers, region, seed as u64).await);
    }
    let busy = &instances[4..];
    let loads = [0, 1].map(|at: usize| Load::start(busy[at].clone(), KEYS, false));
    loads.iter().for_each(|load| load.set(PER_SECOND / 2));
    until("the keys are borrowed", || busy.iter().all(|instance| instance.status().borrowing_keys == u64::from(KEYS)))
        .await;
    for key in 0..KEYS {
        while busy[0].remaining(hot(key)).await > 1 {
            sleep(EPOCH / 20).await;
        }
    }
    let mut percents = Vec::new();
    while percents.len() < ATTEMPTS && percents.last().is_none_or(|percent| *percent < LEAST_PERCENT) {
        let (from_us, before) = (now_us(), admitted(&loads));
        sleep(MEASURED).await;
        let whole = Rule::Hot.amount() * u64::from(KEYS) * (now_us() - from_us) / micros(Duration::from_secs(60));
        percents.push((admitted(&loads) - before) * 100 / whole);
    }
    let RegionStatus { share, reports, reads, .. } = busy[0].status();
    println!("a region with a share of {share:?} thousandths got {percents:?} percent of the whole rate");
    let [one, other] = loads;
    let mut log = one.end().await;
    log.merge(other.end().await);
    println!("{}; {reports} reports, {reads} reads", log.assert_within_limits());
    assert!(percents.last() >= Some(&LEAST_PERCENT), "{percents:?}");
}

fn admitted(loads: &[Load]) -> u64 {
    loads.iter().map(Load::admitted).sum()
}
