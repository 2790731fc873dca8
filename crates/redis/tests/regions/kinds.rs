//! Regions whose counters are on a cluster, on a single server, and in memory.

use tollgate_testbed::{RedisCluster, RedisServer};

use crate::instance::Instance;
use crate::load::Load;
use crate::servers::settings;
use crate::support::{cluster_options, standalone_options, until};

const REGIONS: [(&str, u32); 3] = [("eu", 40), ("us", 30), ("ap", 30)];
const KEYS: u32 = 20;
const PER_SECOND: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regions_on_a_cluster_on_a_server_and_in_memory_lend_to_each_other() {
    let (cluster, server, global) =
        (RedisCluster::start().unwrap(), RedisServer::start(&[]).unwrap(), RedisServer::start(&[]).unwrap());
    let of = |region: usize| settings(REGIONS[region].0, &REGIONS, standalone_options(global.address()), region as u64);
    let instances = [
        Instance::connect(&cluster_options(&cluster), of(0)).await,
        Instance::connect(&standalone_options(server.address()), of(1)).await,
        Instance::in_memory(of(2)).await,
    ];
    let loads = instances.each_ref().map(|instance| Load::start(instance.clone(), KEYS, false));
    let all = u64::from(KEYS);
    for busy in 0..instances.len() {
        for (region, load) in loads.iter().enumerate() {
            load.set(if region == busy { PER_SECOND } else { 0 });
        }
        let name = REGIONS[busy].0;
        until(&format!("{name} borrows"), || instances[busy].status().borrowing_keys == all).await;
        for (lender, instance) in instances.iter().enumerate().filter(|(region, _)| *region != busy) {
            until(&format!("{} lends to {name}", REGIONS[lender].0), || instance.status().lending_keys == all).await;
        }
    }
    loads.iter().for_each(|load| load.set(PER_SECOND));
    let enough = |load: &Load| load.admitted() >= all * 250;
    until("all have used most of their bursts", || loads.iter().all(enough)).await;
    let mut logs = Vec::new();
    for load in loads {
        logs.push(load.end().await);
    }
    let mut log = logs.pop().unwrap();
    logs.into_iter().for_each(|other| log.merge(other));
    println!("{}", log.assert_within_limits());
}
