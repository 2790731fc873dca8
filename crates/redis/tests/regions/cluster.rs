//! A region whose store is a cluster.

use tollgate_testbed::{RedisCluster, RedisServer};

use crate::instance::Instance;
use crate::load::Load;
use crate::servers::settings;
use crate::support::{cluster_options, standalone_options, until};

const REGIONS: [(&str, u32); 2] = [("eu", 50), ("us", 50)];
const KEYS: u32 = 20;
const PER_SECOND: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn region_on_a_cluster_lends_to_one_on_a_single_server_and_borrows_from_it() {
    let (cluster, server, global) =
        (RedisCluster::start().unwrap(), RedisServer::start(&[]).unwrap(), RedisServer::start(&[]).unwrap());
    let of = |region: usize| settings(REGIONS[region].0, &REGIONS, standalone_options(global.address()), region as u64);
    let on_cluster = Instance::connect(&cluster_options(&cluster), of(0)).await;
    let on_server = Instance::connect(&standalone_options(server.address()), of(1)).await;
    let loads = [&on_cluster, &on_server].map(|instance| Load::start(instance.clone(), KEYS, false));
    let all = u64::from(KEYS);
    loads[0].set(PER_SECOND);
    until("the region on the cluster borrows", || on_cluster.status().borrowing_keys == all).await;
    until("the other region lends", || on_server.status().lending_keys == all).await;
    loads[0].set(0);
    loads[1].set(PER_SECOND);
    until("the region on the cluster lends", || on_cluster.status().lending_keys == all).await;
    until("the other region borrows", || on_server.status().borrowing_keys == all).await;
    loads[0].set(PER_SECOND);
    let [one, other] = loads;
    let enough = |load: &Load| load.admitted() >= all * 400;
    until("both have used most of their bursts", || enough(&one) && enough(&other)).await;
    let mut log = one.end().await;
    log.merge(other.end().await);
    println!("{}", log.assert_within_limits());
}
