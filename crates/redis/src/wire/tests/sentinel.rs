use std::time::Duration;

use tokio::time::Instant;
use tollgate_testbed::{RedisServer, SentinelTrio};

use super::helpers::{LONG_TIMEOUT, increment};
use crate::transport::{Cause, Slot, Transport};
use crate::wire::client::RedisClient;
use crate::wire::connection::address::Address;
use crate::wire::connection::connect_params::ConnectParams;
use crate::wire::connection::stream::Connector;
use crate::wire::options::RedisOptions;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_primary_is_replaced_by_the_one_that_the_sentinels_report() {
    let mut trio = SentinelTrio::start().unwrap();
    let mut sentinels: Vec<_> = trio.addresses().iter().map(ToString::to_string).collect();
    // An unreachable sentinel makes no difference.
    sentinels.insert(0, "127.0.0.1:1".to_owned());
    let mut options = RedisOptions::sentinel(sentinels, SentinelTrio::PRIMARY);
    // The topology is refreshed only after failures.
    options.refresh_every = Duration::from_secs(3600);
    let client = RedisClient::start(&options).unwrap();
    println!("ready after {:?}", client.wait_until_ready().await);
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    let before = client.shard(Slot(0));
    trio.servers()[0].kill().unwrap();
    let begun = Instant::now();
    client.wait_until_recovered("n").await;
    println!("after a killed primary: {:?}", begun.elapsed());
    client.call_within(increment("n"), LONG_TIMEOUT).await.unwrap();
    assert_ne!(client.shard(Slot(0)), before);
}

#[tokio::test]
async fn connecting_to_a_replica_fails_if_a_primary_is_required() {
    let server = RedisServer::start(&[]).unwrap();
    let address = Address::parse(&server.address().to_string()).unwrap();
    let params = ConnectParams {
        connector: Connector::Plain,
        username: None,
        password: None,
        database: 0,
        requires_primary: true,
        timeout: LONG_TIMEOUT,
    };
    assert_eq!(params.connect(&address).await.err(), None);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    assert_eq!(params.connect(&address).await.err(), Some(Cause::Unavailable));
}
