use tokio::time::Instant;
use tollgate_testbed::SentinelTrio;

use super::super::client::Client;
use super::super::options::RedisOptions;
use super::helpers::{PLENTY, increment};
use crate::transport::Slot;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_replaced_by_the_one_that_the_sentinels_name() {
    let mut trio = SentinelTrio::start().unwrap();
    let mut sentinels: Vec<_> = trio.addresses().iter().map(ToString::to_string).collect();
    // One that is not there makes no difference.
    sentinels.insert(0, "127.0.0.1:1".to_owned());
    let client = Client::start(&RedisOptions::sentinel(sentinels, SentinelTrio::PRIMARY)).unwrap();
    println!("ready after {:?}", client.ready().await);
    client.wait(increment("n"), PLENTY).await.unwrap();
    let before = client.shard(Slot(0));
    trio.servers()[0].kill().unwrap();
    let begun = Instant::now();
    client.recovers("n").await;
    println!("after a killed primary: {:?}", begun.elapsed());
    client.wait(increment("n"), PLENTY).await.unwrap();
    assert_ne!(client.shard(Slot(0)), before);
}
