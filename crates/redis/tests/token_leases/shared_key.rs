//! Instances with leases and instances without them share a key.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_store::Store;
use tollgate_testbed::RedisServer;

use crate::admissions::{Admissions, micros, now_us};
use crate::offered::Load;
use crate::support::{connect, long_deadline, standalone_options};
use crate::{BURST, LEAST_PERCENT, RATE, options, quota};

const BURST_SPENT: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_and_leasing_instances_together_admit_the_limit() {
    let server = RedisServer::start(&[]).unwrap();
    let mut loads = Vec::new();
    for is_leased in [true, false, true, false] {
        let store = connect(&standalone_options(server.address()), long_deadline()).await;
        let limit = store.limit("shared", quota(), options(is_leased)).unwrap();
        loads.push((is_leased, store, limit));
    }
    let start = |(is_leased, store, limit)| (is_leased, Load::start(&store, &limit, 3 * RATE, false), store);
    let loads: Vec<_> = loads.into_iter().map(start).collect();
    let from_us = now_us() + micros(BURST_SPENT);
    sleep(BURST_SPENT + MEASURED + Duration::from_millis(100)).await;
    let (mut log, mut of_exact) = (Admissions::default(), 0);
    for (is_leased, load, _) in loads {
        let (_, own) = load.end().await;
        assert!(is_leased || own.leased() == 0);
        of_exact += if is_leased { 0 } else { own.count() };
        log.merge(own);
    }
    let (admitted, least_burst) = (log.between(from_us, from_us + micros(MEASURED)), log.least_burst(RATE));
    println!(
        "shared: {} admitted of which {} from leases and {of_exact} by exact instances, within a burst of \
         {least_burst} of {BURST}; {admitted} of {} after the burst",
        log.count(),
        log.leased(),
        RATE * MEASURED.as_secs(),
    );
    assert!(log.leased() > 0 && of_exact > 0, "one kind of instance admitted nothing");
    assert!(admitted * 100 >= RATE * MEASURED.as_secs() * LEAST_PERCENT, "{admitted}");
    assert!(least_burst <= BURST, "{least_burst} over the rate");
}
