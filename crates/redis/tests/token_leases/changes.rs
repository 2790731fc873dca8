//! Changes of the quota, and resets, while tokens are leased.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_redis::RedisStore;
use tollgate_store::{Limit, Quota, Store};
use tollgate_testbed::RedisServer;

use crate::admissions::{Admissions, now_us};
use crate::offered::{KEY, Load};
use crate::support::{connect, long_deadline, standalone_options};
use crate::{BURST, GENERATION, LEAST_PERCENT, MAX_LEASED, RATE, bucket, options, quota};

const SCOPE: &str = "changed";

struct Instance {
    store: Arc<RedisStore>,
    limit: Limit,
    load: Load,
}

impl Instance {
    async fn start(server: &RedisServer, per_second: u64) -> Instance {
        let store = connect(&standalone_options(server.address()), long_deadline()).await;
        let limit = store.limit(SCOPE, quota(), options(true)).unwrap();
        let load = Load::start(&store, &limit, per_second, false);
        Instance { store, limit, load }
    }

    /// Continues under another quota, as after a reload of the policy. Returns what was admitted under the one before.
    async fn reload(&mut self, quota: Quota, per_second: u64) -> Admissions {
        self.limit = self.store.limit(SCOPE, quota, options(true)).unwrap();
        self.offer(per_second).await
    }

    /// Changes the number of requests. Returns what was admitted of those before.
    async fn offer(&mut self, per_second: u64) -> Admissions {
        let load = Load::start(&self.store, &self.limit, per_second, false);
        std::mem::replace(&mut self.load, load).end().await.1
    }
}

async fn end(instances: Vec<Instance>) -> Admissions {
    let mut log = Admissions::default();
    for Instance { load, store: _store, .. } in instances {
        log.merge(load.end().await.1);
    }
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_leases_stand_for_two_generations_after_a_smaller_quota() {
    const SMALL_RATE: u64 = 200;
    const SMALL_BURST: u64 = 200;
    let server = RedisServer::start(&[]).unwrap();
    let mut instances = vec![Instance::start(&server, RATE / 2).await, Instance::start(&server, RATE / 2).await];
    sleep(Duration::from_secs(2)).await;
    let mut log = Admissions::default();
    // The instances reload one after the other.
    for instance in &mut instances {
        log.merge(instance.reload(bucket(SMALL_RATE, SMALL_BURST), 5 * RATE).await);
        sleep(Duration::from_millis(300)).await;
    }
    let reloaded_us = now_us();
    sleep(2 * GENERATION).await;
    let ended_us = now_us();
    sleep(Duration::from_secs(2)).await;
    let measured_us = now_us();
    // The bucket fills up, and then all of its burst is used.
    for instance in &mut instances {
        log.merge(instance.offer(0).await);
    }
    let admitted = log.between(ended_us, measured_us);
    sleep(Duration::from_millis(1_500)).await;
    for instance in &mut instances {
        log.merge(instance.offer(5 * RATE).await);
    }
    sleep(Duration::from_secs(1)).await;
    log.merge(end(instances).await);
    let (before, after) = (log.least_burst(RATE), log.since(reloaded_us).least_burst(SMALL_RATE));
    let at_last = log.since(ended_us).least_burst(SMALL_RATE);
    let of_limit = SMALL_RATE * (measured_us - ended_us) / 1_000_000;
    println!(
        "reload: within a burst of {before} of {BURST} at the old rate; of {after} at the new rate since the reload, at \
         most {SMALL_BURST} and {MAX_LEASED} leased before; of {at_last} of {SMALL_BURST} from 2 s after it, \
         and {admitted} of {of_limit} then",
    );
    assert!(log.leased() > 0);
    assert!(before <= BURST);
    assert!(after <= SMALL_BURST + MAX_LEASED);
    assert!(at_last <= SMALL_BURST);
    assert!(2 * at_last > SMALL_BURST, "{at_last}: the burst was not used, so the test proves nothing");
    assert!(admitted * 100 >= of_limit * LEAST_PERCENT, "{admitted} of {of_limit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_of_a_leased_key_leaves_its_leases_counted() {
    let server = RedisServer::start(&[]).unwrap();
    let instances = vec![Instance::start(&server, 3 * RATE).await, Instance::start(&server, 3 * RATE).await];
    sleep(Duration::from_secs(2)).await;
    let admin = instances[0].store.admin().unwrap();
    let reset_from_us = now_us();
    admin.reset(&[(&instances[0].limit, KEY.as_bytes())]).await.unwrap();
    let reset_us = now_us();
    sleep(Duration::from_secs(2)).await;
    let log = end(instances).await;
    let before = Admissions(log.0.iter().copied().filter(|admission| admission.until_us < reset_from_us).collect());
    let (before, after) = (before.least_burst(RATE), log.since(reset_us).least_burst(RATE));
    let in_all = log.least_burst(RATE);
    println!("reset: within a burst of {before} before, {after} after, {in_all} in all, of {BURST}");
    assert!(log.leased() > 0);
    assert!(before <= BURST && after <= BURST, "{before} and {after}");
    // The reset frees what was used, and no leased token twice.
    assert!((BURST + 1..=2 * BURST).contains(&in_all), "{in_all}");
}
