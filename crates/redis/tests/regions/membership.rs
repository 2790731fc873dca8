//! A region joins and leaves while all regions admit requests.

use tollgate_redis::RedisStoreSettings;
use tollgate_testbed::Reply;

use crate::admitted::Admitted;
use crate::instance::Instance;
use crate::limits::Rule;
use crate::load::Load;
use crate::servers::{Servers, settings};
use crate::support::{standalone_options, until};
use crate::{AP, EU, REGIONS, US};

const KEYS: u32 = 4;
const PER_SECOND: u64 = 60;
const TWO: [(&str, u32); 2] = [("eu", 60), ("us", 40)];

/// The part of the burst of each limit that moves to other regions when the third joins, and when it leaves. A region may
/// have used its part already, and then others use it once more.
const MOVED: u64 = 2 * 200;

struct Member {
    instance: Instance,
    load: Load,
}

struct Scene {
    servers: Servers,
    seed: u64,
    log: Admitted,
}

impl Scene {
    async fn start_member(&mut self, region: usize, regions: &[(&str, u32)]) -> Member {
        self.seed += 1;
        let (regional, global) = self.servers.of(region);
        let settings: RedisStoreSettings = settings(REGIONS[region].0, regions, standalone_options(global), self.seed);
        let instance = Instance::without_share(&standalone_options(regional), settings).await;
        let load = Load::start(instance.clone(), KEYS, false);
        load.set(PER_SECOND);
        Member { instance, load }
    }

    async fn stop(&mut self, member: Member) {
        self.log.merge(member.load.end().await);
    }
}

impl Member {
    async fn until_share(&self, share: u32) {
        until("the region has its share", || self.instance.status().share == Some(share)).await;
    }

    async fn until_admitted(&self, more: u64) {
        let admitted = self.load.admitted();
        until("requests are admitted", || self.load.admitted() >= admitted + more).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn region_joins_and_leaves_while_requests_are_admitted() {
    let mut scene = Scene { servers: Servers::start(), seed: 0, log: Admitted::default() };
    let (mut eu, mut us) = (scene.start_member(EU, &TWO).await, scene.start_member(US, &TWO).await);
    eu.until_share(600).await;
    us.until_share(400).await;
    eu.until_admitted(400 * u64::from(KEYS)).await;

    // Restarts with the new weights, one region after the other. Until the last has voted, nothing is agreed.
    let old = std::mem::replace(&mut eu, scene.start_member(EU, &REGIONS).await);
    scene.stop(old).await;
    eu.until_share(500).await;
    let ap = scene.start_member(AP, &REGIONS).await;
    until("the new region waits for votes", || ap.instance.status().is_division_pending()).await;
    assert_eq!((ap.instance.status().share, ap.load.admitted()), (None, 0));
    let old = std::mem::replace(&mut us, scene.start_member(US, &REGIONS).await);
    scene.stop(old).await;
    us.until_share(300).await;
    ap.until_share(200).await;
    ap.until_admitted(150 * u64::from(KEYS)).await;

    // The new region leaves: its vote is deleted.
    scene.stop(ap).await;
    assert_eq!(scene.servers.global.command(&["HDEL", "tollgate:\\.regions", "vote:ap"]).unwrap(), Reply::Integer(1));
    for (region, member) in [(EU, &mut eu), (US, &mut us)] {
        let old = std::mem::replace(member, scene.start_member(region, &TWO).await);
        scene.stop(old).await;
    }
    eu.until_share(600).await;
    us.until_share(400).await;
    us.until_admitted(2 * u64::from(KEYS)).await;
    scene.stop(eu).await;
    scene.stop(us).await;
    let (largest, used) = scene.log.least_bursts(Rule::Hot);
    println!("within a burst of {largest} of {}, and {MOVED} that moved; {used} of {KEYS} keys", Rule::Hot.burst());
    assert!(largest <= Rule::Hot.burst() + MOVED, "{largest}");
    assert!(largest * 2 > Rule::Hot.burst(), "{largest}: the bursts were not used, so the test proves nothing");
}
